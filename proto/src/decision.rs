//! Is this really that approver's decision, on exactly this request?
//!
//! Authority: the key ring, read from configuration. Ed25519 (RFC 8032) over a domain tag and
//! the canonical JSON of the decision.
//! Invariant: nothing here says yes. A decision that verifies is merely genuine; whether it
//! counts is decided by the run it is addressed to.

mod extension;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::digest::{Digest, canonical};
use crate::ids::{ApprovalId, Nonce, Subject};
use crate::quote::told;
use crate::time::Ms;

pub use extension::{EXTENSION_TAG, Extension, SignedExtension};

/// Prefixed to the signed bytes, so that a signature for anything else is none for a decision.
pub const DOMAIN_TAG: &[u8] = b"portcullis.decision.v1\n";
/// The longest reason an approver may give, in bytes.
pub const REASON_BYTES_MAX: usize = 1_024;
/// The longest encoded decision, in bytes.
pub const DECISION_BYTES_MAX: usize = 8_192;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Approve,
    Deny,
}

/// How a decision came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Channel {
    Amqp,
    Http,
    Cli,
    Console,
}

/// What an approver signs: every field, and nothing else, is covered by the signature.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// Always 1.
    pub v: u32,
    pub approval_id: ApprovalId,
    /// The request's: a decision cannot be older than what it decides.
    pub nonce: Nonce,
    /// The digest of the exact call that was asked about.
    pub args_hash: Digest,
    pub verdict: Verdict,
    pub approver: Subject,
    pub channel: Channel,
    /// The approver's own clock. A record, never a criterion.
    pub issued_at: Ms,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Decision {
    /// The bytes that are signed: [`DOMAIN_TAG`], then the RFC 8785 form of the decision.
    /// Without a canonical form (a time beyond 2^53) it is the bare tag, which proves nothing:
    /// [`KeyRing::verify`] refuses such a decision whatever its signature.
    #[must_use]
    pub fn signed_bytes(&self) -> Vec<u8> {
        tagged_bytes(DOMAIN_TAG, self).unwrap_or_else(|| DOMAIN_TAG.to_vec())
    }
}

/// A tag and the RFC 8785 form of what is signed, if it has one.
fn tagged_bytes(tag: &[u8], signed: &impl Serialize) -> Option<Vec<u8>> {
    let value = serde_json::to_value(signed).expect("strings and numbers are always JSON");
    let json = canonical(&value).ok()?;
    Some([tag, &json].concat())
}

/// An Ed25519 signature, written in Base64.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Signature(pub [u8; 64]);

/// A decision and the proof of it, as it travels and as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SignedDecision {
    pub decision: Decision,
    /// Which key of the ring.
    pub key_id: String,
    pub sig: Signature,
}

/// Why bytes are no decision.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecisionError {
    #[error("a decision is at most {DECISION_BYTES_MAX} bytes long, this one {0}")]
    TooLarge(usize),
    #[error("not a signed decision: {0}")]
    Unreadable(String),
    #[error("decisions of version {0} are not known to this release")]
    UnknownVersion(u32),
    #[error("a reason is at most {REASON_BYTES_MAX} bytes long, this one {0}")]
    ReasonTooLong(usize),
}

impl SignedDecision {
    /// Reads a decision from the wire. Unknown fields are refused: they would be unsigned.
    ///
    /// # Errors
    /// Whatever keeps it from being one well-formed decision of a known version.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecisionError> {
        if DECISION_BYTES_MAX < bytes.len() {
            return Err(DecisionError::TooLarge(bytes.len()));
        }
        let signed: Self =
            serde_json::from_slice(bytes).map_err(|why| DecisionError::Unreadable(told(&why)))?;
        if signed.decision.v != 1 {
            return Err(DecisionError::UnknownVersion(signed.decision.v));
        }
        check_reason(signed.decision.reason.as_deref())?;
        Ok(signed)
    }
}

