//! The simulated store does what a store does, and loses what a failover loses.

use std::sync::Arc;

use async_trait::async_trait;
use portcullis_engine::ports::{CommitError, Durability, Storage, Store as _, Version};
use portcullis_proto::ids::Shard;
use portcullis_proto::time::Ms;
use portcullis_tests::conformance::store::{Raw, StoreBench, change, create, run_key, won};
use portcullis_tests::simulation::store::MemoryStore;
use portcullis_tests::store_conformance;

store_conformance!(bench);

struct Bench(Arc<MemoryStore>);

#[expect(clippy::unused_async, reason = "the suite awaits every bench")]
async fn bench() -> Bench {
    Bench(MemoryStore::new(4))
}

#[async_trait]
impl StoreBench for Bench {
    fn store(&self) -> Arc<dyn Storage> {
        self.0.clone()
    }

    async fn raw(&self) -> Raw {
        self.0.dump()
    }

    async fn freeze(&self, ahead_ms: i64) -> Ms {
        self.0.move_clock(ahead_ms);
        let _seen = self.0.time();
        self.0.move_clock(-ahead_ms);
        self.0.time()
    }

    async fn plant_timer(&self, shard: Shard, member: &str, at: Ms) {
        self.0.plant_timer(shard, member, at);
    }

    async fn wipe(&self) {
        self.0.swap(true);
    }
}

#[tokio::test]
async fn a_crash_takes_back_what_was_soft_and_nothing_else() {
    let store = MemoryStore::new(4);
    let key = run_key(&*store, "a");
    let mut first = create(&key);
    first.next_deadline = Some(Ms(5));
    won(store.commit(first).await);
    let before = store.dump();
    let mut soft = change(&key, Version(1));
    soft.durability = Durability::Soft;
    soft.next_deadline = Some(Ms(7));
    soft.feed = vec!["{}".to_owned()];
    won(store.commit(soft.clone()).await);
    let firm = change(&run_key(&*store, "b"), Version::ABSENT);
    assert_eq!(store.commit_now(&firm, false), Err(CommitError::NotDurable), "written, but soft");
    assert_eq!(store.crash(), 2);
    let mut after = store.dump();
    // An empty list is a list that is not there.
    after.insert("lists".to_owned(), before["lists"].clone());
    after.insert("feeds".to_owned(), before["feeds"].clone());
    assert_eq!(after, before);

    won(store.commit(soft).await);
    won(store.commit(firm).await);
    assert_eq!(store.crash(), 0, "a firm commit makes all before it firm");
}
