//! How do messages travel when everything is one process?
//!
//! Only wakes do: requests are shown to the inbox approvers by the store's lists, decisions come by
//! HTTP, and nobody can bind a queue. So a request is always [`Published::Returned`], which says
//! the truth: no queue took it.
//!
//! Authority: the store. What is in memory here is a doorbell, and an idle worker looks into the
//! store by itself.
//! Invariant: kinder than a broker in nothing: what is unsettled counts against the prefetch, comes
//! again marked as redelivered, and a settlement that comes too late is lost.
//! If we crash here: all wakes are gone, and the next start rings for what is queued.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use portcullis_proto::ids::RunId;
use portcullis_proto::topology::Lane;
use portcullis_proto::wake;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::ports::{Bus, BusError, Condition, Consumer, Delivery, Message, Published, Route};
use crate::ports::{Settle, Settled, Source, Wake};

/// How many wakes of one lane wait at most, unless told otherwise.
pub const WAKES_MAX: usize = 10_000;
/// The most unsettled deliveries that a consumer may ask for.
pub const PREFETCH_MAX: u16 = 64;

/// How much may wait in memory.
#[derive(Clone, Copy, Debug)]
pub struct InProcessSettings {
    /// Wakes per lane that nobody has taken yet; more are refused, and rung again by the timer.
    pub wakes_max: usize,
}

impl Default for InProcessSettings {
    fn default() -> Self {
        Self { wakes_max: WAKES_MAX }
    }
}

/// The bus of the embedded home.
#[derive(Debug)]
pub struct InProcessBus {
    hi: Arc<Queue>,
    lo: Arc<Queue>,
    /// Stands for consumers of what never comes here.
    never: Arc<Queue>,
    condition: watch::Sender<Condition>,
    stop: CancellationToken,
    /// The subscriptions end with the bus.
    _stop_on_drop: DropGuard,
}

impl InProcessBus {
    #[must_use]
    pub fn new(settings: InProcessSettings) -> Arc<Self> {
        let stop = CancellationToken::new();
        Arc::new(Self {
            hi: Arc::new(Queue::new(settings.wakes_max)),
            lo: Arc::new(Queue::new(settings.wakes_max)),
            never: Arc::new(Queue::new(0)),
            condition: watch::Sender::new(Condition::Up),
            _stop_on_drop: stop.clone().drop_guard(),
            stop,
        })
    }

    /// Ends every subscription; from now on nothing is taken.
    pub fn shutdown(&self) {
        self.stop.cancel();
        self.condition.send_replace(Condition::Down);
    }

    fn lane(&self, lane: Lane) -> &Arc<Queue> {
        match lane {
            Lane::Hi => &self.hi,
            Lane::Lo => &self.lo,
        }
    }
}

#[async_trait]
impl Bus for InProcessBus {
    async fn wake(&self, wake: Wake) -> Published {
        if self.stop.is_cancelled() {
            return Published::Unknown("the bus was shut down".to_owned());
        }
        let entry = Entry { run: wake.run, redelivered: false };
        if self.lane(wake.lane).push(entry) { Published::Confirmed } else { Published::Nacked }
    }

