//! May this file be used as a store, and how is it opened?
//!
//! Authority: the file's own `application_id` and schema version.
//! Invariant: a file of a newer release, or of another program, is refused before anything in it
//! is changed. An older one is brought up to date in one transaction.
//! If we crash here: a new file is empty or complete; an old one is of its old version or of ours.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use portcullis_proto::ids::Epoch;
use portcullis_proto::time::Ms;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, TransactionBehavior, params};

use super::SqliteSettings;

/// Marks a database file as ours: "PORT".
const APPLICATION_ID: i32 = 0x504f_5254;
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// What each schema version adds to the one before; the last one is ours.
const STEPS: &[&str] = &[include_str!("schema/1.sql")];
/// How long another program (an `sqlite3` shell) may hold the file before a write is given up.
const BUSY_MS_MAX: u64 = 2_000;
/// Statements kept prepared on each connection; there are about forty in all.
const STATEMENTS_MAX: usize = 64;

/// Why a database file cannot be a store.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(
        "the store {} is in use by {}: only one process may open it. Let `portcullis` talk to \
         that process through its API, or stop it first",
        path.display(), pid.map_or("another process".to_owned(), |pid| format!("process {pid}"))
    )]
    InUse { path: PathBuf, pid: Option<u32> },
    #[error(
        "{} cannot be written: {why}. Make it writable for this user, or choose another place in \
         `store.url`",
        path.display()
    )]
    NotWritable { path: PathBuf, why: std::io::Error },
    #[error(
        "{} cannot be locked: {why}. The store needs a local file system with file locks",
        path.display()
    )]
    NoLocks { path: PathBuf, why: std::io::Error },
    #[error(
        "{} is not an SQLite database: {why}. Restore a backup, or choose another file in \
         `store.url`",
        path.display()
    )]
    NotADatabase { path: PathBuf, why: String },
    #[error(
        "{} is a database of another program. Choose another file in `store.url`",
        path.display()
    )]
    Foreign { path: PathBuf },
    #[error(
        "{} has schema version {found}, this release knows versions up to {known}. Start the \
         release that wrote it, or a later one; the file was not changed",
        path.display()
    )]
    Newer { path: PathBuf, found: i64, known: i64 },
    #[error(
        "{} is damaged: {why}. Restore a backup; what is still readable can be saved with \
         `sqlite3 {} .recover`",
        path.display(), path.display()
    )]
    Damaged { path: PathBuf, why: String },
    #[error(
        "{} cannot be kept in write-ahead mode (SQLite chose `{mode}`). The store needs a local \
         file system",
        path.display()
    )]
    NoWal { path: PathBuf, mode: String },
    #[error("{} cannot be opened: {why}", path.display())]
    Sqlite { path: PathBuf, why: rusqlite::Error },
    #[error("the operating system gave no random bytes for the epoch of a new store: {0}")]
    NoRandom(String),
    #[error("a thread of the store cannot be started: {0}")]
    NoThread(std::io::Error),
}

impl OpenError {
    fn of(path: &Path, why: rusqlite::Error) -> Self {
        let path = path.to_owned();
        match why.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt) => Self::Damaged { path, why: why.to_string() },
            Some(ErrorCode::NotADatabase) => Self::NotADatabase { path, why: why.to_string() },
            Some(_) | None => Self::Sqlite { path, why },
        }
    }
}

/// Which file a path names. It changes when the file is moved away or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    pub(super) fn of(path: &Path) -> std::io::Result<Self> {
        let metadata = std::fs::metadata(path)?;
        Ok(Self { device: metadata.dev(), inode: metadata.ino() })
    }
}

/// What the file says about itself once it is open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    pub(super) epoch: Epoch,
    pub(super) seen: Ms,
    pub(super) file: FileId,
}

/// Makes the folder of a database (only its owner may enter), unless there is one.
pub(super) fn prepare_folder(path: &Path) -> Result<(), OpenError> {
    let Some(folder) = path.parent() else { return Ok(()) };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|why| OpenError::NotWritable { path: folder.to_owned(), why })
}

