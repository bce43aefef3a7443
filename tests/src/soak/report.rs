//! What a soak has seen: a table for people, one line of JSON for machines.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use super::storm::Storm;

/// Runs shown in full when a promise is broken.
const SHOWN_MAX: usize = 3;

/// Counts, and promises that were broken so often.
#[derive(Debug)]
pub struct Report {
    took: Duration,
    /// `kill -9`, by what was killed.
    pub killed: BTreeMap<&'static str, u32>,
    counts: BTreeMap<String, u64>,
    /// Each must be 0.
    promises: BTreeMap<&'static str, u64>,
    /// Recorded so long after the deadline, while a store and a process were there all the time
    /// from then on, and in all, in milliseconds.
    late_ms: (i64, i64),
    examples: Vec<String>,
}

/// What is counted only when it happens, and must not.
const NEVER: [&str; 6] = [
    "runs that never ended",
    "at most once, and twice",
    "succeeded, and did nothing",
    "two effects of one approval",
    "approved after its deadline",
    "effects without a yes in time",
];

impl Report {
    pub(super) fn new(storm: &Storm, took: Duration) -> Self {
        let mut counts = BTreeMap::new();
        counts.insert("processes that gave up at a start".to_owned(), storm.gave_up_count().into());
        Self {
            took,
            killed: storm.killed(),
            counts,
            promises: NEVER.into_iter().map(|name| (name, 0)).collect(),
            late_ms: (0, 0),
            examples: Vec::new(),
        }
    }

    pub(super) fn count(&mut self, what: &str, times: u64) {
        *self.counts.entry(what.to_owned()).or_default() += times;
    }

    pub(super) fn promise(&mut self, what: &'static str, broken: u64) {
        self.promises.insert(what, broken);
    }

    pub(super) fn broken(&mut self, what: &'static str, run: &Value) {
        *self.promises.entry(what).or_default() += 1;
        if self.examples.len() < SHOWN_MAX {
            self.examples.push(format!("{what}: {run:#}"));
        }
    }

    pub(super) fn late(&mut self, awake_ms: i64, all_ms: i64) {
        self.late_ms = (self.late_ms.0.max(awake_ms), self.late_ms.1.max(all_ms));
    }

    /// How often something was counted.
    #[must_use]
    pub fn counted(&self, what: &str) -> u64 {
        self.counts.get(what).copied().unwrap_or(0)
    }

    /// Whether every promise held.
    #[must_use]
    pub fn held(&self) -> bool {
        self.promises.values().all(|broken| *broken == 0)
    }

    /// For people.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text = String::new();
        let mut row = |what: &str, count: &dyn std::fmt::Display| {
            writeln!(text, "{what:<40} {count:>9}").expect("a string takes all");
        };
        for (what, count) in &self.killed {
            row(&format!("kill -9 {what}"), count);
        }
        for (what, count) in &self.counts {
            row(what, count);
        }
        for (what, count) in &self.promises {
            row(&format!("must be 0: {what}"), count);
        }
        row("latest denial, somebody there (ms)", &self.late_ms.0);
        row("latest denial, all (ms)", &self.late_ms.1);
        for example in &self.examples {
            text.push_str(example);
            text.push('\n');
        }
        text
    }

    /// For machines.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "seconds": self.took.as_secs(),
            "kills": self.killed.values().sum::<u32>(),
            "killed": self.killed,
            "counts": self.counts,
            "must_be_0": self.promises,
            "latest_denial_ms": { "somebody_there": self.late_ms.0, "all": self.late_ms.1 },
        })
    }
}
