//! When is a commit sent? At once on an idle shard, else with all that came in meanwhile.
//!
//! Each shard has one task with at most one call under way: while it waits for the answer, commits
//! queue up and form the next call. Under load fewer calls and fewer fsyncs carry more commits; an
//! idle shard adds no delay.
//!
//! Invariant: a full queue refuses at once, so nothing waits without a bound.
//! If we crash here: what is queued was not sent and not answered.

use std::sync::Arc;

use portcullis_proto::ids::{Shard, ShardCount};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::Lines;
use super::batch::{self, Answer};
use crate::ports::{Commit, CommitError};

/// How many commits one script call carries at most: Redis does nothing else while it runs.
const BATCH_COMMITS_MAX: usize = 64;
/// How many bytes of records one call carries at most, unless a single one is longer.
const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How many commits of one shard may wait.
const QUEUE_COMMITS_MAX: usize = 1_024;
/// How many KiB of records may wait in this process, over all shards.
const QUEUE_KIB_MAX: usize = 128 * 1024;

struct Waiting {
    commit: Commit,
    answer: oneshot::Sender<Answer>,
    _room: OwnedSemaphorePermit,
}

/// One queue a shard.
pub(super) struct Queues {
    inboxes: Vec<mpsc::Sender<Waiting>>,
    room: Arc<Semaphore>,
}

impl Queues {
    pub(super) fn start(shards: ShardCount, epoch: &[u8], lines: &Arc<Lines>) -> Self {
        let inboxes = shards.all().map(|shard| {
            let (inbox, queue) = mpsc::channel(QUEUE_COMMITS_MAX);
            // Ends with the last sender, hence with the store.
            tokio::spawn(send_all(shard, epoch.to_vec(), lines.clone(), queue));
            inbox
        });
        Self { inboxes: inboxes.collect(), room: Arc::new(Semaphore::new(QUEUE_KIB_MAX)) }
    }

    pub(super) async fn commit(&self, commit: Commit) -> Answer {
        let full = || CommitError::Unavailable("too many commits are waiting for Redis".into());
        let kib = u32::try_from(commit.bytes.len() / 1024 + 1).map_err(|_| full())?;
        let room = self.room.clone().try_acquire_many_owned(kib).map_err(|_| full())?;
        let inbox = &self.inboxes[usize::from(commit.key.shard().0)];
        let (answer, answered) = oneshot::channel();
        inbox.try_send(Waiting { commit, answer, _room: room }).map_err(|_| full())?;
        let lost = |_| CommitError::Unknown("the task that sends commits has ended".into());
        answered.await.map_err(lost)?
    }
}

async fn send_all(
    shard: Shard,
    epoch: Vec<u8>,
    lines: Arc<Lines>,
    mut queue: mpsc::Receiver<Waiting>,
) {
    let mut waiting = Vec::with_capacity(BATCH_COMMITS_MAX);
    loop {
        let room = BATCH_COMMITS_MAX - waiting.len();
        if waiting.is_empty() {
            if queue.recv_many(&mut waiting, room).await == 0 {
                return;
            }
        } else {
            waiting.extend(std::iter::from_fn(|| queue.try_recv().ok()).take(room));
        }
        // Whoever gave up waiting must not be surprised by a commit that had not even been sent.
        waiting.retain(|one| !one.answer.is_closed());
        let later = waiting.split_off(fitting(&waiting));
        let now = std::mem::replace(&mut waiting, later);
        if !now.is_empty() {
            send(shard, &epoch, &lines, now).await;
        }
    }
}

/// How many of them, from the first on, make one call.
fn fitting(waiting: &[Waiting]) -> usize {
    let mut bytes = 0;
    let fits = |one: &&Waiting| {
        bytes += one.commit.bytes.len();
        bytes <= BATCH_BYTES_MAX
    };
    waiting.iter().take_while(fits).count().max(waiting.len().min(1))
}

async fn send(shard: Shard, epoch: &[u8], lines: &Lines, waiting: Vec<Waiting>) {
    let commits = waiting.iter().map(|one| &one.commit);
    let call = batch::call(epoch, shard, commits.clone());
    let firm = batch::is_firm(commits.clone());
    let answer = if firm {
        lines.run_firm(shard, &call).await
    } else {
        lines.commits.run(&call).await.map(|answer| (answer, false))
    };
    let answers = match answer {
        Ok((answer, durable)) => batch::answers(answer, durable, commits),
        Err(failure) => batch::unanswered(failure, waiting.len()),
    };
    if answers.iter().any(batch::is_elsewhere) {
        lines.forget(shard, firm).await;
    }
    for (one, answer) in waiting.into_iter().zip(answers) {
        // A caller that is gone has no use for the answer; the record has it.
        drop(one.answer.send(answer));
    }
}
