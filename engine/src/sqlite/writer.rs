//! Who writes, and in which order?
//!
//! Authority: one thread with one connection. Callers queue and are answered one by one.
//! Invariant: what waits is written together, up to a bound, so an fsync is shared; the order of
//! the queue is the order of the commits.
//! If we crash here: what was answered is on disk; of what waited, nothing or a whole group.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use portcullis_proto::ids::Epoch;
use portcullis_proto::time::Ms;
use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::clock::Clock;
use super::group::{self, explain};
use super::lock::Lock;
use super::open::{FileId, OpenError, open_writer};
use super::work::{Failure, Task, Turn, Work};
use super::{SqliteSettings, collect};

/// A group is closed once it holds this much, in bytes.
const GROUP_BYTES_MAX: usize = 32 * 1024 * 1024;
/// How often expired rows are looked for, in milliseconds.
const TIDY_EVERY_MS: u64 = 1_000;
/// While there is more to remove: each step is a transaction with an fsync of its own, which
/// commits must not wait for after every group.
const TIDY_MORE_MS: u64 = 20;
/// An idle store's file knows the time at least this well, in milliseconds.
const SEEN_BEHIND_MS_MAX: i64 = 60_000;

/// The way to the writer thread. Dropping it lets the thread finish what waits, and joins it.
pub(super) struct Writer {
    /// Taken only on drop.
    queue: Option<Sender<Waiting>>,
    room: Arc<Semaphore>,
    thread: Option<JoinHandle<()>>,
}

struct Waiting {
    work: Box<dyn Work>,
    /// A place in the queue, free again as soon as the work is taken out.
    place: OwnedSemaphorePermit,
}

/// What the thread starts with.
pub(super) struct Desk {
    pub(super) settings: Arc<SqliteSettings>,
    pub(super) connection: Connection,
    pub(super) clock: Arc<Clock>,
    pub(super) epoch: Epoch,
    pub(super) file: FileId,
    pub(super) seen: Ms,
    pub(super) swapped: Arc<AtomicBool>,
    pub(super) lock: Lock,
}

impl Writer {
    pub(super) fn start(desk: Desk) -> Result<Self, OpenError> {
        // Bounded by `room`: a place is taken before the queue is.
        let (queue, waiting) = channel();
        let places = desk.settings.commit_queue_max.clamp(1, Semaphore::MAX_PERMITS);
        let room = Arc::new(Semaphore::new(places));
        let scribe = Scribe::new(desk);
        let thread = std::thread::Builder::new()
            .name("sqlite-writer".to_owned())
            .spawn(move || scribe.run(&waiting))
            .map_err(OpenError::NoThread)?;
        Ok(Self { queue: Some(queue), room, thread: Some(thread) })
    }

    /// Does `act` in the next group. Waits while the queue is full; a caller that goes away then
    /// leaves nothing behind, one that goes away later does not take its work back.
    pub(super) async fn ask<T, E>(
        &self,
        bytes: usize,
        act: impl FnOnce(&mut Turn<'_>) -> rusqlite::Result<Result<T, E>> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Failure> + Send + 'static,
    {
        let stopped = || "the store's writer has stopped: restart the process".to_owned();
        let unavailable = || E::from(Failure::Unavailable(stopped()));
        let Ok(place) = Arc::clone(&self.room).acquire_owned().await else {
            return Err(unavailable());
        };
        let (work, answered) = Task::asked(bytes, act);
        let Some(Ok(())) = self.queue.as_ref().map(|queue| queue.send(Waiting { work, place }))
        else {
            return Err(unavailable());
        };
        answered.await.unwrap_or_else(|_| Err(E::from(Failure::Unknown(stopped()))))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the store's writer had panicked");
        }
    }
}

/// The thread's side.
struct Scribe {
    settings: Arc<SqliteSettings>,
    /// `None` after an error that left it in doubt; then the next group opens a new one.
    connection: Option<Connection>,
    clock: Arc<Clock>,
    epoch: Epoch,
    file: FileId,
    path: PathBuf,
    /// The highest time that the file holds.
    seen: Ms,
    swapped: Arc<AtomicBool>,
    tidied: Ms,
    more_to_tidy: bool,
    /// Released last, when the connection is closed.
    _lock: Lock,
}

impl Scribe {
    fn new(desk: Desk) -> Self {
        Self {
            path: desk.settings.path.clone(),
            settings: desk.settings,
            connection: Some(desk.connection),
            tidied: desk.clock.now(),
            clock: desk.clock,
            epoch: desk.epoch,
            file: desk.file,
            seen: desk.seen,
            swapped: desk.swapped,
            more_to_tidy: false,
            _lock: desk.lock,
        }
    }

