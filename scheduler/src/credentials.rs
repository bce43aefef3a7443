//! Who is calling?
//!
//! Authority: the configured token digests.
//! Invariant: every configured digest is compared with every token, in constant time, so time
//! tells nothing about which one was near. A token that is not known is refused, also where none
//! is needed.

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use portcullis_proto::digest::Digest;
use portcullis_proto::ids::{PoolName, Subject};
use subtle::{Choice, ConstantTimeEq as _};

use crate::settings::{Approver, Settings};

/// The longest token, in bytes.
const TOKEN_BYTES_MAX: usize = 512;

/// What a caller has proved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// A process of this machine, and nothing more than that.
    Local,
    /// A holder of a token for reading and starting.
    Token,
    Approver(Proven),
}

/// An approver who showed its token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proven {
    pub(crate) subject: Subject,
    /// Whose requests it may decide, by the token's own entry.
    pub(crate) pools: Vec<PoolName>,
}

impl std::fmt::Display for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Local => f.write_str("a local caller"),
            Self::Token => f.write_str("an API token"),
            Self::Approver(proven) => write!(f, "{}", proven.subject),
        }
    }
}

/// Why a caller proved nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unproven {
    #[error("no credential was shown")]
    NoCredential,
    #[error("the `Authorization` header must be there once, as `Bearer <token>`")]
    Unreadable,
    #[error("the token is not known")]
    UnknownToken,
}

impl Unproven {
    pub(crate) const fn code(self) -> &'static str {
        match self {
            Self::NoCredential => "no_credential",
            Self::Unreadable => "credential_unreadable",
            Self::UnknownToken => "unknown_token",
        }
    }
}

/// Finds out who calls.
pub(crate) fn prove(settings: &Settings, headers: &HeaderMap) -> Result<Caller, Unproven> {
    let Some(token) = token(headers)? else {
        return if settings.is_loopback() {
            Ok(Caller::Local)
        } else {
            Err(Unproven::NoCredential)
        };
    };
    let shown = Digest::of_bytes(token.as_bytes()).0;
    let among = |known: &[[u8; 32]]| {
        let found = known.iter().fold(Choice::from(0), |found, one| found | one.ct_eq(&shown));
        bool::from(found)
    };
    let mut approver: Option<&Approver> = None;
    for one in &settings.approvers {
        if among(&one.token_sha256) {
            approver = Some(one);
        }
    }
    match (approver, among(&settings.api_tokens)) {
        (Some(Approver { subject, pools, .. }), _) => {
            Ok(Caller::Approver(Proven { subject: subject.clone(), pools: pools.clone() }))
        }
        (None, true) => Ok(Caller::Token),
        (None, false) => Err(Unproven::UnknownToken),
    }
}

fn token(headers: &HeaderMap) -> Result<Option<&str>, Unproven> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Unproven::Unreadable);
    }
    let text = value.to_str().map_err(|_| Unproven::Unreadable)?;
    let (scheme, token) = text.split_once(' ').ok_or(Unproven::Unreadable)?;
    let token = token.trim();
    let readable = !token.is_empty() && token.len() <= TOKEN_BYTES_MAX;
    if scheme.eq_ignore_ascii_case("bearer") && readable {
        Ok(Some(token))
    } else {
        Err(Unproven::Unreadable)
    }
}
