//! What a doorbell message says: «these runs may be runnable».
//!
//! Authority: the store; a wake carries ids only, so that a stale one can do no harm.
//! Invariant: readable since its first release: version 1 bodies are fixtures and never change.

use serde::{Deserialize, Serialize};

use crate::ids::RunId;
use crate::quote::{quote, told};

/// What such a message calls itself.
pub const KIND: &str = "wake";
/// How many runs one message names at most.
pub const RUNS_MAX: usize = 64;

/// Why a wake cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum WakeError {
    #[error("the wake is not readable JSON: {}", told(.0))]
    Unreadable(#[from] serde_json::Error),
    #[error("wakes of version {0} are not known to this release")]
    UnknownVersion(u32),
    #[error("a wake names 1 to {RUNS_MAX} runs, this one {0}")]
    Count(usize),
    #[error("a message of kind `{}` is no wake", quote(.0))]
    Kind(String),
}

#[derive(Serialize, Deserialize)]
struct WakeV1 {
    v: u32,
    kind: String,
    runs: Vec<RunId>,
}

/// Writes the current version.
#[must_use]
pub fn encode(runs: &[RunId]) -> Vec<u8> {
    debug_assert!(!runs.is_empty() && runs.len() <= RUNS_MAX, "the caller batches");
    let body = WakeV1 { v: 1, kind: KIND.into(), runs: runs.to_vec() };
    serde_json::to_vec(&body).expect("strings and a number are always JSON")
}

/// Reads any version ever written.
///
/// # Errors
/// When it is no wake, of an unknown version, or names no run or too many.
pub fn decode(bytes: &[u8]) -> Result<Vec<RunId>, WakeError> {
    #[derive(Deserialize)]
    struct Peek {
        v: u32,
    }
    let Peek { v } = serde_json::from_slice(bytes)?;
    if v != 1 {
        return Err(WakeError::UnknownVersion(v));
    }
    let body: WakeV1 = serde_json::from_slice(bytes)?;
    if body.kind != KIND {
        return Err(WakeError::Kind(body.kind));
    }
    if body.runs.is_empty() || RUNS_MAX < body.runs.len() {
        return Err(WakeError::Count(body.runs.len()));
    }
    Ok(body.runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_version_is_still_read() {
        let runs = decode(include_bytes!("../fixtures/wake/v1.json")).unwrap();
        assert_eq!(runs.len(), 2);
        assert_eq!(decode(&encode(&runs)).unwrap(), runs);
    }

    #[test]
    fn what_is_no_wake_is_refused() {
        for body in [
            r#"{"v":2,"kind":"wake","runs":[]}"#,
            r#"{"v":1,"kind":"wake","runs":[]}"#,
            r#"{"v":1,"kind":"job","runs":["s00-aaaaaaaaaaaaaaaaaaaaaaaaaa"]}"#,
            r#"{"v":1,"kind":"wake","runs":["nonsense"]}"#,
            "",
        ] {
            assert!(decode(body.as_bytes()).is_err(), "{body}");
        }
    }
}
