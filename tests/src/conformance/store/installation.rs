//! The store as a whole: its policy epoch, its epoch, and all-or-nothing.

use bytes::Bytes;
use portcullis_engine::ports::{
    Commit, CommitError, FeedCursor, Order, Storage, StoreError, Version,
};
use portcullis_proto::digest::Digest;
use portcullis_proto::ids::{ApprovalId, Shard};
use portcullis_proto::time::Ms;

use super::{StoreBench, change, create, entry, run, run_key, won};

pub async fn a_raised_policy_epoch_refuses_the_older_one_on_every_shard(bench: &impl StoreBench) {
    let store = bench.store();
    let old = store.policy_epoch().await.unwrap();
    let under = async |name: String, epoch| {
        let mut commit = create(&run_key(&*store, &name));
        commit.policy_epoch = Some(epoch);
        store.commit(commit).await
    };
    for n in 0..40 {
        won(under(format!("before {n}"), old).await);
    }
    let new = store.raise_policy_epoch().await.unwrap();
    assert_eq!(new, old + 1);
    assert_eq!(store.policy_epoch().await, Ok(new));
    for n in 0..40 {
        let answer = under(format!("after {n}"), old).await;
        assert_eq!(answer, Err(CommitError::Policy { current: new }));
        won(under(format!("after {n}"), new).await);
    }
    won(store.commit(create(&run_key(&*store, "asks for none"))).await);
    assert_eq!(store.raise_policy_epoch().await, Ok(new + 1));
}

pub async fn an_emptied_store_refuses_everything(bench: &impl StoreBench) {
    let store = bench.store();
    let key = run_key(&*store, "a");
    let mut first = create(&key);
    first.next_deadline = Some(Ms(1));
    won(store.commit(first).await);
    let end = store.end(key.shard()).await.unwrap();
    bench.wipe().await;

    assert_eq!(store.commit(create(&key)).await, Err(CommitError::Epoch));
    assert_eq!(store.load(&key).await, Err(StoreError::Epoch));
    assert_eq!(store.due(key.shard(), Ms(i64::MAX), 0, 1).await, Err(StoreError::Epoch));
    let range = Ms(0)..=Ms(1);
    let listed = store.list(key.shard(), "run.all", range, Order::LowestFirst, 1).await;
    assert_eq!(listed, Err(StoreError::Epoch));
    assert_eq!(store.count("run.all").await, Err(StoreError::Epoch));
    assert_eq!(store.now().await, Err(StoreError::Epoch));
    assert_eq!(store.end(key.shard()).await, Err(StoreError::Epoch));
    assert_eq!(after(&*store, key.shard(), &end).await, Err(StoreError::Epoch));
    assert_eq!(store.put(Shard(0), Bytes::from_static(b"x"), 1_000).await, Err(StoreError::Epoch));
    assert_eq!(store.get(Shard(0), Digest::of_bytes(b"x")).await, Err(StoreError::Epoch));
    assert_eq!(store.policy_epoch().await, Err(StoreError::Epoch));
    assert_eq!(store.raise_policy_epoch().await, Err(StoreError::Epoch));
}

async fn after(store: &dyn Storage, shard: Shard, end: &FeedCursor) -> Result<usize, StoreError> {
    store.after(shard, end, 1).await.map(|entries| entries.len())
}

/// A commit that would change everything there is.
fn sweeping(store: &dyn Storage, expected: Version, far: Ms) -> Commit {
    let mut commit = change(&run_key(store, "a"), expected);
    let licence = |n| ApprovalId::of(&run(store, "a"), 0, n);
    commit.bytes = Bytes::from_static(b"another record");
    commit.licences_del = vec![licence(1)];
    commit.licences_set = vec![(licence(2), far)];
    commit.next_deadline = Some(far.plus(1));
    commit.retain_ms = Some(60_000);
    commit.index_set = vec![entry("run.waiting", "a", far)];
    commit.index_del = vec![("run.queued".into(), "a".into())];
    commit.feed = vec!["{\"never\":true}".into()];
    commit
}

type Spoil = fn(&mut Commit, Ms);

pub async fn a_refused_commit_changes_nothing_at_all(bench: &impl StoreBench) {
    let store = bench.store();
    let now = bench.freeze(600_000).await;
    let far = now.plus(3_600_000);
    let mut first = create(&run_key(&*store, "a"));
    first.licences_set = vec![(ApprovalId::of(&run(&*store, "a"), 0, 1), far)];
    first.next_deadline = Some(far);
    first.index_set = vec![entry("run.queued", "a", now)];
    first.feed = vec!["{\"first\":true}".into()];
    won(store.commit(first).await);
    let before = bench.raw().await;
    assert!(!before.is_empty());

    let spoils: [(&str, Spoil); 7] = [
        ("conflict", |commit, _| commit.expected = Version(9)),
        ("create", |commit, _| commit.expected = Version::ABSENT),
        ("policy", |commit, _| commit.policy_epoch = Some(77)),
        ("clock", |commit, _| commit.need_steady_clock = true),
        ("early", |commit, now| commit.not_before = Some(now.plus(1))),
        ("late", |commit, now| commit.not_after = Some(now)),
        ("gone", |commit, _| {
            let gone = ApprovalId::of(&commit.licences_set[0].0.run(), 9, 9);
            commit.require = vec![gone];
        }),
    ];
    for (name, spoil) in spoils {
        let mut commit = sweeping(&*store, Version(1), far);
        spoil(&mut commit, now);
        store.commit(commit).await.expect_err(name);
        assert!(bench.raw().await == before, "{name} left a trace");
    }
    won(store.commit(sweeping(&*store, Version(1), far)).await);
    assert!(bench.raw().await != before);
}
