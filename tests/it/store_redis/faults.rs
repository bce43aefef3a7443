//! What is answered while Redis is slow, full, read-only, dead or back again?

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use portcullis_engine::ports::{
    Blobs as _, CommitError, RecordKey, Store as _, StoreError, Version,
};
use portcullis_engine::redis::{RedisSettings, RedisStore};
use portcullis_proto::ids::Shard;
use portcullis_proto::time::Ms;
use portcullis_proto::topology::{index_key, timer_key};
use portcullis_tests::conformance::store::{change, create, entry, run_key, wait, won};
use portcullis_tests::servers::RedisServer;
use tokio::task::JoinSet;

use super::bench::{RedisBench, ask, fresh, settings};
use super::proxy::Proxy;

/// Long enough for a busy machine, short enough for a test, in milliseconds.
const RESPONSE_TIMEOUT_MS: u64 = 400;

async fn impatient() -> RedisBench {
    let RedisBench { server, .. } = fresh().await;
    let brief = RedisSettings { response_timeout_ms: RESPONSE_TIMEOUT_MS, ..settings(&server) };
    let store = Arc::new(RedisStore::connect(brief).await.unwrap());
    RedisBench { server, store }
}

/// Runs whose records share a shard.
fn neighbours(store: &RedisStore, count: usize) -> Vec<RecordKey> {
    let keys = (0..).map(|n: u32| run_key(store, &n.to_string()));
    keys.filter(|key| key.shard() == Shard(0)).take(count).collect()
}

#[tokio::test]
async fn a_commit_without_an_answer_in_time_is_unknown_and_may_yet_happen() {
    let RedisBench { server, store } = impatient().await;
    // From the first one on, Redis knows the script.
    won(store.commit(create(&run_key(&*store, "first"))).await);
    let commit = create(&run_key(&*store, "a"));
    server.pause().unwrap();
    let patience = Duration::from_millis(RESPONSE_TIMEOUT_MS * 10);
    let answer = tokio::time::timeout(patience, store.commit(commit.clone())).await.unwrap();
    assert!(matches!(answer, Err(CommitError::Unknown(_))), "{answer:?}");
    server.resume().unwrap();
    wait(async || store.load(&commit.key).await.is_ok_and(|l| l.stored.is_some())).await;
    assert_eq!(won(store.commit(commit).await).version, Version(1), "the same operation");
}

#[tokio::test]
async fn while_writes_are_held_reads_go_on() {
    let RedisBench { server, store } = impatient().await;
    let key = run_key(&*store, "a");
    won(store.commit(create(&key)).await);
    let () = ask(&server, &["CLIENT", "PAUSE", "60000", "WRITE"]).await;
    let answer = store.commit(change(&key, Version(1))).await;
    assert!(matches!(answer, Err(CommitError::Unknown(_))), "{answer:?}");
    assert_eq!(store.load(&key).await.unwrap().stored.unwrap().version, Version(1));
    let () = ask(&server, &["CLIENT", "UNPAUSE"]).await;
}

#[tokio::test]
async fn a_commit_that_nobody_waits_for_any_more_is_not_sent() {
    let RedisBench { server, store } = fresh().await;
    let keys = neighbours(&store, 3);
    won(store.commit(create(&keys[0])).await);
    server.pause().unwrap();
    let under_way = tokio::spawn({
        let (store, commit) = (store.clone(), change(&keys[0], Version(1)));
        async move { store.commit(commit).await }
    });
    // On this test's single thread: lets the shard's task take it and send it.
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    let queued = store.commit(create(&keys[1]));
    let given_up = tokio::time::timeout(Duration::from_millis(50), queued).await;
    assert!(given_up.is_err(), "{given_up:?}");
    server.resume().unwrap();
    assert_eq!(won(under_way.await.unwrap()).version, Version(2));
    won(store.commit(create(&keys[2])).await);
    assert_eq!(store.load(&keys[1]).await.unwrap().stored, None);
}

