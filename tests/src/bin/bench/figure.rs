//! One figure: printed as a line of JSON, its raw samples kept beside it.

use std::io::Write as _;

use portcullis_tests::home::Kind;
use serde_json::{Value, json};

/// The home's name in figures.
pub(crate) const fn home(kind: Kind) -> &'static str {
    match kind {
        Kind::Embedded => "embedded",
        Kind::Distributed => "distributed",
    }
}

/// Prints a figure with whatever explains it.
pub(crate) fn print(kind: Kind, figure: &str, value: f64, unit: &str, more: &Value) {
    let mut line = json!({
        "figure": figure, "home": home(kind), "value": (value * 1_000.0).round() / 1_000.0,
        "unit": unit,
    });
    if let (Some(line), Some(more)) = (line.as_object_mut(), more.as_object()) {
        line.extend(more.clone());
    }
    println!("{line}");
}

/// Prints what is no number.
pub(crate) fn state(kind: Kind, name: &str, value: &Value) {
    println!("{}", json!({ "figure": name, "home": home(kind), "value": value }));
}

/// Prints median and 99th percentile, and keeps the samples.
pub(crate) fn percentiles(kind: Kind, figure: &str, mut samples: Vec<f64>, more: &Value) {
    samples.sort_by(f64::total_cmp);
    let at = |share: f64| {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an index into at most a few thousand samples"
        )]
        let place = ((samples.len() as f64 - 1.0) * share).round() as usize;
        samples.get(place).copied().unwrap_or(f64::NAN)
    };
    print(kind, &format!("{figure}_p50"), at(0.5), "ms", more);
    print(kind, &format!("{figure}_p99"), at(0.99), "ms", more);
    keep(kind, figure, &samples);
}

fn keep(kind: Kind, figure: &str, samples: &[f64]) {
    let folder = std::path::Path::new("target/bench");
    let path = folder.join(format!("{}-{figure}.json", home(kind)));
    let written = std::fs::create_dir_all(folder).and_then(|()| {
        let mut file = std::fs::File::create(&path)?;
        writeln!(file, "{}", json!(samples))
    });
    if let Err(why) = written {
        eprintln!("the samples were not kept in {}: {why}", path.display());
    }
}

/// Events per second.
pub(crate) fn rate(count: usize, seconds: f64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    let count = count as f64;
    count / seconds
}
