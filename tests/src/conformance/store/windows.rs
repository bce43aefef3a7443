//! Only the store's time decides, and it never runs backwards.

use portcullis_engine::ports::{CLOCK_LAG_MS_MAX, CommitError, Version};

use super::{StoreBench, change, create, run_key, won};

pub async fn a_commit_at_its_end_is_late(bench: &impl StoreBench) {
    let store = bench.store();
    let key = run_key(&*store, "a");
    let now = bench.freeze(60_000).await;
    for end in [now.minus(1), now] {
        let mut late = create(&key);
        late.not_after = Some(end);
        assert_eq!(store.commit(late).await, Err(CommitError::Late { now }), "{end}");
    }
    let mut timely = create(&key);
    timely.not_after = Some(now.plus(1));
    assert_eq!(won(store.commit(timely).await).now, now);
}

pub async fn a_commit_before_its_beginning_is_early(bench: &impl StoreBench) {
    let store = bench.store();
    let key = run_key(&*store, "a");
    let now = bench.freeze(60_000).await;
    let mut early = create(&key);
    early.not_before = Some(now.plus(1));
    assert_eq!(store.commit(early).await, Err(CommitError::Early { now }));
    let mut timely = create(&key);
    timely.not_before = Some(now);
    assert_eq!(won(store.commit(timely).await).now, now);
}

pub async fn time_stands_still_while_the_clock_is_behind(bench: &impl StoreBench) {
    let store = bench.store();
    let key = run_key(&*store, "a");
    let before = store.now().await.unwrap();
    let frozen = bench.freeze(60_000).await;
    assert!(before.plus(60_000) <= frozen, "{before} {frozen}");
    assert_eq!(store.now().await, Ok(frozen));
    assert_eq!(won(store.commit(create(&key)).await).now, frozen);
    assert_eq!(store.load(&key).await.unwrap().now, frozen);
    assert_eq!(store.due(key.shard(), frozen, 0, 1).await.unwrap().now, frozen);
}

pub async fn a_lagging_clock_stops_only_what_needs_a_steady_one(bench: &impl StoreBench) {
    let store = bench.store();
    let key = run_key(&*store, "a");
    bench.freeze(60_000).await;
    let mut act = create(&key);
    act.need_steady_clock = true;
    let answer = store.commit(act).await;
    let Err(CommitError::Clock { lag_ms }) = answer else { panic!("{answer:?}") };
    assert!(CLOCK_LAG_MS_MAX < lag_ms && lag_ms <= 60_000, "{lag_ms}");
    won(store.commit(create(&key)).await);
}

pub async fn a_small_lag_is_steady(bench: &impl StoreBench) {
    let store = bench.store();
    bench.freeze(CLOCK_LAG_MS_MAX).await;
    let mut act = create(&run_key(&*store, "a"));
    act.need_steady_clock = true;
    won(store.commit(act).await);
}

pub async fn a_lost_race_is_told_before_any_other_reason(bench: &impl StoreBench) {
    let store = bench.store();
    let key = run_key(&*store, "a");
    won(store.commit(create(&key)).await);
    let now = bench.freeze(60_000).await;
    let mut bad = change(&key, Version(7));
    bad.need_steady_clock = true;
    bad.policy_epoch = Some(99);
    bad.not_before = Some(now.plus(1));
    bad.not_after = Some(now);
    bad.require = vec![super::approval(&*store, "a")];
    assert_eq!(store.commit(bad.clone()).await, Err(CommitError::Conflict { now }));
    bad.expected = Version(1);
    let answer = store.commit(bad.clone()).await;
    assert!(matches!(answer, Err(CommitError::Policy { .. })), "{answer:?}");
    bad.policy_epoch = None;
    let answer = store.commit(bad.clone()).await;
    assert!(matches!(answer, Err(CommitError::Clock { .. })), "{answer:?}");
    bad.need_steady_clock = false;
    assert_eq!(store.commit(bad.clone()).await, Err(CommitError::Early { now }));
    bad.not_before = None;
    assert_eq!(store.commit(bad.clone()).await, Err(CommitError::Late { now }));
    bad.not_after = None;
    let answer = store.commit(bad).await;
    assert!(matches!(answer, Err(CommitError::Gone { .. })), "{answer:?}");
}
