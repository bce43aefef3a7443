//! Many seeds, on as many threads as are wanted; each seed has a thread to itself while it plays.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::{Counts, Report, play};

/// What every thousand seeds must have seen at least once, or they prove too little.
pub const WANTED: [&str; 38] = [
    "commits",
    "crashes",
    "freezes",
    "stops",
    "rollbacks",
    "store crashes",
    "store outages",
    "broker outages",
    "stores swapped",
    "clock jumps",
    "policies changed",
    "licences revoked",
    "wakes lost",
    "wakes purged",
    "duplicates",
    "redeliveries",
    "deaf consumers",
    "channels lost",
    "jobs left on the broker",
    "webhooks accepted",
    "answer: conflict",
    "answer: early",
    "answer: late",
    "answer: gone",
    "answer: clock",
    "answer: epoch",
    "answer: policy",
    "answer: not durable",
    "answer: too large",
    "answer: unavailable",
    "answer: unknown",
    "parked",
    "approved",
    "denied",
    "expired",
    "effects",
    "forgeries",
    "double votes",
];

/// What a batch came to.
#[derive(Debug, Default)]
pub struct Batch {
    pub seeds: u64,
    pub counts: Counts,
    /// Failing seeds, lowest first, at most ten.
    pub failures: Vec<Report>,
}

impl Batch {
    /// What was wanted and never happened.
    #[must_use]
    pub fn missing(&self) -> Vec<&'static str> {
        WANTED.into_iter().filter(|what| !self.counts.contains_key(what)).collect()
    }

    /// Every count, in all and per thousand seeds.
    #[must_use]
    pub fn table(&self) -> String {
        let line = |(what, count): (&&str, &u64)| {
            format!(
                "{what:<32} {count:>12} {:>12} / 1000 seeds\n",
                count * 1_000 / self.seeds.max(1)
            )
        };
        self.counts.iter().map(line).collect()
    }
}

/// Plays `count` seeds from `first` on, on `threads` threads; ends early after ten failures.
#[must_use]
pub fn play_all(first: u64, count: u64, threads: usize) -> Batch {
    let (next, batch) = (AtomicU64::new(0), Mutex::new(Batch::default()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while next.load(Ordering::Relaxed) < count {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if count <= at {
                        return;
                    }
                    let report = play(first + at);
                    let mut batch = batch.lock().unwrap_or_else(PoisonError::into_inner);
                    batch.seeds += 1;
                    for (what, times) in &report.counts {
                        *batch.counts.entry(what).or_default() += times;
                    }
                    if report.failure.is_some() {
                        batch.failures.push(report);
                        if 10 <= batch.failures.len() {
                            next.store(count, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    let mut batch = batch.into_inner().unwrap_or_else(PoisonError::into_inner);
    batch.failures.sort_by_key(|report| report.seed);
    batch
}
