//! The bus: doorbells for workers, requests for approvers, decisions back.

use async_trait::async_trait;
use bytes::Bytes;
use portcullis_proto::ids::{PoolName, RunId, Tenant};
use portcullis_proto::topology::Lane;

/// The longest body that is published or read, in bytes.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;
/// How many runs one wake message names at most.
pub const WAKE_RUNS_MAX: usize = portcullis_proto::wake::RUNS_MAX;
/// How long a publish waits for the broker's word before its outcome is unknown, in milliseconds.
pub const CONFIRM_TIMEOUT_MS: u64 = 5_000;

/// «This run may be runnable.» Losing one costs latency only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wake {
    pub lane: Lane,
    pub tenant: Tenant,
    pub run: RunId,
}

/// Where a message goes. Wakes have their own call, since they travel together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// A request for a decision; mandatory: unroutable is an answer.
    Approval { tenant: Tenant, pool: PoolName, risk: &'static str },
    /// A whole envelope, while the store is down.
    Intake,
    /// A signed decision of an approver service (used by tests and tools, never by workers).
    Decision { run: RunId },
}

/// One message, written persistent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub route: Route,
    /// Unique per content: `<approval>.<rev>` for requests. Returns are matched by it.
    pub message_id: String,
    /// Milliseconds after which the broker may drop it.
    pub expiration_ms: Option<u64>,
    /// Text headers such as `traceparent`.
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
}

/// The broker's word about a publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Published {
    /// Queued durably on at least one queue.
    Confirmed,
    /// No queue is bound for it.
    Returned,
    /// A queue is full, or the broker would not take it.
    Nacked,
    /// No word: it may arrive, now or later.
    Unknown(String),
}

/// What to consume. The adapter reads every bucket of a kind, fairly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    Wakes(Lane),
    Intake,
    Decisions,
    DeadJobs,
    DeadDecisions,
}

/// Did the settlement reach the broker?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    Done,
    /// The channel died or the delivery was settled before: it will come again.
    Lost,
}

/// How a delivery is given back to the bus. Used exactly once.
#[async_trait]
pub trait Settle: Send + Sync {
    async fn ack(self: Box<Self>) -> Settled;
    /// Back into its queue, for anybody. Counts against the delivery limit.
    async fn give_back(self: Box<Self>) -> Settled;
    /// To the dead-letter queue of its kind.
    async fn dead_letter(self: Box<Self>) -> Settled;
}

/// What the broker gave us.
pub struct Delivery {
    pub body: Bytes,
    pub message_id: Option<String>,
    pub user_id: Option<String>,
    pub headers: Vec<(String, String)>,
    pub redelivered: bool,
    pub settle: Box<dyn Settle>,
}

impl std::fmt::Debug for Delivery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Delivery")
            .field("message_id", &self.message_id)
            .field("bytes", &self.body.len())
            .field("redelivered", &self.redelivered)
            .finish_non_exhaustive()
    }
}

/// A standing subscription. It survives reconnects: the adapter subscribes again by itself.
/// Dropping it cancels the subscription, and what was not settled goes back.
#[derive(Debug)]
pub struct Consumer {
    deliveries: tokio::sync::mpsc::Receiver<Delivery>,
    /// Cancels the adapter's side on drop.
    _guard: tokio_util::sync::DropGuard,
}

impl Consumer {
    /// Joins the receiving end to the token that ends the adapter's side.
    #[must_use]
    pub fn new(
        deliveries: tokio::sync::mpsc::Receiver<Delivery>,
        cancel: tokio_util::sync::CancellationToken,
    ) -> Self {
        Self { deliveries, _guard: cancel.drop_guard() }
    }

    /// The next delivery; `None` once the bus was shut down.
    pub async fn next(&mut self) -> Option<Delivery> {
        self.deliveries.recv().await
    }
}

/// Can the bus take messages now?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    Up,
    /// Connected, but the broker reads nothing we publish (memory or disk alarm).
    Blocked,
    Down,
}

/// Why a subscription could not be made at all. A lost connection is none: it is waited for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BusError {
    #[error("the bus was shut down")]
    ShutDown,
    #[error("{0}")]
    Refused(String),
}

/// Messages between processes.
#[async_trait]
pub trait Bus: Send + Sync {
    /// Rings for a run. Wakes of one lane and bucket that wait for a confirm travel together,
    /// up to [`WAKE_RUNS_MAX`] in one message. Answers within [`CONFIRM_TIMEOUT_MS`].
    async fn wake(&self, wake: Wake) -> Published;

    /// Publishes one message and waits for the broker's word, at most [`CONFIRM_TIMEOUT_MS`].
    async fn publish(&self, message: Message) -> Published;

    /// Subscribes, with at most `prefetch` unsettled deliveries (1 to 64) per queue.
    async fn consume(&self, source: Source, prefetch: u16) -> Result<Consumer, BusError>;

    /// Watches whether publishing can work.
    fn condition(&self) -> tokio::sync::watch::Receiver<Condition>;
}
