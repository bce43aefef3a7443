//! Runs that no release can read end all the same, and what they were is kept.

use std::sync::Arc;

use bytes::Bytes;
use portcullis_engine::inprocess::{InProcessBus, InProcessSettings};
use portcullis_engine::ports::{
    Blobs as _, Commit, Durability, IndexEntry, RecordKey, Store as _, Version,
};
use portcullis_engine::sqlite::{SqliteSettings, SqliteStore};
use portcullis_engine::surroundings::{Draw as _, Surroundings, System};
use portcullis_engine::sweep::{RunsOnly, Sweeper};
use portcullis_engine::{Engine, StepError};
use portcullis_proto::digest::Digest;
use portcullis_proto::ids::{JobKey, RunId, ShardCount, Tenant};
use portcullis_proto::run::{Outcome, Run};
use portcullis_proto::time::Ms;
use portcullis_tests::home::PATIENCE;
use portcullis_tests::servers::TempFolder;
use tokio_util::sync::CancellationToken;

/// A clock that runs a thousand times as fast, so that pauses between tries pass at once.
struct Hasty;

impl Surroundings for Hasty {
    fn boot_ms(&self) -> i64 {
        System.boot_ms() * 1_000
    }

    fn fill(&self, bytes: &mut [u8]) {
        System.fill(bytes);
    }
}

struct Site {
    store: Arc<SqliteStore>,
    engine: Arc<Engine>,
    _folder: TempFolder,
}

impl Site {
    fn open() -> Self {
        let folder = TempFolder::new("damaged").unwrap();
        let store = SqliteStore::open(SqliteSettings::new(folder.path().join("store.db"))).unwrap();
        let bus = InProcessBus::new(InProcessSettings::default());
        let engine = Engine::new(Arc::clone(&store) as _, bus, Arc::new(Hasty));
        Self { store, engine, _folder: folder }
    }

    /// A record of these bytes, listed as running, whose deadline has passed.
    async fn holds(&self, name: &str, bytes: &'static [u8]) -> RunId {
        let tenant = Tenant::new("default").unwrap();
        let key = JobKey::api(&tenant, name.as_bytes());
        let run = RunId::of(&key, ShardCount::new(1).unwrap());
        let now = self.store.now().await.unwrap();
        let listed =
            IndexEntry { index: "run.running".into(), member: run.to_string(), score: now };
        let commit = Commit {
            key: RecordKey::Run(run.clone()),
            expected: Version::ABSENT,
            expected_op: None,
            op: System.op_id(),
            not_before: None,
            not_after: None,
            need_steady_clock: false,
            policy_epoch: None,
            require: vec![],
            licences_set: vec![],
            licences_del: vec![],
            bytes: Bytes::from_static(bytes),
            next_deadline: Some(now),
            retain_ms: None,
            index_set: vec![listed],
            index_del: vec![],
            feed: vec![],
            durability: Durability::Firm,
        };
        self.store.commit(commit).await.unwrap();
        run
    }

    async fn ended(&self, id: &RunId) -> Run {
        let looked = tokio::time::timeout(PATIENCE, async {
            loop {
                if let Ok((Some(held), _)) = self.engine.load(id).await {
                    return held.run().clone();
                }
                // sleep: a poll of what the sweeper commits, bounded by PATIENCE
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        });
        looked.await.expect("it can be read again")
    }
}

const CUT_SHORT: &[u8] = &[1, 0, 0, 1, 0, 0x28, 0xb5];
const NO_JSON: &[u8] = b"\x01\0\0\0\x01\x28\xb5\x2f\xfd\x20\x01\x09\0\0{";
const NEWER: &[u8] = &[9, 1, 2, 3];

#[tokio::test]
async fn a_damaged_run_ends_and_its_bytes_are_kept_while_one_of_a_newer_release_is_left_alone() {
    let site = Site::open();
    let newer = site.holds("newer", NEWER).await;
    let stop = CancellationToken::new();
    let sweeper = Sweeper::new(Arc::clone(&site.engine), Arc::new(RunsOnly));
    let sweeping = tokio::spawn(sweeper.run(stop.clone()));

    // The second begins when the newer one has been tried as often as the first was.
    for (done, name, bytes) in [(1, "cut short", CUT_SHORT), (2, "no JSON", NO_JSON)] {
        let damaged = site.holds(name, bytes).await;
        let run = site.ended(&damaged).await;
        let ended = run.ended().expect("it has ended");
        assert_eq!((ended.outcome, &*ended.reason.code), (Outcome::Failed, "internal"), "{name}");
        let detail = ended.reason.detail.as_deref().unwrap_or_default();
        let digest = Digest::of_bytes(bytes);
        assert!(detail.contains(&digest.to_string()), "{name}: {detail}");
        let kept = site.store.get(damaged.shard(), digest).await.unwrap();
        assert_eq!(kept.as_deref(), Some(bytes), "{name}");
        assert_eq!(site.store.count("run.ended").await.unwrap(), done, "{name}");
        assert_eq!(site.store.count("run.running").await.unwrap(), 1, "only the newer one");
    }

    let untouched = site.engine.load(&newer).await;
    assert!(matches!(untouched, Err(StepError::Record(_))), "{untouched:?}");
    let key = RecordKey::Run(newer);
    let stored = site.store.load(&key).await.unwrap().stored.expect("it is there");
    assert_eq!((stored.version, &*stored.bytes), (Version(1), NEWER));
    let due = site.store.due(key.shard(), Ms(i64::MAX), 0, 16).await.unwrap();
    assert!(due.entries.iter().any(|due| due.key == key), "its timer still stands");

    stop.cancel();
    sweeping.await.unwrap();
}
