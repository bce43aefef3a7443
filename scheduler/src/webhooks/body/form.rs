//! Unwraps `payload=…` from a form, as GitHub sends it on request.

use super::{BodyError, shorten};

/// Returns the field `payload`, or `None` if the form has none.
pub(super) fn payload(raw_body: &[u8]) -> Result<Option<String>, BodyError> {
    let mut payload = None;
    let mut other = None;
    for (index, pair) in raw_body.split(|byte| *byte == b'&').enumerate() {
        let unreadable = || BodyError::FormEncoding { field: index + 1 };
        let (name, value) = match pair.iter().position(|byte| *byte == b'=') {
            Some(at) => (&pair[..at], &pair[at + 1..]),
            None => (pair, &[][..]),
        };
        let name = decode(name).ok_or_else(unreadable)?;
        if name == "payload" && payload.is_none() {
            payload = Some(decode(value).ok_or_else(unreadable)?);
        } else {
            other = Some(name);
        }
    }
    match (payload, other) {
        (Some(_), Some(name)) => Err(BodyError::FormFields { name: shorten(&name) }),
        (payload, _) => Ok(payload),
    }
}

/// Decodes `+` and `%XX`. `None` if a `%` is cut off or the result is not UTF-8.
fn decode(encoded: &[u8]) -> Option<String> {
    let mut decoded = Vec::with_capacity(encoded.len());
    let mut rest = encoded;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'+' => decoded.push(b' '),
            b'%' => {
                let (digits, after) = rest.split_first_chunk::<2>()?;
                decoded.push(hex(digits[0])? << 4 | hex(digits[1])?);
                rest = after;
            }
            plain => decoded.push(*plain),
        }
    }
    String::from_utf8(decoded).ok()
}

fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}
