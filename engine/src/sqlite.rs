//! The store of the embedded home: one SQLite file, one process, no server.
//!
//! Authority: the file. Write-ahead log, `synchronous=FULL`: what was answered survives a power
//! cut, so every commit is firm. Time is the wall clock, made monotone by what the file has seen.
//! Invariant: same checks, same order and same answers as the Redis script; one shard, `s00`.
//! Only the writer thread writes or checkpoints, and only one process has the file open.
//! If we crash here: commits that were not answered happened whole or not at all, and sending the
//! same operation again tells which.

mod clock;
mod collect;
mod commit;
mod examine;
mod group;
mod lock;
mod open;
mod readers;
mod reads;
mod work;
mod writer;

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering as Memory};

use async_trait::async_trait;
use bytes::Bytes;
use portcullis_proto::digest::Digest;
use portcullis_proto::ids::{Epoch, Shard, ShardCount};
use portcullis_proto::time::Ms;
use rusqlite::Connection;

use self::clock::Clock;
pub use self::clock::{WallClock, wall_clock};
pub use self::examine::look;
use self::lock::Lock;
pub use self::open::OpenError;
use self::readers::Readers;
use self::work::Turn;
use self::writer::{Desk, Writer};
use crate::ports::{
    BLOB_BYTES_MAX, Blobs, Commit, CommitError, Committed, DuePage, Feed, FeedCursor, FeedEntry,
    IndexEntry, Installation, Loaded, Order, RECORD_BYTES_MAX, RecordKey, Shape, Store, StoreError,
};

/// The one shard there is.
const ONLY_SHARD: Shard = Shard(0);

/// How a store is opened. [`SqliteSettings::new`] has the defaults.
pub struct SqliteSettings {
    /// The database file. Beside it: `-wal`, `-shm` and `.lock`.
    pub path: PathBuf,
    pub clock: WallClock,
    /// Commits that may wait for the writer; more wait for a place. Default 4096.
    pub commit_queue_max: usize,
    /// Commits that may share an fsync. Default 512.
    pub group_max: usize,
    /// Threads that read. Default 2.
    pub readers: usize,
    /// The write-ahead log is copied into the file once it has this many pages. Default 4000.
    pub checkpoint_pages: u32,
    /// What the write-ahead log shrinks back to after a burst, in bytes. Default 64 MiB.
    pub wal_bytes_kept: i64,
    /// The page size of a new file, in bytes; a power of two. Default 4096.
    pub page_bytes: u32,
    /// Page cache of the writer, in KiB. Default 16 MiB.
    pub cache_kib: u32,
    /// The longest the file may grow, in bytes, without its write-ahead log. Default: no limit.
    pub size_bytes_max: Option<u64>,
}

impl SqliteSettings {
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            clock: wall_clock(),
            commit_queue_max: 4_096,
            group_max: 512,
            readers: 2,
            checkpoint_pages: 4_000,
            wal_bytes_kept: 64 * 1024 * 1024,
            page_bytes: 4_096,
            cache_kib: 16 * 1024,
            size_bytes_max: None,
        }
    }
}

/// The store, its feed, its blobs and its installation in one file.
///
/// Dropping the last reference finishes what waits and closes the file.
pub struct SqliteStore {
    settings: Arc<SqliteSettings>,
    clock: Arc<Clock>,
    epoch: Epoch,
    /// The file was moved or replaced under this process.
    swapped: Arc<AtomicBool>,
    readers: Readers,
    writer: Writer,
}

impl SqliteStore {
    /// Opens the store, making its folder, file and schema if there are none. Blocks for the disk.
    ///
    /// # Errors
    /// When the file is in use, cannot be written, is not a store, or is one of a newer release.
    pub fn open(mut settings: SqliteSettings) -> Result<Arc<Self>, OpenError> {
        let lock = Self::take(&mut settings)?;
        let (connection, facts) = open::open_store(&settings)?;
        let settings = Arc::new(settings);
        let clock = Arc::new(Clock::starting_at(facts.seen, Arc::clone(&settings.clock)));
        let swapped = Arc::new(AtomicBool::new(false));
        let writer = Writer::start(Desk {
            settings: Arc::clone(&settings),
            connection,
            clock: Arc::clone(&clock),
            epoch: facts.epoch,
            file: facts.file,
            seen: facts.seen,
            swapped: Arc::clone(&swapped),
            lock,
        })?;
        let readers = Readers::start(&settings.path, settings.readers)?;
        Ok(Arc::new(Self { settings, clock, epoch: facts.epoch, swapped, readers, writer }))
    }

    /// Makes a stopped store forget that its clock was ever ahead of the wall clock, and answers
    /// the times before and after. Deadlines that passed only on the wrong clock are open again.
    ///
    /// # Errors
    /// As [`Self::open`]; above all, when the store is in use.
    pub fn reset_clock(mut settings: SqliteSettings) -> Result<(Ms, Ms), OpenError> {
        let _lock = Self::take(&mut settings)?;
        let (connection, facts) = open::open_store(&settings)?;
        let now = Ms((settings.clock)());
        open::set_seen(&connection, &settings.path, now)?;
        Ok((facts.seen, now))
    }

