//! One queue of the broker, and what its readers have in hand.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use bytes::Bytes;
use portcullis_engine::ports::{Delivery, Settle, Settled};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

/// A message as it lies in a queue.
#[derive(Clone, Debug)]
pub struct Parcel {
    pub body: Bytes,
    pub message_id: Option<String>,
    pub redelivered: bool,
}

#[derive(Debug, Default)]
struct Lying {
    waiting: VecDeque<Parcel>,
    taken: usize,
}

#[derive(Debug)]
pub(super) struct Queue {
    lying: Mutex<Lying>,
    filled: Notify,
    dead: Option<Arc<Queue>>,
}

impl Queue {
    pub(super) fn new(dead: Option<Arc<Self>>) -> Arc<Self> {
        Arc::new(Self { lying: Mutex::default(), filled: Notify::new(), dead })
    }

    fn lock(&self) -> MutexGuard<'_, Lying> {
        self.lying.lock().expect("no panic while held")
    }

    pub(super) fn len(&self) -> usize {
        let lying = self.lock();
        lying.waiting.len() + lying.taken
    }

    pub(super) fn purge(&self) {
        self.lock().waiting.clear();
    }

    pub(super) fn insert(&self, parcel: Parcel, place: usize) {
        let mut lying = self.lock();
        let place = place.min(lying.waiting.len());
        lying.waiting.insert(place, parcel);
        drop(lying);
        self.filled.notify_one();
    }

    fn put_back(&self, mut parcel: Parcel) {
        parcel.redelivered = true;
        self.lock().taken -= 1;
        self.insert(parcel, 0);
    }

    fn done(&self) {
        self.lock().taken -= 1;
    }

    async fn pop(&self) -> Parcel {
        loop {
            let filled = self.filled.notified();
            {
                let mut lying = self.lock();
                if let Some(parcel) = lying.waiting.pop_front() {
                    lying.taken += 1;
                    if !lying.waiting.is_empty() {
                        self.filled.notify_one();
                    }
                    return parcel;
                }
            }
            filled.await;
        }
    }
}

/// What one reader took and did not settle; `None` once it went away.
type InHand = Mutex<Option<BTreeMap<u64, Parcel>>>;

pub(super) struct Subscription {
    queue: Arc<Queue>,
    in_hand: Arc<InHand>,
    places: Arc<Semaphore>,
}

impl Subscription {
    pub(super) fn new(queue: Arc<Queue>, prefetch: u16) -> Self {
        let in_hand = Arc::new(Mutex::new(Some(BTreeMap::new())));
        Self { queue, in_hand, places: Arc::new(Semaphore::new(usize::from(prefetch))) }
    }

    pub(super) async fn run(self, deliveries: mpsc::Sender<Delivery>, cancel: CancellationToken) {
        let _cancelled = cancel.run_until_cancelled(self.deliver(&deliveries)).await;
        let left = self.in_hand.lock().unwrap().take().unwrap_or_default();
        // The oldest last, so that it is in front again.
        for (_, parcel) in left.into_iter().rev() {
            self.queue.put_back(parcel);
        }
    }

    async fn deliver(&self, deliveries: &mpsc::Sender<Delivery>) {
        for tag in 0.. {
            let place = Arc::clone(&self.places).acquire_owned().await.expect("never closed");
            let parcel = self.queue.pop().await;
            if let Some(in_hand) = self.in_hand.lock().unwrap().as_mut() {
                in_hand.insert(tag, parcel.clone());
            }
            let (queue, in_hand) = (Arc::clone(&self.queue), Arc::clone(&self.in_hand));
            let delivery = Delivery {
                body: parcel.body,
                message_id: parcel.message_id,
                user_id: None,
                headers: Vec::new(),
                redelivered: parcel.redelivered,
                settle: Box::new(Receipt { tag, queue, in_hand, _place: place }),
            };
            if deliveries.send(delivery).await.is_err() {
                return;
            }
        }
    }
}

struct Receipt {
    tag: u64,
    queue: Arc<Queue>,
    in_hand: Arc<InHand>,
    /// Free again once this is settled.
    _place: OwnedSemaphorePermit,
}

impl Receipt {
    fn take(&self) -> Option<Parcel> {
        self.in_hand.lock().unwrap().as_mut()?.remove(&self.tag)
    }

    fn settle(&self, then: impl FnOnce(&Queue, Parcel)) -> Settled {
        let Some(parcel) = self.take() else { return Settled::Lost };
        then(&self.queue, parcel);
        Settled::Done
    }
}

#[async_trait]
impl Settle for Receipt {
    async fn ack(self: Box<Self>) -> Settled {
        self.settle(|queue, _| queue.done())
    }

    async fn give_back(self: Box<Self>) -> Settled {
        self.settle(Queue::put_back)
    }

    async fn dead_letter(self: Box<Self>) -> Settled {
        self.settle(|queue, parcel| {
            queue.done();
            if let Some(dead) = &queue.dead {
                dead.insert(parcel, usize::MAX);
            }
        })
    }
}

impl Drop for Receipt {
    /// Unsettled: back to the queue, as from a reader that panicked.
    fn drop(&mut self) {
        let _settled = self.settle(Queue::put_back);
    }
}
