//! Compare and set, and operations whose reply was lost.

use bytes::Bytes;
use portcullis_engine::ports::{
    CommitError, Committed, Durability, RECORD_BYTES_MAX, RecordKey, Storage, Stored, Version,
};
use portcullis_proto::ids::OpId;
use portcullis_proto::time::Ms;

use super::{StoreBench, change, create, op, reminder_key, run_key, wait, won};

async fn version(store: &dyn Storage, key: &RecordKey) -> Option<Version> {
    store.load(key).await.unwrap().stored.map(|stored| stored.version)
}

pub async fn a_record_is_absent_until_it_is_created(bench: &impl StoreBench) {
    let store = bench.store();
    let key = run_key(&*store, "a");
    let before = store.load(&key).await.unwrap();
    assert_eq!(before.stored, None);

    let mut first = create(&key);
    first.bytes = Bytes::from_static(b"\x00binary\xff\r\n");
    let op = first.op;
    let first = won(store.commit(first).await);
    assert_eq!(first.version, Version(1));
    assert!(before.now <= first.now);

    let after = store.load(&key).await.unwrap();
    let bytes = Bytes::from_static(b"\x00binary\xff\r\n");
    assert_eq!(after.stored, Some(Stored { version: Version(1), op, bytes }));
    assert!(first.now <= after.now);

    let mut empty = change(&key, Version(1));
    empty.bytes = Bytes::new();
    let op = empty.op;
    assert_eq!(won(store.commit(empty).await).version, Version(2));
    let stored = store.load(&key).await.unwrap().stored;
    assert_eq!(stored, Some(Stored { version: Version(2), op, bytes: Bytes::new() }));
}

pub async fn a_commit_from_an_old_version_is_a_conflict(bench: &impl StoreBench) {
    let store = bench.store();
    let key = run_key(&*store, "a");
    won(store.commit(create(&key)).await);
    won(store.commit(change(&key, Version(1))).await);
    for old in [Version(1), Version(3)] {
        let answer = store.commit(change(&key, old)).await;
        assert!(matches!(answer, Err(CommitError::Conflict { .. })), "{old:?}: {answer:?}");
    }
    assert_eq!(version(&*store, &key).await, Some(Version(2)));
}

pub async fn a_commit_from_the_same_version_of_another_history_is_a_conflict(
    bench: &impl StoreBench,
) {
    let store = bench.store();
    let key = run_key(&*store, "a");
    // Long enough that the record remembers no more than its last eight operations.
    for count in 0..10 {
        let next = change(&key, Version(count));
        let made = next.op;
        won(store.commit(next).await);
        // Lost in a failover: whoever holds it has another operation under the same number.
        let mut lost = change(&key, Version(count + 1));
        lost.expected_op = Some(create(&key).op);
        let answer = store.commit(lost).await;
        assert!(matches!(answer, Err(CommitError::Conflict { .. })), "{count}: {answer:?}");
        let mut fresh = change(&key, Version(count + 1));
        fresh.expected_op = Some(made);
        fresh.not_after = Some(Ms(0));
        let answer = store.commit(fresh).await;
        assert!(matches!(answer, Err(CommitError::Late { .. })), "{count}: {answer:?}");
    }
    assert_eq!(version(&*store, &key).await, Some(Version(10)));
}

pub async fn an_existing_record_is_not_created_again(bench: &impl StoreBench) {
    let store = bench.store();
    let key = run_key(&*store, "a");
    won(store.commit(create(&key)).await);
    let answer = store.commit(create(&key)).await;
    assert!(matches!(answer, Err(CommitError::Conflict { .. })), "{answer:?}");
}

pub async fn an_absent_record_is_not_changed(bench: &impl StoreBench) {
    let store = bench.store();
    let key = run_key(&*store, "a");
    let answer = store.commit(change(&key, Version(1))).await;
    assert!(matches!(answer, Err(CommitError::Conflict { .. })), "{answer:?}");
    assert_eq!(version(&*store, &key).await, None);
}

pub async fn the_same_operation_sent_again_answers_as_the_first_did(bench: &impl StoreBench) {
    let store = bench.store();
    let key = run_key(&*store, "a");
    for durability in [Durability::Firm, Durability::Soft] {
        let from = version(&*store, &key).await.unwrap_or(Version::ABSENT);
        let mut first = change(&key, from);
        first.durability = durability;
        first.feed = vec!["{}".into()];
        let end = store.end(key.shard()).await.unwrap();
        let Committed { version: at, now } = won(store.commit(first.clone()).await);
        let again = won(store.commit(first.clone()).await);
        assert_eq!(again.version, at);
        assert!(now <= again.now);

        won(store.commit(change(&key, at)).await);
        assert_eq!(won(store.commit(first).await).version, at, "after another commit");
        assert_eq!(version(&*store, &key).await, Some(Version(at.0 + 1)));
        assert_eq!(store.after(key.shard(), &end, 9).await.unwrap().len(), 1);
    }
}

