//! Who sent this webhook, and which delivery is it?
//!
//! Authority: the route's secrets. A request proves itself by its bytes, never by its address,
//! except under `none`, which trusts this machine and says so.
//! Invariant: no body is parsed before it is verified; the identity consists of signed text only;
//! every secret is tried against every signature in constant time, so time tells nothing about
//! which one was near. No clock, no IO.
//! If we crash here: nothing was accepted, the sender got no answer and may send again.

mod github;
mod headers;
mod refused;
mod secret;
mod standard;

use std::net::IpAddr;

use axum::http::HeaderMap;
use sha2::{Digest, Sha256};

pub use refused::Refused;
pub use secret::{SECRET_BYTES_MAX, SECRET_BYTES_MIN, SECRETS_MAX, Secret, SecretError};

/// How far a sender's clock may be off, both ways, in milliseconds.
pub const TOLERANCE_MS: i64 = 300_000;
/// Most signatures read from one request.
pub const SIGNATURES_MAX: usize = 16;
/// Longest signed id, in bytes.
pub const ID_BYTES_MAX: usize = 256;
/// Longest label kept, in bytes; a longer one is no label.
pub const LABEL_BYTES_MAX: usize = 128;

/// How a route's requests prove where they come from.
#[derive(Debug, Clone)]
pub enum Scheme {
    /// `X-Hub-Signature-256`, as GitHub signs.
    Github {
        /// Any of them may have signed.
        secrets: Vec<Secret>,
    },
    /// `webhook-id`, `webhook-timestamp`, `webhook-signature`.
    StandardWebhooks {
        /// Any of them may have signed.
        secrets: Vec<Secret>,
        /// How far the sender's clock may be off, both ways, in milliseconds.
        tolerance_ms: i64,
    },
    /// Nothing. Only from this machine itself.
    None,
}

/// Where the request's connection comes from, as the caller knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// A process of this machine.
    Loopback,
    /// Anything else, and everything that is not known.
    Remote,
}

/// What tells two deliveries apart. Never text that the sender did not sign.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Identity {
    /// The signed id of the event; a retry carries the same one.
    SignedId(String),
    /// SHA-256 of the signed bytes.
    Digest([u8; 32]),
}

/// A request that proved itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// The dedupe key, together with the route.
    pub identity: Identity,
    /// The sender's own name for the delivery. Not signed: for display only.
    pub label: Option<String>,
}

impl Scheme {
    /// GitHub's scheme, from secrets as they are written at GitHub.
    ///
    /// # Errors
    /// No secret, too many, or one that is not usable.
    pub fn github(secrets: &[impl AsRef<str>]) -> Result<Self, SecretError> {
        Ok(Self::Github { secrets: secret::all(secrets, Secret::from_text)? })
    }

    /// Standard Webhooks, from secrets `whsec_<base64>`, with the tolerance [`TOLERANCE_MS`].
    ///
    /// # Errors
    /// No secret, too many, or one that is not usable.
    pub fn standard_webhooks(secrets: &[impl AsRef<str>]) -> Result<Self, SecretError> {
        let secrets = secret::all(secrets, Secret::from_whsec)?;
        Ok(Self::StandardWebhooks { secrets, tolerance_ms: TOLERANCE_MS })
    }
}

impl Peer {
    /// Reads the connection's own address. An address from a header is not one.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        if address.to_canonical().is_loopback() { Self::Loopback } else { Self::Remote }
    }
}

/// Decides whether a request is genuine. `now_ms` is the store's clock, unix milliseconds.
///
/// The caller has bounded `raw_body` before: every secret costs one pass over it.
///
/// # Errors
/// [`Refused`], with a code of its own for each reason.
pub fn verify(
    scheme: &Scheme,
    headers: &HeaderMap,
    raw_body: &[u8],
    now_ms: i64,
    peer: Peer,
) -> Result<Verified, Refused> {
    match scheme {
        Scheme::Github { secrets } => github::verify(secrets, headers, raw_body),
        Scheme::StandardWebhooks { secrets, tolerance_ms } => {
            standard::verify(secrets, *tolerance_ms, headers, raw_body, now_ms)
        }
        Scheme::None => unsigned(headers, raw_body, peer),
    }
}

fn unsigned(headers: &HeaderMap, raw_body: &[u8], peer: Peer) -> Result<Verified, Refused> {
    match peer {
        Peer::Loopback => {}
        Peer::Remote => return Err(Refused::UnsignedRemote),
    }
    // A proxy on this machine makes the whole world loopback, and any web page can have the
    // browser on this machine post here.
    for header in ["forwarded", "x-forwarded-for", "via", "origin", "sec-fetch-site"] {
        if headers.contains_key(header) {
            return Err(Refused::UnsignedIndirect { header });
        }
    }
    Ok(Verified { identity: digest(raw_body), label: None })
}

fn digest(signed: &[u8]) -> Identity {
    Identity::Digest(Sha256::digest(signed).into())
}

#[cfg(test)]
mod tests;
