//! The SQLite store: what every store does, and what only a file must do.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use portcullis_engine::ports::{Commit, Durability, RecordKey, Storage, Store, Version};
use portcullis_engine::sqlite::{SqliteSettings, SqliteStore, wall_clock};
use portcullis_proto::ids::{JobKey, OpId, RunId, Shard, ShardCount, Tenant};
use portcullis_proto::time::Ms;
use portcullis_tests::conformance::store::{Raw, StoreBench};
use portcullis_tests::servers::TempFolder;
use portcullis_tests::store_conformance;
use rusqlite::types::Value;
use rusqlite::{Connection, params};

mod clock;
mod doctor;
mod files;
mod full;
mod killed;

store_conformance!(bench);

/// A store in a folder of its own, whose clock a test may move.
struct Bench {
    /// Dropped before its folder.
    store: Arc<SqliteStore>,
    /// Added to the wall clock, in milliseconds.
    offset_ms: Arc<AtomicI64>,
    folder: TempFolder,
}

async fn bench() -> Bench {
    let folder = TempFolder::new("sqlite").unwrap();
    let offset_ms = Arc::new(AtomicI64::new(0));
    let store = SqliteStore::open(settings(&folder, &offset_ms)).unwrap();
    Bench { store, offset_ms, folder }
}

fn database(folder: &TempFolder) -> PathBuf {
    folder.path().join("data").join("portcullis.db")
}

fn settings(folder: &TempFolder, offset_ms: &Arc<AtomicI64>) -> SqliteSettings {
    let (wall, offset_ms) = (wall_clock(), Arc::clone(offset_ms));
    let mut settings = SqliteSettings::new(database(folder));
    settings.clock = Arc::new(move || wall() + offset_ms.load(Ordering::Acquire));
    settings
}

impl Bench {
    /// Another program with the file open, such as an `sqlite3` shell.
    fn shell(&self) -> Connection {
        Connection::open(database(&self.folder)).unwrap()
    }
}

#[async_trait]
impl StoreBench for Bench {
    fn store(&self) -> Arc<dyn Storage> {
        self.store.clone()
    }

    async fn raw(&self) -> Raw {
        let shell = self.shell();
        let mut raw = Raw::new();
        let tables =
            ["meta", "record", "idx", "idx_size", "licence", "feed", "blob", "sqlite_sequence"];
        for table in tables {
            let mut rows = shell.prepare(&format!("SELECT * FROM {table}")).unwrap();
            let columns = rows.column_count();
            let mut rows = rows.query([]).unwrap();
            while let Some(row) = rows.next().unwrap() {
                let values: Vec<Value> = (0..columns).map(|n| row.get(n).unwrap()).collect();
                if values[0] != Value::Text("hw".to_owned()) {
                    let value = format!("{values:?}").into_bytes();
                    raw.insert(format!("{table} {:?} {:?}", values[0], values[1]), value);
                }
            }
        }
        raw
    }

    async fn freeze(&self, ahead_ms: i64) -> Ms {
        self.offset_ms.fetch_add(ahead_ms, Ordering::AcqRel);
        self.store.now().await.unwrap();
        self.offset_ms.fetch_sub(ahead_ms, Ordering::AcqRel);
        // The writer may have looked at the clock in between as well: only now it stands still.
        self.store.now().await.unwrap()
    }

    async fn plant_timer(&self, _: Shard, member: &str, at: Ms) {
        let sql = "INSERT INTO record (key, version, next_deadline, ops, bytes)
                   VALUES (?1, 1, ?2, zeroblob(8), x'')";
        self.shell().execute(sql, params![member, at.0]).unwrap();
    }

    async fn wipe(&self) {
        let sql = "BEGIN IMMEDIATE; DELETE FROM meta; DELETE FROM record; DELETE FROM idx;
                   DELETE FROM licence; DELETE FROM feed; DELETE FROM blob; COMMIT;";
        self.shell().execute_batch(sql).unwrap();
    }
}

/// The `n`th run of a store with one shard.
fn run(n: u64) -> RunId {
    let tenant = Tenant::new("acme").unwrap();
    RunId::of(&JobKey::api(&tenant, &n.to_be_bytes()), ShardCount::new(1).unwrap())
}

/// A commit of the `n`th run that sets nothing but its bytes.
fn change(n: u64, expected: u64, bytes: impl Into<Bytes>) -> Commit {
    let mut op = [0; 8];
    getrandom::fill(&mut op).unwrap();
    Commit {
        key: RecordKey::Run(run(n)),
        expected: Version(expected),
        expected_op: None,
        op: OpId(op),
        not_before: None,
        not_after: None,
        need_steady_clock: false,
        policy_epoch: None,
        require: vec![],
        licences_set: vec![],
        licences_del: vec![],
        bytes: bytes.into(),
        next_deadline: None,
        retain_ms: None,
        index_set: vec![],
        index_del: vec![],
        feed: vec![],
        durability: Durability::Firm,
    }
}

/// The version of the `n`th run.
async fn version(store: &SqliteStore, n: u64) -> Option<u64> {
    let loaded = store.load(&RecordKey::Run(run(n))).await.unwrap();
    loaded.stored.map(|stored| stored.version.0)
}
