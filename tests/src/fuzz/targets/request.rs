//! A request as one text: a line, headers, an empty line, the body.

use axum::http::{HeaderMap, HeaderName, HeaderValue};

/// Writes one that [`read`] reads.
pub(super) fn write(line: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("{line}\n").into_bytes();
    for (name, value) in headers {
        bytes.extend_from_slice(format!("{name}: {value}\n").as_bytes());
    }
    bytes.push(b'\n');
    bytes.extend_from_slice(body);
    bytes
}

/// Reads one. What no HTTP library would let through is left out.
pub(super) fn read(bytes: &[u8]) -> (&[u8], HeaderMap, &[u8]) {
    let end = bytes.windows(2).position(|pair| pair == b"\n\n");
    let (head, body) = match end {
        Some(at) => (&bytes[..at], &bytes[at + 2..]),
        None => (bytes, &[][..]),
    };
    let mut lines = head.split(|byte| *byte == b'\n');
    let line = lines.next().unwrap_or_default();
    let mut headers = HeaderMap::new();
    for line in lines.take(100) {
        let Some(at) = line.iter().position(|byte| *byte == b':') else { continue };
        let name = HeaderName::from_bytes(&line[..at]);
        let value = HeaderValue::from_bytes(line[at + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    (line, headers, body)
}
