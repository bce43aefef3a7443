//! Which runs go into the next wake message?
//!
//! One batcher per lane and bucket: while one message waits for its confirm, the runs that ring
//! meanwhile gather, and go together. So a lone wake leaves at once, and a storm of them costs one
//! confirm per 64 runs.
//!
//! Authority: the store. A wake is a doorbell; losing one costs latency only, so nothing here waits
//! long or keeps much.
//! Invariant: at most [`RINGS_MAX`] rings wait per batcher, and each gets its word.

use std::time::Duration;

use bytes::Bytes;
use portcullis_proto::ids::RunId;
use portcullis_proto::topology::{self, Lane};
use portcullis_proto::wake;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::parcel;
use super::publish::Publisher;
use crate::ports::{Condition, Published, WAKE_RUNS_MAX, Wake};

/// How many rings wait per lane and bucket; more are refused at once.
const RINGS_MAX: usize = 4_096;
/// A queue that went missing is declared again at most this often, in milliseconds.
const MEND_MS: u64 = 10_000;

struct Ring {
    run: RunId,
    at: Instant,
    word: oneshot::Sender<Published>,
}

/// The batchers of all lanes and buckets.
pub(super) struct Wakes {
    confirm_timeout: Duration,
    hi: Vec<mpsc::Sender<Ring>>,
    lo: Vec<mpsc::Sender<Ring>>,
}

impl Wakes {
    /// Starts the batchers; each gets a publisher of its own, so that none waits for another.
    pub(super) fn start(
        buckets: u8,
        confirm_timeout: Duration,
        stop: &CancellationToken,
        tasks: &TaskTracker,
        make_publisher: impl Fn() -> Publisher,
    ) -> Self {
        let start = |lane, bucket| {
            let (rings_in, rings) = mpsc::channel(RINGS_MAX);
            let queue = topology::jobs_queue(lane, bucket);
            let publisher = make_publisher();
            let batcher =
                Batcher { queue, publisher, confirm_timeout, rings, sent: 0, mended: None };
            let stop = stop.clone();
            // Rings that wait when it stops learn that their word will not come.
            tasks.spawn(async move { stop.run_until_cancelled(batcher.run()).await });
            rings_in
        };
        let lane = |lane| (0..buckets).map(|bucket| start(lane, bucket)).collect();
        Self { confirm_timeout, hi: lane(Lane::Hi), lo: lane(Lane::Lo) }
    }

    /// Rings for a run and waits for the word about the message that carried it.
    pub(super) async fn ring(&self, wake: Wake, condition: Condition) -> Published {
        match condition {
            Condition::Up => {}
            Condition::Blocked => return unknown("the broker blocks publishers"),
            Condition::Down => return unknown("there is no connection to the broker"),
        }
        let batchers = match wake.lane {
            Lane::Hi => &self.hi,
            Lane::Lo => &self.lo,
        };
        let buckets = u8::try_from(batchers.len()).expect("made from a u8");
        let bucket = topology::bucket(&wake.tenant, buckets);
        let (word_in, word) = oneshot::channel();
        let ring = Ring { run: wake.run, at: Instant::now(), word: word_in };
        match batchers[usize::from(bucket)].try_send(ring) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => return Published::Nacked,
            Err(mpsc::error::TrySendError::Closed(_)) => return unknown("the bus was shut down"),
        }
        match timeout(self.confirm_timeout, word).await {
            Ok(Ok(published)) => published,
            Ok(Err(_)) => unknown("the bus was shut down"),
            Err(_) => unknown("the broker did not answer in time"),
        }
    }
}

fn unknown(why: &str) -> Published {
    Published::Unknown(why.to_owned())
}

struct Batcher {
    queue: String,
    publisher: Publisher,
    confirm_timeout: Duration,
    rings: mpsc::Receiver<Ring>,
    sent: u64,
    mended: Option<Instant>,
}

impl Batcher {
    async fn run(mut self) {
        while let Some(first) = self.rings.recv().await {
            let batch = self.gather(first);
            if batch.runs.is_empty() {
                continue;
            }
            let published = self.publish(&batch.runs).await;
            for word in batch.words {
                drop(word.send(published.clone()));
            }
        }
    }

    fn gather(&mut self, first: Ring) -> Batch {
        let mut batch = Batch::default();
        batch.add(first, self.confirm_timeout);
        // One run may ring often: the words are bounded as well as the runs.
        while batch.runs.len() < WAKE_RUNS_MAX && batch.words.len() < RINGS_MAX {
            let Ok(ring) = self.rings.try_recv() else { break };
            batch.add(ring, self.confirm_timeout);
        }
        batch
    }

    async fn publish(&mut self, runs: &[RunId]) -> Published {
        let published = self.publish_once(runs).await;
        if published == Published::Returned && self.mend().await {
            return self.publish_once(runs).await;
        }
        published
    }

    async fn publish_once(&mut self, runs: &[RunId]) -> Published {
        self.sent += 1;
        let (exchange, key) = (topology::JOBS, self.queue.clone());
        // Unique among what is in flight on one channel, which is all a return needs.
        let id = format!("wake.{}.{}", self.queue, self.sent);
        let body = Bytes::from(wake::encode(runs));
        match parcel::of_body(exchange, key, "wake", id, body) {
            Ok(parcel) => self.publisher.publish(parcel).await,
            Err(why) => unknown(&why),
        }
    }

    /// Somebody deleted our queue or its binding: declare it again, now and then.
    async fn mend(&mut self) -> bool {
        let rested = |at: Instant| Duration::from_millis(MEND_MS) <= at.elapsed();
        if !self.mended.is_none_or(rested) {
            return false;
        }
        self.mended = Some(Instant::now());
        let link = self.publisher.link();
        let Some(session) = link.current() else { return false };
        let declared = link.declare_again(&session).await;
        let mended = declared.is_ok();
        tracing::warn!(queue = %self.queue, ?declared, "no queue took a wake: declared again");
        mended
    }
}

#[derive(Default)]
struct Batch {
    runs: Vec<RunId>,
    words: Vec<oneshot::Sender<Published>>,
}

impl Batch {
    /// Takes a ring, unless whoever rang has already heard that the outcome is unknown.
    fn add(&mut self, ring: Ring, confirm_timeout: Duration) {
        if confirm_timeout <= ring.at.elapsed() {
            return;
        }
        if !self.runs.contains(&ring.run) {
            self.runs.push(ring.run);
        }
        self.words.push(ring.word);
    }
}

#[cfg(test)]
mod tests {
    use portcullis_proto::ids::{JobKey, ShardCount, Tenant};

    use super::*;

    fn ring(n: u8) -> Ring {
        let key = JobKey::api(&Tenant::new("t").unwrap(), &[n]);
        let run = RunId::of(&key, ShardCount::new(16).unwrap());
        Ring { run, at: Instant::now(), word: oneshot::channel().0 }
    }

    #[test]
    fn a_run_that_rings_twice_travels_once_and_both_get_a_word() {
        let mut batch = Batch::default();
        for n in [1, 2, 1] {
            batch.add(ring(n), Duration::from_secs(60));
        }
        assert_eq!((batch.runs.len(), batch.words.len()), (2, 3));
    }

    #[test]
    fn who_has_heard_that_the_outcome_is_unknown_is_not_rung_for_again() {
        let mut batch = Batch::default();
        batch.add(ring(1), Duration::ZERO);
        assert!(batch.runs.is_empty() && batch.words.is_empty());
    }
}
