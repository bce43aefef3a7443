//! Reads a header that may be there once.

use axum::http::{HeaderMap, HeaderValue};

use super::Refused;

pub(super) fn required<'h>(
    headers: &'h HeaderMap,
    name: &'static str,
) -> Result<&'h HeaderValue, Refused> {
    optional(headers, name)?.ok_or(Refused::HeaderMissing { header: name })
}

pub(super) fn optional<'h>(
    headers: &'h HeaderMap,
    name: &'static str,
) -> Result<Option<&'h HeaderValue>, Refused> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    match values.next() {
        None => Ok(first),
        // A proxy and this program might pick different ones.
        Some(_) => Err(Refused::HeaderDuplicated { header: name }),
    }
}
