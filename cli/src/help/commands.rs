//! The reference of the command line, as Markdown, made from what parses it.

use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory as _};

use crate::args::Cli;

/// What goes before the commands.
const OPENING: &str = "\
# Command line

Every command takes `--json` and then answers with one JSON value a line on standard output; an
error is a JSON value on standard error. Tables are for people: colour goes to a terminal only, and
never where `NO_COLOR` is set.

`runs`, `approvals`, `waits`, `reminders` and `webhooks` talk to a server over HTTP. On this machine
reading and starting runs needs no token; deciding always needs an approver's, from `--token-file`,
`PORTCULLIS_TOKEN`, or the file that `init` wrote beside the configuration. `--api <URL>` or
`PORTCULLIS_API_URL` name another server than `http://127.0.0.1:8080`; `--config <FILE>` or
`PORTCULLIS_CONFIG` another file than `portcullis.toml`.

This page is printed by `portcullis help command-line`.
";

/// The page.
pub(super) fn page() -> String {
    let mut root = Cli::command();
    root.build();
    let mut page = OPENING.to_owned();
    for command in root.get_subcommands().filter(|command| !command.is_hide_set()) {
        tell(&mut page, command, &format!("portcullis {}", command.get_name()));
    }
    page.push_str("\n## Exit codes\n\n| code | meaning |\n|---|---|\n");
    for exit in crate::exit::Exit::ALL {
        let _infallible = writeln!(page, "| {} | {} |", exit.number(), exit.meaning());
    }
    let _infallible = write!(page, "\n## Environment\n\n```text\n{}```\n", super::environment());
    page.trim_end().to_owned()
}

fn tell(page: &mut String, command: &Command, path: &str) {
    let mut inner = command.get_subcommands().peekable();
    if inner.peek().is_some() {
        inner.for_each(|one| tell(page, one, &format!("{path} {}", one.get_name())));
        return;
    }
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let own = |arg: &&Arg| {
        !arg.is_global_set() && !["help", "api", "token_file"].contains(&arg.get_id().as_str())
    };
    let places = command.get_positionals().map(|arg| format!(" {arg}"));
    let _infallible = write!(page, "\n## `{path}{}`\n\n{about}.\n", places.collect::<String>());
    let options: Vec<&Arg> = command.get_arguments().filter(own).collect();
    if options.is_empty() {
        return;
    }
    page.push_str("\n| argument | meaning |\n|---|---|\n");
    for arg in options {
        let meaning = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let _infallible =
            writeln!(page, "| `{}` | {}{} |", shown(arg), meaning.replace('|', "\\|"), more(arg));
    }
}

fn shown(arg: &Arg) -> String {
    if arg.is_positional() {
        return arg.to_string();
    }
    let name = arg.get_long().unwrap_or_default();
    let value = arg.get_value_names().and_then(|names| names.first());
    match value.filter(|_| arg.get_action().takes_values()) {
        Some(value) => format!("--{name} <{value}>"),
        None => format!("--{name}"),
    }
}

fn more(arg: &Arg) -> String {
    let mut more = String::new();
    let choices: Vec<String> =
        arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    if arg.get_action().takes_values() && !choices.is_empty() {
        let _infallible = write!(more, ": {}", choices.join(", "));
    }
    if let Some(default) = arg.get_default_values().first().and_then(|value| value.to_str())
        && arg.get_action().takes_values()
    {
        let _infallible = write!(more, ". Default: `{default}`");
    }
    if let Some(name) = arg.get_env().and_then(|name| name.to_str()) {
        let _infallible = write!(more, ". Also `{name}`");
    }
    more
}
