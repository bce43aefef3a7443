//! GitHub: `X-Hub-Signature-256: sha256=<hex>` over the raw body.
//!
//! GitHub signs no id and no time. The digest of the body tells deliveries apart, so a replay is
//! the delivery we have already; `X-GitHub-Delivery` could be changed by anybody and is a label.

use axum::http::{HeaderMap, HeaderValue};
use data_encoding::HEXLOWER_PERMISSIVE;

use super::{
    LABEL_BYTES_MAX, Refused, Verified, digest, headers,
    secret::{Secret, any_match},
};

const SIGNATURE: &str = "x-hub-signature-256";
const DELIVERY: &str = "x-github-delivery";

pub(super) fn verify(
    secrets: &[Secret],
    headers: &HeaderMap,
    raw_body: &[u8],
) -> Result<Verified, Refused> {
    let signature = decode(headers::required(headers, SIGNATURE)?)?;
    let label = headers::optional(headers, DELIVERY)?.and_then(label);
    if !any_match(secrets, &[raw_body], &[signature]) {
        return Err(Refused::SignatureMismatch);
    }
    Ok(Verified { identity: digest(raw_body), label })
}

fn decode(header: &HeaderValue) -> Result<[u8; 32], Refused> {
    let malformed = Refused::SignatureMalformed {
        header: SIGNATURE,
        form: "`sha256=` and 64 hexadecimal digits",
    };
    let Some(hex) = header.as_bytes().strip_prefix(b"sha256=") else {
        return Err(malformed);
    };
    match HEXLOWER_PERMISSIVE.decode(hex).map(<[u8; 32]>::try_from) {
        Ok(Ok(signature)) => Ok(signature),
        Ok(Err(_)) | Err(_) => Err(malformed),
    }
}

/// An unreadable label is no label: it decides nothing.
fn label(header: &HeaderValue) -> Option<String> {
    let text = header.to_str().ok()?;
    (!text.is_empty() && text.len() <= LABEL_BYTES_MAX).then(|| text.to_owned())
}