    fn run(mut self, queue: &Receiver<Waiting>) {
        loop {
            match queue.recv_timeout(Duration::from_millis(self.tidy_pause_ms())) {
                Ok(first) => {
                    let group = gather(first, queue, self.settings.group_max);
                    self.write(group);
                }
                Err(RecvTimeoutError::Timeout) => self.notice_swap(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.tidy();
        }
        self.note_time(0);
    }

    fn write(&mut self, mut group: Vec<Box<dyn Work>>) {
        let outcome = self.try_write(&mut group);
        if let Err(failure) = &outcome {
            tracing::warn!(commits = group.len(), ?failure, "a group of commits failed");
        }
        for work in group {
            work.settle(&outcome);
        }
    }

    fn try_write(&mut self, group: &mut [Box<dyn Work>]) -> Result<(), Failure> {
        self.notice_swap();
        if self.swapped.load(Ordering::Acquire) {
            return Err(Failure::Swapped);
        }
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                open_writer(&self.settings).map_err(|why| Failure::Unavailable(explain(&why)))?
            }
        };
        let outcome = group::run(&connection, &self.clock, self.epoch, group);
        // A transaction that would not be taken back goes with its connection.
        if connection.is_autocommit() {
            self.connection = Some(connection);
        }
        if outcome == Err(Failure::Swapped) {
            self.swapped.store(true, Ordering::Release);
        }
        self.seen = self.seen.max(outcome?.unwrap_or(self.seen));
        Ok(())
    }

    /// A file that was moved away or replaced takes writes, and loses them.
    fn notice_swap(&self) {
        if FileId::of(&self.path).is_ok_and(|file| file == self.file) {
            return;
        }
        if !self.swapped.swap(true, Ordering::AcqRel) {
            tracing::error!(path = %self.path.display(), "the store's file was moved or replaced");
        }
    }

    const fn tidy_pause_ms(&self) -> u64 {
        if self.more_to_tidy { TIDY_MORE_MS } else { TIDY_EVERY_MS }
    }

    fn tidy(&mut self) {
        let now = self.clock.now();
        if now.since(self.tidied) < self.tidy_pause_ms().cast_signed() {
            return;
        }
        self.tidied = now;
        self.more_to_tidy = false;
        if self.swapped.load(Ordering::Acquire) {
            return;
        }
        self.note_time(SEEN_BEHIND_MS_MAX);
        if let Some(connection) = &self.connection {
            match collect::step(connection, now) {
                Ok(more) => self.more_to_tidy = more,
                Err(why) => tracing::warn!(%why, "expired rows stay for now"),
            }
        }
    }

    /// Keeps the highest time seen, also when nothing was committed for long.
    fn note_time(&mut self, behind_ms_max: i64) {
        let now = self.clock.now();
        if now.since(self.seen) <= behind_ms_max || self.swapped.load(Ordering::Acquire) {
            return;
        }
        let Some(connection) = &self.connection else { return };
        match connection.execute("UPDATE meta SET v = max(v, ?1) WHERE k = 'hw'", [now.0]) {
            Ok(_) => self.seen = now,
            Err(why) => tracing::warn!(%why, "the highest time seen is not kept for now"),
        }
    }
}

/// Takes out what waits, up to both bounds of a group.
fn gather(first: Waiting, queue: &Receiver<Waiting>, group_max: usize) -> Vec<Box<dyn Work>> {
    let mut bytes = 0;
    let mut group = Vec::new();
    let mut next = Some(first);
    while let Some(Waiting { work, place }) = next {
        drop(place);
        bytes += work.bytes();
        group.push(work);
        let full = group_max <= group.len() || GROUP_BYTES_MAX <= bytes;
        next = if full { None } else { queue.try_recv().ok() };
    }
    group
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::CommitError;

    /// How `count` pieces of work of `bytes` each are grouped.
    fn groups(count: usize, bytes: usize, group_max: usize) -> Vec<usize> {
        let room = Arc::new(Semaphore::new(count));
        let (queue, waiting) = channel();
        for _ in 0..count {
            let (work, _) = Task::asked(bytes, |_| Ok(Ok::<(), CommitError>(())));
            let place = Arc::clone(&room).try_acquire_owned().unwrap();
            queue.send(Waiting { work, place }).unwrap();
        }
        let mut groups = Vec::new();
        while let Ok(first) = waiting.try_recv() {
            groups.push(gather(first, &waiting, group_max).len());
        }
        assert_eq!(room.available_permits(), count, "every place is free again");
        groups
    }

    #[test]
    fn a_group_takes_what_waits_up_to_its_bounds() {
        assert_eq!(groups(3, 1, 512), [3]);
        assert_eq!(groups(10, 1, 4), [4, 4, 2]);
        assert_eq!(groups(5, GROUP_BYTES_MAX / 2, 512), [2, 2, 1]);
        assert_eq!(groups(2, GROUP_BYTES_MAX + 1, 512), [1, 1]);
    }
}
