//! What an operator watches of the intake: counters by outcome, never by route payload or run.
//!
//! Authority: none; figures decide nothing.

use opentelemetry::metrics::Counter;
use opentelemetry::{KeyValue, global};

use crate::reminders::state::Outcome;

/// The scheduler's instruments, on the process's global meter.
#[derive(Clone, Debug)]
pub(crate) struct Meters {
    webhooks: Counter<u64>,
    starts: Counter<u64>,
    fires: Counter<u64>,
    intake: Counter<u64>,
}

impl Default for Meters {
    fn default() -> Self {
        let meter = global::meter("portcullis");
        let counter =
            |name: &'static str, text| meter.u64_counter(name).with_description(text).build();
        Self {
            webhooks: counter("portcullis_webhooks", "Webhooks received, by route and answer"),
            starts: counter("portcullis_starts", "Starts asked for through the API, by answer"),
            fires: counter("portcullis_reminder_fires", "Instants of reminders, by outcome"),
            intake: counter("portcullis_intake", "Whole jobs taken from the bus, by settlement"),
        }
    }
}

impl Meters {
    /// Counts a webhook. `route` is a configured one: its number is bounded.
    pub(crate) fn webhook(&self, route: &str, answer: &'static str) {
        let labels = [KeyValue::new("route", route.to_owned()), KeyValue::new("answer", answer)];
        self.webhooks.add(1, &labels);
    }

    pub(crate) fn start(&self, answer: &'static str) {
        self.starts.add(1, &[KeyValue::new("answer", answer)]);
    }

    pub(crate) fn fired(&self, outcome: &Outcome) {
        let word = match outcome {
            Outcome::Started { .. } => "started",
            Outcome::Skipped { .. } => "skipped",
            Outcome::Missed => "missed",
            Outcome::Failed { .. } => "failed",
        };
        self.fires.add(1, &[KeyValue::new("outcome", word)]);
    }

    pub(crate) fn intake(&self, settlement: &'static str) {
        self.intake.add(1, &[KeyValue::new("settlement", settlement)]);
    }
}
