//! How is a request's body taken in: whole, bounded in bytes and in time?
//!
//! Invariant: never more than the limit is held, whatever `Content-Length` says or leaves out.

use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_LENGTH;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;

/// The longest time a sender may take for its body, in milliseconds.
pub(crate) const BODY_MS_MAX: u64 = 10_000;

/// Why a body was not read to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unread {
    #[error("the body is longer than {max} bytes")]
    TooLarge { max: usize },
    #[error("the body did not arrive within {BODY_MS_MAX} ms")]
    TooSlow,
    #[error("the body broke off")]
    BrokeOff,
}

impl Unread {
    pub(crate) const fn code(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "body_too_large",
            Self::TooSlow => "body_too_slow",
            Self::BrokeOff => "body_broke_off",
        }
    }
}

/// Reads a body of at most `bytes_max` bytes.
pub(crate) async fn body(
    headers: &HeaderMap,
    body: Body,
    bytes_max: usize,
) -> Result<Bytes, Unread> {
    let stated = headers.get(CONTENT_LENGTH).and_then(|text| text.to_str().ok()?.parse().ok());
    if stated.is_some_and(|bytes: usize| bytes_max < bytes) {
        // Refused unread. A statement that is too small is found out below.
        return Err(Unread::TooLarge { max: bytes_max });
    }
    let reading = whole(body, bytes_max);
    tokio::time::timeout(Duration::from_millis(BODY_MS_MAX), reading)
        .await
        .map_err(|_| Unread::TooSlow)?
}

async fn whole(body: Body, bytes_max: usize) -> Result<Bytes, Unread> {
    let mut parts = body.into_data_stream();
    let mut taken = BytesMut::new();
    while let Some(part) = parts.next().await {
        let part = part.map_err(|_| Unread::BrokeOff)?;
        if bytes_max < taken.len() + part.len() {
            return Err(Unread::TooLarge { max: bytes_max });
        }
        taken.extend_from_slice(&part);
    }
    Ok(taken.freeze())
}
