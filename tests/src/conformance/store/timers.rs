//! Every live record once, by its next deadline.

use portcullis_engine::ports::{Due, RecordKey, Storage, Version};
use portcullis_proto::ids::Shard;
use portcullis_proto::time::Ms;

use super::{StoreBench, change, create, reminder_key, run_key, won};

const END: Ms = Ms(i64::MAX);

async fn due(store: &dyn Storage, shard: Shard) -> Vec<Due> {
    store.due(shard, END, 0, 100).await.unwrap().entries
}

/// Runs of one shard, as many as are asked for.
fn neighbours(store: &dyn Storage, count: usize) -> Vec<RecordKey> {
    let shard = run_key(store, "0").shard();
    let keys = (0..).map(|n| run_key(store, &n.to_string()));
    keys.filter(|key| key.shard() == shard).take(count).collect()
}

pub async fn a_record_has_exactly_one_timer_entry(bench: &impl StoreBench) {
    let store = bench.store();
    for key in [run_key(&*store, "a"), reminder_key(&*store, "nightly")] {
        let mut first = create(&key);
        first.next_deadline = Some(Ms(5_000));
        won(store.commit(first).await);
        assert_eq!(due(&*store, key.shard()).await, [Due { key: key.clone(), at: Ms(5_000) }]);

        let mut moved = change(&key, Version(1));
        moved.next_deadline = Some(Ms(3_000));
        won(store.commit(moved).await);
        assert_eq!(due(&*store, key.shard()).await, [Due { key: key.clone(), at: Ms(3_000) }]);

        won(store.commit(change(&key, Version(2))).await);
        assert_eq!(due(&*store, key.shard()).await, []);
    }
}

pub async fn due_entries_come_earliest_first_and_in_pages(bench: &impl StoreBench) {
    let store = bench.store();
    let keys = neighbours(&*store, 5);
    let shard = keys[0].shard();
    for (key, at) in keys.iter().zip([50, 10, 40, 20, 30]) {
        let mut first = create(key);
        first.next_deadline = Some(Ms(at));
        won(store.commit(first).await);
    }
    let page = async |until, offset, limit| {
        let page = store.due(shard, Ms(until), offset, limit).await.unwrap();
        page.entries.iter().map(|entry| entry.at.0).collect::<Vec<_>>()
    };
    assert_eq!(page(i64::MAX, 0, 100).await, [10, 20, 30, 40, 50]);
    assert_eq!(page(30, 0, 100).await, [10, 20, 30], "until is a part of it");
    assert_eq!(page(29, 0, 100).await, [10, 20]);
    assert_eq!(page(i64::MAX, 1, 2).await, [20, 30]);
    assert_eq!(page(i64::MAX, 5, 2).await, [] as [i64; 0]);
    assert_eq!(store.due(shard, Ms(10), 0, 1).await.unwrap().entries[0].key, keys[1]);
}

pub async fn entries_that_nobody_can_read_are_skipped(bench: &impl StoreBench) {
    let store = bench.store();
    let key = run_key(&*store, "a");
    let mut first = create(&key);
    first.next_deadline = Some(Ms(20));
    won(store.commit(first).await);
    for (member, at) in [("what is this", 10), ("c:", 15), ("x:later-release", 30)] {
        bench.plant_timer(key.shard(), member, Ms(at)).await;
    }
    assert_eq!(due(&*store, key.shard()).await, [Due { key, at: Ms(20) }]);
}

pub async fn entries_that_nobody_can_read_do_not_hide_those_behind_them(bench: &impl StoreBench) {
    let store = bench.store();
    let keys = neighbours(&*store, 2);
    for (key, at) in keys.iter().zip([100, 200]) {
        let mut first = create(key);
        first.next_deadline = Some(Ms(at));
        won(store.commit(first).await);
    }
    for n in 0..25 {
        bench.plant_timer(keys[0].shard(), &format!("x:{n}"), Ms(n)).await;
    }
    let page = store.due(keys[0].shard(), END, 0, 10).await.unwrap();
    assert_eq!(page.entries.iter().map(|entry| entry.at.0).collect::<Vec<_>>(), [100, 200]);
}
