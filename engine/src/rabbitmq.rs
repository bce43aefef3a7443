//! How do messages travel over RabbitMQ (3.10 and later)?
//!
//! Two connections, because a memory or disk alarm stops every connection that publishes: `publish`
//! and `consume` each have a supervisor ([`link`]) that connects, declares the topology and, at any
//! fault whatever, tears the connection down and builds a new one. Nothing is recovered in place.
//!
//! Authority: the broker. What it has not confirmed may or may not arrive, and is said to be
//! [`Published::Unknown`].
//! Invariant: a request that no queue took is never called [`Published::Confirmed`]; see
//! [`publish`] for why that cannot happen. Nobody outside this folder imports `lapin`.
//! If we crash here: what was not acknowledged is delivered again; what was not confirmed is
//! published again by the record's timer.

mod address;
mod channel;
mod consume;
mod counters;
mod declare;
mod examine;
mod link;
mod parcel;
mod publish;
mod wakes;
mod witness;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use portcullis_proto::topology;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

pub use channel::AmqpError;
pub use counters::Figures;
pub use declare::Declare;
pub use examine::Account;
pub use witness::Witness;

use crate::ports::{Bus, BusError, CONFIRM_TIMEOUT_MS, Condition, Consumer, Message, Published};
use crate::ports::{Source, Wake};
use counters::Counters;
use link::{Link, LinkSettings};
use publish::Publisher;
use wakes::Wakes;

/// Filter directives for the log. The client library warns about every returned message with its
/// whole body, and traces the broker's URL with its password; neither may reach a log.
pub const LOG_DIRECTIVES: &str = "lapin=error,amq_protocol_tcp=off";

/// How many single messages may wait for the broker's word at once.
pub const PUBLISHES_MAX: usize = 32;
/// The most unsettled deliveries per queue that a consumer may ask for.
pub const PREFETCH_MAX: u16 = 64;
const HEARTBEAT_S: u16 = 10;
const SHUTDOWN_MS_MAX: u64 = 5_000;

/// How to reach the broker, and as whom.
#[derive(Clone)]
pub struct RabbitSettings {
    /// `amqp://user:password@host:5672/vhost`
    pub url: String,
    /// Shown in the broker's list of connections; unique per process start.
    pub name: String,
    /// How many queues of a kind there are: the same number in every process.
    pub buckets: u8,
    /// A dead connection is noticed after about two of these, in seconds.
    pub heartbeat_s: u16,
    /// How long a publish waits for the broker's word, in milliseconds.
    pub confirm_timeout_ms: u64,
    /// Who sets limits and dead-lettering: policies or this process.
    pub declare: Declare,
}

impl RabbitSettings {
    /// What production uses, but for the two that have no default.
    #[must_use]
    pub fn new(url: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            name: name.into(),
            buckets: topology::BUCKETS_DEFAULT,
            heartbeat_s: HEARTBEAT_S,
            confirm_timeout_ms: CONFIRM_TIMEOUT_MS,
            declare: Declare::PoliciesOnly,
        }
    }
}

impl std::fmt::Debug for RabbitSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The URL holds the password.
        f.debug_struct("RabbitSettings").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The bus of the distributed home.
pub struct RabbitBus {
    buckets: u8,
    address: address::Address,
    publishing: Link,
    consuming: Link,
    condition: watch::Receiver<Condition>,
    publisher: Publisher,
    wakes: Wakes,
    counters: Arc<Counters>,
    stop: CancellationToken,
    tasks: TaskTracker,
    /// The supervisors end with the bus.
    _stop_on_drop: DropGuard,
}

impl std::fmt::Debug for RabbitBus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RabbitBus")
            .field("condition", &*self.condition.borrow())
            .finish_non_exhaustive()
    }
}

