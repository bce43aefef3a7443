//! A licence to approve: it dies by itself, and deleting it denies.

use portcullis_engine::ports::{CommitError, Storage, Version};
use portcullis_proto::ids::ApprovalId;
use portcullis_proto::time::Ms;

use super::{StoreBench, approval, change, create, run_key, wait_past, won};

/// A record whose first commit sets its licence, alive until `deadline`.
async fn with_licence(store: &dyn Storage, name: &str, deadline: Ms) -> ApprovalId {
    let licence = approval(store, name);
    let mut first = create(&run_key(store, name));
    first.licences_set = vec![(licence.clone(), deadline)];
    won(store.commit(first).await);
    licence
}

async fn require(store: &dyn Storage, name: &str, from: u64) -> Result<Version, CommitError> {
    let mut second = change(&run_key(store, name), Version(from));
    second.require = vec![approval(store, name)];
    store.commit(second).await.map(|committed| committed.version)
}

pub async fn a_required_licence_must_live(bench: &impl StoreBench) {
    let store = bench.store();
    let far = store.now().await.unwrap().plus(600_000);
    let licence = with_licence(&*store, "a", far).await;
    assert_eq!(require(&*store, "a", 1).await, Ok(Version(2)));

    let other = ApprovalId::of(&licence.run(), 0, 2);
    let mut both = change(&run_key(&*store, "a"), Version(2));
    both.require = vec![licence, other.clone()];
    let answer = store.commit(both).await;
    let Err(CommitError::Gone { approval, .. }) = answer else { panic!("{answer:?}") };
    assert_eq!(approval, other, "it names the one that is gone");
}

pub async fn a_deleted_licence_is_gone(bench: &impl StoreBench) {
    let store = bench.store();
    let far = store.now().await.unwrap().plus(600_000);
    let licence = with_licence(&*store, "a", far).await;
    let mut delete = change(&run_key(&*store, "a"), Version(1));
    delete.licences_del = vec![licence];
    won(store.commit(delete).await);
    let answer = require(&*store, "a", 2).await;
    assert!(matches!(answer, Err(CommitError::Gone { .. })), "{answer:?}");
}

pub async fn an_expired_licence_is_gone(bench: &impl StoreBench) {
    let store = bench.store();
    let now = store.now().await.unwrap();
    with_licence(&*store, "lives", now.plus(600_000)).await;
    with_licence(&*store, "dies", now.plus(300)).await;
    wait_past(&*store, now.plus(300)).await;
    let answer = require(&*store, "dies", 1).await;
    assert!(matches!(answer, Err(CommitError::Gone { .. })), "{answer:?}");
    assert_eq!(require(&*store, "lives", 1).await, Ok(Version(2)));
}

pub async fn a_licence_past_its_deadline_is_never_born(bench: &impl StoreBench) {
    let store = bench.store();
    let now = store.now().await.unwrap();
    for (name, deadline) in [("past", now.minus(1_000)), ("zero", Ms(0)), ("negative", Ms(-5))] {
        with_licence(&*store, name, deadline).await;
        let answer = require(&*store, name, 1).await;
        assert!(matches!(answer, Err(CommitError::Gone { .. })), "{name}: {answer:?}");
    }
    with_licence(&*store, "never ends", Ms(i64::MAX)).await;
    assert_eq!(require(&*store, "never ends", 1).await, Ok(Version(2)));
}

pub async fn a_licence_set_again_lives_until_the_new_deadline(bench: &impl StoreBench) {
    let store = bench.store();
    let now = store.now().await.unwrap();
    let licence = with_licence(&*store, "a", now.plus(300)).await;
    let mut extend = change(&run_key(&*store, "a"), Version(1));
    extend.licences_set = vec![(licence, now.plus(600_000))];
    won(store.commit(extend).await);
    wait_past(&*store, now.plus(300)).await;
    assert_eq!(require(&*store, "a", 2).await, Ok(Version(3)));
}

pub async fn one_commit_trades_a_licence_for_another(bench: &impl StoreBench) {
    let store = bench.store();
    let far = store.now().await.unwrap().plus(600_000);
    let old = with_licence(&*store, "a", far).await;
    let new = ApprovalId::of(&old.run(), 0, 2);
    let key = run_key(&*store, "a");
    let mut trade = change(&key, Version(1));
    trade.require = vec![old.clone()];
    trade.licences_del = vec![old.clone()];
    trade.licences_set = vec![(new.clone(), far)];
    won(store.commit(trade).await);
    let mut spend = change(&key, Version(2));
    spend.require = vec![old];
    let answer = store.commit(spend.clone()).await;
    assert!(matches!(answer, Err(CommitError::Gone { .. })), "{answer:?}");
    spend.require = vec![new];
    won(store.commit(spend).await);
}
