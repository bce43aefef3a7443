//! Runs a command while private servers are up for it.
//!
//! `with-servers cargo nextest run`: one RabbitMQ for all the tests it starts; its ports go into
//! the command's environment. `with-servers --urls <command>`: a RabbitMQ and a Redis, and their
//! addresses as `PORTCULLIS_BUS_URL` and `PORTCULLIS_STORE_URL`. The command's exit code becomes
//! ours, and the servers end with us, however we end.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use anyhow::Context as _;
use portcullis_tests::servers::{RabbitServer, RedisOptions, RedisServer, SHARED_RABBIT_PORTS};

const USAGE: &str = "usage: with-servers [--urls] <command> [arguments]";

fn main() -> ExitCode {
    match run() {
        Ok(code) => ExitCode::from(code),
        Err(why) => {
            eprintln!("with-servers: {why:#}");
            ExitCode::from(2)
        }
    }
}

fn run() -> anyhow::Result<u8> {
    let mut arguments = std::env::args_os().skip(1).peekable();
    let with_urls = arguments.next_if_eq(&OsString::from("--urls")).is_some();
    let mut command = Command::new(arguments.next().context(USAGE)?);
    command.args(arguments);
    let rabbit = RabbitServer::start()?;
    if with_urls {
        let redis = RedisServer::start(RedisOptions::default())?;
        command.env("PORTCULLIS_STORE_URL", redis.url()).env("PORTCULLIS_BUS_URL", rabbit.url());
        return finish(&mut command);
    }
    let ports = format!("{},{}", rabbit.port(), rabbit.management().port());
    finish(command.env(SHARED_RABBIT_PORTS, ports))
}

fn finish(command: &mut Command) -> anyhow::Result<u8> {
    let program = command.get_program().to_owned();
    let status = command.status();
    let status = status.with_context(|| format!("cannot run {}", program.display()))?;
    // Killed by a signal: no code to pass on.
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
