//! A route's shared secret, and the only comparison made with it.

use std::fmt;

use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::{Choice, ConstantTimeEq};

/// Shortest secret, in bytes. A shorter one can be guessed from a single signed request.
pub const SECRET_BYTES_MIN: usize = 16;
/// Longest secret, in bytes.
pub const SECRET_BYTES_MAX: usize = 512;
/// Most secrets of one route: the old, the new and some room.
pub const SECRETS_MAX: usize = 8;

/// Key material. It is never printed.
#[derive(Clone)]
pub struct Secret {
    bytes: Vec<u8>,
}

/// A secret that cannot be used. The text itself is not part of the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// A scheme with signatures and nothing to check them with.
    #[error("no secret is set")]
    NoSecret,
    /// More than any rotation needs; each one costs a pass over every body.
    #[error("{found} secrets are set, the limit is {SECRETS_MAX}")]
    TooMany {
        /// How many.
        found: usize,
    },
    /// Guessable.
    #[error("the secret has {bytes} bytes, it needs at least {SECRET_BYTES_MIN}")]
    TooShort {
        /// Its length.
        bytes: usize,
    },
    /// Not a secret but a file, perhaps.
    #[error("the secret has {bytes} bytes, the limit is {SECRET_BYTES_MAX}")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// The newline of a file or a quoting mistake: it would sign differently from what one sees.
    #[error("the secret begins or ends with white space: remove it")]
    WhiteSpace,
    /// Standard Webhooks names its secrets by a prefix.
    #[error("the secret must be `whsec_` and standard base64")]
    NotWhsec,
}

impl Secret {
    /// Takes the text's own bytes as the key, as GitHub does.
    ///
    /// # Errors
    /// Length or white space.
    pub fn from_text(text: &str) -> Result<Self, SecretError> {
        if text.trim() != text {
            return Err(SecretError::WhiteSpace);
        }
        Self::from_bytes(text.as_bytes().to_vec())
    }

    /// Decodes `whsec_<base64>`, as Standard Webhooks writes it.
    ///
    /// # Errors
    /// Prefix, base64, length or white space.
    pub fn from_whsec(text: &str) -> Result<Self, SecretError> {
        if text.trim() != text {
            return Err(SecretError::WhiteSpace);
        }
        let encoded = text.strip_prefix("whsec_").ok_or(SecretError::NotWhsec)?;
        let bytes = STANDARD.decode(encoded).map_err(|_| SecretError::NotWhsec)?;
        Self::from_bytes(bytes)
    }

    fn from_bytes(bytes: Vec<u8>) -> Result<Self, SecretError> {
        if bytes.len() < SECRET_BYTES_MIN {
            return Err(SecretError::TooShort { bytes: bytes.len() });
        }
        if SECRET_BYTES_MAX < bytes.len() {
            return Err(SecretError::TooLong { bytes: bytes.len() });
        }
        Ok(Self { bytes })
    }

    fn sign(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.bytes).expect("HMAC takes keys of any length");
        for part in parts {
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

/// Reads a route's secrets.
pub(super) fn all(
    texts: &[impl AsRef<str>],
    read: impl Fn(&str) -> Result<Secret, SecretError>,
) -> Result<Vec<Secret>, SecretError> {
    if texts.is_empty() {
        return Err(SecretError::NoSecret);
    }
    if SECRETS_MAX < texts.len() {
        return Err(SecretError::TooMany { found: texts.len() });
    }
    texts.iter().map(|text| read(text.as_ref())).collect()
}

/// Whether any of the secrets made any of the signatures over the joined `parts`.
///
/// All of them are compared, whatever the first one says: the time taken depends on counts and
/// lengths, which are no secret.
pub(super) fn any_match(secrets: &[Secret], parts: &[&[u8]], signatures: &[[u8; 32]]) -> bool {
    let mut found = Choice::from(0);
    for secret in secrets {
        let expected = secret.sign(parts);
        for signature in signatures {
            found |= expected.ct_eq(signature);
        }
    }
    found.into()
}
