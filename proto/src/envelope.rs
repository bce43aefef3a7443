//! A whole job as a message: what a trigger leaves on the broker while the store is down.
//!
//! Authority: the broker, until a scheduler has made the run's record from it.
//! Invariant: every version ever written is read, one is written, and nothing is guessed. Fields
//! this release does not know are ignored; versions and kinds it does not know are refused.
//! If we crash while holding one: it comes again, and becomes the same run.

pub mod v1;

use serde::Deserialize;

use crate::ids::{Epoch, RunId};
use crate::job::Job;
use crate::quote::{quote, told};
use crate::wake::{self, WakeError};

/// The longest body of a message on the jobs exchange, in bytes.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;

/// A job, and the installation it was accepted for: under another one it is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobEnvelope {
    pub epoch: Epoch,
    pub job: Job,
}

/// What a message on the jobs exchange says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// These runs may be runnable.
    Wake(Vec<RunId>),
    /// This is to become a run.
    Job(Box<JobEnvelope>),
}

/// Why bytes are no message this release can act on.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    #[error("a message is at most {BODY_BYTES_MAX} bytes long, this one {bytes}")]
    TooLarge { bytes: usize },
    #[error("the message is not readable: {}", told(.0))]
    Unreadable(#[from] serde_json::Error),
    #[error("job envelopes of version {0} are not known to this release")]
    UnknownVersion(u32),
    #[error("messages of kind `{}` are not known to this release", quote(.0))]
    UnknownKind(String),
    #[error(transparent)]
    Wake(#[from] WakeError),
}

/// Why a job cannot be written as a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    #[error("a message is at most {BODY_BYTES_MAX} bytes long, this one would be {bytes}")]
    TooLarge { bytes: usize },
}

#[derive(Deserialize)]
struct Peek {
    v: u32,
    kind: String,
}

fn peek(bytes: &[u8]) -> Result<Peek, DecodeError> {
    if BODY_BYTES_MAX < bytes.len() {
        return Err(DecodeError::TooLarge { bytes: bytes.len() });
    }
    Ok(serde_json::from_slice(bytes)?)
}

/// Writes the current version.
///
/// # Errors
/// When the job's input is too long for a message.
pub fn encode(envelope: &JobEnvelope) -> Result<Vec<u8>, EncodeError> {
    let body = v1::JobEnvelope::from(envelope);
    let bytes = serde_json::to_vec(&body).expect("a job is strings, numbers and JSON");
    if BODY_BYTES_MAX < bytes.len() {
        return Err(EncodeError::TooLarge { bytes: bytes.len() });
    }
    Ok(bytes)
}

/// Reads any version ever written.
///
/// # Errors
/// When it is too long, not readable, or of a kind or version that this release does not know.
pub fn decode(bytes: &[u8]) -> Result<JobEnvelope, DecodeError> {
    let Peek { v, kind } = peek(bytes)?;
    if kind != v1::KIND {
        return Err(DecodeError::UnknownKind(kind));
    }
    match v {
        1 => Ok(serde_json::from_slice::<v1::JobEnvelope>(bytes)?.into()),
        unknown => Err(DecodeError::UnknownVersion(unknown)),
    }
}

/// Reads a message that may be either kind.
///
/// # Errors
/// When it is too long, not readable, or of a kind or version that this release does not know.
pub fn classify(bytes: &[u8]) -> Result<Body, DecodeError> {
    let Peek { kind, .. } = peek(bytes)?;
    match kind.as_str() {
        wake::KIND => Ok(Body::Wake(wake::decode(bytes)?)),
        v1::KIND => Ok(Body::Job(Box::new(decode(bytes)?))),
        _ => Err(DecodeError::UnknownKind(kind)),
    }
}

#[cfg(test)]
mod tests;
