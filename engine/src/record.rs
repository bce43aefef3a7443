//! How a run is kept: its control state and the last of its history, compressed, under a format.
//!
//! Authority: the store holds the bytes; this is the only place that reads or writes them.
//! Invariant: every format ever written stays readable, and so a dictionary is never edited:
//! another one is another format. Unreadable bytes are an error, never an empty run.

use std::cell::RefCell;
use std::sync::LazyLock;

use bytes::Bytes;
use portcullis_proto::journal::Entry;
use portcullis_proto::quote::told;
use portcullis_proto::run::Run;
use serde::{Deserialize, Serialize};

/// How many journal entries travel with the record; all of them are in the feed.
pub const HISTORY_MAX: usize = 64;
/// First byte of a record: JSON, compressed with Zstandard.
const FORMAT_ZSTD_JSON: u8 = 1;
/// The same, with [`DICTIONARY`] as what came before. The two digest-laden kilobytes of a parked
/// run shrink to a third of what they take without it, at a third of the time.
const FORMAT_ZSTD_JSON_DICTIONARY: u8 = 2;
const ZSTD_LEVEL: i32 = 1;
/// What records look like: runs of every kind, as JSON, the most frequent ones last.
static DICTIONARY: &[u8] = include_bytes!("record/dictionary.json");
/// Room for the JSON of most records, so that it need not be moved while it grows.
const USUAL_BYTES: usize = 4 * 1_024;
/// A record decompresses to at most this many bytes.
const PLAIN_BYTES_MAX: usize = 64 * 1024 * 1024;

thread_local! {
    /// Compressing needs some hundred KiB of tables; each thread keeps its own.
    static COMPRESSOR: RefCell<zstd::bulk::Compressor<'static>> = RefCell::new(compressor());
    static DECOMPRESSOR: RefCell<zstd::bulk::Decompressor<'static>> = RefCell::new(decompressor());
}

fn compressor() -> zstd::bulk::Compressor<'static> {
    static PREPARED: LazyLock<zstd::dict::EncoderDictionary<'static>> =
        LazyLock::new(|| zstd::dict::EncoderDictionary::copy(DICTIONARY, ZSTD_LEVEL));
    let prepared = zstd::bulk::Compressor::with_prepared_dictionary(&PREPARED);
    let mut compressor = prepared.expect("only a lack of memory prevents it");
    // The record says its length itself.
    compressor.include_contentsize(false).expect("a setting that every release has");
    compressor
}

fn decompressor() -> zstd::bulk::Decompressor<'static> {
    static PREPARED: LazyLock<zstd::dict::DecoderDictionary<'static>> =
        LazyLock::new(|| zstd::dict::DecoderDictionary::copy(DICTIONARY));
    let prepared = zstd::bulk::Decompressor::with_prepared_dictionary(&PREPARED);
    prepared.expect("only a lack of memory prevents it")
}

/// Why stored bytes are no run.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("the record is empty")]
    Empty,
    #[error("records of format {0} are not known to this release")]
    UnknownFormat(u8),
    #[error("the record does not decompress: {0}")]
    Compression(std::io::Error),
    #[error("the record is not a run: {}", told(.0))]
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
    pub fn after(previous: Option<&Self>, run: Run, journal: Vec<Entry>) -> Self {
        let known = previous.map_or(&[][..], |record| &record.history);
        let mut history = Vec::with_capacity(known.len() + journal.len());
        let mut earlier = previous.map_or(0, |record| record.earlier);
        history.extend_from_slice(known);
        history.extend(journal);
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
        let mut json = Vec::with_capacity(USUAL_BYTES);
        serde_json::to_writer(&mut json, self)?;
        let packed = COMPRESSOR.with_borrow_mut(|compressor| compressor.compress(&json));
        let packed = packed.map_err(RecordError::Compression)?;
        let mut bytes = Vec::with_capacity(5 + packed.len());
        bytes.push(FORMAT_ZSTD_JSON_DICTIONARY);
        bytes.extend_from_slice(&u32::try_from(json.len()).unwrap_or(u32::MAX).to_be_bytes());
        bytes.extend_from_slice(&packed);
        Ok(bytes.into())
    }

    /// # Errors
    /// When the bytes are of no known format, or not a run.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        match bytes {
            [] => Err(RecordError::Empty),
            [FORMAT_ZSTD_JSON_DICTIONARY, a, b, c, d, packed @ ..] => {
                let capacity = plain_bytes([*a, *b, *c, *d]);
                let json = DECOMPRESSOR.with_borrow_mut(|known| known.decompress(packed, capacity));
                Ok(serde_json::from_slice(&json.map_err(RecordError::Compression)?)?)
            }
            [FORMAT_ZSTD_JSON, a, b, c, d, packed @ ..] => {
                let json = zstd::bulk::decompress(packed, plain_bytes([*a, *b, *c, *d]));
                Ok(serde_json::from_slice(&json.map_err(RecordError::Compression)?)?)
            }
            [format, ..] => Err(RecordError::UnknownFormat(*format)),
        }
    }
}

/// How much room a record needs that claims this length.
fn plain_bytes(claimed: [u8; 4]) -> usize {
    usize::try_from(u32::from_be_bytes(claimed)).unwrap_or(usize::MAX).min(PLAIN_BYTES_MAX)
}

#[cfg(test)]
mod tests;
