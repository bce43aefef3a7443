//! Is this process the only one that has the database open?
//!
//! Authority: the operating system's lock on `<database>.lock`. It goes with the process, however
//! that dies; the file itself stays and means nothing.
//! Invariant: claims, wakes and the clock's high water live in one process, so there is one.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::open::OpenError;

/// The longest process id that is read from a lock file, in bytes.
const PID_BYTES_MAX: u64 = 20;

/// The lock, held until this is dropped.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

/// Takes the lock of a database, or says who holds it.
pub(super) fn take(database: &Path) -> Result<Lock, OpenError> {
    let path = lock_path(database);
    let not_writable = |why| OpenError::NotWritable { path: path.clone(), why };
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(not_writable)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(OpenError::InUse { path: database.to_owned(), pid: holder(&mut file) });
        }
        Err(TryLockError::Error(why)) => return Err(OpenError::NoLocks { path, why }),
    }
    note_pid(&mut file).map_err(not_writable)?;
    Ok(Lock { _file: file })
}

fn lock_path(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(".lock");
    path.into()
}

/// For the other process's message only; nothing is decided by it.
fn note_pid(file: &mut File) -> std::io::Result<()> {
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    writeln!(file, "{}", std::process::id())
}

fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(PID_BYTES_MAX).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
