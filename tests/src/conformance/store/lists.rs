//! Lists of records: set, moved, removed, read by range, counted.

use portcullis_engine::ports::{Order, Storage, Version};
use portcullis_proto::ids::Shard;
use portcullis_proto::time::Ms;

use super::{StoreBench, change, create, entry, run_key, won};

const ALL: std::ops::RangeInclusive<Ms> = Ms(0)..=Ms(i64::MAX);

async fn list(store: &dyn Storage, shard: Shard, index: &str) -> Vec<(String, i64)> {
    let entries = store.list(shard, index, ALL, Order::LowestFirst, 100).await.unwrap();
    assert!(entries.iter().all(|entry| entry.index == index));
    entries.into_iter().map(|entry| (entry.member, entry.score.0)).collect()
}

pub async fn an_entry_is_listed_until_it_is_removed(bench: &impl StoreBench) {
    let store = bench.store();
    let key = run_key(&*store, "a");
    let shard = key.shard();
    let mut queued = create(&key);
    queued.index_set = vec![entry("run.queued", "a", Ms(10)), entry("run.all", "a", Ms(10))];
    won(store.commit(queued).await);
    assert_eq!(list(&*store, shard, "run.queued").await, [("a".into(), 10)]);

    let mut moved = change(&key, Version(1));
    moved.index_del = vec![("run.queued".into(), "a".into()), ("run.none".into(), "a".into())];
    moved.index_set = vec![entry("run.waiting", "a", Ms(20)), entry("run.all", "a", Ms(30))];
    won(store.commit(moved).await);
    assert_eq!(list(&*store, shard, "run.queued").await, []);
    assert_eq!(list(&*store, shard, "run.waiting").await, [("a".into(), 20)]);
    assert_eq!(list(&*store, shard, "run.all").await, [("a".into(), 30)], "moved, not doubled");
}

pub async fn a_list_is_read_by_range_order_and_limit(bench: &impl StoreBench) {
    let store = bench.store();
    let key = run_key(&*store, "a");
    let mut first = create(&key);
    first.index_set = (1..=5).map(|n| entry("ask.default", &format!("m{n}"), Ms(n * 10))).collect();
    won(store.commit(first).await);
    let read = async |low, high, order, limit| {
        let range = Ms(low)..=Ms(high);
        let entries = store.list(key.shard(), "ask.default", range, order, limit).await.unwrap();
        entries.iter().map(|entry| entry.score.0).collect::<Vec<_>>()
    };
    assert_eq!(read(0, 100, Order::LowestFirst, 100).await, [10, 20, 30, 40, 50]);
    assert_eq!(read(0, 100, Order::HighestFirst, 100).await, [50, 40, 30, 20, 10]);
    assert_eq!(read(20, 40, Order::LowestFirst, 100).await, [20, 30, 40]);
    assert_eq!(read(20, 40, Order::HighestFirst, 2).await, [40, 30]);
    assert_eq!(read(21, 29, Order::LowestFirst, 100).await, [] as [i64; 0]);
    assert_eq!(read(i64::MIN, i64::MAX, Order::LowestFirst, 1).await, [10]);
}

pub async fn a_count_spans_all_shards(bench: &impl StoreBench) {
    let store = bench.store();
    assert_eq!(store.count("run.queued").await, Ok(0));
    for n in 0..40 {
        let name = n.to_string();
        let mut queued = create(&run_key(&*store, &name));
        queued.index_set = vec![entry("run.queued", &name, Ms(n)), entry("run.all", &name, Ms(n))];
        won(store.commit(queued).await);
    }
    let mut moved = change(&run_key(&*store, "7"), Version(1));
    moved.index_del = vec![("run.queued".into(), "7".into())];
    won(store.commit(moved).await);
    assert_eq!(store.count("run.queued").await, Ok(39));
    assert_eq!(store.count("run.all").await, Ok(40));
}
