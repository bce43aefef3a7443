//! Long values by content.

use bytes::Bytes;
use portcullis_engine::ports::{BLOB_BYTES_MAX, StoreError};
use portcullis_proto::digest::Digest;
use portcullis_proto::ids::Shard;

use super::{StoreBench, wait, wait_past};

const SHARD: Shard = Shard(0);
const HOUR_MS: i64 = 3_600_000;

pub async fn a_blob_is_found_by_its_content(bench: &impl StoreBench) {
    let store = bench.store();
    for bytes in [Bytes::from_static(b"\x00\xff\r\n"), Bytes::new(), vec![9; 1 << 20].into()] {
        let digest = store.put(SHARD, bytes.clone(), HOUR_MS).await.unwrap();
        assert_eq!(digest, Digest::of_bytes(&bytes));
        assert!(store.get(SHARD, digest).await.unwrap() == Some(bytes));
    }
}

pub async fn an_absent_blob_is_none(bench: &impl StoreBench) {
    let store = bench.store();
    assert_eq!(store.get(SHARD, Digest::of_bytes(b"nobody put this")).await, Ok(None));
    let brief = store.put(SHARD, Bytes::from_static(b"brief"), 1).await.unwrap();
    wait(async || store.get(SHARD, brief).await.unwrap().is_none()).await;
}

pub async fn putting_a_blob_again_prolongs_it_and_never_shortens_it(bench: &impl StoreBench) {
    let store = bench.store();
    let (early, late) = (Bytes::from_static(b"early"), Bytes::from_static(b"late"));
    let prolonged = store.put(SHARD, early.clone(), 300).await.unwrap();
    store.put(SHARD, early.clone(), HOUR_MS).await.unwrap();
    let kept = store.put(SHARD, late.clone(), HOUR_MS).await.unwrap();
    store.put(SHARD, late.clone(), 300).await.unwrap();
    let now = store.now().await.unwrap();
    wait_past(&*store, now.plus(300)).await;
    assert_eq!(store.get(SHARD, prolonged).await, Ok(Some(early)));
    assert_eq!(store.get(SHARD, kept).await, Ok(Some(late)));
}

pub async fn a_blob_that_is_too_long_is_refused(bench: &impl StoreBench) {
    let store = bench.store();
    let answer = store.put(SHARD, vec![1; BLOB_BYTES_MAX + 1].into(), HOUR_MS).await;
    let Err(StoreError::TooLarge { bytes, max, .. }) = answer else { panic!("{answer:?}") };
    assert_eq!((bytes, max), (BLOB_BYTES_MAX + 1, BLOB_BYTES_MAX));
}
