//! What do exit codes and environment variables mean, and how is a command used?

mod commands;
mod reference;

use std::fmt::Write as _;

use clap::CommandFactory as _;

use crate::args::Cli;
use crate::config::variables;
use crate::exit::{Ended, Exit, Failure};
use crate::output::Output;

/// Explains a topic, or the command of that name.
pub(crate) fn run(topic: &[String], output: Output) -> Ended {
    match topic {
        [one] if one == "exit-codes" => output.line(exit_codes().trim_end()),
        [one] if one == "command-line" => output.line(&commands::page()),
        [one] if one == "configuration" => output.line(&reference::page()),
        [one] if one == "environment" => output.line(environment().trim_end()),
        path => {
            let mut command = Cli::command();
            command.build();
            let mut at = &mut command;
            for name in path {
                let Some(next) = at.find_subcommand_mut(name) else {
                    let message = format!("there is no command or topic `{name}`");
                    return Err(Failure::new(Exit::Usage, "no_topic", message).mend(
                        "`portcullis help` lists commands; topics: exit-codes, environment",
                    ));
                };
                at = next;
            }
            output.line(at.render_long_help().to_string().trim_end());
        }
    }
    Ok(Exit::Done)
}

fn exit_codes() -> String {
    Exit::ALL.into_iter().fold(String::new(), |text, exit| {
        text + &format!("{}  {}\n", exit.number(), exit.meaning())
    })
}

fn environment() -> String {
    let mut text = String::from(
        "Every setting of portcullis.toml that is no named thing can be set by a variable, which\n\
         goes before the file. A variable PORTCULLIS_… that means nothing is an error.\n\n",
    );
    let known = variables();
    let width = known.iter().map(|variable| variable.name.len()).max().unwrap_or(0);
    for variable in &known {
        let (key, form) = (variable.keys.join("."), variable.form.as_str());
        let _infallible = writeln!(text, "{:width$}  {key}, {form}", variable.name);
    }
    text.push_str(
        "\nAGENTIC_APPROVAL_TIMEOUT_SECONDS  the same as PORTCULLIS_APPROVALS_TIMEOUT_SECONDS\n\
         PORTCULLIS_CONFIG                 the configuration file\n\
         PORTCULLIS_API_URL                where commands find the server\n\
         PORTCULLIS_TOKEN                  the token that commands show\n\
         OTEL_EXPORTER_OTLP_ENDPOINT       where traces and metrics are exported to\n\
         NO_COLOR                          no colours\n",
    );
    text
}
