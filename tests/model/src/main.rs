//! Searches every scenario, or shows what breaks without a guard.

use std::time::Instant;

use anyhow::{Context as _, bail};
use portcullis_model::verdicts::{VERDICTS, Verdict};
use portcullis_model::{hunt, mutation, shipped};

const USAGE: &str = "usage: model [--deeper N] | --list | --mutant NAME\n\
                     Nothing named: every scenario on the shipped rules, N steps deeper than the \
                     tests go, then every guard taken out.";

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [] => all(0),
        ["--deeper", steps] => all(steps.parse().context(USAGE)?),
        ["--list"] => {
            for verdict in VERDICTS {
                println!("{}", outline(verdict));
            }
            Ok(())
        }
        ["--mutant", name] => show(name),
        _ => bail!(USAGE),
    }
}

fn outline(verdict: &Verdict) -> String {
    let Verdict { out, scenario, breaks, .. } = verdict;
    format!("{breaks:<4} {:<24} without: {}", format!("({scenario})"), out.join(" + "))
}

fn all(deeper: usize) -> anyhow::Result<()> {
    let mut broken = 0;
    for scenario in shipped::checked::SCENARIOS {
        let (began, steps) = (Instant::now(), scenario.steps + deeper);
        let found = shipped::checked::search(scenario, steps, 2);
        let seconds = began.elapsed().as_secs_f64();
        println!(
            "{:>9} states within {steps:>2} steps  {seconds:>6.1} s  {}",
            found.states, scenario.name
        );
        if let Some((promise, trace)) = found.broken {
            broken += 1;
            println!("broken: {promise}\n{}", trace.join("\n"));
        }
    }
    for verdict in VERDICTS {
        let found = hunt(verdict);
        let promise = found.broken.as_ref().map_or("nothing", |(promise, _)| promise);
        let noticed = promise.starts_with(&format!("{} ", verdict.breaks));
        broken += usize::from(!noticed);
        println!("{} {}", if noticed { "noticed" } else { "MISSED " }, outline(verdict));
    }
    println!(
        "{} guards; {} searches without some of them",
        mutation::mutants().count(),
        VERDICTS.len()
    );
    if broken == 0 { Ok(()) } else { bail!("{broken} searches did not end as they should") }
}

fn show(name: &str) -> anyhow::Result<()> {
    let found = VERDICTS.iter().find(|verdict| verdict.out.contains(&name));
    let verdict = found.with_context(|| format!("no guard is called `{name}`: see --list"))?;
    println!("{}", outline(verdict));
    let found = hunt(verdict);
    let (promise, trace) = found.broken.context("the search noticed nothing")?;
    println!("broken: {promise}\n{}", trace.join("\n"));
    Ok(())
}
