//! What of a stream is kept?
//!
//! The beginning and the end: a build that fails says why in its last lines. The stream is read to
//! its end whatever its length, so that the tool never waits for us.
//!
//! Invariant: at most the limit is in memory, however much is written.

use std::collections::VecDeque;

use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;

const READ_BYTES: usize = 16 * 1024;

/// One stream, cut in the middle.
#[derive(Debug)]
pub(super) struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    half_bytes_max: usize,
    bytes_total: u64,
}

impl Capture {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            head: Vec::new(),
            tail: VecDeque::new(),
            half_bytes_max: bytes_max / 2,
            bytes_total: 0,
        }
    }

    /// Reads until the end. An error is an end: there is nobody to tell it to.
    pub(super) async fn drain(&mut self, pipe: Option<pipe::Receiver>) {
        let Some(mut pipe) = pipe else { return };
        let mut buffer = vec![0; READ_BYTES];
        while let Ok(read @ 1..) = pipe.read(&mut buffer).await {
            if let Some(bytes) = buffer.get(..read) {
                self.push(bytes);
            }
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes_total = self.bytes_total.saturating_add(bytes.len() as u64);
        let room = self.half_bytes_max.saturating_sub(self.head.len()).min(bytes.len());
        let (first, rest) = bytes.split_at(room);
        self.head.extend_from_slice(first);
        let rest = rest.get(rest.len().saturating_sub(self.half_bytes_max)..).unwrap_or(rest);
        let excess = (self.tail.len() + rest.len()).saturating_sub(self.half_bytes_max);
        self.tail.drain(..excess);
        self.tail.extend(rest);
    }

    /// What is kept, without a mark. Whole if [`bytes_dropped`](Self::bytes_dropped) is 0.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.head.clone();
        bytes.extend(&self.tail);
        bytes
    }

    fn bytes_dropped(&self) -> u64 {
        self.bytes_total.saturating_sub((self.head.len() + self.tail.len()) as u64)
    }

    /// Adds `<name>`, `<name>_bytes` (all that was written) and, if cut, `<name>_truncated`.
    pub(super) fn write_to(&self, result: &mut Value, name: &str) {
        let dropped = self.bytes_dropped();
        let text = if dropped == 0 {
            String::from_utf8_lossy(&self.bytes()).into_owned()
        } else {
            let tail: Vec<u8> = self.tail.iter().copied().collect();
            let head = String::from_utf8_lossy(&self.head);
            let tail = String::from_utf8_lossy(&tail);
            format!("{head}\n[… {dropped} bytes left out …]\n{tail}")
        };
        result[name] = text.into();
        result[format!("{name}_bytes")] = json!(self.bytes_total);
        if dropped != 0 {
            result[format!("{name}_truncated")] = json!(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(bytes_max: usize, writes: &[&[u8]]) -> Value {
        let mut capture = Capture::new(bytes_max);
        for bytes in writes {
            capture.push(bytes);
            assert!(capture.bytes().len() <= bytes_max, "never more than the limit");
        }
        let mut result = json!({});
        capture.write_to(&mut result, "out");
        result
    }

    #[test]
    fn a_short_stream_is_kept_whole() {
        assert_eq!(captured(8, &[b"abc", b"defgh"]), json!({ "out": "abcdefgh", "out_bytes": 8 }));
    }

    #[test]
    fn a_long_stream_keeps_its_ends_and_its_length() {
        let cut = "abcd\n[… 2 bytes left out …]\nghij";
        let expected = json!({ "out": cut, "out_bytes": 10, "out_truncated": true });
        assert_eq!(captured(8, &[b"abcdefghij"]), expected);
        assert_eq!(captured(8, &[b"abc", b"defg", b"h", b"ij"]), expected);
    }

    #[test]
    fn what_is_no_text_is_marked_as_such() {
        let expected = json!({ "out": "a\u{fffd}b", "out_bytes": 3 });
        assert_eq!(captured(8, &[b"a\xffb"]), expected);
    }
}
