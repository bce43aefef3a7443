//! The one binary: parse → config → run → drain.
//!
//! Authority: the command line and the configuration, read here and nowhere else.
//! Invariant: as the sandbox's helper this process does nothing else: no runtime, no log, no
//! environment is read before it becomes the tool. It is a library so that tests reach the reader
//! of the configuration without a process for each text.

mod api;
mod approvals;
mod args;
mod client;
mod config;
mod doctor;
mod exit;
mod help;
mod home;
mod init;
mod output;
mod reminders;
mod runs;
mod serve;
mod story;
mod telemetry;
mod torture;
mod validate;
mod waits;
mod webhooks;
mod words;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser as _;

use args::{Cli, Command, Schema};
use config::Environment;
use exit::{Ended, Exit, Failure};
use output::Output;
use serve::Role;

/// Does what the command line says, as the whole process.
#[must_use]
pub fn main() -> ExitCode {
    let mut arguments = std::env::args_os();
    if arguments.nth(1).is_some_and(|first| first == config::SANDBOX_EXEC) {
        portcullis_worker::sandbox::run_helper(arguments);
    }
    let cli = Cli::parse();
    let environment = environment();
    let output = Output::new(cli.global.json, environment.get("NO_COLOR").is_some_and(is_set));
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        let failure = Failure::new(Exit::Failed, "tls", "a TLS provider was installed before ours");
        output.failure(&failure);
        return failure.exit.into();
    }
    match run(cli, &environment, output) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            output.failure(&failure);
            failure.exit.into()
        }
    }
}

/// Reads a configuration as every command does, with these variables for an environment, and
/// starts nothing. What is wrong without keeping the rest from loading is the answer.
///
/// # Errors
/// Every problem, when nothing could start with it.
pub fn check_configuration(
    file: &Path,
    variables: BTreeMap<String, String>,
) -> Result<Vec<String>, Vec<String>> {
    let told = |problems: Vec<config::Problem>| problems.iter().map(ToString::to_string).collect();
    match config::load(file, &Environment(variables), config::Secrets::Read) {
        Ok(config) => Ok(told(config.unloaded)),
        Err(problems) => Err(told(problems)),
    }
}

/// <https://no-color.org>: set and not empty.
fn is_set(value: &str) -> bool {
    !value.is_empty()
}

fn environment() -> Environment {
    let texts = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    Environment(texts.collect())
}

fn run(cli: Cli, environment: &Environment, output: Output) -> Ended {
    let path = &cli.global.config;
    match cli.command {
        Command::Init(init) => init::run(&init.folder, output),
        Command::Validate => validate::run(path, environment, output),
        Command::Schema(Schema::Config) => {
            output.line(config::schema_text().trim_end());
            Ok(Exit::Done)
        }
        Command::Schema(Schema::Doctor) => {
            output.line(doctor::schema_text().trim_end());
            Ok(Exit::Done)
        }
        Command::Help(topic) => help::run(&topic.topic, output),
        Command::Up(_) => serve::run(path, environment, Role::Everything),
        Command::Scheduler(_) => serve::run(path, environment, Role::Scheduler),
        Command::Worker(_) => serve::run(path, environment, Role::Worker),
        Command::Doctor => ask(doctor::run(path, environment, output)),
        Command::Runs(command) => ask(runs::run(command, path, environment, output)),
        Command::Approvals(command) => ask(approvals::run(command, path, environment, output)),
        Command::Waits(command) => ask(waits::run(command, path, environment, output)),
        Command::Reminders(command) => ask(reminders::run(command, path, environment, output)),
        Command::Torture(command) => ask(torture::run(command, path, environment, output)),
        Command::Webhooks(command) => ask(webhooks::run(command, path, environment, output)),
    }
}

/// Runs a command that talks to a server.
fn ask(command: impl Future<Output = Ended>) -> Ended {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|why| Failure::new(Exit::Failed, "runtime", why.to_string()))?;
    runtime.block_on(command)
}