impl RabbitBus {
    /// Starts both supervisors and returns at once: a broker that is down is a condition, not an
    /// error. Wait for it with [`ready`](Self::ready).
    ///
    /// # Errors
    /// The settings cannot work whatever the broker does, such as an unreadable URL.
    pub fn connect(settings: RabbitSettings) -> Result<Arc<Self>, BusError> {
        let address = address::Address::parse(&settings.url)?;
        if settings.buckets == 0 {
            return Err(BusError::Refused("the bus needs at least one bucket, not 0".to_owned()));
        }
        let stop = CancellationToken::new();
        let tasks = TaskTracker::new();
        let counters = Arc::new(Counters::default());
        let link_settings = |role: &str| LinkSettings {
            address: address.clone(),
            name: format!("{} {role}", settings.name),
            heartbeat_s: settings.heartbeat_s,
            buckets: settings.buckets,
            declare: settings.declare,
        };
        let start = |role| Link::start(link_settings(role), &stop, &tasks, Arc::clone(&counters));
        let publishing = start("publish");
        let consuming = start("consume");
        let condition = publishing.condition();
        let confirm_timeout = Duration::from_millis(settings.confirm_timeout_ms);
        let make_publisher = |publishes_max| {
            Publisher::new(publishing.clone(), publishes_max, confirm_timeout, counters.clone())
        };
        Ok(Arc::new(Self {
            buckets: settings.buckets,
            address,
            publisher: make_publisher(PUBLISHES_MAX),
            wakes: Wakes::start(settings.buckets, confirm_timeout, &stop, &tasks, || {
                make_publisher(1)
            }),
            publishing,
            consuming,
            condition,
            counters,
            tasks,
            _stop_on_drop: stop.clone().drop_guard(),
            stop,
        }))
    }

    /// Waits until both connections are up and the topology is declared.
    ///
    /// # Errors
    /// Not up within `wait_ms_max`: the error says what the broker or the network answered last.
    pub async fn ready(&self, wait_ms_max: u64) -> Result<(), BusError> {
        let both = async {
            let consuming = self.consuming.session(&self.stop).await;
            let publishing = self.publishing.session(&self.stop).await;
            let mut condition = self.condition.clone();
            let told = condition.wait_for(|condition| *condition != Condition::Down).await;
            consuming.is_some() && publishing.is_some() && told.is_ok()
        };
        match tokio::time::timeout(Duration::from_millis(wait_ms_max), both).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(BusError::ShutDown),
            Err(_) => {
                let why = self.trouble().unwrap_or_else(|| "the broker does not answer".to_owned());
                Err(BusError::Refused(format!("the bus is not up in {wait_ms_max} ms: {why}")))
            }
        }
    }

    /// What keeps a connection from being up, in words for an operator; `None` when both are.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.publishing.trouble().or_else(|| self.consuming.trouble())
    }

    /// What was counted since the start.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.counters.read()
    }

    /// Ends all subscriptions, says goodbye to the broker and waits for that, at most 5 s.
    pub async fn shutdown(&self) {
        self.stop.cancel();
        self.tasks.close();
        let gone = self.tasks.wait();
        if tokio::time::timeout(Duration::from_millis(SHUTDOWN_MS_MAX), gone).await.is_err() {
            tracing::warn!("the bus did not end in good order in {SHUTDOWN_MS_MAX} ms");
        }
    }
}

#[async_trait]
impl Bus for RabbitBus {
    async fn wake(&self, wake: Wake) -> Published {
        let condition = *self.condition.borrow();
        self.wakes.ring(wake, condition).await
    }

    async fn publish(&self, message: Message) -> Published {
        match parcel::of_message(message, self.buckets) {
            Ok(parcel) => self.publisher.publish(parcel).await,
            Err(why) => {
                tracing::error!(%why, "a message cannot be published");
                self.counters.count(&Published::Nacked);
                Published::Nacked
            }
        }
    }

    async fn consume(&self, source: Source, prefetch: u16) -> Result<Consumer, BusError> {
        if self.stop.is_cancelled() {
            return Err(BusError::ShutDown);
        }
        if !(1..=PREFETCH_MAX).contains(&prefetch) {
            let why = format!("a prefetch is 1 to {PREFETCH_MAX}, not {prefetch}");
            return Err(BusError::Refused(why));
        }
        let queues = consume::queues(source, self.buckets);
        let cancel = self.stop.child_token();
        let (deliveries_in, deliveries) = tokio::sync::mpsc::channel(queues.len());
        for queue in queues {
            let subscription = consume::Subscription {
                queue,
                prefetch,
                link: self.consuming.clone(),
                deliveries: deliveries_in.clone(),
                counters: Arc::clone(&self.counters),
                cancel: cancel.clone(),
            };
            self.tasks.spawn(subscription.run());
        }
        Ok(Consumer::new(deliveries, cancel))
    }

    fn condition(&self) -> watch::Receiver<Condition> {
        self.condition.clone()
    }
}
