//! Where a value is kept: short ones in the record, long ones by content beside it.

use bytes::Bytes;
use portcullis_proto::ids::RunId;
use portcullis_proto::job::{CAP_MS_CEILING, INLINE_BYTES_MAX, Payload};
use portcullis_proto::run::RETAIN_MS;
use serde_json::Value;

use crate::drive::Engine;
use crate::ports::{BLOB_BYTES_MAX, StoreError};

/// Longer than any run that may refer to a blob: its queue time, its cap, its retention.
const KEEP_MS: i64 = CAP_MS_CEILING + RETAIN_MS + 3 * 24 * 3_600_000;
const ZSTD_LEVEL: i32 = 1;
/// A stored value decompresses to at most this many bytes.
pub const VALUE_BYTES_MAX: usize = 8 * 1024 * 1024;

impl Engine {
    /// Keeps a value for a run: inline up to [`INLINE_BYTES_MAX`] bytes of JSON, else stored.
    ///
    /// # Errors
    /// When it is longer than [`VALUE_BYTES_MAX`], or the store cannot take it.
    pub async fn keep(&self, run: &RunId, value: Value) -> Result<Payload, StoreError> {
        let json = value.to_string();
        if json.len() <= INLINE_BYTES_MAX {
            return Ok(Payload::Inline(value));
        }
        if VALUE_BYTES_MAX < json.len() {
            let (what, bytes, max) = ("a value", json.len(), VALUE_BYTES_MAX);
            return Err(StoreError::TooLarge { what, bytes, max });
        }
        let packed = zstd::bulk::compress(json.as_bytes(), ZSTD_LEVEL)
            .map_err(|why| StoreError::Unavailable(format!("out of memory: {why}")))?;
        debug_assert!(packed.len() <= BLOB_BYTES_MAX, "bounded above");
        let digest = self.store.put(run.shard(), Bytes::from(packed), KEEP_MS).await?;
        Ok(Payload::Stored { digest, bytes: json.len() as u64 })
    }

    /// The value behind a payload.
    ///
    /// # Errors
    /// When the store cannot be read, or no longer has it.
    pub async fn fetch(&self, run: &RunId, payload: &Payload) -> Result<Value, StoreError> {
        let (digest, bytes) = match payload {
            Payload::Inline(value) => return Ok(value.clone()),
            Payload::Stored { digest, bytes } => (*digest, *bytes),
        };
        let packed = self.store.get(run.shard(), digest).await?;
        let packed =
            packed.ok_or_else(|| StoreError::Corrupt(format!("value {digest} is gone")))?;
        let capacity = usize::try_from(bytes).unwrap_or(usize::MAX).min(VALUE_BYTES_MAX);
        let corrupt = |why: String| StoreError::Corrupt(format!("value {digest}: {why}"));
        let json = zstd::bulk::decompress(&packed, capacity).map_err(|e| corrupt(e.to_string()))?;
        serde_json::from_slice(&json).map_err(|e| corrupt(e.to_string()))
    }
}
