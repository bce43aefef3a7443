//! An approver's word that a request may stay open longer.
//!
//! Authority and form as for a decision: signed, over every field, under its own domain tag.
//! Invariant: it approves nothing. Whether the deadline moves is decided by the run.

use serde::{Deserialize, Serialize};

use crate::decision::{
    Channel, DECISION_BYTES_MAX, DecisionError, Forged, KeyRing, Signature, check_reason,
    tagged_bytes,
};
use crate::digest::Digest;
use crate::ids::{ApprovalId, Nonce, Subject};
use crate::quote::told;
use crate::time::Ms;

/// Prefixed to the signed bytes, so that a signature for anything else is none for an extension.
pub const EXTENSION_TAG: &[u8] = b"portcullis.extension.v1\n";

/// What an approver signs to ask for more time.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Extension {
    /// Always 1.
    pub v: u32,
    pub approval_id: ApprovalId,
    pub nonce: Nonce,
    pub args_hash: Digest,
    /// The wanted deadline, by the store's clock. The run's own cap bounds it.
    pub until: Ms,
    pub approver: Subject,
    pub channel: Channel,
    /// The approver's own clock. A record, never a criterion.
    pub issued_at: Ms,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Extension {
    /// The bytes that are signed: [`EXTENSION_TAG`], then the RFC 8785 form of the extension.
    /// Without a canonical form (a time beyond 2^53) it is the bare tag, which proves nothing.
    #[must_use]
    pub fn signed_bytes(&self) -> Vec<u8> {
        tagged_bytes(EXTENSION_TAG, self).unwrap_or_else(|| EXTENSION_TAG.to_vec())
    }
}

/// An extension and the proof of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SignedExtension {
    pub extension: Extension,
    /// Which key of the ring.
    pub key_id: String,
    pub sig: Signature,
}

impl SignedExtension {
    /// Reads an extension from the wire. Unknown fields are refused: they would be unsigned.
    ///
    /// # Errors
    /// Whatever keeps it from being one well-formed extension of a known version.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecisionError> {
        if DECISION_BYTES_MAX < bytes.len() {
            return Err(DecisionError::TooLarge(bytes.len()));
        }
        let signed: Self =
            serde_json::from_slice(bytes).map_err(|why| DecisionError::Unreadable(told(&why)))?;
        if signed.extension.v != 1 {
            return Err(DecisionError::UnknownVersion(signed.extension.v));
        }
        check_reason(signed.extension.reason.as_deref())?;
        Ok(signed)
    }
}

impl KeyRing {
    /// Checks that an extension is genuine.
    ///
    /// # Errors
    /// When its key is unknown, may not speak for its approver, or did not sign these bytes.
    pub fn verify_extension(&self, signed: &SignedExtension) -> Result<(), Forged> {
        let bytes = tagged_bytes(EXTENSION_TAG, &signed.extension);
        self.proves(&signed.key_id, &signed.extension.approver, bytes, signed.sig)
    }
}
