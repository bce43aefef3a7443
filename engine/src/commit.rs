//! Turns a change of a run into the one conditional write that makes it durable.

use std::collections::BTreeMap;

use portcullis_proto::ids::{OpId, RunId};
use portcullis_proto::journal::Entry;
use portcullis_proto::run::{Change, RETAIN_MS, Run, index_entries, next_deadline};
use portcullis_proto::time::Ms;

use crate::drive::Held;
use crate::ports::{Commit, IndexEntry, RecordKey, Version};
use crate::record::{Record, RecordError};

/// What one commit did to a run, as it stands in the feed: one line a commit, not one an entry, for
/// the feed is written once for every commit there is.
#[derive(serde::Serialize, serde::Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct FeedLine {
    pub run: RunId,
    /// The number of the first entry within its run, counted from 0. Consumers dedupe by
    /// `(run, number)`.
    pub first: u64,
    pub entries: Vec<Entry>,
}

impl FeedLine {
    /// Every entry with its number within its run.
    pub fn numbered(&self) -> impl Iterator<Item = (u64, &Entry)> {
        (self.first..).zip(&self.entries)
    }
}

/// The record as it will be, and the write that makes it so.
pub(crate) fn build(
    id: &RunId,
    before: Option<&Held>,
    change: Change,
    op: OpId,
) -> Result<(Record, Commit), RecordError> {
    let (index_set, index_del) = indexes(before, &change.next);
    let deadline = next_deadline(&change.next);
    let first = before.map_or(0, |held| held.record.next_entry());
    let feed = feed(id, first, &change.journal)?;
    let record = Record::after(before.map(|held| &*held.record), change.next, change.journal);
    let commit = Commit {
        key: RecordKey::Run(id.clone()),
        expected: before.map_or(Version::ABSENT, |held| held.version),
        expected_op: before.map(|held| held.op),
        op,
        not_before: change.not_before,
        not_after: change.not_after,
        need_steady_clock: change.need_steady_clock,
        policy_epoch: change.policy_epoch,
        require: change.require,
        licences_set: change.licences_set,
        licences_del: change.licences_del,
        bytes: record.encode()?,
        next_deadline: deadline,
        retain_ms: deadline.is_none().then_some(RETAIN_MS),
        index_set,
        index_del,
        feed,
        durability: change.durability,
    };
    Ok((record, commit))
}

/// What enters the lists, and what leaves them.
fn indexes(before: Option<&Held>, next: &Run) -> (Vec<IndexEntry>, Vec<(String, String)>) {
    type Entries = BTreeMap<(String, String), Ms>;
    let entries = |run| -> Entries {
        index_entries(run).into_iter().map(|(index, member, at)| ((index, member), at)).collect()
    };
    let old = before.map(|held| entries(held.run())).unwrap_or_default();
    let new = entries(next);
    let set = new
        .iter()
        .filter(|(key, score)| old.get(*key) != Some(score))
        .map(|((index, member), score)| IndexEntry {
            index: index.clone(),
            member: member.clone(),
            score: *score,
        })
        .collect();
    let del = old.into_keys().filter(|key| !new.contains_key(key)).collect();
    (set, del)
}

fn feed(id: &RunId, first: u64, journal: &[Entry]) -> Result<Vec<String>, serde_json::Error> {
    if journal.is_empty() {
        return Ok(Vec::new());
    }
    let line = FeedLine { run: id.clone(), first, entries: journal.to_vec() };
    Ok(vec![serde_json::to_string(&line)?])
}