/// Checks the file, makes or updates its schema, and returns the writer's connection.
pub(super) fn open_store(settings: &SqliteSettings) -> Result<(Connection, Facts), OpenError> {
    let path = &settings.path;
    prepare_file(path)?;
    refuse_strangers(path, open_reader)?;
    let of = |why| OpenError::of(path, why);
    let mut connection = open_writer(settings).map_err(of)?;
    let mode: String =
        connection.pragma_query_value(None, "journal_mode", |row| row.get(0)).map_err(of)?;
    if mode != "wal" {
        return Err(OpenError::NoWal { path: path.clone(), mode });
    }
    let mut epoch = [0; 16];
    getrandom::fill(&mut epoch).map_err(|why| OpenError::NoRandom(why.to_string()))?;
    migrate(&mut connection, STEPS, Epoch(epoch), Ms((settings.clock)())).map_err(of)?;
    let facts = facts(&connection, path)?;
    Ok((connection, facts))
}

/// The file is made before SQLite would, so that it is never readable for others.
fn prepare_file(path: &Path) -> Result<(), OpenError> {
    let not_writable = |why| OpenError::NotWritable { path: path.to_owned(), why };
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(not_writable)?;
    let metadata = file.metadata().map_err(not_writable)?;
    if metadata.len() != 0 {
        check_magic(path, &mut file)?;
    }
    if metadata.permissions().mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600)).map_err(not_writable)?;
    }
    Ok(())
}

fn check_magic(path: &Path, file: &mut File) -> Result<(), OpenError> {
    let mut head = [0; MAGIC.len()];
    let why = match file.read_exact(&mut head) {
        Ok(()) if head == *MAGIC => return Ok(()),
        Ok(()) => "its first bytes are wrong".to_owned(),
        Err(why) => why.to_string(),
    };
    Err(OpenError::NotADatabase { path: path.to_owned(), why })
}

/// Through a connection that cannot write, so a file that is refused stays as it is.
pub(super) fn refuse_strangers(
    path: &Path,
    open: fn(&Path) -> rusqlite::Result<Connection>,
) -> Result<(), OpenError> {
    let of = |why| OpenError::of(path, why);
    let connection = open(path).map_err(of)?;
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(of)?;
    if tables == 0 {
        return Ok(());
    }
    let id: i32 =
        connection.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(of)?;
    if id != APPLICATION_ID {
        return Err(OpenError::Foreign { path: path.to_owned() });
    }
    let found = schema_version(&connection).map_err(of)?;
    let known = STEPS.len() as i64;
    if known < found {
        return Err(OpenError::Newer { path: path.to_owned(), found, known });
    }
    Ok(())
}

fn schema_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("SELECT v FROM meta WHERE k = 'schema_version'", [], |row| row.get(0))
}

/// A connection of the writer thread: the only one that writes, and the only one that checkpoints.
pub(super) fn open_writer(settings: &SqliteSettings) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(&settings.path, flags)?;
    connection.busy_timeout(Duration::from_millis(BUSY_MS_MAX))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    connection.pragma_update(None, "page_size", settings.page_bytes)?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    // Every commit is on disk before it is answered.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", settings.checkpoint_pages)?;
    // After a burst the file of the write-ahead log shrinks again.
    connection.pragma_update(None, "journal_size_limit", settings.wal_bytes_kept)?;
    connection.pragma_update(None, "cache_size", -i64::from(settings.cache_kib))?;
    connection.pragma_update(None, "trusted_schema", false)?;
    if let Some(limit) = settings.size_bytes_max {
        let page: i64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
        let pages = i64::try_from(limit).unwrap_or(i64::MAX) / page;
        connection.pragma_update_and_check(None, "max_page_count", pages.max(1), |_| Ok(()))?;
    }
    Ok(connection)
}

/// A connection that only reads.
pub(super) fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(Duration::from_millis(BUSY_MS_MAX))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    connection.pragma_update(None, "trusted_schema", false)?;
    Ok(connection)
}

