//! What happened, in commit order per shard.

use portcullis_engine::ports::{FeedCursor, RecordKey, Storage, Version};

use super::{StoreBench, change, create, run_key, won};

async fn after(store: &dyn Storage, key: &RecordKey, cursor: &FeedCursor) -> Vec<String> {
    let entries = store.after(key.shard(), cursor, 100).await.unwrap();
    entries.into_iter().map(|entry| entry.json).collect()
}

/// Commits `count` entries called `{"n":1}` and so on, two at a time.
async fn fill(store: &dyn Storage, key: &RecordKey, count: u64) -> Vec<String> {
    let all: Vec<_> = (1..=count).map(|n| format!("{{\"n\":{n}}}")).collect();
    let mut at = Version::ABSENT;
    for pair in all.chunks(2) {
        let mut commit = change(key, at);
        commit.feed = pair.to_vec();
        at = won(store.commit(commit).await).version;
    }
    all
}

pub async fn entries_come_in_commit_order(bench: &impl StoreBench) {
    let store = bench.store();
    let key = run_key(&*store, "a");
    let start = store.end(key.shard()).await.unwrap();
    assert_eq!(after(&*store, &key, &start).await, [] as [String; 0]);
    let all = fill(&*store, &key, 40).await;
    assert_eq!(after(&*store, &key, &start).await, all);
}

pub async fn a_page_ends_where_the_next_begins(bench: &impl StoreBench) {
    let store = bench.store();
    let key = run_key(&*store, "a");
    let mut cursor = store.end(key.shard()).await.unwrap();
    let all = fill(&*store, &key, 10).await;
    let mut read = vec![];
    loop {
        let page = store.after(key.shard(), &cursor, 3).await.unwrap();
        assert!(page.len() <= 3);
        let Some(last) = page.last() else { break };
        cursor = last.cursor.clone();
        read.extend(page.into_iter().map(|entry| entry.json));
    }
    assert_eq!(read, all);
}

pub async fn the_end_lies_behind_the_newest_entry(bench: &impl StoreBench) {
    let store = bench.store();
    let (key, other) = (run_key(&*store, "a"), run_key(&*store, "b"));
    fill(&*store, &key, 4).await;
    let end = store.end(key.shard()).await.unwrap();
    assert_eq!(after(&*store, &key, &end).await, [] as [String; 0]);
    let mut next = change(&key, Version(2));
    next.feed = vec!["{\"next\":true}".into()];
    won(store.commit(next).await);
    won(store.commit(create(&other)).await);
    assert_eq!(after(&*store, &key, &end).await, ["{\"next\":true}"]);
}

pub async fn shards_have_feeds_of_their_own(bench: &impl StoreBench) {
    let store = bench.store();
    let key = run_key(&*store, "a");
    let mut starts = vec![];
    for shard in store.shape().shards.all() {
        starts.push((shard, store.end(shard).await.unwrap()));
    }
    fill(&*store, &key, 2).await;
    for (shard, start) in starts {
        let found = store.after(shard, &start, 100).await.unwrap().len();
        assert_eq!(found, if shard == key.shard() { 2 } else { 0 }, "{shard}");
    }
}
