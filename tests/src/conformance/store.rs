//! Does a store do what `Store`, `Feed`, `Blobs` and `Installation` promise?
//!
//! Each claim is an async function over a [`StoreBench`]. `store_conformance!(bench)` turns all of
//! them into tests, each with a bench of its own; `bench` is an `async fn() -> impl StoreBench`.
//! The builders are public for an adapter's own tests.

#![expect(clippy::unwrap_used, reason = "a claim that cannot be checked has failed")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use portcullis_engine::ports::{
    Commit, CommitError, Committed, Durability, IndexEntry, RecordKey, Storage, Version,
};
use portcullis_proto::ids::{ApprovalId, JobKey, OpId, ReminderName, RunId, Shard, Tenant};
use portcullis_proto::time::Ms;

pub mod blobs;
pub mod feed;
pub mod installation;
pub mod licences;
pub mod lists;
pub mod races;
pub mod timers;
pub mod versions;
pub mod windows;

/// How long a claim waits for something that must happen, in milliseconds.
const PATIENCE_MS: u64 = 20_000;

/// Everything a store holds, by name, with expiries, but without the highest time it has seen:
/// that one may move forward at any time.
pub type Raw = BTreeMap<String, Vec<u8>>;

/// A fresh store, and what its ports cannot do.
#[async_trait]
pub trait StoreBench: Send + Sync {
    fn store(&self) -> Arc<dyn Storage>;

    /// Reads everything the store holds, around its ports.
    async fn raw(&self) -> Raw;

    /// Lets the highest time seen lie `ahead_ms` ahead of the clock, in every shard, and answers
    /// that time: the store's time stands still there until its clock has caught up.
    async fn freeze(&self, ahead_ms: i64) -> Ms;

    /// Adds an entry to a shard's timer, around the ports.
    async fn plant_timer(&self, shard: Shard, member: &str, at: Ms);

    /// Empties the store behind the back of the process that has it open.
    async fn wipe(&self);
}

/// All claims, as tests. The argument is an `async fn() -> impl StoreBench`.
#[macro_export]
macro_rules! store_conformance {
    ($bench:path) => {
        $crate::store_claims! { $bench;
            versions::a_record_is_absent_until_it_is_created,
            versions::a_commit_from_an_old_version_is_a_conflict,
            versions::an_existing_record_is_not_created_again,
            versions::a_commit_from_the_same_version_of_another_history_is_a_conflict,
            versions::an_absent_record_is_not_changed,
            versions::the_same_operation_sent_again_answers_as_the_first_did,
            versions::an_operation_is_found_among_the_last_eight_only,
            versions::an_operation_made_of_parts_of_two_others_is_not_found,
            versions::the_zero_operation_is_not_found_where_it_never_was,
            versions::an_operation_found_again_answers_although_its_window_has_passed,
            versions::a_reminder_is_a_record_too,
            versions::the_longest_record_is_kept_and_a_longer_one_is_refused,
            versions::a_record_under_retention_disappears,
            versions::a_later_commit_lifts_the_retention,
            windows::a_commit_at_its_end_is_late,
            windows::a_commit_before_its_beginning_is_early,
            windows::time_stands_still_while_the_clock_is_behind,
            windows::a_lagging_clock_stops_only_what_needs_a_steady_one,
            windows::a_small_lag_is_steady,
            windows::a_lost_race_is_told_before_any_other_reason,
            licences::a_required_licence_must_live,
            licences::a_deleted_licence_is_gone,
            licences::an_expired_licence_is_gone,
            licences::a_licence_past_its_deadline_is_never_born,
            licences::a_licence_set_again_lives_until_the_new_deadline,
            licences::one_commit_trades_a_licence_for_another,
            timers::a_record_has_exactly_one_timer_entry,
            timers::due_entries_come_earliest_first_and_in_pages,
            timers::entries_that_nobody_can_read_are_skipped,
            timers::entries_that_nobody_can_read_do_not_hide_those_behind_them,
            lists::an_entry_is_listed_until_it_is_removed,
            lists::a_list_is_read_by_range_order_and_limit,
            lists::a_count_spans_all_shards,
            feed::entries_come_in_commit_order,
            feed::a_page_ends_where_the_next_begins,
            feed::the_end_lies_behind_the_newest_entry,
            feed::shards_have_feeds_of_their_own,
            blobs::a_blob_is_found_by_its_content,
            blobs::an_absent_blob_is_none,
            blobs::putting_a_blob_again_prolongs_it_and_never_shortens_it,
            blobs::a_blob_that_is_too_long_is_refused,
            installation::a_raised_policy_epoch_refuses_the_older_one_on_every_shard,
            installation::an_emptied_store_refuses_everything,
            installation::a_refused_commit_changes_nothing_at_all,
            races::one_of_fifty_commits_from_the_same_version_wins,
            races::two_hundred_records_are_created_at_once,
            races::each_commit_of_a_crowd_gets_its_own_answer,
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! store_claims {
    ($bench:path; $($area:ident :: $claim:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $claim() {
                let bench = $bench().await;
                $crate::conformance::store::$area::$claim(&bench).await;
            }
        )*
    };
}

/// An operation id that nobody had before.
pub fn op() -> OpId {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).unwrap();
    OpId(bytes)
}

/// The run of a job called `name`.
pub fn run(store: &dyn Storage, name: &str) -> RunId {
    let tenant = Tenant::new("acme").unwrap();
    RunId::of(&JobKey::api(&tenant, name.as_bytes()), store.shape().shards)
}

pub fn run_key(store: &dyn Storage, name: &str) -> RecordKey {
    RecordKey::Run(run(store, name))
}

fn reminder_key(store: &dyn Storage, name: &str) -> RecordKey {
    RecordKey::reminder(ReminderName::new(name).unwrap(), store.shape().shards)
}

pub fn approval(store: &dyn Storage, name: &str) -> ApprovalId {
    ApprovalId::of(&run(store, name), 0, 1)
}

/// A firm commit of a few bytes that asks for nothing and sets nothing else.
pub fn change(key: &RecordKey, expected: Version) -> Commit {
    Commit {
        key: key.clone(),
        expected,
        expected_op: None,
        op: op(),
        not_before: None,
        not_after: None,
        need_steady_clock: false,
        policy_epoch: None,
        require: vec![],
        licences_set: vec![],
        licences_del: vec![],
        bytes: Bytes::from_static(b"a record"),
        next_deadline: None,
        retain_ms: None,
        index_set: vec![],
        index_del: vec![],
        feed: vec![],
        durability: Durability::Firm,
    }
}

pub fn create(key: &RecordKey) -> Commit {
    change(key, Version::ABSENT)
}

pub fn entry(index: &str, member: &str, score: Ms) -> IndexEntry {
    IndexEntry { index: index.into(), member: member.into(), score }
}

/// Commits what must succeed.
#[track_caller]
pub fn won(answer: Result<Committed, CommitError>) -> Committed {
    answer.unwrap()
}

/// Waits until the store's time lies behind `at`.
async fn wait_past(store: &dyn Storage, at: Ms) {
    wait(async || at < store.now().await.unwrap()).await;
}

/// Asks until the answer is yes.
pub async fn wait(mut asked: impl AsyncFnMut() -> bool) {
    let patience = Duration::from_millis(PATIENCE_MS);
    let waited = tokio::time::timeout(patience, async {
        while !asked().await {
            tokio::task::yield_now().await;
        }
    });
    waited.await.expect("it happens in time");
}
