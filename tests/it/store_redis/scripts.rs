//! Are the scripts there when they are called, and safe on a Redis Cluster?

use bytes::Bytes;
use portcullis_engine::ports::{
    Blobs as _, CommitError, Feed as _, Installation as _, Order, RecordKey, Store as _, Version,
};
use portcullis_engine::redis::RedisStore;
use portcullis_proto::ids::{ApprovalId, JobKey, RunId, Shard, ShardCount, Tenant};
use portcullis_proto::time::Ms;
use portcullis_proto::topology::meta_key;
use portcullis_tests::conformance::store::{
    approval, change, create, entry, run, run_key, wait, won,
};
use portcullis_tests::servers::{RedisOptions, RedisServer};

use super::bench::{RedisBench, ask, fresh, settings};

#[tokio::test]
async fn scripts_that_were_flushed_are_loaded_again() {
    let RedisBench { server, store } = fresh().await;
    let key = run_key(&*store, "a");
    for n in 0..3 {
        let () = ask(&server, &["SCRIPT", "FLUSH"]).await;
        assert_eq!(won(store.commit(change(&key, Version(n))).await).version, Version(n + 1));
        let () = ask(&server, &["SCRIPT", "FLUSH"]).await;
        assert!(store.load(&key).await.unwrap().stored.is_some());
        let () = ask(&server, &["SCRIPT", "FLUSH"]).await;
        store.put(Shard(0), Bytes::from(n.to_string()), 60_000).await.unwrap();
        let () = ask(&server, &["SCRIPT", "FLUSH"]).await;
        assert_eq!(store.raise_policy_epoch().await, Ok(n + 1));
    }
}

async fn highest_time_seen(server: &RedisServer, key: &RecordKey) -> i64 {
    ask(server, &["HGET", &meta_key(key.shard()), "hw"]).await
}

#[tokio::test]
async fn what_time_it_was_is_remembered() {
    let RedisBench { server, store } = fresh().await;
    let key = run_key(&*store, "a");
    let first = won(store.commit(create(&key)).await);
    assert_eq!(highest_time_seen(&server, &key).await, first.now.0);
    wait(async || first.now.plus(250) <= store.now().await.unwrap()).await;
    // Also by one that is refused: a passed deadline stays passed when the clock jumps back.
    let answer = store.commit(create(&key)).await;
    let Err(CommitError::Conflict { now }) = answer else { panic!("{answer:?}") };
    assert_eq!(highest_time_seen(&server, &key).await, now.0);
}

/// `WAIT` is about a connection's own writes; an operation found again has made none.
#[tokio::test]
async fn an_operation_found_again_is_backed_by_a_write_of_its_own() {
    let RedisBench { server, store } = fresh().await;
    let firm = create(&run_key(&*store, "a"));
    let first = won(store.commit(firm.clone()).await);
    wait(async || first.now < store.now().await.unwrap()).await;
    let again = won(store.commit(firm.clone()).await);
    assert_eq!(highest_time_seen(&server, &firm.key).await, again.now.0);
}

#[tokio::test]
async fn a_licence_of_another_shard_is_refused_unsent() {
    let RedisBench { store, .. } = fresh().await;
    let key = run_key(&*store, "a");
    let names = (0..).map(|n: u32| n.to_string());
    let elsewhere =
        names.map(|name| approval(&*store, &name)).find(|other| other.run().shard() != key.shard());
    let mut commit = create(&key);
    commit.require = vec![elsewhere.unwrap()];
    let answer = store.commit(commit).await;
    assert!(matches!(answer, Err(CommitError::Unavailable(_))), "{answer:?}");
}

#[tokio::test]
async fn a_shard_that_does_not_exist_is_refused() {
    let RedisBench { server, store } = fresh().await;
    let mut wide = settings(&server);
    wide.shards = ShardCount::new(256).unwrap();
    let shards = wide.shards;
    let foreign = (0_u32..).map(|n| {
        let tenant = Tenant::new("acme").unwrap();
        let key = JobKey::api(&tenant, &n.to_be_bytes());
        RunId::of(&key, shards)
    });
    let run = foreign.into_iter().find(|run| 3 < run.shard().0).unwrap();
    let key = RecordKey::Run(run);
    let answer = store.commit(create(&key)).await;
    assert!(matches!(answer, Err(CommitError::Unavailable(_))), "{answer:?}");
    assert!(store.load(&key).await.is_err());
}

/// A Cluster of one node refuses calls whose keys lie in several slots, declared or not.
#[tokio::test]
async fn no_call_crosses_hash_slots() {
    let extra = vec![("cluster-enabled".to_owned(), "yes".to_owned())];
    let server = RedisServer::start(RedisOptions { extra, ..RedisOptions::default() }).unwrap();
    let () = ask(&server, &["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).await;
    wait(async || {
        let info: String = ask(&server, &["CLUSTER", "INFO"]).await;
        info.contains("cluster_state:ok")
    })
    .await;
    let mut lax = settings(&server);
    lax.strict = false;
    let store = RedisStore::connect(lax).await.unwrap();
    let far = store.now().await.unwrap().plus(600_000);
    for n in 0..20 {
        let name = n.to_string();
        let key = run_key(&store, &name);
        let licence = |n| ApprovalId::of(&run(&store, &name), 0, n);
        let mut first = create(&key);
        first.licences_set = vec![(licence(1), far), (licence(2), far)];
        first.next_deadline = Some(far);
        first.index_set = vec![entry("run.queued", &name, far), entry("run.all", &name, far)];
        first.feed = vec!["{}".into(), "{}".into()];
        won(store.commit(first).await);
        let mut second = change(&key, Version(1));
        second.require = vec![licence(1)];
        second.licences_del = vec![licence(1)];
        second.policy_epoch = Some(0);
        second.index_del = vec![("run.queued".into(), name.clone())];
        second.retain_ms = Some(60_000);
        won(store.commit(second).await);
        assert_eq!(store.load(&key).await.unwrap().stored.unwrap().version, Version(2));
    }
    assert_eq!(store.count("run.all").await, Ok(20));
    assert_eq!(store.raise_policy_epoch().await, Ok(1));
    for shard in store.shape().shards.all() {
        store.put(shard, Bytes::from_static(b"blob"), 60_000).await.unwrap();
        store.end(shard).await.unwrap();
        store.due(shard, far, 0, 10).await.unwrap();
        let range = Ms(0)..=far;
        store.list(shard, "run.all", range, Order::HighestFirst, 10).await.unwrap();
    }
}
