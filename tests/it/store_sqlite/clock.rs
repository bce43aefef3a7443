//! Time over restarts, and what it lets expire.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use portcullis_engine::ports::{Blobs as _, CommitError, Store as _};
use portcullis_engine::sqlite::{OpenError, SqliteStore};
use portcullis_proto::ids::{ApprovalId, Shard};
use portcullis_tests::servers::TempFolder;
use rusqlite::Connection;

use super::{Bench, bench, change, run, settings};

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

#[tokio::test]
async fn an_answered_commit_takes_its_time_to_the_disk() {
    let Bench { store, offset_ms, folder } = bench().await;
    offset_ms.store(HOUR_MS, Ordering::Release);
    let committed = store.commit(change(1, 0, "x")).await.unwrap();
    let shell = Connection::open(super::database(&folder)).unwrap();
    let kept: i64 =
        shell.query_row("SELECT v FROM meta WHERE k = 'hw'", [], |row| row.get(0)).unwrap();
    assert!(committed.now.0 <= kept, "{committed:?}, {kept}");
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
async fn expired_rows_are_removed_and_the_others_stay() {
    let bench = bench().await;
    let shell = bench.shell();
    let far = bench.store.now().await.unwrap().plus(10 * HOUR_MS);
    for n in 0..1_500 {
        let mut brief = change(n, 0, "x");
        brief.retain_ms = (n != 7).then_some(HOUR_MS);
        let until = if n == 7 { far } else { far.minus(9 * HOUR_MS) };
        brief.licences_set = vec![(ApprovalId::of(&run(n), 0, 1), until)];
        let store = Arc::clone(&bench.store);
        // All but the last are only begun here, so that they share fsyncs.
        let commit = tokio::spawn(async move { store.commit(brief).await.unwrap() });
        if n % 500 == 499 {
            commit.await.unwrap();
        }
    }
    until(|| rows(&shell, "record") == 1_500).await;
    bench.store.put(Shard(0), "brief".into(), HOUR_MS).await.unwrap();
    bench.store.put(Shard(0), "stays".into(), 10 * HOUR_MS).await.unwrap();
    bench.offset_ms.fetch_add(2 * HOUR_MS, Ordering::AcqRel);
    until(|| ["record", "licence", "blob"].iter().all(|table| rows(&shell, table) == 1)).await;
    assert_eq!(super::version(&bench.store, 7).await, Some(1));
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
