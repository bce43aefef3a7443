//! Neighbours in one transaction.

use std::sync::Arc;

use bytes::Bytes;
use portcullis_proto::ids::{JobKey, OpId, RunId, ShardCount, Tenant};
use rusqlite::ffi;
use tokio::sync::oneshot::Receiver;

use super::*;
use crate::ports::{
    Commit, CommitError, Committed, Durability, IndexEntry, RecordKey, StoreError, Version,
};
use crate::sqlite::work::Task;
use crate::sqlite::{commit, open, reads};

const EPOCH: Epoch = Epoch([7; 16]);
const NOW: Ms = Ms(1_000);

type Answer = Result<Committed, CommitError>;

struct Bench {
    connection: Connection,
    clock: Clock,
    works: Vec<Box<dyn Work>>,
}

impl Bench {
    fn new() -> Self {
        let clock = Clock::starting_at(Ms(0), Arc::new(|| NOW.0));
        Self { connection: open::in_memory(EPOCH), clock, works: Vec::new() }
    }

    fn add(&mut self, commit: Commit) -> Receiver<Answer> {
        let (work, answer) =
            Task::asked(0, move |turn: &mut Turn<'_>| commit::perform(turn, &commit));
        self.works.push(work);
        answer
    }

    fn add_sql(&mut self, sql: &'static str) -> Receiver<Result<(), StoreError>> {
        let (work, answer) = Task::asked(0, move |turn: &mut Turn<'_>| {
            turn.wrote = true;
            turn.connection.execute_batch(sql).map(Ok)
        });
        self.works.push(work);
        answer
    }

    fn run(&mut self) -> Result<Option<Ms>, Failure> {
        let mut works = std::mem::take(&mut self.works);
        let outcome = run(&self.connection, &self.clock, EPOCH, &mut works);
        let told = outcome.clone().map(|_| ());
        works.into_iter().for_each(|work| work.settle(&told));
        assert!(self.connection.is_autocommit(), "no transaction stays open");
        outcome
    }

    fn count(&self, table: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM {table}");
        self.connection.query_row(&sql, [], |row| row.get(0)).unwrap()
    }
}

fn change(n: u8, op: u8, expected: u64) -> Commit {
    let tenant = Tenant::new("acme").unwrap();
    let run = RunId::of(&JobKey::api(&tenant, &[n]), ShardCount::new(1).unwrap());
    Commit {
        key: RecordKey::Run(run),
        expected: Version(expected),
        expected_op: None,
        op: OpId([op; 8]),
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
        feed: vec!["{}".to_owned()],
        durability: Durability::Firm,
    }
}

fn told<T>(answer: &mut Receiver<T>) -> T {
    answer.try_recv().unwrap()
}

fn version(answer: &mut Receiver<Answer>) -> u64 {
    told(answer).unwrap().version.0
}

#[test]
fn the_second_of_two_commits_to_a_record_sees_the_first() {
    let mut bench = Bench::new();
    let mut first = bench.add(change(1, 1, 0));
    let mut second = bench.add(change(1, 2, 1));
    let mut again = bench.add(change(1, 1, 0));
    let mut loser = bench.add(change(1, 3, 0));
    assert_eq!(bench.run(), Ok(Some(NOW)));
    assert_eq!((version(&mut first), version(&mut second), version(&mut again)), (1, 2, 1));
    assert_eq!(told(&mut loser), Err(CommitError::Conflict { now: NOW }));
    assert_eq!((bench.count("record"), bench.count("feed")), (1, 2));
}

#[test]
fn a_refused_commit_leaves_its_neighbours_alone() {
    let mut bench = Bench::new();
    let mut before = bench.add(change(1, 1, 0));
    let mut late = change(2, 1, 0);
    late.not_after = Some(NOW);
    let mut late = bench.add(late);
    let mut after = bench.add(change(3, 1, 0));
    bench.run().unwrap();
    assert_eq!((version(&mut before), version(&mut after)), (1, 1));
    assert_eq!(told(&mut late), Err(CommitError::Late { now: NOW }));
    assert_eq!((bench.count("record"), bench.count("feed")), (2, 2));
}

#[test]
fn a_group_of_refusals_writes_nothing() {
    let mut bench = Bench::new();
    let mut refused = bench.add(change(1, 1, 5));
    let before = bench.connection.total_changes();
    assert_eq!(bench.run(), Ok(None));
    assert_eq!(bench.connection.total_changes(), before);
    assert!(told(&mut refused).is_err());
}

#[test]
fn an_error_of_sqlite_takes_the_whole_group_back() {
    let mut bench = Bench::new();
    let mut before = bench.add(change(1, 1, 0));
    let mut broken = bench.add_sql("INSERT INTO no_such_table VALUES (1)");
    let mut after = bench.add(change(2, 1, 0));
    assert!(matches!(bench.run(), Err(Failure::Unavailable(_))));
    assert!(matches!(told(&mut before), Err(CommitError::Unavailable(_))));
    assert!(matches!(told(&mut broken), Err(StoreError::Unavailable(_))));
    assert!(matches!(told(&mut after), Err(CommitError::Unavailable(_))));
    assert_eq!((bench.count("record"), bench.count("feed")), (0, 0));

    let mut next = bench.add(change(1, 1, 0));
    bench.run().unwrap();
    assert_eq!(version(&mut next), 1);
}