#[tokio::test]
async fn a_full_queue_refuses_at_once() {
    let RedisBench { server, store } = fresh().await;
    server.pause().unwrap();
    let mut commits = JoinSet::new();
    for key in neighbours(&store, 1_300) {
        let store = store.clone();
        commits.spawn(async move { store.commit(create(&key)).await });
    }
    let first = commits.join_next().await.unwrap().unwrap();
    assert!(matches!(first, Err(CommitError::Unavailable(_))), "{first:?}");
    server.resume().unwrap();
    let answers = commits.join_all().await;
    assert!(answers.iter().any(Result::is_ok));
}

#[tokio::test]
async fn every_answered_commit_survives_a_kill_and_the_store_heals_by_itself() {
    let RedisBench { mut server, store } = fresh().await;
    let mut writers = JoinSet::new();
    for n in 0..8 {
        let store = store.clone();
        writers.spawn(async move {
            let key = run_key(&*store, &format!("writer {n}"));
            let mut answered = Version::ABSENT;
            while let Ok(committed) = store.commit(change(&key, answered)).await {
                answered = committed.version;
            }
            (key, answered)
        });
    }
    let first = run_key(&*store, "writer 0");
    let enough = Version(50);
    let reached =
        async || store.load(&first).await.unwrap().stored.is_some_and(|s| enough <= s.version);
    wait(reached).await;
    server.kill9().unwrap();
    let answered = writers.join_all().await;

    let down = create(&run_key(&*store, "down"));
    wait(async || matches!(store.commit(down.clone()).await, Err(CommitError::Unavailable(_))))
        .await;
    let answer = store.load(&first).await;
    assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");

    server.restart().unwrap();
    wait(async || store.commit(down.clone()).await.is_ok()).await;
    // Reads have connections of their own, which heal by themselves too.
    wait(async || store.load(&first).await.is_ok()).await;
    for (key, version) in answered {
        let found = store.load(&key).await.unwrap().stored.unwrap().version;
        // One more than was answered: the commit whose answer the kill took away.
        assert!(version <= found && found.0 <= version.0 + 1, "{version:?} {found:?}");
    }
}

#[tokio::test]
async fn a_full_or_read_only_redis_has_written_nothing() {
    let RedisBench { server, store } = fresh().await;
    let key = run_key(&*store, "a");
    let fill: [&[&str]; 2] =
        [&["CONFIG", "SET", "maxmemory", "1"], &["REPLICAOF", "127.0.0.1", "1"]];
    let mend: [&[&str]; 2] = [&["CONFIG", "SET", "maxmemory", "0"], &["REPLICAOF", "NO", "ONE"]];
    for (fill, mend) in fill.into_iter().zip(mend) {
        let () = ask(&server, fill).await;
        // Twice: the first one may break off where it moves the time on.
        for _ in 0..2 {
            let answer = store.commit(create(&key)).await;
            assert!(matches!(answer, Err(CommitError::Unavailable(_))), "{answer:?}");
        }
        let () = ask(&server, mend).await;
        assert_eq!(store.load(&key).await.unwrap().stored, None);
        assert_eq!(store.due(key.shard(), Ms(i64::MAX), 0, 9).await.unwrap().entries, []);
    }
    won(store.commit(create(&key)).await);
}

