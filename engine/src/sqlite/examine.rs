//! Is the store as it should be? For `portcullis doctor`.
//!
//! Authority: SQLite's and the file system's own answers, asked now.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use portcullis_proto::time::Ms;
use rusqlite::Connection;

use super::SqliteStore;
use super::work::Turn;
use crate::ports::{CLOCK_LAG_MS_MAX, StoreError};

/// Less free space than this is worth a word, in bytes.
const FREE_BYTES_MIN: u64 = 512 * 1024 * 1024;
/// Faults that one check of the whole file names at most.
const FAULTS_MAX: i64 = 10;

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub subject: &'static str,
    pub found: String,
    /// What to do about it; `None`: it is as it should be.
    pub mend: Option<String>,
}

impl Finding {
    fn new(subject: &'static str, found: impl ToString, bad: bool, mend: &str) -> Self {
        Self { subject, found: found.to_string(), mend: bad.then(|| mend.to_owned()) }
    }
}

impl SqliteStore {
    /// Looks at journal mode, durability, permissions, free space and clock. Quick, changes
    /// nothing.
    ///
    /// # Errors
    /// When the store cannot even be asked.
    pub async fn examine(&self) -> Result<Vec<Finding>, StoreError> {
        let writer = |turn: &mut Turn<'_>| Ok(Ok::<_, StoreError>(of_connection(turn.connection)?));
        let mut findings: Vec<Finding> = self.writer.ask(0, writer).await?;
        findings.extend(of_files(&self.settings.path));
        findings.push(of_clock(self.clock.read().lag_ms, self.clock.now()));
        Ok(findings)
    }

    /// Reads the whole file and names what is damaged; nothing: it is sound. Takes seconds for a
    /// big file, during which one reader is busy.
    ///
    /// # Errors
    /// When the store cannot even be asked.
    pub async fn quick_check(&self) -> Result<Vec<Finding>, StoreError> {
        let faults = self
            .read(|connection, _| {
                let sql = format!("PRAGMA quick_check({FAULTS_MAX})");
                let mut statement = connection.prepare(&sql)?;
                let rows = statement.query_map([], |row| row.get::<_, String>(0))?;
                Ok(rows.collect::<rusqlite::Result<Vec<_>>>()?)
            })
            .await?;
        let mend = "stop the process and restore a backup";
        let damage = faults.into_iter().filter(|fault| fault != "ok");
        Ok(damage.map(|fault| Finding::new("content", fault, true, mend)).collect())
    }
}

fn of_connection(connection: &Connection) -> rusqlite::Result<Vec<Finding>> {
    let mode: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
    let sync: i64 = connection.pragma_query_value(None, "synchronous", |row| row.get(0))?;
    let pages: i64 = connection.pragma_query_value(None, "page_count", |row| row.get(0))?;
    let free: i64 = connection.pragma_query_value(None, "freelist_count", |row| row.get(0))?;
    let page: i64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
    let size = format!("{} bytes, {} of them free", pages * page, free * page);
    let mend = "a bug: answered commits may be lost in a power cut; report it";
    Ok(vec![
        Finding::new("journal mode", &mode, mode != "wal", mend),
        Finding::new("synchronous", sync, sync < 2, mend),
        Finding::new("size", size, false, ""),
    ])
}

fn of_files(path: &Path) -> Vec<Finding> {
    let mut findings = vec![of_mode("file permissions", path, "chmod 600")];
    if let Some(folder) = path.parent() {
        findings.push(of_mode("folder permissions", folder, "chmod 700"));
        findings.push(of_free_space(folder));
    }
    findings
}

fn of_mode(subject: &'static str, path: &Path, chmod: &str) -> Finding {
    let mend = format!("{chmod} {}", path.display());
    match std::fs::metadata(path) {
        Ok(metadata) => {
            let mode = metadata.permissions().mode() & 0o777;
            Finding::new(subject, format!("{mode:03o}"), mode & 0o077 != 0, &mend)
        }
        Err(why) => Finding::new(subject, why, true, &mend),
    }
}

fn of_free_space(folder: &Path) -> Finding {
    let mend = format!("free space where {} lies: a full disk stops every run", folder.display());
    match rustix::fs::statvfs(folder) {
        Ok(space) => {
            let free = space.f_bavail.saturating_mul(space.f_frsize);
            Finding::new("free space", format!("{free} bytes"), free < FREE_BYTES_MIN, &mend)
        }
        Err(why) => Finding::new("free space", why, true, &mend),
    }
}

fn of_clock(lag_ms: i64, now: Ms) -> Finding {
    let mend = "no granted call starts until the wall clock has caught up: set the system's clock; \
                if it was ahead by mistake, stop the process and reset the store's clock";
    let found = format!("store time {now}, the wall clock is {lag_ms} ms behind it");
    Finding::new("clock", found, CLOCK_LAG_MS_MAX < lag_ms, mend)
}
