//! Turns a change of a run into the one conditional write that makes it durable.

use std::collections::BTreeMap;

use portcullis_proto::ids::{OpId, RunId};
use portcullis_proto::journal::Entry;
use portcullis_proto::run::{Change, RETAIN_MS, index_entries, next_deadline};
use portcullis_proto::time::Ms;

use crate::drive::Held;
use crate::ports::{Commit, IndexEntry, RecordKey, Version};
use crate::record::{Record, RecordError};

/// One journal entry as it stands in the feed.
#[derive(serde::Serialize, serde::Deserialize, Clone, Debug)]
pub struct FeedLine {
    pub run: RunId,
    /// The entry's number within its run, counted from 0. Consumers dedupe by `(run, no)`.
    pub no: u64,
    #[serde(flatten)]
    pub entry: Entry,
}

pub(crate) fn build(
    id: &RunId,
    before: Option<&Held>,
    change: &Change,
    record: &Record,
    op: OpId,
) -> Result<Commit, RecordError> {
    let (index_set, index_del) = indexes(before, change);
    let deadline = next_deadline(&change.next);
    let first = before.map_or(0, |held| held.record.next_entry());
    Ok(Commit {
        key: RecordKey::Run(id.clone()),
        expected: before.map_or(Version::ABSENT, |held| held.version),
        expected_op: before.map(|held| held.op),
        op,
        not_before: change.not_before,
        not_after: change.not_after,
        need_steady_clock: change.need_steady_clock,
        policy_epoch: change.policy_epoch,
        require: change.require.clone(),
        licences_set: change.licences_set.clone(),
        licences_del: change.licences_del.clone(),
        bytes: record.encode()?,
        next_deadline: deadline,
        retain_ms: deadline.is_none().then_some(RETAIN_MS),
        index_set,
        index_del,
        feed: feed(id, first, &change.journal)?,
        durability: change.durability,
    })
}

/// What enters the lists, and what leaves them.
fn indexes(before: Option<&Held>, change: &Change) -> (Vec<IndexEntry>, Vec<(String, String)>) {
    type Entries = BTreeMap<(String, String), Ms>;
    let entries = |run| -> Entries {
        index_entries(run).into_iter().map(|(index, member, at)| ((index, member), at)).collect()
    };
    let old = before.map(|held| entries(held.run())).unwrap_or_default();
    let new = entries(&change.next);
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
    let lines = journal.iter().zip(first..).map(|(entry, no)| {
        serde_json::to_string(&FeedLine { run: id.clone(), no, entry: entry.clone() })
    });
    lines.collect()
}
