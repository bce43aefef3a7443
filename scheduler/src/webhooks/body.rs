//! What does a webhook say?
//!
//! Authority: the verified bytes, and the content type the sender states for them.
//! Invariant: the size was bounded before, nesting is bounded here; what can be read in two ways is
//! refused, so no later reader sees another body than the one that was checked.
//! If we crash here: nothing was accepted.

mod form;
mod json;

use axum::http::{HeaderMap, header::CONTENT_TYPE};
use portcullis_proto::quote::quote;
use serde_json::{Value, json};

pub use json::parse as parse_json;

/// Deepest nesting of lists and objects. The outermost one is level 1.
pub const DEPTH_MAX: usize = 64;

/// A body that cannot be read in exactly one way. The sender's mistake: 400.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// Two content types, or an unreadable one.
    #[error("the content type must be there at most once, in plain ASCII")]
    ContentType,
    /// Not UTF-8 by its own statement.
    #[error("charset `{charset}` is not supported: send UTF-8")]
    Charset {
        /// As stated.
        charset: String,
    },
    /// Neither JSON nor text.
    #[error("the body is not UTF-8 from byte {at_byte} on")]
    NotUtf8 {
        /// Where the first bad byte is, from 0.
        at_byte: usize,
    },
    /// Not JSON, or something follows it.
    #[error("the body is not JSON: {why}")]
    NotJson {
        /// What the parser says, with line and column.
        why: String,
    },
    /// Nested deeper than [`DEPTH_MAX`].
    #[error("the body is nested deeper than {DEPTH_MAX} levels, at {path}")]
    TooDeep {
        /// The place, cut to its end.
        path: String,
    },
    /// Two values for one key: readers disagree about which one holds.
    #[error("key {key:?} is there twice, at {path}")]
    DuplicateKey {
        /// The object.
        path: String,
        /// The key, cut.
        key: String,
    },
    /// `%` without two hexadecimal digits, or bytes that are not UTF-8.
    #[error("the form is not readable: field {field} is not percent-encoded UTF-8")]
    FormEncoding {
        /// Its number, from 1.
        field: usize,
    },
    /// `payload` has company, and a form with `payload` is only its wrapping.
    #[error("the form must have the field `payload` once and no other, it also has {name:?}")]
    FormFields {
        /// The other field, cut.
        name: String,
    },
}

impl BodyError {
    /// The stable code, for metrics, logs and the answer's body.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::ContentType => "content_type_unreadable",
            Self::Charset { .. } => "charset_unsupported",
            Self::NotUtf8 { .. } => "body_not_utf8",
            Self::NotJson { .. } => "body_not_json",
            Self::TooDeep { .. } => "body_too_deep",
            Self::DuplicateKey { .. } => "body_duplicate_key",
            Self::FormEncoding { .. } => "form_unreadable",
            Self::FormFields { .. } => "form_fields",
        }
    }
}

/// Reads a verified body into the run's input.
///
/// `application/json` and `application/…+json` are JSON; a form with `payload=` is the JSON in it;
/// anything else is text, as `{"raw": "…"}`.
///
/// # Errors
/// See [`BodyError`].
pub fn parse(headers: &HeaderMap, raw_body: &[u8]) -> Result<Value, BodyError> {
    match kind(headers)? {
        Kind::Json => json::parse(raw_body),
        Kind::Form => match form::payload(raw_body)? {
            Some(payload) => json::parse(payload.as_bytes()),
            None => text(raw_body),
        },
        Kind::Text => text(raw_body),
    }
}

enum Kind {
    Json,
    Form,
    Text,
}

fn kind(headers: &HeaderMap) -> Result<Kind, BodyError> {
    let mut stated = headers.get_all(CONTENT_TYPE).iter();
    let Some(first) = stated.next() else {
        return Ok(Kind::Text);
    };
    if stated.next().is_some() {
        return Err(BodyError::ContentType);
    }
    let full = first.to_str().map_err(|_| BodyError::ContentType)?.to_ascii_lowercase();
    let (media, parameters) = match full.split_once(';') {
        Some(both) => both,
        None => (full.as_str(), ""),
    };
    for parameter in parameters.split(';') {
        if let Some(charset) = parameter.trim().strip_prefix("charset=") {
            let charset = charset.trim_matches('"');
            if !["utf-8", "utf8"].contains(&charset) {
                return Err(BodyError::Charset { charset: quote(charset) });
            }
        }
    }
    Ok(match media.trim().strip_prefix("application/") {
        Some("json") => Kind::Json,
        Some("x-www-form-urlencoded") => Kind::Form,
        Some(other) if other.strip_suffix("+json").is_some_and(|name| !name.is_empty()) => {
            Kind::Json
        }
        Some(_) | None => Kind::Text,
    })
}

fn text(raw_body: &[u8]) -> Result<Value, BodyError> {
    let text = std::str::from_utf8(raw_body)
        .map_err(|why| BodyError::NotUtf8 { at_byte: why.valid_up_to() })?;
    Ok(json!({ "raw": text }))
}

/// Cuts text that an error quotes, so that a message stays one line.
fn shorten(text: &str) -> String {
    text.chars().take(64).collect()
}

#[cfg(test)]
mod tests;