pub async fn an_operation_is_found_among_the_last_eight_only(bench: &impl StoreBench) {
    let store = bench.store();
    let key = run_key(&*store, "a");
    let mut at = Version::ABSENT;
    for _ in 0..3 {
        at = won(store.commit(change(&key, at)).await).version;
    }
    let first = change(&key, at);
    at = won(store.commit(first.clone()).await).version;
    for _ in 0..7 {
        at = won(store.commit(change(&key, at)).await).version;
    }
    assert_eq!(won(store.commit(first.clone()).await).version, Version(4));
    won(store.commit(change(&key, at)).await);
    let answer = store.commit(first).await;
    assert!(matches!(answer, Err(CommitError::Conflict { .. })), "{answer:?}");
}

pub async fn an_operation_made_of_parts_of_two_others_is_not_found(bench: &impl StoreBench) {
    let store = bench.store();
    let key = run_key(&*store, "a");
    let mut older = create(&key);
    older.op = OpId([1, 2, 3, 4, 5, 6, 7, 8]);
    won(store.commit(older).await);
    let mut newer = change(&key, Version(1));
    newer.op = OpId([11, 12, 13, 14, 15, 16, 17, 18]);
    won(store.commit(newer).await);
    for parts in [[15, 16, 17, 18, 1, 2, 3, 4], [5, 6, 7, 8, 11, 12, 13, 14]] {
        let mut odd = create(&key);
        odd.op = OpId(parts);
        let answer = store.commit(odd).await;
        assert!(matches!(answer, Err(CommitError::Conflict { .. })), "{answer:?}");
    }
    // The version in front of the operations is none of them either.
    let mut odd = create(&key);
    odd.op = OpId(2_u64.to_be_bytes());
    let answer = store.commit(odd).await;
    assert!(matches!(answer, Err(CommitError::Conflict { .. })), "{answer:?}");
}

pub async fn the_zero_operation_is_not_found_where_it_never_was(bench: &impl StoreBench) {
    let store = bench.store();
    let key = run_key(&*store, "a");
    let mut zeros = create(&key);
    zeros.bytes = Bytes::from_static(&[0; 128]);
    won(store.commit(zeros).await);
    let mut zero = create(&key);
    zero.op = OpId([0; 8]);
    let answer = store.commit(zero).await;
    assert!(matches!(answer, Err(CommitError::Conflict { .. })), "{answer:?}");
}

pub async fn an_operation_found_again_answers_although_its_window_has_passed(
    bench: &impl StoreBench,
) {
    let store = bench.store();
    let key = run_key(&*store, "a");
    let mut timely = create(&key);
    timely.not_after = Some(store.now().await.unwrap().plus(60_000));
    won(store.commit(timely.clone()).await);
    bench.freeze(120_000).await;
    assert_eq!(won(store.commit(timely.clone()).await).version, Version(1));
    timely.op = op();
    timely.expected = Version(1);
    let answer = store.commit(timely).await;
    assert!(matches!(answer, Err(CommitError::Late { .. })), "{answer:?}");
}

pub async fn a_reminder_is_a_record_too(bench: &impl StoreBench) {
    let store = bench.store();
    let (key, other) = (reminder_key(&*store, "nightly"), reminder_key(&*store, "weekly"));
    won(store.commit(create(&key)).await);
    assert_eq!(version(&*store, &key).await, Some(Version(1)));
    assert_eq!(version(&*store, &other).await, None);
}

pub async fn the_longest_record_is_kept_and_a_longer_one_is_refused(bench: &impl StoreBench) {
    let store = bench.store();
    let key = run_key(&*store, "a");
    let mut long = create(&key);
    long.bytes = vec![7; RECORD_BYTES_MAX].into();
    let mut longer = long.clone();
    longer.bytes = vec![7; RECORD_BYTES_MAX + 1].into();
    let answer = store.commit(longer).await;
    assert_eq!(answer, Err(CommitError::TooLarge { bytes: RECORD_BYTES_MAX + 1 }));
    assert_eq!(version(&*store, &key).await, None);
    won(store.commit(long.clone()).await);
    let stored = store.load(&key).await.unwrap().stored.unwrap();
    assert!(stored.bytes == long.bytes, "{} bytes came back", stored.bytes.len());
}

pub async fn a_record_under_retention_disappears(bench: &impl StoreBench) {
    let store = bench.store();
    let (key, stays) = (run_key(&*store, "a"), run_key(&*store, "b"));
    won(store.commit(create(&stays)).await);
    won(store.commit(create(&key)).await);
    let mut last = change(&key, Version(1));
    last.retain_ms = Some(400);
    won(store.commit(last).await);
    assert_eq!(version(&*store, &key).await, Some(Version(2)), "not at once");
    wait(async || version(&*store, &key).await.is_none()).await;
    assert_eq!(version(&*store, &stays).await, Some(Version(1)));
    assert_eq!(won(store.commit(create(&key)).await).version, Version(1));
}

pub async fn a_later_commit_lifts_the_retention(bench: &impl StoreBench) {
    let store = bench.store();
    let (key, dies) = (run_key(&*store, "a"), run_key(&*store, "b"));
    for key in [&key, &dies] {
        let mut brief = create(key);
        brief.retain_ms = Some(2_000);
        won(store.commit(brief).await);
    }
    won(store.commit(change(&key, Version(1))).await);
    wait(async || version(&*store, &dies).await.is_none()).await;
    assert_eq!(version(&*store, &key).await, Some(Version(2)));
}
