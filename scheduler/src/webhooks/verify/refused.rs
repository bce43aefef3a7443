//! Why a webhook is refused, in words for the sender and a code for counting.

use super::{ID_BYTES_MAX, SIGNATURES_MAX};

/// The reason. It says nothing about secrets or about how near a signature was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A header that the scheme needs is not there.
    #[error("header `{header}` is missing")]
    HeaderMissing {
        /// Its name.
        header: &'static str,
    },
    /// Two values leave open which one is meant.
    #[error("header `{header}` is there more than once")]
    HeaderDuplicated {
        /// Its name.
        header: &'static str,
    },
    /// A signature cannot be read.
    #[error("header `{header}` is not readable: it must be {form}")]
    SignatureMalformed {
        /// Its name.
        header: &'static str,
        /// What is expected.
        form: &'static str,
    },
    /// Readable, but of kinds that this scheme does not know.
    #[error("header `{header}` holds no signature of a known version, such as v1")]
    SignatureUnsupported {
        /// Its name.
        header: &'static str,
    },
    /// More signatures than any key rotation needs.
    #[error("header `{header}` holds more than {SIGNATURES_MAX} signatures")]
    SignaturesTooMany {
        /// Its name.
        header: &'static str,
    },
    /// No secret of the route made any of the signatures.
    #[error("the signature does not match: check the secret, and that the body is sent as signed")]
    SignatureMismatch,
    /// The signed id cannot tell deliveries apart.
    #[error(
        "header `{header}` must be 1 to {ID_BYTES_MAX} printable characters without a full stop"
    )]
    IdMalformed {
        /// Its name.
        header: &'static str,
    },
    /// The signed time is not a number of seconds.
    #[error("header `{header}` must be unix seconds in digits")]
    TimestampMalformed {
        /// Its name.
        header: &'static str,
    },
    /// Too old, a replay perhaps, or too new.
    #[error("the timestamp is more than {tolerance_ms} ms away from now: check the sender's clock")]
    Timestamp {
        /// What is allowed, both ways.
        tolerance_ms: i64,
    },
    /// `none` does not reach beyond this machine.
    #[error(
        "this route takes unsigned requests from this machine only: set a scheme with a secret"
    )]
    UnsignedRemote,
    /// `none`, and the request only seems to come from this machine.
    #[error("this route takes unsigned requests only directly, not through what adds `{header}`")]
    UnsignedIndirect {
        /// The header that gives it away.
        header: &'static str,
    },
}

impl Refused {
    /// The stable code, for metrics, logs and the answer's body.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::HeaderMissing { .. } => "signature_missing",
            Self::HeaderDuplicated { .. } => "header_duplicated",
            Self::SignatureMalformed { .. } => "signature_malformed",
            Self::SignatureUnsupported { .. } => "signature_unsupported",
            Self::SignaturesTooMany { .. } => "signatures_too_many",
            Self::SignatureMismatch => "signature_mismatch",
            Self::IdMalformed { .. } => "id_malformed",
            Self::TimestampMalformed { .. } => "timestamp_malformed",
            Self::Timestamp { .. } => "timestamp_out_of_range",
            Self::UnsignedRemote => "unsigned_remote",
            Self::UnsignedIndirect { .. } => "unsigned_indirect",
        }
    }
}
