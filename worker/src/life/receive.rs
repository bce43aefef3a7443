//! Takes wakes while there are free slots, and looks for work by itself when none come.
//!
//! Authority: the store. A wake only says where to look; losing, doubling or inventing one costs
//! a read.
//! Invariant: a slot is taken before a delivery is looked at, and every delivery is settled once:
//! when all the runs it names were claimed or refused.
//! If we crash here: unsettled wakes come again, and the runs' own timers ring.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use portcullis_engine::ports::{BusError, Consumer, Delivery, Order, Source, Wake};
use portcullis_engine::surroundings::Draw as _;
use portcullis_proto::ids::{RunId, Tenant};
use portcullis_proto::time::Ms;
use portcullis_proto::topology::Lane;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use crate::life::hand::Hand;
use crate::life::{Received, Worker, live};

/// With no free slot for this long, what waits here is given to other workers, in milliseconds.
const NO_SLOT_MS_MAX: u64 = 5_000;
/// With no wake for this long, a free worker looks into the store, in milliseconds.
const IDLE_MS: u64 = 2_000;
/// The pause between tries while the store is away, and when the delivery is given back after all.
const STORE_DOWN_PAUSE_MS: u64 = 1_000;
const STORE_DOWN_TRIES_MAX: u32 = 600;
/// The longest that stopping takes beyond the drain time, in milliseconds.
const STOP_MS_MAX: u64 = 10_000;
/// How many queues there are at most per lane; slots are shared out among them.
const QUEUES: usize = 8;

struct Consumers {
    hi: Consumer,
    lo: Consumer,
}

/// Works until `stop`, then drains.
///
/// # Errors
/// When the bus refuses a subscription for good.
pub async fn run(worker: Arc<Worker>, stop: CancellationToken) -> Result<(), BusError> {
    let slots = Arc::new(Semaphore::new(worker.settings.slots));
    let lives = TaskTracker::new();
    let hand =
        Hand { worker: Arc::clone(&worker), slots: Arc::clone(&slots), lives: lives.clone() };
    let resuming = worker.engine.resume_with(Arc::new(hand));
    let mut consumers = None;
    // Whether the last look into the store found work, so that there may be more.
    let mut more = false;
    while !stop.is_cancelled() {
        let Some(permit) = free_slot(&slots, &mut consumers, &stop).await else { break };
        let open = match &mut consumers {
            Some(open) => open,
            None => consumers.insert(subscribe(&worker).await?),
        };
        let idle = match more {
            true => Duration::ZERO,
            false => {
                Duration::from_millis(IDLE_MS) + worker.engine.surroundings.jitter(IDLE_MS / 2)
            }
        };
        let (lane, delivery) = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            // Begun runs first: an approval must not grow stale behind new work.
            delivery = open.hi.next() => (Lane::Hi, delivery),
            delivery = open.lo.next() => (Lane::Lo, delivery),
            () = tokio::time::sleep(idle) => {
                more = tokio::select! {
                    biased;
                    () = stop.cancelled() => break,
                    more = refill(&worker, &slots, permit, &lives) => more,
                };
                continue;
            }
        };
        let Some(delivery) = delivery else { break };
        take(&worker, &slots, permit, lane, delivery, &lives);
    }
    drop((consumers, resuming));
    drain(&worker, &lives).await;
    Ok(())
}

/// A slot; after a while without one, waiting deliveries go back for others to take.
async fn free_slot(
    slots: &Arc<Semaphore>,
    consumers: &mut Option<Consumers>,
    stop: &CancellationToken,
) -> Option<OwnedSemaphorePermit> {
    let patience = Duration::from_millis(NO_SLOT_MS_MAX);
    let acquire = Arc::clone(slots).acquire_owned();
    tokio::pin!(acquire);
    tokio::select! {
        biased;
        () = stop.cancelled() => return None,
        permit = &mut acquire => return permit.ok(),
        () = tokio::time::sleep(patience) => *consumers = None,
    }
    tokio::select! {
        biased;
        () = stop.cancelled() => None,
        permit = acquire => permit.ok(),
    }
}

async fn subscribe(worker: &Arc<Worker>) -> Result<Consumers, BusError> {
    let prefetch = (worker.settings.slots / QUEUES).clamp(1, 64);
    let prefetch = u16::try_from(prefetch).expect("at most 64");
    Ok(Consumers {
        hi: worker.engine.bus.consume(Source::Wakes(Lane::Hi), prefetch).await?,
        lo: worker.engine.bus.consume(Source::Wakes(Lane::Lo), prefetch).await?,
    })
}

