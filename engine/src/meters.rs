//! What an operator watches: counters and histograms, by cause and never by run.
//!
//! Authority: none; figures describe what was committed, they decide nothing.

use opentelemetry::metrics::{Counter, Histogram};
use opentelemetry::{KeyValue, global};
use portcullis_proto::journal::{Entry, Fact};

use crate::ports::{CommitError, Committed, Published};

/// The engine's instruments, on the process's global meter.
#[derive(Clone)]
pub struct Meters {
    commits: Counter<u64>,
    commit_ms: Histogram<f64>,
    denials: Counter<u64>,
    ended: Counter<u64>,
    late_ms: Histogram<f64>,
    requests: Counter<u64>,
    wakes_failed: Counter<u64>,
    decisions: Counter<u64>,
    sweep_failures: Counter<u64>,
}

impl Default for Meters {
    fn default() -> Self {
        let meter = global::meter("portcullis");
        let counter = |name: &'static str, text| meter.u64_counter(name).with_description(text);
        let millis = |name: &'static str, text| {
            let steps = vec![0.5, 1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 1_000.0, 5_000.0];
            meter
                .f64_histogram(name)
                .with_description(text)
                .with_boundaries(steps)
                .with_unit("ms")
                .build()
        };
        Self {
            commits: counter("portcullis_commits", "Commits by result").build(),
            commit_ms: millis(
                "portcullis_commit_latency",
                "Time from sending a commit to its word",
            ),
            denials: counter("portcullis_denials", "Calls refused, by code").build(),
            ended: counter("portcullis_runs_ended", "Runs ended, by outcome and code").build(),
            late_ms: millis(
                "portcullis_deadline_lateness",
                "Time from an approval's deadline to the commit that records its denial",
            ),
            requests: counter("portcullis_requests", "Requests published, by the broker's word")
                .build(),
            wakes_failed: counter("portcullis_wakes_failed", "Wakes that reached no queue").build(),
            decisions: counter("portcullis_decisions", "Decisions received, by answer").build(),
            sweep_failures: counter(
                "portcullis_sweep_failures",
                "Timer entries that could not be \
                 worked off",
            )
            .build(),
        }
    }
}

impl Meters {
    /// Counts what a committed change says.
    pub(crate) fn happened(&self, journal: &[Entry]) {
        for entry in journal {
            if let Fact::Denied { denial, .. } = &entry.fact {
                self.denials.add(1, &[KeyValue::new("code", denial.code.as_str())]);
                if denial.code == portcullis_proto::denial::DenialCode::ApprovalTimedOut {
                    // The denial carries its deadline, the entry the time it was recorded.
                    #[expect(clippy::cast_precision_loss, reason = "milliseconds of lateness")]
                    self.late_ms.record(entry.at.since(denial.at) as f64, &[]);
                }
            }
            if let Fact::Ended { outcome, code, .. } = &entry.fact {
                let labels = [
                    KeyValue::new("outcome", outcome.as_str()),
                    KeyValue::new("code", code.clone()),
                ];
                self.ended.add(1, &labels);
            }
        }
    }

    pub(crate) fn committed(&self, answer: &Result<Committed, CommitError>, firm: bool, ms: i64) {
        let result = match answer {
            Ok(_) => "committed",
            Err(CommitError::Conflict { .. }) => "conflict",
            Err(CommitError::Early { .. }) => "early",
            Err(CommitError::Late { .. }) => "late",
            Err(CommitError::Gone { .. }) => "gone",
            Err(CommitError::Clock { .. }) => "clock",
            Err(CommitError::Epoch) => "epoch",
            Err(CommitError::Policy { .. }) => "policy",
            Err(CommitError::NotDurable) => "not_durable",
            Err(CommitError::TooLarge { .. }) => "too_large",
            Err(CommitError::Unavailable(_)) => "unavailable",
            Err(CommitError::Unknown(_)) => "unknown",
        };
        self.commits.add(1, &[KeyValue::new("result", result), KeyValue::new("firm", firm)]);
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of latency")]
        self.commit_ms.record(ms as f64, &[]);
    }

    pub(crate) fn request_published(&self, published: &Published) {
        let word = match published {
            Published::Confirmed => "confirmed",
            Published::Returned => "returned",
            Published::Nacked => "nacked",
            Published::Unknown(_) => "unknown",
        };
        self.requests.add(1, &[KeyValue::new("word", word)]);
    }

    pub(crate) fn wake_failed(&self) {
        self.wakes_failed.add(1, &[]);
    }

    pub(crate) fn sweep_failed(&self) {
        self.sweep_failures.add(1, &[]);
    }

    /// Counts a decision by the answer it was given.
    pub fn decided(&self, answer: &'static str) {
        self.decisions.add(1, &[KeyValue::new("answer", answer)]);
    }
}
