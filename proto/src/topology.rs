//! Every exchange, queue, routing key and Redis key there is, each named in one place.
//!
//! Authority: this file. The broker's definitions under `deploy/` and the adapters follow it.
//! Invariant: nobody binds a catch-all queue (`#`) to [`APPROVALS`]: it would make every request
//! routable and so switch the immediate denial off without a word.

use crate::digest::Digest;
use crate::ids::{ApprovalId, Epoch, PoolName, RunId, Shard, Tenant};

/// Direct. Wakes for workers, and whole jobs while the store is down.
pub const JOBS: &str = "portcullis.jobs";
/// Topic. Requests for a decision; approver services bind their own queues.
pub const APPROVALS: &str = "portcullis.approvals";
/// Direct. Signed decisions of approver services.
pub const DECISIONS: &str = "portcullis.decisions";
/// Topic. What happened, for anybody who listens.
pub const EVENTS: &str = "portcullis.events";
/// Direct. What could not be read or settled.
pub const DEAD: &str = "portcullis.dead";
/// Declared once by the first installation on this broker; never in a definitions file.
pub const INSTALLED: &str = "portcullis.installed";

/// Whole envelopes, taken by schedulers.
pub const INTAKE_QUEUE: &str = "jobs.intake";
pub const DEAD_JOBS_QUEUE: &str = "dead.jobs";
pub const DEAD_DECISIONS_QUEUE: &str = "dead.decisions";
pub const DEAD_JOBS_KEY: &str = "jobs";
pub const DEAD_DECISIONS_KEY: &str = "decisions";

/// How many queues of a kind there are by default. Sixteen for a big installation.
pub const BUCKETS_DEFAULT: u8 = 4;

/// A broker redelivers a job or a decision at most this often before it is dead-lettered.
pub const DELIVERY_LIMIT: u32 = 100;
/// The longest that a jobs or decisions queue may grow, in messages.
pub const QUEUE_LENGTH_MAX: u32 = 1_000_000;

/// Runs that have begun go before runs that have not: an approval must not grow stale in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lane {
    Hi,
    Lo,
}

impl Lane {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hi => "hi",
            Self::Lo => "lo",
        }
    }
}

/// Which of the `buckets` queues a tenant's runs go through, so that a noisy one fills its own.
#[must_use]
pub fn bucket(tenant: &Tenant, buckets: u8) -> u8 {
    Digest::of_bytes(tenant.as_str().as_bytes()).0[0] % buckets.max(1)
}

/// Which decisions queue a run's decisions go through.
#[must_use]
pub fn decisions_bucket(run: &RunId, buckets: u8) -> u8 {
    Digest::of_bytes(run.as_str().as_bytes()).0[0] % buckets.max(1)
}

/// The queue (and routing key) of wakes.
#[must_use]
pub fn jobs_queue(lane: Lane, bucket: u8) -> String {
    format!("jobs.{}.{bucket}", lane.as_str())
}

/// The queue (and routing key) of decisions.
#[must_use]
pub fn decisions_queue(bucket: u8) -> String {
    format!("decisions.{bucket}")
}

/// The routing key of a request: `approval.<tenant>.<pool>.<risk>`.
#[must_use]
pub fn approval_key(tenant: &Tenant, pool: &PoolName, risk: &str) -> String {
    format!("approval.{tenant}.{pool}.{risk}")
}

/// The witness on the broker that this store belongs to it.
#[must_use]
pub fn epoch_exchange(epoch: Epoch) -> String {
    format!("portcullis.epoch.{epoch}")
}

/// STRING: a run's record. Expires only once the run is terminal.
#[must_use]
pub fn run_key(run: &RunId) -> String {
    format!("r:{{{}}}:{run}", run.shard())
}

/// STRING: a stored value of a run's shard, by content. Expires with the longest a run may live.
#[must_use]
pub fn blob_key(shard: Shard, digest: Digest) -> String {
    format!("b:{{{shard}}}:{digest}")
}

/// STRING `1`, set with an absolute expiry: the licence to approve. Deleting it denies.
#[must_use]
pub fn licence_key(approval: &ApprovalId) -> String {
    format!("a:{{{}}}:{approval}", approval.run().shard())
}

/// ZSET: every live record once, by its next deadline in milliseconds.
#[must_use]
pub fn timer_key(shard: Shard) -> String {
    format!("t:{{{shard}}}")
}

/// STREAM: journal entries in commit order.
#[must_use]
pub fn feed_key(shard: Shard) -> String {
    format!("f:{{{shard}}}")
}

/// ZSET: one list of records, such as `run.waiting` or `ask.default`.
#[must_use]
pub fn index_key(shard: Shard, index: &str) -> String {
    format!("i:{{{shard}}}:{index}")
}

/// HASH: `hw` highest time seen, `epoch`, `pe` policy epoch, `shards`.
#[must_use]
pub fn meta_key(shard: Shard) -> String {
    format!("m:{{{shard}}}")
}

/// STRING: a reminder's record.
#[must_use]
pub fn schedule_key(shard: Shard, schedule: &str) -> String {
    format!("c:{{{shard}}}:{schedule}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{JobKey, ShardCount};

    #[test]
    fn a_run_its_licence_and_its_timer_share_a_hash_slot() {
        let key = JobKey::api(&Tenant::new("t").unwrap(), b"x");
        let run = RunId::of(&key, ShardCount::new(16).unwrap());
        let tag = format!("{{{}}}", run.shard());
        for key in [
            run_key(&run),
            licence_key(&ApprovalId::of(&run, 0, 1)),
            timer_key(run.shard()),
            feed_key(run.shard()),
            index_key(run.shard(), "run.waiting"),
            meta_key(run.shard()),
        ] {
            assert!(key.contains(&tag), "{key}");
        }
    }

    #[test]
    fn a_request_is_routed_by_tenant_pool_and_risk() {
        let tenant = Tenant::new("acme").unwrap();
        let pool = PoolName::new("ops").unwrap();
        assert_eq!(approval_key(&tenant, &pool, "high"), "approval.acme.ops.high");
    }
}