fn check_reason(reason: Option<&str>) -> Result<(), DecisionError> {
    match reason {
        Some(reason) if REASON_BYTES_MAX < reason.len() => {
            Err(DecisionError::ReasonTooLong(reason.len()))
        }
        Some(_) | None => Ok(()),
    }
}

/// What arrives on the decisions exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Decision(SignedDecision),
    Extension(SignedExtension),
}

impl Answer {
    /// Reads either from the wire, told apart by the one field that names what was signed.
    ///
    /// # Errors
    /// Whatever keeps it from being one well-formed answer of a known version.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecisionError> {
        #[derive(Deserialize)]
        struct Peek {
            extension: Option<serde::de::IgnoredAny>,
        }
        if DECISION_BYTES_MAX < bytes.len() {
            return Err(DecisionError::TooLarge(bytes.len()));
        }
        let peek: Peek =
            serde_json::from_slice(bytes).map_err(|why| DecisionError::Unreadable(told(&why)))?;
        match peek.extension {
            Some(_) => SignedExtension::decode(bytes).map(Self::Extension),
            None => SignedDecision::decode(bytes).map(Self::Decision),
        }
    }
}

/// For whom a key may speak.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Speaker {
    /// An approver service signs for itself.
    Approver(Subject),
    /// The scheduler signs what came in over HTTP, console or CLI, naming who proved who they are.
    Notary,
}

/// Why a decision is not genuine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Forged {
    #[error("no key of that id is configured")]
    UnknownKey,
    #[error("that key may not speak for this approver")]
    WrongSpeaker,
    #[error("the signature does not match")]
    BadSignature,
}

/// The public keys whose word counts.
#[derive(Clone, Debug, Default)]
pub struct KeyRing {
    keys: BTreeMap<String, (Speaker, [u8; 32])>,
}

impl KeyRing {
    /// Adds a public key under an id; `false` when the id is taken.
    pub fn add(&mut self, key_id: &str, speaker: Speaker, public: [u8; 32]) -> bool {
        if self.keys.contains_key(key_id) {
            return false;
        }
        self.keys.insert(key_id.to_owned(), (speaker, public));
        true
    }

    /// Checks that a decision is genuine.
    ///
    /// # Errors
    /// When its key is unknown, may not speak for its approver, or did not sign these bytes.
    pub fn verify(&self, signed: &SignedDecision) -> Result<(), Forged> {
        let bytes = tagged_bytes(DOMAIN_TAG, &signed.decision);
        self.proves(&signed.key_id, &signed.decision.approver, bytes, signed.sig)
    }

    /// Whether that key may speak for that approver, and signed these bytes, if there are any.
    fn proves(
        &self,
        key_id: &str,
        approver: &Subject,
        bytes: Option<Vec<u8>>,
        sig: Signature,
    ) -> Result<(), Forged> {
        let (speaker, public) = self.keys.get(key_id).ok_or(Forged::UnknownKey)?;
        match speaker {
            Speaker::Approver(subject) if subject != approver => return Err(Forged::WrongSpeaker),
            Speaker::Approver(_) | Speaker::Notary => {}
        }
        let bytes = bytes.ok_or(Forged::BadSignature)?;
        ring::signature::UnparsedPublicKey::new(&ring::signature::ED25519, public)
            .verify(&bytes, &sig.0)
            .map_err(|_| Forged::BadSignature)
    }
}

impl std::fmt::Debug for Signature {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&data_encoding::BASE64.encode(&self.0))
    }
}

impl Serialize for Signature {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&data_encoding::BASE64.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Signature {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let wrong = || serde::de::Error::custom("a signature is 64 bytes in Base64");
        let bytes = data_encoding::BASE64.decode(text.as_bytes()).map_err(|_| wrong())?;
        Ok(Self(bytes.try_into().map_err(|_| wrong())?))
    }
}

impl schemars::JsonSchema for Signature {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Signature".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "description": "64 bytes in Base64" })
    }
}

#[cfg(test)]
mod tests;