#[test]
fn a_failed_commit_is_taken_back_and_told_so() {
    let mut bench = Bench::new();
    bench
        .connection
        .execute_batch(
            "PRAGMA foreign_keys = ON;
             CREATE TABLE child (of INTEGER REFERENCES record (id) DEFERRABLE INITIALLY DEFERRED)",
        )
        .unwrap();
    let mut before = bench.add(change(1, 1, 0));
    // Not the statement fails but COMMIT, where deferred keys are checked.
    let _broken = bench.add_sql("INSERT INTO child VALUES (4711)");
    assert!(matches!(bench.run(), Err(Failure::Unavailable(_))));
    assert!(matches!(told(&mut before), Err(CommitError::Unavailable(_))));
    assert_eq!((bench.count("record"), bench.count("feed"), bench.count("child")), (0, 0, 0));
}

#[test]
fn only_a_commit_that_certainly_failed_is_told_as_failed() {
    let error = |code| Error::SqliteFailure(ffi::Error::new(code), None);
    let full = error(ffi::SQLITE_FULL);
    assert!(matches!(after_failed_commit(&full, 4, Some(4)), Failure::Unavailable(_)));
    assert!(matches!(after_failed_commit(&full, 4, Some(5)), Failure::Unknown(_)));
    assert!(matches!(after_failed_commit(&full, 4, None), Failure::Unknown(_)));
    let fsync = error(ffi::SQLITE_IOERR_FSYNC);
    assert!(matches!(after_failed_commit(&fsync, 4, Some(4)), Failure::Unknown(_)));
}

#[test]
fn each_group_that_wrote_is_counted_and_keeps_the_time() {
    let mut bench = Bench::new();
    for turns in 0..3 {
        assert_eq!(meta(&bench.connection).unwrap().turns, turns);
        let _answer = bench.add(change(1, turns as u8, turns.cast_unsigned()));
        assert_eq!(bench.run(), Ok(Some(NOW)));
    }
    let kept: i64 = bench
        .connection
        .query_row("SELECT v FROM meta WHERE k = 'hw'", [], |row| row.get(0))
        .unwrap();
    assert_eq!(kept, NOW.0);
}

#[test]
fn a_raised_policy_epoch_counts_for_the_rest_of_its_group() {
    let mut bench = Bench::new();
    let under = |n, epoch| {
        let mut commit = change(n, 1, 0);
        commit.policy_epoch = Some(epoch);
        commit
    };
    let mut before = bench.add(under(1, 0));
    let (raise, mut raised) = Task::asked(0, commit::raise_policy_epoch);
    bench.works.push(raise);
    let mut after = bench.add(under(2, 0));
    let mut new = bench.add(under(3, 1));
    bench.run().unwrap();
    assert_eq!(told(&mut raised), Ok(1));
    assert_eq!((version(&mut before), version(&mut new)), (1, 1));
    assert_eq!(told(&mut after), Err(CommitError::Policy { current: 1 }));
}

#[test]
fn the_length_of_a_list_follows_its_entries() {
    let mut bench = Bench::new();
    let entry =
        |score| IndexEntry { index: "run.all".into(), member: "a".into(), score: Ms(score) };
    let lengths = [
        (vec![entry(1)], vec![], 1),
        (vec![entry(2), entry(3)], vec![], 1),
        (vec![], vec![("run.all".to_owned(), "b".to_owned())], 1),
        (vec![], vec![("run.all".to_owned(), "a".to_owned())], 0),
        (vec![], vec![("run.all".to_owned(), "a".to_owned())], 0),
    ];
    for (at, (set, del, length)) in lengths.into_iter().enumerate() {
        let mut next = change(1, at as u8, at as u64);
        (next.index_set, next.index_del) = (set, del);
        let mut answer = bench.add(next);
        bench.run().unwrap();
        version(&mut answer);
        assert_eq!(bench.count("idx"), length, "step {at}");
        assert_eq!(reads::count(&bench.connection, "run.all"), Ok(length as u64), "step {at}");
    }
}

#[test]
fn another_epoch_refuses_the_group() {
    let mut bench = Bench::new();
    bench.connection.execute("UPDATE meta SET v = zeroblob(16) WHERE k = 'epoch'", []).unwrap();
    let mut answer = bench.add(change(1, 1, 0));
    assert_eq!(bench.run(), Err(Failure::Swapped));
    assert_eq!(told(&mut answer), Err(CommitError::Epoch));
    assert_eq!(bench.count("record"), 0);
}