/// Brings the schema up to the last of `steps`, in one transaction. A new store gets `epoch`.
fn migrate(
    connection: &mut Connection,
    steps: &[&str],
    epoch: Epoch,
    now: Ms,
) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let made = transaction
        .query_row("SELECT 1 FROM sqlite_schema WHERE name = 'meta'", [], |_| Ok(()))
        .optional()?
        .is_some();
    let from = if made { schema_version(&transaction)? } else { 0 };
    let from = usize::try_from(from).unwrap_or(usize::MAX);
    if steps.len() <= from {
        return Ok(());
    }
    for step in &steps[from..] {
        transaction.execute_batch(step)?;
    }
    let mut set = transaction.prepare("INSERT OR REPLACE INTO meta (k, v) VALUES (?1, ?2)")?;
    if !made {
        set.execute(params!["epoch", epoch.0])?;
        set.execute(params!["hw", now.0])?;
        set.execute(params!["policy_epoch", 0])?;
        set.execute(params!["turns", 0])?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    }
    set.execute(params!["schema_version", steps.len() as i64])?;
    drop(set);
    transaction.commit()
}

fn facts(connection: &Connection, path: &Path) -> Result<Facts, OpenError> {
    let damaged = |why: String| OpenError::Damaged { path: path.to_owned(), why };
    let epoch = connection
        .query_row("SELECT v FROM meta WHERE k = 'epoch'", [], |row| row.get::<_, [u8; 16]>(0))
        .map_err(|why| damaged(format!("it has no epoch ({why})")))?;
    let seen = connection
        .query_row("SELECT v FROM meta WHERE k = 'hw'", [], |row| row.get(0))
        .map_err(|why| damaged(format!("it does not know the highest time seen ({why})")))?;
    let file =
        FileId::of(path).map_err(|why| OpenError::NotWritable { path: path.to_owned(), why })?;
    Ok(Facts { epoch: Epoch(epoch), seen: Ms(seen), file })
}

/// Sets the highest time seen, also to an earlier one.
pub(super) fn set_seen(connection: &Connection, path: &Path, now: Ms) -> Result<(), OpenError> {
    connection
        .execute("UPDATE meta SET v = ?1 WHERE k = 'hw'", [now.0])
        .map(|_| ())
        .map_err(|why| OpenError::of(path, why))
}

/// A store without a file, for tests of what happens inside a transaction.
#[cfg(test)]
pub(super) fn in_memory(epoch: Epoch) -> Connection {
    let mut connection = Connection::open_in_memory().unwrap();
    migrate(&mut connection, STEPS, epoch, Ms(0)).unwrap();
    connection
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(connection: &Connection) -> i64 {
        schema_version(connection).unwrap()
    }

    #[test]
    fn an_older_schema_is_updated_and_keeps_its_epoch() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, STEPS, Epoch([1; 16]), Ms(1)).unwrap();
        let steps = [STEPS[0], "CREATE TABLE later (a INTEGER) STRICT;"];
        migrate(&mut connection, &steps, Epoch([2; 16]), Ms(2)).unwrap();
        assert_eq!(version(&connection), 2);
        let epoch: [u8; 16] = connection
            .query_row("SELECT v FROM meta WHERE k = 'epoch'", [], |row| row.get(0))
            .unwrap();
        assert_eq!(epoch, [1; 16]);
        migrate(&mut connection, &steps, Epoch([3; 16]), Ms(3)).unwrap();
        assert_eq!(version(&connection), 2);
    }

    #[test]
    fn a_failing_update_leaves_the_old_schema() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, STEPS, Epoch([1; 16]), Ms(1)).unwrap();
        let steps = [STEPS[0], "CREATE TABLE later (a INTEGER) STRICT; not SQL;"];
        migrate(&mut connection, &steps, Epoch([1; 16]), Ms(1)).unwrap_err();
        assert_eq!(version(&connection), 1);
        connection.execute_batch("CREATE TABLE later (b TEXT)").unwrap();
    }
}
