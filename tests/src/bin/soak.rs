//! Kills a real installation at random for long, and says what came of it.
//!
//! `soak [embedded|distributed] [--kills N] [--minutes N] [--seed N]`; exit code 1: a promise was
//! broken. `soak approver amqp URL FILE` and `soak approver http PORT FILE` are the approver, which
//! is a process of its own so that it can be killed.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use portcullis_tests::home::Kind;
use portcullis_tests::soak::{Plan, approve_over_amqp, approve_over_http, soak};

const USAGE: &str = "usage: soak [embedded|distributed] [--kills N] [--minutes N] [--seed N]";

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["approver", "amqp", url, file] => approve_over_amqp(url, Path::new(file)).await,
        ["approver", "http", port, file] => approve_over_http(port.parse()?, Path::new(file)).await,
        _ => return run(&words).await,
    }
    Ok(ExitCode::SUCCESS)
}

async fn run(words: &[&str]) -> anyhow::Result<ExitCode> {
    let mut plan = Plan {
        kind: Kind::Distributed,
        seed: 1,
        kills: 10_000,
        longest: Duration::from_secs(6_000),
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut number =
            || -> anyhow::Result<u64> { words.next().context(USAGE)?.parse().context(USAGE) };
        match *word {
            "embedded" => plan.kind = Kind::Embedded,
            "distributed" => plan.kind = Kind::Distributed,
            "--kills" => plan.kills = u32::try_from(number()?)?,
            "--minutes" => plan.longest = Duration::from_secs(60 * number()?),
            "--seed" => plan.seed = number()?,
            _ => bail!(USAGE),
        }
    }
    let report = soak(&plan).await;
    print!("{}", report.table());
    println!("{}", report.json());
    Ok(if report.held() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
