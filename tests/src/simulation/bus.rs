//! A broker in memory: quorum queues for wakes, whole jobs and decisions, a topic for requests.
//!
//! Authority: the queues under their locks; they survive every process, as a broker's do.
//! Invariant: no kinder than a broker. What is unsettled counts against the prefetch and comes
//! again, marked, when its reader goes away; a settlement that comes too late is lost.

mod queue;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use portcullis_engine::ports::{
    Bus, BusError, Condition, Consumer, Message, Published, Route, Source, Wake,
};
use portcullis_proto::ids::PoolName;
use portcullis_proto::topology::Lane;
use portcullis_proto::wake;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

pub use queue::Parcel;
use queue::{Queue, Subscription};

/// The most unsettled deliveries that a consumer may ask for.
const PREFETCH_MAX: u16 = 64;

/// The broker. Anything that goes wrong on the way to it is the caller's to arrange.
pub struct MemoryBus {
    hi: Arc<Queue>,
    lo: Arc<Queue>,
    intake: Arc<Queue>,
    decisions: Arc<Queue>,
    dead: Arc<Queue>,
    /// The approver services that are bound now, by pool.
    bound: Mutex<BTreeMap<PoolName, mpsc::UnboundedSender<Message>>>,
    condition: watch::Sender<Condition>,
}

impl MemoryBus {
    #[must_use]
    pub fn new() -> Arc<Self> {
        let dead = Queue::new(None);
        let queue = || Queue::new(Some(Arc::clone(&dead)));
        let (hi, lo, intake, decisions) = (queue(), queue(), queue(), queue());
        let (bound, condition) = (Mutex::default(), watch::Sender::new(Condition::Up));
        Arc::new(Self { hi, lo, intake, decisions, dead, bound, condition })
    }

    /// Binds a queue to the requests of a pool; dropping the receiver unbinds it.
    pub fn bind(&self, pool: PoolName) -> mpsc::UnboundedReceiver<Message> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.bound.lock().unwrap().insert(pool, sender);
        receiver
    }

    /// How many messages wait in the queue of whole jobs, taken and unsettled ones included.
    #[must_use]
    pub fn jobs_left(&self) -> usize {
        self.intake.len()
    }

    /// Purges the wakes, as an operator may.
    pub fn purge_wakes(&self) {
        self.hi.purge();
        self.lo.purge();
    }

    /// Says whether publishing can work.
    pub fn set_condition(&self, condition: Condition) {
        self.condition.send_replace(condition);
    }

    /// Puts a parcel into its queue at a place from the front; beyond the end: at the end.
    pub fn deliver(&self, source: Source, parcel: Parcel, place: usize) {
        self.queue(source).insert(parcel, place);
    }

    fn queue(&self, source: Source) -> &Arc<Queue> {
        match source {
            Source::Wakes(Lane::Hi) => &self.hi,
            Source::Wakes(Lane::Lo) => &self.lo,
            Source::Intake => &self.intake,
            Source::Decisions => &self.decisions,
            Source::DeadJobs | Source::DeadDecisions => &self.dead,
        }
    }

    /// What a wake looks like on its queue.
    #[must_use]
    pub fn parcel_of(wake: &Wake) -> (Source, Parcel) {
        let body = Bytes::from(wake::encode(std::slice::from_ref(&wake.run)));
        (Source::Wakes(wake.lane), Parcel { body, message_id: None, redelivered: false })
    }
}

#[async_trait]
impl Bus for MemoryBus {
    async fn wake(&self, wake: Wake) -> Published {
        let (source, parcel) = Self::parcel_of(&wake);
        self.deliver(source, parcel, usize::MAX);
        Published::Confirmed
    }

    async fn publish(&self, message: Message) -> Published {
        let source = match &message.route {
            Route::Approval { pool, .. } => {
                let bound = self.bound.lock().unwrap().get(pool).cloned();
                let sent = bound.is_some_and(|bound| bound.send(message).is_ok());
                return if sent { Published::Confirmed } else { Published::Returned };
            }
            Route::Intake => Source::Intake,
            Route::Decision { .. } => Source::Decisions,
        };
        let (body, message_id) = (message.body, Some(message.message_id));
        self.deliver(source, Parcel { body, message_id, redelivered: false }, usize::MAX);
        Published::Confirmed
    }

    async fn consume(&self, source: Source, prefetch: u16) -> Result<Consumer, BusError> {
        if !(1..=PREFETCH_MAX).contains(&prefetch) {
            let why = format!("a prefetch is 1 to {PREFETCH_MAX}, not {prefetch}");
            return Err(BusError::Refused(why));
        }
        let cancel = CancellationToken::new();
        let (deliveries_in, deliveries) = mpsc::channel(1);
        let subscription = Subscription::new(Arc::clone(self.queue(source)), prefetch);
        tokio::spawn(subscription.run(deliveries_in, cancel.clone()));
        Ok(Consumer::new(deliveries, cancel))
    }

    fn condition(&self) -> watch::Receiver<Condition> {
        self.condition.subscribe()
    }
}
