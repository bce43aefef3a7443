//! How much waits, and how long already? Read from the store when somebody asks.
//!
//! Authority: the store's lists.
//! Invariant: a bounded number of records is read, whatever there is.

use portcullis_engine::StepError;
use portcullis_engine::ports::StoreError;
use portcullis_proto::ids::{ApprovalId, RunId};
use portcullis_proto::journal::Fact;
use portcullis_proto::run::{PHASES, Phase, effective};
use portcullis_proto::time::Ms;

use crate::Scheduler;

/// How many records are looked at to find the oldest wait of a list.
const SAMPLE: usize = 16;

/// What waits now.
#[derive(Clone, Debug, PartialEq)]
pub struct Readings {
    /// How many runs are in each phase, in the order of [`PHASES`].
    pub runs: Vec<(&'static str, u64)>,
    /// Requests that nobody has decided.
    pub approvals_open: u64,
    /// How long the oldest of them waits, in seconds. Looked for among those that expire first.
    pub approval_age_seconds: f64,
    /// How long the run waits that waits longest for a worker, in seconds. Looked for among the
    /// oldest queued runs.
    pub queue_age_seconds: f64,
}

impl Scheduler {
    /// Reads the gauges.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn gauges(&self) -> Result<Readings, StepError> {
        let mut runs = Vec::new();
        for phase in PHASES {
            runs.push((phase, self.engine.store.count(&format!("run.{phase}")).await?));
        }
        Ok(Readings {
            runs,
            approvals_open: self.approvals_open().await?,
            approval_age_seconds: self.approval_age().await?,
            queue_age_seconds: self.queue_age().await?,
        })
    }

    async fn approvals_open(&self) -> Result<u64, StoreError> {
        let mut open = 0;
        for pool in self.pools() {
            open += self.engine.store.count(&format!("ask.{pool}")).await?;
        }
        Ok(open)
    }

    async fn approval_age(&self) -> Result<f64, StepError> {
        let mut runs = Vec::new();
        for pool in self.pools() {
            let entries = self.list_all(&format!("ask.{pool}"), SAMPLE).await?;
            let ids = entries.iter().filter_map(|e| ApprovalId::new(e.member.as_str()).ok());
            runs.extend(ids.map(|id| id.run()));
        }
        let loaded = self.load_all(runs.into_iter()).await?;
        let ages = loaded.iter().filter_map(|(held, now)| {
            let run = effective(held.run(), *now);
            let open = run.calls.iter().filter_map(|call| call.approval()).filter(|a| a.is_open());
            open.map(|asked| now.since(asked.asked_at)).max()
        });
        Ok(seconds(ages.max()))
    }

    async fn queue_age(&self) -> Result<f64, StepError> {
        let entries = self.list_all("run.queued", SAMPLE).await?;
        let ids = entries.iter().filter_map(|entry| RunId::new(entry.member.as_str()).ok());
        let loaded = self.load_all(ids).await?;
        let ages = loaded.iter().filter_map(|(held, now)| {
            let run = held.run();
            let queued = matches!(run.phase, Phase::Queued { .. });
            queued.then(|| now.since(queued_at(&held.record.history, run.created)))
        });
        Ok(seconds(ages.max()))
    }
}

/// When a queued run began to wait: what happened last was what queued it.
fn queued_at(history: &[portcullis_proto::journal::Entry], created: Ms) -> Ms {
    let queued = history.iter().rev().find(|entry| {
        matches!(
            entry.fact,
            Fact::Accepted { .. } | Fact::Roused | Fact::Released { .. } | Fact::Lapsed
        )
    });
    queued.map_or(created, |entry| entry.at)
}

fn seconds(ms: Option<i64>) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "an age in milliseconds")]
    ms.map_or(0.0, |ms| ms.max(0) as f64 / 1_000.0)
}
