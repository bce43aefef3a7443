//! What must a killed process leave behind? Commits whose every part follows from a number.
//!
//! Invariant: record, timer, list, licence and feed of a run all say the same version, or the
//! commit was half-applied.

use bytes::Bytes;
use portcullis_engine::ports::{Commit, Durability, IndexEntry, RecordKey, Version};
use portcullis_proto::ids::{ApprovalId, JobKey, OpId, RunId, ShardCount, Tenant};
use portcullis_proto::time::Ms;

/// The list that every run of the ledger is on, by its version.
pub const LIST: &str = "run.ledger";
/// How many runs the ledger has, each with a writer of its own.
pub const RUNS: u64 = 24;
/// The end of every licence: never within a test.
const FAR: Ms = Ms(i64::MAX);

/// The `n`th run of a store with one shard.
///
/// # Panics
/// Never: its parts are valid.
#[must_use]
pub fn run(n: u64) -> RunId {
    let tenant = Tenant::new("ledger").expect("a valid name");
    let shards = ShardCount::new(1).expect("a valid count");
    RunId::of(&JobKey::api(&tenant, &n.to_be_bytes()), shards)
}

/// The record of the `n`th run at `version`: of many lengths, so that pages split and overflow.
#[must_use]
pub fn bytes(n: u64, version: u64) -> Bytes {
    let length = (n * 977 + version * 1_543) % 6_000;
    let mut text = format!("{n} {version} ");
    text.extend((0..length).map(|at| char::from(b'a' + ((at + version) % 26) as u8)));
    text.into()
}

/// When the `n`th run is due at `version`.
#[must_use]
pub fn deadline(n: u64, version: u64) -> Ms {
    Ms(1_000 * version.cast_signed() + n.cast_signed())
}

/// The only licence of the `n`th run that lives at `version`.
#[must_use]
pub fn licence(n: u64, version: u64) -> ApprovalId {
    ApprovalId::of(&run(n), 0, u32::try_from(version).expect("a test ends before that"))
}

/// What the feed says of that commit.
#[must_use]
pub fn journal(n: u64, version: u64) -> String {
    format!("{{\"n\":{n},\"version\":{version}}}")
}

/// The commit that brings the `n`th run to `version`.
#[must_use]
pub fn step(n: u64, version: u64, op: OpId) -> Commit {
    let before = version - 1;
    let gone: Vec<_> = (before != 0).then(|| licence(n, before)).into_iter().collect();
    Commit {
        key: RecordKey::Run(run(n)),
        expected: Version(before),
        expected_op: None,
        op,
        not_before: None,
        not_after: None,
        need_steady_clock: false,
        policy_epoch: Some(0),
        require: gone.clone(),
        licences_set: vec![(licence(n, version), FAR)],
        licences_del: gone,
        bytes: bytes(n, version),
        next_deadline: Some(deadline(n, version)),
        retain_ms: None,
        index_set: vec![IndexEntry {
            index: LIST.to_owned(),
            member: run(n).to_string(),
            score: Ms(version.cast_signed()),
        }],
        index_del: vec![],
        feed: vec![journal(n, version)],
        durability: Durability::Firm,
    }
}