/// Works on the runs that a delivery names: as many as there are slots, the rest rings again.
fn take(
    worker: &Arc<Worker>,
    slots: &Arc<Semaphore>,
    permit: OwnedSemaphorePermit,
    lane: Lane,
    delivery: Delivery,
    lives: &TaskTracker,
) {
    let (worker, slots) = (Arc::clone(worker), Arc::clone(slots));
    let tracker = lives.clone();
    lives.spawn(async move {
        let mut runs = match portcullis_proto::wake::decode(&delivery.body) {
            Ok(runs) => runs,
            Err(why) => {
                warn!(%why, "W015 unreadable wake");
                let _settled = delivery.settle.dead_letter().await;
                return;
            }
        };
        let mut permits = vec![permit];
        while permits.len() < runs.len() {
            match Arc::clone(&slots).try_acquire_owned() {
                Ok(permit) => permits.push(permit),
                Err(_) => break,
            }
        }
        let rest = runs.split_off(permits.len().min(runs.len()));
        ring_again(&worker, lane, rest).await;
        let claims = runs
            .into_iter()
            .zip(permits)
            .map(|(run, permit)| begin(&worker, run, permit, &tracker));
        let answers = futures_util::future::join_all(claims).await;
        let down = answers.contains(&Some(Received::StoreDown));
        // A lost settlement means that the wake comes again; the claims stand.
        let _settled =
            if down { delivery.settle.give_back().await } else { delivery.settle.ack().await };
    });
}

/// Starts one life and answers once its claim is decided. Bears an outage of the store.
async fn begin(
    worker: &Arc<Worker>,
    run: RunId,
    permit: OwnedSemaphorePermit,
    lives: &TaskTracker,
) -> Option<Received> {
    let mut permit = Some(permit);
    for _ in 0..STORE_DOWN_TRIES_MAX {
        let slot = permit.take()?;
        let (answer, slot) = spawn_life(worker, run.clone(), slot, lives).await?;
        if answer != Received::StoreDown {
            return Some(answer);
        }
        permit = slot;
        let pause = Duration::from_millis(STORE_DOWN_PAUSE_MS);
        tokio::select! {
            biased;
            () = worker.draining.cancelled() => return Some(answer),
            () = tokio::time::sleep(pause + worker.engine.surroundings.jitter(500)) => {}
        }
    }
    Some(Received::StoreDown)
}

/// Gives the slot to a life. It comes back with the answer when nothing was claimed.
async fn spawn_life(
    worker: &Arc<Worker>,
    run: RunId,
    slot: OwnedSemaphorePermit,
    lives: &TaskTracker,
) -> Option<(Received, Option<OwnedSemaphorePermit>)> {
    let (tell, told) = oneshot::channel();
    let (back, given_back) = oneshot::channel();
    let worker = Arc::clone(worker);
    lives.spawn(async move {
        let busy = Busy::count(&worker);
        live(&worker, &run, |received| {
            // Nobody listens any more when the delivery's task was dropped.
            let _heard = tell.send(received);
        })
        .await;
        drop(busy);
        let _returned = back.send(slot);
    });
    let answer = told.await.ok()?;
    let slot = if answer == Received::StoreDown { given_back.await.ok() } else { None };
    Some((answer, slot))
}

/// Counts a life as busy until it ends, also when it panics.
pub(super) struct Busy<'a>(&'a Worker);

impl<'a> Busy<'a> {
    pub(super) fn count(worker: &'a Worker) -> Self {
        worker.busy.fetch_add(1, Ordering::Relaxed);
        Self(worker)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Rings for runs that did not fit. A wake that is lost here is rung by the run's timer.
async fn ring_again(worker: &Arc<Worker>, lane: Lane, rest: Vec<RunId>) {
    let tenant = Tenant::new("default").expect("a valid name");
    let wakes = rest
        .into_iter()
        .map(|run| worker.engine.bus.wake(Wake { lane, tenant: tenant.clone(), run }));
    futures_util::future::join_all(wakes).await;
}

/// Nothing rang: looks for queued runs whose wake was lost. `true`: some of them could be claimed,
/// so the wakes of others may be lost too. (Had none been, looking again at once would spin.)
async fn refill(
    worker: &Arc<Worker>,
    slots: &Arc<Semaphore>,
    permit: OwnedSemaphorePermit,
    lives: &TaskTracker,
) -> bool {
    let mut permit = Some(permit);
    let mut claims = Vec::new();
    let store = &worker.engine.store;
    for shard in store.shape().shards.all() {
        let limit = slots.available_permits() + 1;
        let all = Ms(0)..=Ms(i64::MAX);
        let queued = store.list(shard, "run.queued", all, Order::LowestFirst, limit).await;
        let queued = match queued {
            Ok(queued) => queued,
            Err(why) => {
                warn!(%why, "the store gives no work");
                break;
            }
        };
        for run in queued.into_iter().filter_map(|entry| RunId::new(entry.member).ok()) {
            let slot = permit.take().or_else(|| Arc::clone(slots).try_acquire_owned().ok());
            let Some(slot) = slot else { break };
            claims.push(spawn_life(worker, run, slot, lives));
        }
    }
    let answers = futures_util::future::join_all(claims).await;
    answers.iter().flatten().any(|(answer, _)| *answer == Received::Claimed)
}

/// Lets running tools finish, then stops them; whatever is left lapses with its lease.
async fn drain(worker: &Arc<Worker>, lives: &TaskTracker) {
    worker.draining.cancel();
    lives.close();
    info!(busy = worker.busy.load(Ordering::Relaxed), "draining");
    let patience = Duration::from_millis(worker.settings.drain_ms);
    if tokio::time::timeout(patience, lives.wait()).await.is_ok() {
        return;
    }
    worker.killing.cancel();
    if tokio::time::timeout(Duration::from_millis(STOP_MS_MAX), lives.wait()).await.is_err() {
        warn!(busy = worker.busy.load(Ordering::Relaxed), "W016 stopped with runs in hand");
    }
}
