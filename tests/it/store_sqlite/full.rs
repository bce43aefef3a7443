//! A full disk refuses, keeps what it has, and works again once there is space.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use portcullis_engine::ports::{Blobs as _, CommitError, Store as _, StoreError, Version};
use portcullis_engine::sqlite::{SqliteSettings, SqliteStore};
use portcullis_proto::ids::Shard;
use portcullis_tests::servers::TempFolder;

use super::{change, settings, version};

const HOUR_MS: i64 = 3_600_000;
/// The records of this test, in bytes.
const LONG: usize = 40_000;

fn small(folder: &TempFolder, offset_ms: &Arc<AtomicI64>, size_bytes_max: u64) -> SqliteSettings {
    let mut settings = settings(folder, offset_ms);
    settings.size_bytes_max = Some(size_bytes_max);
    settings
}

/// Creates runs until one is refused, and answers how many there are and why it was refused.
async fn fill(store: &SqliteStore) -> (u64, CommitError) {
    for n in 0..1_000 {
        let mut long = change(n, 0, vec![7; LONG]);
        long.retain_ms = Some(HOUR_MS);
        long.feed = vec![format!("{n}")];
        match store.commit(long).await {
            Ok(committed) => assert_eq!(committed.version, Version(1)),
            Err(why) => return (n, why),
        }
    }
    panic!("forty megabytes went into one");
}

#[tokio::test]
async fn a_full_file_refuses_and_goes_on_once_rows_have_expired() {
    let folder = TempFolder::new("full").unwrap();
    let offset_ms = Arc::new(AtomicI64::new(0));
    let store = SqliteStore::open(small(&folder, &offset_ms, 1_000_000)).unwrap();
    let (count, why) = fill(&store).await;
    assert!(10 < count, "{count} runs");
    let CommitError::Unavailable(why) = why else { panic!("{why:?}") };
    assert!(why.contains("free space"), "{why}");
    let answer = store.put(Shard(0), vec![1; 900_000].into(), HOUR_MS).await;
    assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");

    assert_eq!(version(&store, count).await, None, "nothing of the refused one");
    for n in 0..count {
        assert_eq!(version(&store, n).await, Some(1), "run {n}");
    }

    offset_ms.fetch_add(2 * HOUR_MS, Ordering::AcqRel);
    let patience = std::time::Duration::from_secs(20);
    tokio::time::timeout(patience, async {
        while store.commit(change(count, 0, vec![7; LONG])).await.is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
    assert_eq!(version(&store, count).await, Some(1));
}

#[tokio::test]
async fn a_full_store_goes_on_where_it_was_with_a_higher_limit() {
    let folder = TempFolder::new("full").unwrap();
    let offset_ms = Arc::new(AtomicI64::new(0));
    let store = SqliteStore::open(small(&folder, &offset_ms, 1_000_000)).unwrap();
    let (count, _) = fill(&store).await;
    drop(store);
    let store = SqliteStore::open(small(&folder, &offset_ms, 2_000_000)).unwrap();
    store.commit(change(count, 0, vec![7; LONG])).await.unwrap();
    for n in 0..=count {
        assert_eq!(version(&store, n).await, Some(1), "run {n}");
    }
    assert_eq!(store.quick_check().await.unwrap().found, "sound");
}
