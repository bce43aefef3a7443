//! How a run is kept: its control state and the last of its history, compressed, under a format.
//!
//! Authority: the store holds the bytes; this is the only place that reads or writes them.
//! Invariant: every format ever written stays readable. Unreadable bytes are an error, never an
//! empty run.

use bytes::Bytes;
use portcullis_proto::journal::Entry;
use portcullis_proto::run::Run;
use serde::{Deserialize, Serialize};

/// How many journal entries travel with the record; all of them are in the feed.
pub const HISTORY_MAX: usize = 64;
/// First byte of a record: JSON, compressed with Zstandard.
const FORMAT_ZSTD_JSON: u8 = 1;
const ZSTD_LEVEL: i32 = 1;
/// A record decompresses to at most this many bytes.
const PLAIN_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Why stored bytes are no run.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("the record is empty")]
    Empty,
    #[error("records of format {0} are not known to this release")]
    UnknownFormat(u8),
    #[error("the record does not decompress: {0}")]
    Compression(std::io::Error),
    #[error("the record is not a run: {0}")]
    NotARun(#[from] serde_json::Error),
}

/// A run and the last of what happened to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub run: Run,
    /// The newest [`HISTORY_MAX`] entries, oldest first.
    pub history: Vec<Entry>,
    /// How many entries came before those.
    #[serde(default)]
    pub earlier: u32,
}

impl Record {
    /// The record after a change: its entries appended, the oldest let go.
    #[must_use]
    pub fn after(previous: Option<&Self>, run: Run, journal: &[Entry]) -> Self {
        let mut history = previous.map_or_else(Vec::new, |record| record.history.clone());
        let mut earlier = previous.map_or(0, |record| record.earlier);
        history.extend_from_slice(journal);
        let surplus = history.len().saturating_sub(HISTORY_MAX);
        history.drain(..surplus);
        earlier = earlier.saturating_add(u32::try_from(surplus).expect("a few dozen"));
        Self { run, history, earlier }
    }

    /// The number of the first entry that the next change will add, counted from 0.
    #[must_use]
    pub fn next_entry(&self) -> u64 {
        u64::from(self.earlier) + self.history.len() as u64
    }

    /// # Errors
    /// When compression fails, which only lack of memory can cause.
    pub fn encode(&self) -> Result<Bytes, RecordError> {
        let json = serde_json::to_vec(self)?;
        let mut bytes = vec![FORMAT_ZSTD_JSON];
        let packed = zstd::bulk::compress(&json, ZSTD_LEVEL).map_err(RecordError::Compression)?;
        bytes.extend_from_slice(&u32::try_from(json.len()).unwrap_or(u32::MAX).to_be_bytes());
        bytes.extend_from_slice(&packed);
        Ok(bytes.into())
    }

    /// # Errors
    /// When the bytes are of no known format, or not a run.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        match bytes {
            [] => Err(RecordError::Empty),
            [FORMAT_ZSTD_JSON, a, b, c, d, packed @ ..] => {
                let plain = u32::from_be_bytes([*a, *b, *c, *d]);
                let capacity = usize::try_from(plain).unwrap_or(usize::MAX).min(PLAIN_BYTES_MAX);
                let json =
                    zstd::bulk::decompress(packed, capacity).map_err(RecordError::Compression)?;
                Ok(serde_json::from_slice(&json)?)
            }
            [format, ..] => Err(RecordError::UnknownFormat(*format)),
        }
    }
}
