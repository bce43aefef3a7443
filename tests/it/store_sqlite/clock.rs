//! Time over restarts, and what it lets expire.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use portcullis_engine::ports::{Blobs as _, CommitError, Installation as _, Store as _};
use portcullis_engine::sqlite::{OpenError, SqliteStore};
use portcullis_proto::ids::{ApprovalId, Shard};
use portcullis_proto::time::Ms;
use portcullis_tests::servers::TempFolder;
use rusqlite::Connection;

use super::{bench, change, run, settings};

const HOUR_MS: i64 = 3_600_000;

async fn until(mut yes: impl FnMut() -> bool) {
    tokio::time::timeout(Duration::from_secs(20), async {
        while !yes() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("it happens in time");
}

fn rows(shell: &Connection, table: &str) -> i64 {
    shell.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn a_passed_deadline_stays_passed_over_a_restart() {
    let folder = TempFolder::new("clock").unwrap();
    let offset_ms = Arc::new(AtomicI64::new(0));
    let store = SqliteStore::open(settings(&folder, &offset_ms)).unwrap();
    let deadline = store.now().await.unwrap().plus(HOUR_MS);
    offset_ms.store(2 * HOUR_MS, Ordering::Release);
    let committed = store.commit(change(1, 0, "x")).await.unwrap();
    drop(store);

    offset_ms.store(0, Ordering::Release);
    let store = SqliteStore::open(settings(&folder, &offset_ms)).unwrap();
    assert!(committed.now <= store.now().await.unwrap());
    let mut late = change(2, 0, "x");
    late.not_after = Some(deadline);
    assert!(matches!(store.commit(late).await, Err(CommitError::Late { .. })));
    let mut act = change(2, 0, "x");
    act.need_steady_clock = true;
    assert!(matches!(store.commit(act).await, Err(CommitError::Clock { .. })));
}

fn highest_time_kept(shell: &Connection) -> i64 {
    shell.query_row("SELECT v FROM meta WHERE k = 'hw'", [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn what_was_answered_takes_its_time_to_the_disk() {
    let bench = bench().await;
    let (store, shell) = (&bench.store, bench.shell());
    // Steps that are too short for an idle store to keep.
    let step = async || {
        bench.offset_ms.fetch_add(50_000, Ordering::AcqRel);
        store.now().await.unwrap().0
    };
    let told = step().await;
    store.commit(change(1, 0, "x")).await.unwrap();
    assert!(told <= highest_time_kept(&shell), "commit");
    let told = step().await;
    store.put(Shard(0), "x".into(), HOUR_MS).await.unwrap();
    assert!(told <= highest_time_kept(&shell), "blob");
    let told = step().await;
    store.raise_policy_epoch().await.unwrap();
    assert!(told <= highest_time_kept(&shell), "policy epoch");
}

#[tokio::test]
async fn an_idle_store_keeps_the_time_too() {
    let bench = bench().await;
    let shell = bench.shell();
    bench.offset_ms.store(HOUR_MS, Ordering::Release);
    let told = bench.store.now().await.unwrap().0;
    until(|| told <= highest_time_kept(&shell)).await;
}

#[tokio::test]
async fn a_closed_store_keeps_the_time_that_readers_were_told() {
    let folder = TempFolder::new("clock").unwrap();
    let offset_ms = Arc::new(AtomicI64::new(HOUR_MS));
    let store = SqliteStore::open(settings(&folder, &offset_ms)).unwrap();
    offset_ms.store(2 * HOUR_MS, Ordering::Release);
    let told = store.now().await.unwrap();
    drop(store);
    offset_ms.store(0, Ordering::Release);
    let store = SqliteStore::open(settings(&folder, &offset_ms)).unwrap();
    assert!(told <= store.now().await.unwrap());
}

#[tokio::test]
async fn a_clock_that_was_ahead_by_mistake_can_be_reset_once_the_store_is_stopped() {
    let folder = TempFolder::new("clock").unwrap();
    let offset_ms = Arc::new(AtomicI64::new(1_000 * HOUR_MS));
    let store = SqliteStore::open(settings(&folder, &offset_ms)).unwrap();
    let ahead = store.commit(change(1, 0, "x")).await.unwrap().now;
    offset_ms.store(0, Ordering::Release);
    let refused = SqliteStore::reset_clock(settings(&folder, &offset_ms));
    assert!(matches!(refused, Err(OpenError::InUse { .. })), "{refused:?}");
    drop(store);

    let (before, after) = SqliteStore::reset_clock(settings(&folder, &offset_ms)).unwrap();
    assert!(ahead <= before && after <= ahead.minus(999 * HOUR_MS), "{before} {after}");
    let store = SqliteStore::open(settings(&folder, &offset_ms)).unwrap();
    let mut act = change(1, 1, "x");
    act.need_steady_clock = true;
    store.commit(act).await.unwrap();
}

#[tokio::test]
async fn what_expired_is_gone_for_readers_before_it_is_removed() {
    let bench = bench().await;
    let (store, shell) = (&bench.store, bench.shell());
    let mut brief = change(1, 0, "x");
    brief.retain_ms = Some(HOUR_MS);
    brief.next_deadline = Some(Ms(1));
    let key = brief.key.clone();
    store.commit(brief).await.unwrap();
    let blob = store.put(Shard(0), "brief".into(), HOUR_MS).await.unwrap();
    // Nothing can be removed while this holds the file.
    shell.execute_batch("BEGIN IMMEDIATE").unwrap();
    bench.offset_ms.store(2 * HOUR_MS, Ordering::Release);
    assert_eq!(store.load(&key).await.unwrap().stored, None);
    assert_eq!(store.due(Shard(0), Ms(i64::MAX), 0, 9).await.unwrap().entries, []);
    assert_eq!(store.get(Shard(0), blob).await, Ok(None));
    assert_eq!((rows(&shell, "record"), rows(&shell, "blob")), (1, 1));
    shell.execute_batch("ROLLBACK").unwrap();
}

#[tokio::test]
async fn expired_rows_are_removed_and_the_others_stay() {
    let bench = bench().await;
    let (store, shell) = (&bench.store, bench.shell());
    let now = store.now().await.unwrap();
    for (n, hours) in [(1, 1), (2, 10)] {
        let mut brief = change(n, 0, "x");
        brief.retain_ms = Some(hours * HOUR_MS);
        brief.licences_set = vec![(ApprovalId::of(&run(n), 0, 1), now.plus(hours * HOUR_MS))];
        store.commit(brief).await.unwrap();
    }
    store.put(Shard(0), "brief".into(), HOUR_MS).await.unwrap();
    store.put(Shard(0), "stays".into(), 10 * HOUR_MS).await.unwrap();
    // More than a step a second would remove in time.
    let many = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000)
                INSERT INTO record (key, version, expires_ms, ops, bytes)
                SELECT 'many ' || i, 1, ?1, zeroblob(8), x'' FROM n";
    shell.execute(many, [now.plus(HOUR_MS).0]).unwrap();
    bench.offset_ms.store(2 * HOUR_MS, Ordering::Release);
    until(|| ["record", "licence", "blob"].iter().all(|table| rows(&shell, table) == 1)).await;
    assert_eq!(super::version(store, 2).await, Some(1));
}

#[tokio::test]
async fn the_feed_keeps_its_newest_entries() {
    let bench = bench().await;
    let shell = bench.shell();
    let many = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 102000)
                INSERT INTO feed (json) SELECT i FROM n";
    shell.execute(many, []).unwrap();
    until(|| rows(&shell, "feed") <= 100_512).await;
    bench.offset_ms.fetch_add(HOUR_MS, Ordering::AcqRel);
    let mut next = change(1, 0, "x");
    next.feed = vec!["next".to_owned()];
    bench.store.commit(next).await.unwrap();
    assert!(100_000 <= rows(&shell, "feed"));
    let last: i64 = shell.query_row("SELECT max(id) FROM feed", [], |row| row.get(0)).unwrap();
    assert_eq!(last, 102_001);
}
