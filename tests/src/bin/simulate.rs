//! Plays seeds of the simulation: one, with its trace, or very many.
//!
//! `simulate --seed N` replays one seed; `simulate --seeds COUNT [--from N] [--threads N]` plays
//! many and says what they saw. Exit code 1: a promise was broken, or something never happened.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, bail};
use portcullis_tests::simulation::{batch, play};

const USAGE: &str = "usage: simulate --seed N | --seeds COUNT [--from N] [--threads N]";

fn main() -> anyhow::Result<ExitCode> {
    let (mut seed, mut seeds, mut from, mut threads) = (None, None, 0, 2);
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().context(USAGE)?.parse::<u64>().context(USAGE)?;
        match name.as_str() {
            "--seed" => seed = Some(value),
            "--seeds" => seeds = Some(value),
            "--from" => from = value,
            "--threads" => threads = value.max(1),
            _ => bail!(USAGE),
        }
    }
    let began = Instant::now();
    if let Some(seed) = seed {
        let report = play(seed);
        for (what, count) in &report.counts {
            println!("{what:<32} {count:>8}");
        }
        println!("seed {seed}, trace {:016x}, {:?}", report.trace_hash, began.elapsed());
        return Ok(told(&report));
    }
    let count = seeds.context(USAGE)?;
    let played = batch::play_all(from, count, usize::try_from(threads)?);
    print!("{}", played.table());
    println!("{} seeds from {from}, {:?}", played.seeds, began.elapsed());
    let failed = played.failures.iter().map(told).any(|code| code != ExitCode::SUCCESS);
    let missing = if 1_000 <= count { played.missing() } else { Vec::new() };
    if !missing.is_empty() {
        println!("never happened: {}", missing.join(", "));
    }
    Ok(if failed || !missing.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn told(report: &portcullis_tests::simulation::Report) -> ExitCode {
    let Some(failure) = &report.failure else { return ExitCode::SUCCESS };
    println!("seed {} broke a promise: {failure}", report.seed);
    println!("replay: simulate --seed {}", report.seed);
    ExitCode::FAILURE
}
