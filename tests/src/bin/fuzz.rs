//! Plays the fuzz targets for a while each, and plays a failing input again.
//!
//! `fuzz [--seconds N] [--target NAME] [--seed N] [--out FOLDER]` plays; `fuzz --replay FILE`
//! gives one file to the target that its name begins with. Exit code 1: a promise was broken.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use peak_alloc::PeakAlloc;
use portcullis_tests::fuzz::targets::{TARGETS, named};
use portcullis_tests::fuzz::{Bounds, Broken, Memory, Target, check, play};

const USAGE: &str = "usage: fuzz [--seconds N] [--target NAME] [--seed N] [--out FOLDER] \
                     | --replay FILE [--target NAME]";
/// How much of a processor's time one input may take, in milliseconds; it is microseconds, mostly.
const EACH_MS_MAX: u64 = 2_000;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

struct Asked {
    seconds: u64,
    seed: u64,
    target: Option<&'static Target>,
    out: PathBuf,
    replay: Option<PathBuf>,
}

fn asked() -> anyhow::Result<Asked> {
    let out = std::env::temp_dir().join("portcullis-fuzz");
    let mut asked = Asked { seconds: 60, seed: 1, target: None, out, replay: None };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().context(USAGE)?;
        match name.as_str() {
            "--seconds" => asked.seconds = value.parse().context(USAGE)?,
            "--seed" => asked.seed = value.parse().context(USAGE)?,
            "--target" => asked.target = Some(target(&value)?),
            "--out" => asked.out = value.into(),
            "--replay" => asked.replay = Some(value.into()),
            _ => bail!(USAGE),
        }
    }
    Ok(asked)
}

fn target(name: &str) -> anyhow::Result<&'static Target> {
    let known = || TARGETS.map(|target| target.name).join(", ");
    named(name).with_context(|| format!("no target `{name}`; there are: {}", known()))
}

fn main() -> anyhow::Result<ExitCode> {
    let asked = asked()?;
    // A panic is told once, as the promise that it broke, with its place.
    std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
    if let Some(file) = &asked.replay {
        return replay(file, asked.target);
    }
    let in_use = || HEAP.current_usage();
    let memory = Memory { reset: || HEAP.reset_peak_usage(), in_use, peak: || HEAP.peak_usage() };
    let bounds = Bounds {
        executions: u64::MAX,
        time: Duration::from_secs(asked.seconds),
        each: Duration::from_millis(EACH_MS_MAX),
        memory: Some(memory),
    };
    println!(
        "{:<18}{:>12}{:>7}{:>7}{:>14}{:>12}",
        "target", "executions", "seeds", "kinds", "slowest", "most bytes"
    );
    let mut broken = false;
    for target in TARGETS.iter().filter(|one| asked.target.is_none_or(|it| it.name == one.name)) {
        let played = play(target, asked.seed, &bounds);
        println!(
            "{:<18}{:>12}{:>7}{:>7}{:>14}{:>12}",
            target.name,
            played.executions,
            played.seeds,
            played.kinds,
            format!("{:.1?}", played.slowest),
            played.largest_bytes
        );
        if let Some(found) = &played.broken {
            broken = true;
            told(target, found, &asked.out)?;
        }
    }
    Ok(if broken { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn told(target: &Target, found: &Broken, out: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(out).with_context(|| format!("{}", out.display()))?;
    let digest = portcullis_proto::digest::Digest::of_bytes(&found.input).to_string();
    let file = out.join(format!("{}-{}", target.name, &digest[..12]));
    std::fs::write(&file, &found.input).with_context(|| format!("{}", file.display()))?;
    println!("  promised: {}", target.promise);
    println!("  broken:   {:.2000}", found.why);
    println!("  replay:   fuzz --replay {}", file.display());
    Ok(())
}

fn replay(file: &Path, target: Option<&'static Target>) -> anyhow::Result<ExitCode> {
    let input = std::fs::read(file).with_context(|| format!("{}", file.display()))?;
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let by_name = || TARGETS.iter().find(|target| name.starts_with(&format!("{}-", target.name)));
    let target = target.or_else(by_name).context("name the target: --target NAME")?;
    match check(target, &input) {
        Ok(kind) => {
            println!("{} holds: {kind}", target.name);
            Ok(ExitCode::SUCCESS)
        }
        Err(why) => {
            println!("{} breaks: {why}", target.name);
            Ok(ExitCode::FAILURE)
        }
    }
}