    fn take(settings: &mut SqliteSettings) -> Result<Lock, OpenError> {
        // Absolute, so that it stays the same file whatever becomes of the working directory.
        settings.path = std::path::absolute(&settings.path)
            .map_err(|why| OpenError::NotWritable { path: settings.path.clone(), why })?;
        open::prepare_folder(&settings.path)?;
        lock::take(&settings.path)
    }

    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection, &Clock) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        if self.swapped.load(Memory::Acquire) {
            return Err(StoreError::Epoch);
        }
        let (clock, epoch) = (Arc::clone(&self.clock), self.epoch);
        self.readers
            .ask(move |connection| {
                let found = read(connection, &clock);
                // Asked last: a store that was emptied before the question must not answer "none".
                if group::epoch_of(connection)? == Some(epoch) {
                    found
                } else {
                    Err(StoreError::Epoch)
                }
            })
            .await
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn load(&self, key: &RecordKey) -> Result<Loaded, StoreError> {
        let key = key.clone();
        self.read(move |connection, clock| reads::load(connection, clock, &key)).await
    }

    async fn commit(&self, commit: Commit) -> Result<Committed, CommitError> {
        let bytes = commit.bytes.len();
        if RECORD_BYTES_MAX < bytes {
            return Err(CommitError::TooLarge { bytes });
        }
        // A record of another shard belongs to another installation.
        if commit.key.shard() != ONLY_SHARD {
            return Err(CommitError::Epoch);
        }
        self.writer.ask(bytes, move |turn| commit::perform(turn, &commit)).await
    }

    async fn due(
        &self,
        shard: Shard,
        until: Ms,
        offset: usize,
        limit: usize,
    ) -> Result<DuePage, StoreError> {
        if shard != ONLY_SHARD {
            return Ok(DuePage { entries: Vec::new(), now: self.clock.now() });
        }
        self.read(move |connection, clock| reads::due(connection, clock, until, offset, limit))
            .await
    }

    async fn list(
        &self,
        shard: Shard,
        index: &str,
        range: RangeInclusive<Ms>,
        order: Order,
        limit: usize,
    ) -> Result<Vec<IndexEntry>, StoreError> {
        if shard != ONLY_SHARD {
            return Ok(Vec::new());
        }
        let (index, range) = (index.to_owned(), range.into_inner());
        self.read(move |connection, _| reads::list(connection, &index, range, order, limit)).await
    }

    async fn count(&self, index: &str) -> Result<u64, StoreError> {
        let index = index.to_owned();
        self.read(move |connection, _| reads::count(connection, &index)).await
    }

    async fn now(&self) -> Result<Ms, StoreError> {
        self.read(|_, clock| Ok(clock.now())).await
    }
}

#[async_trait]
impl Feed for SqliteStore {
    async fn end(&self, shard: Shard) -> Result<FeedCursor, StoreError> {
        if shard != ONLY_SHARD {
            return Ok(FeedCursor("0".to_owned()));
        }
        self.read(|connection, _| reads::feed_end(connection)).await
    }

    async fn after(
        &self,
        shard: Shard,
        cursor: &FeedCursor,
        limit: usize,
    ) -> Result<Vec<FeedEntry>, StoreError> {
        if shard != ONLY_SHARD {
            return Ok(Vec::new());
        }
        let cursor = cursor.clone();
        self.read(move |connection, _| reads::feed_after(connection, &cursor, limit)).await
    }
}

#[async_trait]
impl Blobs for SqliteStore {
    async fn put(&self, shard: Shard, bytes: Bytes, keep_ms: i64) -> Result<Digest, StoreError> {
        let length = bytes.len();
        if BLOB_BYTES_MAX < length {
            return Err(StoreError::TooLarge {
                what: "a blob",
                bytes: length,
                max: BLOB_BYTES_MAX,
            });
        }
        if shard != ONLY_SHARD {
            return Err(StoreError::Epoch);
        }
        let hashed = bytes.clone();
        let digest = tokio::task::spawn_blocking(move || Digest::of_bytes(&hashed))
            .await
            .map_err(|why| StoreError::Unavailable(format!("a blob was not hashed: {why}")))?;
        let put = move |turn: &mut Turn<'_>| commit::put_blob(turn, digest, &bytes, keep_ms);
        self.writer.ask(length, put).await
    }

    async fn get(&self, shard: Shard, digest: Digest) -> Result<Option<Bytes>, StoreError> {
        if shard != ONLY_SHARD {
            return Ok(None);
        }
        self.read(move |connection, clock| reads::blob(connection, clock, digest)).await
    }
}

#[async_trait]
impl Installation for SqliteStore {
    fn shape(&self) -> Shape {
        let shards = ShardCount::new(1).expect("one is a shard count");
        Shape { shards, epoch: self.epoch }
    }

    async fn policy_epoch(&self) -> Result<u64, StoreError> {
        self.read(|connection, _| reads::policy_epoch(connection)).await
    }

    async fn raise_policy_epoch(&self) -> Result<u64, StoreError> {
        self.writer.ask(0, commit::raise_policy_epoch).await
    }
}