/// The connections of this test's process that Redis knows, but for the one that asks.
async fn connections(server: &RedisServer) -> BTreeSet<String> {
    let list: String = ask(server, &["CLIENT", "LIST", "TYPE", "NORMAL"]).await;
    let others = list.lines().filter(|line| !line.contains("cmd=client|list"));
    others.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[tokio::test]
async fn a_connection_to_a_server_that_is_no_primary_any_more_is_given_up() {
    let RedisBench { server, store } = fresh().await;
    let commit = create(&run_key(&*store, "a"));
    won(store.commit(commit.clone()).await);
    let before = connections(&server).await;
    let () = ask(&server, &["REPLICAOF", "127.0.0.1", "1"]).await;
    wait(async || {
        let answer = store.commit(change(&commit.key, Version(1))).await;
        assert!(matches!(answer, Err(CommitError::Unavailable(_))), "{answer:?}");
        !before.is_subset(&connections(&server).await)
    })
    .await;
}

#[tokio::test]
async fn a_connection_that_fell_silent_is_replaced() {
    let RedisBench { server, .. } = fresh().await;
    let proxy = Proxy::start(server.port()).await;
    let url = format!("redis://127.0.0.1:{}/0", proxy.port);
    let brief =
        RedisSettings { url, response_timeout_ms: RESPONSE_TIMEOUT_MS, ..settings(&server) };
    let store = RedisStore::connect(brief).await.unwrap();
    let key = run_key(&store, "a");
    won(store.commit(create(&key)).await);

    proxy.silence();
    let answer = store.commit(change(&key, Version(1))).await;
    assert!(matches!(answer, Err(CommitError::Unknown(_))), "{answer:?}");
    assert_eq!(won(store.commit(change(&key, Version(1))).await).version, Version(2));
    let answer = store.load(&key).await;
    assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    assert_eq!(store.load(&key).await.unwrap().stored.unwrap().version, Version(2));
}

#[tokio::test]
async fn a_read_whose_connection_breaks_is_asked_once_more() {
    let RedisBench { server, .. } = fresh().await;
    let proxy = Proxy::start(server.port()).await;
    let url = format!("redis://127.0.0.1:{}/0", proxy.port);
    let store = RedisStore::connect(RedisSettings { url, ..settings(&server) }).await.unwrap();
    let key = run_key(&store, "a");
    won(store.commit(create(&key)).await);
    proxy.hang_up_on_the_next_words();
    assert_eq!(store.load(&key).await.unwrap().stored.unwrap().version, Version(1));
    proxy.hang_up_on_the_next_words();
    let answer = store.commit(change(&key, Version(1))).await;
    assert!(matches!(answer, Err(CommitError::Unknown(_))), "never twice: {answer:?}");
}

#[tokio::test]
async fn a_commit_that_breaks_off_leaves_the_record_and_its_neighbours_alone() {
    let RedisBench { server, store } = fresh().await;
    let keys = neighbours(&store, 9);
    let shard = keys[0].shard();
    let () = ask(&server, &["SET", &index_key(shard, "not-a-list"), "x"]).await;
    let mut commits = JoinSet::new();
    for (n, key) in keys.iter().enumerate() {
        let mut commit = create(key);
        if n == 4 {
            commit.index_set = vec![entry("not-a-list", "m", Ms(1))];
        }
        let store = store.clone();
        commits.spawn(async move { (n, store.commit(commit).await) });
    }
    for (n, answer) in commits.join_all().await {
        let broken = matches!(answer, Err(CommitError::Unknown(_)));
        assert_eq!((answer.is_ok(), broken), (n != 4, n == 4), "{n}: {answer:?}");
    }
    assert_eq!(store.load(&keys[4]).await.unwrap().stored, None);

    let () = ask(&server, &["DEL", &timer_key(shard)]).await;
    let () = ask(&server, &["SET", &timer_key(shard), "not a timer"]).await;
    let answer = store.commit(change(&keys[0], Version(1))).await;
    assert!(matches!(answer, Err(CommitError::Unavailable(_))), "{answer:?}");
    assert_eq!(store.load(&keys[0]).await.unwrap().stored.unwrap().version, Version(1));
}

#[tokio::test]
async fn what_is_no_record_and_no_blob_is_corrupt() {
    let RedisBench { server, store } = fresh().await;
    let key = run_key(&*store, "a");
    let () = ask(&server, &["SET", &key.store_key(), "short"]).await;
    let answer = store.load(&key).await;
    assert!(matches!(answer, Err(StoreError::Corrupt(_))), "{answer:?}");
    for from in [Version::ABSENT, Version(1)] {
        let answer = store.commit(change(&key, from)).await;
        assert!(matches!(answer, Err(CommitError::Conflict { .. })), "{answer:?}");
    }

    let digest = store.put(Shard(0), Bytes::from_static(b"good"), 60_000).await.unwrap();
    let blob = portcullis_proto::topology::blob_key(Shard(0), digest);
    let () = ask(&server, &["SET", &blob, "evil"]).await;
    let answer = store.get(Shard(0), digest).await;
    assert!(matches!(answer, Err(StoreError::Corrupt(_))), "{answer:?}");
}