    async fn publish(&self, message: Message) -> Published {
        if self.stop.is_cancelled() {
            return Published::Unknown("the bus was shut down".to_owned());
        }
        match message.route {
            Route::Approval { .. } | Route::Intake | Route::Decision { .. } => Published::Returned,
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
        let queue = match source {
            Source::Wakes(lane) => self.lane(lane),
            Source::Intake | Source::Decisions | Source::DeadJobs | Source::DeadDecisions => {
                &self.never
            }
        };
        let cancel = self.stop.child_token();
        let (deliveries_in, deliveries) = mpsc::channel(1);
        let subscription = Subscription {
            unsettled: Arc::new(Unsettled::new(Arc::clone(queue))),
            places: Arc::new(Semaphore::new(usize::from(prefetch))),
            cancel: cancel.clone(),
        };
        tokio::spawn(subscription.run(deliveries_in));
        Ok(Consumer::new(deliveries, cancel))
    }

    fn condition(&self) -> watch::Receiver<Condition> {
        self.condition.subscribe()
    }
}

#[derive(Clone, Debug)]
struct Entry {
    run: RunId,
    redelivered: bool,
}

/// Wakes of one lane that nobody has taken yet.
#[derive(Debug)]
struct Queue {
    waiting: Mutex<VecDeque<Entry>>,
    entries_max: usize,
    /// One permit is a hint that something waits; a woken reader passes it on while more does.
    filled: Notify,
}

impl Queue {
    fn new(entries_max: usize) -> Self {
        Self { waiting: Mutex::default(), entries_max, filled: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there was a place for it.
    fn push(&self, entry: Entry) -> bool {
        {
            let mut waiting = self.lock();
            if self.entries_max <= waiting.len() {
                return false;
            }
            waiting.push_back(entry);
        }
        self.filled.notify_one();
        true
    }

    /// What somebody took and did not settle comes first, as from a broker. There is always a place
    /// for it: it had one before, and the prefetches bound how much it can be.
    fn put_back(&self, mut entry: Entry) {
        entry.redelivered = true;
        self.lock().push_front(entry);
        self.filled.notify_one();
    }

    async fn pop(&self) -> Entry {
        loop {
            let filled = self.filled.notified();
            {
                let mut waiting = self.lock();
                if let Some(entry) = waiting.pop_front() {
                    if !waiting.is_empty() {
                        self.filled.notify_one();
                    }
                    return entry;
                }
            }
            filled.await;
        }
    }
}

/// What one subscription has taken and not settled. Closed with it: all of it goes back.
#[derive(Debug)]
struct Unsettled {
    queue: Arc<Queue>,
    open: Mutex<Option<HashMap<u64, Entry>>>,
}

impl Unsettled {
    fn new(queue: Arc<Queue>) -> Self {
        Self { queue, open: Mutex::new(Some(HashMap::new())) }
    }

    fn lock(&self) -> MutexGuard<'_, Option<HashMap<u64, Entry>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, tag: u64, entry: Entry) {
        if let Some(open) = self.lock().as_mut() {
            open.insert(tag, entry);
        }
    }

    fn take(&self, tag: u64) -> Option<Entry> {
        self.lock().as_mut()?.remove(&tag)
    }

    fn close(&self) {
        let Some(open) = self.lock().take() else { return };
        let mut left: Vec<_> = open.into_iter().collect();
        // The oldest last, so that it is in front again.
        left.sort_unstable_by_key(|(tag, _)| std::cmp::Reverse(*tag));
        for (_, entry) in left {
            self.queue.put_back(entry);
        }
    }
}

struct Subscription {
    unsettled: Arc<Unsettled>,
    places: Arc<Semaphore>,
    cancel: CancellationToken,
}

impl Subscription {
    async fn run(self, deliveries: mpsc::Sender<Delivery>) {
        let deliver = self.deliver(&deliveries);
        let _cancelled = self.cancel.run_until_cancelled(deliver).await;
        self.unsettled.close();
    }

    async fn deliver(&self, deliveries: &mpsc::Sender<Delivery>) {
        let mut tag = 0;
        loop {
            let place = Arc::clone(&self.places).acquire_owned().await;
            let place = place.expect("the semaphore is never closed");
            let entry = self.unsettled.queue.pop().await;
            tag += 1;
            // No await between the two: what was popped is always accounted for.
            self.unsettled.add(tag, entry.clone());
            let delivery = Delivery {
                body: Bytes::from(wake::encode(std::slice::from_ref(&entry.run))),
                message_id: None,
                user_id: None,
                headers: Vec::new(),
                redelivered: entry.redelivered,
                settle: Box::new(InProcessSettle {
                    tag,
                    unsettled: Arc::clone(&self.unsettled),
                    _place: place,
                }),
            };
            if deliveries.send(delivery).await.is_err() {
                return;
            }
        }
    }
}

struct InProcessSettle {
    tag: u64,
    unsettled: Arc<Unsettled>,
    /// Free again once this is settled.
    _place: OwnedSemaphorePermit,
}

impl InProcessSettle {
    fn take(&self) -> Option<Entry> {
        self.unsettled.take(self.tag)
    }
}

fn settled(entry: Option<Entry>) -> Settled {
    if entry.is_some() { Settled::Done } else { Settled::Lost }
}

#[async_trait]
impl Settle for InProcessSettle {
    async fn ack(self: Box<Self>) -> Settled {
        settled(self.take())
    }

    async fn give_back(self: Box<Self>) -> Settled {
        let entry = self.take();
        if let Some(entry) = entry.clone() {
            self.unsettled.queue.put_back(entry);
        }
        settled(entry)
    }

    /// A wake of ours is always readable, and a dead one says nothing about its run: it is dropped.
    async fn dead_letter(self: Box<Self>) -> Settled {
        let entry = self.take();
        if let Some(entry) = &entry {
            tracing::error!(run.id = %entry.run, "a wake was given up");
        }
        settled(entry)
    }
}

impl Drop for InProcessSettle {
    /// Unsettled: back to the queue, as from a reader that panicked.
    fn drop(&mut self) {
        if let Some(entry) = self.take() {
            self.unsettled.queue.put_back(entry);
        }
    }
}
