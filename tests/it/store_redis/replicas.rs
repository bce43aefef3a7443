//! Is a firm commit answered only once every promotable replica has it?

use std::sync::Arc;

use portcullis_engine::finding::Severity;
use portcullis_engine::ports::{
    CommitError, Durability, Installation as _, Store as _, StoreError, Version,
};
use portcullis_engine::redis::{RedisSettings, RedisSite, RedisStore};
use portcullis_tests::conformance::store::{change, create, run_key, wait, won};
use portcullis_tests::servers::{AppendFsync, RedisOptions, RedisServer};
use tokio::task::JoinSet;

use super::bench::{ask, settings};

struct Pair {
    primary: RedisServer,
    replica: RedisServer,
    store: Arc<RedisStore>,
}

/// How long a store waits for a replica that will answer, and for one that will not.
const PATIENT_MS: u64 = 20_000;
const BRIEF_MS: u64 = 300;

fn waiting_for_one(primary: &RedisServer, wait_ms: u64) -> RedisSettings {
    RedisSettings { replicas: 1, wait_ms, ..settings(primary) }
}

/// A primary with one replica that has caught up, and a store that waits for it.
async fn pair(wait_ms: u64) -> Pair {
    let quickly = vec![("repl-diskless-sync-delay".to_owned(), "0".to_owned())];
    let primary =
        RedisServer::start(RedisOptions { extra: quickly, ..RedisOptions::default() }).unwrap();
    let extra = vec![("replicaof".to_owned(), format!("127.0.0.1 {}", primary.port()))];
    let swift = RedisOptions { appendfsync: AppendFsync::No, extra, ..RedisOptions::default() };
    let replica = RedisServer::start(swift).unwrap();
    wait(async || {
        let info: String = ask(&primary, &["INFO", "replication"]).await;
        info.contains("state=online")
    })
    .await;
    let store = RedisStore::connect(waiting_for_one(&primary, wait_ms)).await.unwrap();
    let store = Arc::new(store);
    let first = create(&run_key(&*store, "first"));
    wait(async || store.commit(first.clone()).await.is_ok()).await;
    Pair { primary, replica, store }
}

#[tokio::test]
async fn a_firm_commit_is_on_the_replica_when_it_is_answered() {
    let Pair { primary, replica, store } = pair(PATIENT_MS).await;
    for n in 0..20 {
        let key = run_key(&*store, &n.to_string());
        won(store.commit(create(&key)).await);
        let copied: bool = ask(&replica, &["EXISTS", &key.store_key()]).await;
        assert!(copied, "{n}");
    }
    // The scripts are as unknown on these connections' server as on any other.
    let () = ask(&primary, &["SCRIPT", "FLUSH"]).await;
    won(store.commit(create(&run_key(&*store, "flushed"))).await);
}

#[tokio::test]
async fn without_the_replicas_word_a_firm_commit_is_not_durable() {
    let Pair { primary, replica, store } = pair(BRIEF_MS).await;
    replica.pause().unwrap();
    let key = run_key(&*store, "a");
    let firm = create(&key);
    assert_eq!(store.commit(firm.clone()).await, Err(CommitError::NotDurable));
    assert_eq!(store.load(&key).await.unwrap().stored.unwrap().version, Version(1));
    assert_eq!(store.commit(firm.clone()).await, Err(CommitError::NotDurable), "asked again");
    let restarted = RedisStore::connect(waiting_for_one(&primary, BRIEF_MS)).await.unwrap();
    assert_eq!(restarted.commit(firm.clone()).await, Err(CommitError::NotDurable), "by another");

    let mut soft = change(&key, Version(1));
    soft.durability = Durability::Soft;
    assert_eq!(won(store.commit(soft).await).version, Version(2));
    replica.resume().unwrap();
    wait(async || store.commit(firm.clone()).await.is_ok()).await;
    assert_eq!(won(store.commit(firm).await).version, Version(1));
}

#[tokio::test]
async fn a_refusal_is_told_as_what_it_is_also_without_replicas() {
    let Pair { primary: _primary, replica, store } = pair(BRIEF_MS).await;
    replica.pause().unwrap();
    let answer = store.commit(change(&run_key(&*store, "a"), Version(1))).await;
    assert!(matches!(answer, Err(CommitError::Conflict { .. })), "{answer:?}");
}

