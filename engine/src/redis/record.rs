//! What does a record look like in its key?
//!
//! `version: u64 BE | operation ids: 8 bytes each, newest first, min(version, 8) of them | bytes`

use bytes::Bytes;
use portcullis_proto::ids::OpId;

use crate::ports::{Commit, StoreError, Stored, Version};

const VERSION_BYTES: usize = 8;
const OP_BYTES: u64 = 8;
/// How many operations a record remembers.
const OPS_MAX: u64 = 8;

/// How many bytes of operation ids stay when one is added to a record of that version.
pub(super) fn ops_bytes_kept(version: Version) -> u64 {
    version.0.min(OPS_MAX - 1) * OP_BYTES
}

/// How the key must begin for a commit: the version it was made from, and the operation that made
/// that version where it is known. Nothing for an absent record, which has no key.
pub(super) fn expected_bytes(commit: &Commit) -> Vec<u8> {
    let mut bytes = version_bytes(commit.expected);
    if let Some(op) = commit.expected_op.filter(|_| commit.expected != Version::ABSENT) {
        bytes.extend(op.0);
    }
    bytes
}

/// The version as the key's first bytes; an absent record has none.
pub(super) fn version_bytes(version: Version) -> Vec<u8> {
    if version == Version::ABSENT { vec![] } else { version.0.to_be_bytes().to_vec() }
}

/// Reads a record as it lies in its key.
///
/// # Errors
/// When the value is too short to be one.
pub fn decode(value: Vec<u8>) -> Result<Stored, StoreError> {
    let short = || StoreError::Corrupt(format!("a record of {} bytes", value.len()));
    let version = value.first_chunk().ok_or_else(short)?;
    let version = u64::from_be_bytes(*version);
    let ops = usize::try_from(version.min(OPS_MAX) * OP_BYTES).expect("at most 64");
    let head = VERSION_BYTES + ops;
    if version == 0 || value.len() < head {
        return Err(short());
    }
    let newest = value.get(VERSION_BYTES..).and_then(<[u8]>::first_chunk).ok_or_else(short)?;
    let (version, op) = (Version(version), OpId(*newest));
    Ok(Stored { version, op, bytes: Bytes::from(value).slice(head..) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(version: u64, ops: usize, bytes: &[u8]) -> Vec<u8> {
        [&version.to_be_bytes()[..], &vec![9; ops * 8], bytes].concat()
    }

    #[test]
    fn a_record_has_as_many_operations_as_versions_and_at_most_eight() {
        for (version, ops) in [(1, 1), (7, 7), (8, 8), (9, 8), (u64::MAX, 8)] {
            let stored = decode(value(version, ops, b"bytes")).unwrap();
            assert_eq!((stored.version, stored.op), (Version(version), OpId([9; 8])));
            assert_eq!(stored.bytes, "bytes", "{version}");
        }
        assert_eq!(ops_bytes_kept(Version::ABSENT), 0);
        assert_eq!(ops_bytes_kept(Version(3)), 24);
        assert_eq!(ops_bytes_kept(Version(8)), 56);
    }

    #[test]
    fn what_is_no_record_is_corrupt() {
        for bad in [vec![], vec![1; 7], value(0, 0, b"x"), value(3, 2, b"x")] {
            assert!(matches!(decode(bad), Err(StoreError::Corrupt(_))));
        }
    }
}
