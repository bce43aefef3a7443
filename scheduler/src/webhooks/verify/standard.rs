//! Standard Webhooks 1.0: `{webhook-id}.{webhook-timestamp}.{body}`, symmetric signatures `v1`.
//!
//! The headers go into the signed text exactly as they came. The id may hold no full stop: in a
//! text joined by full stops the borders could be moved, and an old signature would then pass for
//! another id (the specification warns of it).

use axum::http::{HeaderMap, HeaderValue};
use base64::{Engine, engine::general_purpose::STANDARD};

use super::{
    ID_BYTES_MAX, Identity, Refused, SIGNATURES_MAX, Verified, headers,
    secret::{Secret, any_match},
};

const ID: &str = "webhook-id";
const TIMESTAMP: &str = "webhook-timestamp";
const SIGNATURE: &str = "webhook-signature";
/// Digits of the largest `i64`.
const TIMESTAMP_DIGITS_MAX: usize = 19;

pub(super) fn verify(
    secrets: &[Secret],
    tolerance_ms: i64,
    headers: &HeaderMap,
    raw_body: &[u8],
    now_ms: i64,
) -> Result<Verified, Refused> {
    let id = id(headers::required(headers, ID)?)?;
    let timestamp = headers::required(headers, TIMESTAMP)?;
    let sent_ms = sent_ms(timestamp)?;
    let signatures = signatures(headers::required(headers, SIGNATURE)?)?;
    // i128, for the difference of two i64 may not fit into one.
    let away_ms = (i128::from(now_ms) - sent_ms).abs();
    if i128::from(tolerance_ms) < away_ms {
        return Err(Refused::Timestamp { tolerance_ms });
    }
    let parts: [&[u8]; 5] = [id.as_bytes(), b".", timestamp.as_bytes(), b".", raw_body];
    if !any_match(secrets, &parts, &signatures) {
        return Err(Refused::SignatureMismatch);
    }
    Ok(Verified { identity: Identity::SignedId(id.to_owned()), label: None })
}

fn id(header: &HeaderValue) -> Result<&str, Refused> {
    match header.to_str() {
        Ok(id) if !id.is_empty() && id.len() <= ID_BYTES_MAX && !id.contains('.') => Ok(id),
        Ok(_) | Err(_) => Err(Refused::IdMalformed { header: ID }),
    }
}

fn sent_ms(header: &HeaderValue) -> Result<i128, Refused> {
    let malformed = Refused::TimestampMalformed { header: TIMESTAMP };
    let text = match header.to_str() {
        Ok(text) if !text.is_empty() && text.len() <= TIMESTAMP_DIGITS_MAX => text,
        Ok(_) | Err(_) => return Err(malformed),
    };
    // `parse` alone would take a sign too.
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(malformed);
    }
    let seconds: i128 = text.parse().map_err(|_| malformed)?;
    Ok(seconds * 1_000)
}

/// Reads all `v1` signatures. Other versions are none of ours, but an unreadable one refuses all.
fn signatures(header: &HeaderValue) -> Result<Vec<[u8; 32]>, Refused> {
    let malformed = || Refused::SignatureMalformed {
        header: SIGNATURE,
        form: "space separated `v1,` and the base64 of 32 bytes",
    };
    let text = header.to_str().map_err(|_| malformed())?;
    let mut signatures = Vec::new();
    for (index, entry) in text.split(' ').enumerate() {
        if index == SIGNATURES_MAX {
            return Err(Refused::SignaturesTooMany { header: SIGNATURE });
        }
        let (version, encoded) = entry.split_once(',').ok_or_else(malformed)?;
        if version == "v1" {
            let bytes = STANDARD.decode(encoded).map_err(|_| malformed())?;
            signatures.push(<[u8; 32]>::try_from(bytes).map_err(|_| malformed())?);
        }
    }
    if signatures.is_empty() {
        return Err(Refused::SignatureUnsupported { header: SIGNATURE });
    }
    Ok(signatures)
}