#[tokio::test]
async fn soft_commits_that_travel_with_firm_ones_stay_soft() {
    let Pair { primary: _primary, replica, store } = pair(BRIEF_MS).await;
    replica.pause().unwrap();
    let mut commits = JoinSet::new();
    for n in 0..40 {
        let mut commit = create(&run_key(&*store, &n.to_string()));
        let soft = n % 2 == 0;
        commit.durability = if soft { Durability::Soft } else { Durability::Firm };
        let store = store.clone();
        commits.spawn(async move { (soft, store.commit(commit).await) });
    }
    for (soft, answer) in commits.join_all().await {
        assert_eq!(answer.is_ok(), soft, "{answer:?}");
        assert!(soft || answer == Err(CommitError::NotDurable), "{answer:?}");
    }
}

#[tokio::test]
async fn a_policy_epoch_is_raised_only_with_the_replicas_word() {
    let Pair { primary: _primary, replica, store } = pair(BRIEF_MS).await;
    wait(async || store.raise_policy_epoch().await.is_ok()).await;
    let raised = store.policy_epoch().await.unwrap();
    replica.pause().unwrap();
    let answer = store.raise_policy_epoch().await;
    assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    replica.resume().unwrap();
    wait(async || store.raise_policy_epoch().await.is_ok()).await;
    assert!(raised < store.policy_epoch().await.unwrap());
}

#[tokio::test]
async fn replicas_that_nobody_waits_for_are_told() {
    let Pair { primary, replica, .. } = pair(PATIENT_MS).await;
    let look = async |replicas, check| {
        let settings = RedisSettings { replicas, ..settings(&primary) };
        let findings = RedisSite::examine(&settings).await.unwrap();
        findings.iter().find(|finding| finding.check == check).unwrap().severity
    };
    for (replicas, connected, promotable) in [
        (0, Severity::Warning, Severity::Fatal),
        (1, Severity::Fine, Severity::Fine),
        (2, Severity::Warning, Severity::Fine),
    ] {
        assert_eq!(look(replicas, "redis-replicas").await, connected, "{replicas}");
        assert_eq!(look(replicas, "redis-promotable").await, promotable, "{replicas}");
    }
    // One that is never promoted loses nothing.
    let () = ask(&replica, &["CONFIG", "SET", "replica-priority", "0"]).await;
    assert_eq!(look(0, "redis-promotable").await, Severity::Fine);
    // A primary that is cut off must stop by itself.
    assert_eq!(look(1, "redis-min-replicas").await, Severity::Warning);
    let () = ask(&primary, &["CONFIG", "SET", "min-replicas-to-write", "1"]).await;
    assert_eq!(look(1, "redis-min-replicas").await, Severity::Fine);
}

/// A failover to a replica that had not seen the last commit: the number of a lost version comes
/// again, from another operation.
#[tokio::test]
async fn who_holds_a_version_that_a_failover_lost_cannot_commit_over_the_one_that_replaced_it() {
    let Pair { mut primary, replica, store } = pair(PATIENT_MS).await;
    let key = run_key(&*store, "a");
    let first = create(&key);
    won(store.commit(first.clone()).await);
    let () = ask(&replica, &["REPLICAOF", "NO", "ONE"]).await;
    // Only the old primary has this one, and whoever was told of it.
    let mut lost = change(&key, Version(1));
    (lost.expected_op, lost.durability) = (Some(first.op), Durability::Soft);
    assert_eq!(won(store.commit(lost.clone()).await).version, Version(2));
    primary.kill9().unwrap();
    drop(store);
    let () = ask(&replica, &["CONFIG", "SET", "appendfsync", "always"]).await;

    let promoted = RedisStore::connect(settings(&replica)).await.unwrap();
    let held = promoted.load(&key).await.unwrap().stored.expect("the firm one is there");
    assert_eq!((held.version, held.op), (Version(1), first.op));
    let mut other = change(&key, Version(1));
    other.expected_op = Some(held.op);
    assert_eq!(won(promoted.commit(other).await).version, Version(2));
    let mut stale = change(&key, Version(2));
    stale.expected_op = Some(lost.op);
    let answer = promoted.commit(stale).await;
    assert!(matches!(answer, Err(CommitError::Conflict { .. })), "{answer:?}");
}
