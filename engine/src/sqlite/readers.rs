//! Who reads?
//!
//! Authority: what the writer committed. A read that begins after an answer sees what it answered.
//! Invariant: a few threads with a connection each; readers never wait for the writer, nor it for
//! them.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rusqlite::{Connection, ErrorCode};
use tokio::sync::{Semaphore, oneshot};

use super::group::explain;
use super::open::{OpenError, open_reader};
use crate::ports::StoreError;

/// Reads that may wait at once; more wait for a place.
const READS_WAITING_MAX: usize = 4_096;

type Read = Box<dyn FnOnce(&Connection) + Send>;

/// The reading threads. Dropping this joins them.
pub(super) struct Readers {
    /// Taken only on drop.
    queue: Option<Sender<Read>>,
    room: Semaphore,
    threads: Vec<JoinHandle<()>>,
}

impl Readers {
    pub(super) fn start(path: &Path, count: usize) -> Result<Self, OpenError> {
        let (queue, waiting) = channel();
        let waiting = Arc::new(Mutex::new(waiting));
        let mut readers =
            Self { queue: Some(queue), room: Semaphore::new(READS_WAITING_MAX), threads: vec![] };
        for number in 0..count.max(1) {
            let connection = open_reader(path)
                .map_err(|why| OpenError::Sqlite { path: path.to_owned(), why })?;
            let waiting = Arc::clone(&waiting);
            let thread = std::thread::Builder::new()
                .name(format!("sqlite-reader-{number}"))
                .spawn(move || serve(&connection, &waiting))
                .map_err(OpenError::NoThread)?;
            readers.threads.push(thread);
        }
        Ok(readers)
    }

    pub(super) async fn ask<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let stopped = || StoreError::Unavailable("the store's readers have stopped".to_owned());
        let _place = self.room.acquire().await.map_err(|_| stopped())?;
        let (answer, answered) = oneshot::channel();
        let read: Read = Box::new(move |connection| {
            // A caller that went away needs no answer.
            drop(answer.send(read(connection)));
        });
        let queue = self.queue.as_ref().ok_or_else(stopped)?;
        queue.send(read).map_err(|_| stopped())?;
        answered.await.map_err(|_| stopped())?
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        drop(self.queue.take());
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a reader of the store had panicked");
            }
        }
    }
}

fn serve(connection: &Connection, waiting: &Mutex<Receiver<Read>>) {
    loop {
        // The lock guards the waiting for a read, not the reading.
        let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(read) = next else { return };
        read(connection);
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(why: rusqlite::Error) -> Self {
        match why.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Self::Corrupt(explain(&why))
            }
            Some(_) => Self::Unavailable(explain(&why)),
            // Not SQLite but the conversion of a value failed.
            None => Self::Corrupt(why.to_string()),
        }
    }
}
