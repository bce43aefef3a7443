//! Which files are opened, which are refused, and what is said about them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use portcullis_engine::ports::{
    Blobs as _, CommitError, Feed as _, FeedCursor, Installation as _, RecordKey, Store as _,
    StoreError,
};
use portcullis_engine::sqlite::{OpenError, SqliteSettings, SqliteStore};
use portcullis_proto::ids::{RunId, Shard};
use portcullis_proto::time::Ms;
use portcullis_tests::conformance::store::StoreBench as _;
use portcullis_tests::servers::TempFolder;
use rusqlite::Connection;

use super::{bench, change, database, run, version};

fn open(path: &Path) -> Result<Arc<SqliteStore>, OpenError> {
    SqliteStore::open(SqliteSettings::new(path))
}

fn refused(path: &Path) -> OpenError {
    open(path).err().expect("it is refused")
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn folder_and_files_are_for_their_owner_only() {
    let bench = bench().await;
    bench.store.commit(change(1, 0, "x")).await.unwrap();
    let path = database(&bench.folder);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    let names = ["portcullis.db", "portcullis.db-wal", "portcullis.db-shm", "portcullis.db.lock"];
    for name in names {
        assert_eq!(mode(&path.with_file_name(name)), 0o600, "{name}");
    }
}

#[tokio::test]
async fn a_file_that_others_could_read_is_closed_to_them() {
    let bench = bench().await;
    let path = database(&bench.folder);
    drop(bench.store);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    open(&path).unwrap();
    assert_eq!(mode(&path), 0o600);
}

#[tokio::test]
async fn a_store_keeps_its_epoch_and_another_has_another() {
    let (one, other) = (bench().await, bench().await);
    let epoch = one.store.shape().epoch;
    assert_ne!(epoch, other.store.shape().epoch);
    let path = database(&one.folder);
    drop(one.store);
    assert_eq!(open(&path).unwrap().shape().epoch, epoch);
}

#[tokio::test]
async fn a_file_of_a_newer_release_is_refused_and_left_alone() {
    let bench = bench().await;
    let path = database(&bench.folder);
    drop(bench.store);
    let shell = Connection::open(&path).unwrap();
    shell.execute("UPDATE meta SET v = 99 WHERE k = 'schema_version'", []).unwrap();
    shell.close().unwrap();
    let before = fs::read(&path).unwrap();
    let why = refused(&path);
    assert!(matches!(why, OpenError::Newer { found: 99, known: 1, .. }), "{why}");
    assert!(fs::read(&path).unwrap() == before, "the file was changed");
}

#[test]
fn a_database_of_another_program_is_refused_and_left_alone() {
    let folder = TempFolder::new("files").unwrap();
    let path = folder.path().join("other.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE record (a)").unwrap();
    let before = fs::read(&path).unwrap();
    let why = refused(&path);
    assert!(matches!(why, OpenError::Foreign { .. }), "{why}");
    assert!(fs::read(&path).unwrap() == before, "the file was changed");
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let folder = TempFolder::new("files").unwrap();
    let path = folder.path().join("notes.txt");
    for text in ["x", "nothing like a database, but long enough for a header"] {
        fs::write(&path, text).unwrap();
        let why = refused(&path);
        assert!(matches!(why, OpenError::NotADatabase { .. }), "{why}");
        assert!(why.to_string().contains("notes.txt"), "{why}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn a_damaged_file_is_refused_with_the_mend() {
    let folder = TempFolder::new("files").unwrap();
    let path = database(&folder);
    drop(open(&path).unwrap());
    let mut bytes = fs::read(&path).unwrap();
    bytes[100..4_000].fill(0xa5);
    fs::write(&path, bytes).unwrap();
    let why = refused(&path);
    assert!(matches!(why, OpenError::Damaged { .. }), "{why}");
    assert!(why.to_string().contains("Restore a backup"), "{why}");
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let folder = TempFolder::new("files").unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "in the way").unwrap();
    let why = refused(&file.join("portcullis.db"));
    assert!(matches!(why, OpenError::NotWritable { .. }), "{why}");
    assert!(why.to_string().contains("store.url"), "{why}");
    let why = refused(folder.path());
    assert!(matches!(why, OpenError::NotWritable { .. }), "{why}");
}

#[tokio::test]
async fn a_file_that_was_moved_away_takes_no_more_commits() {
    let bench = bench().await;
    bench.store.commit(change(1, 0, "x")).await.unwrap();
    let path = database(&bench.folder);
    fs::rename(&path, path.with_extension("old")).unwrap();
    assert_eq!(bench.store.commit(change(2, 0, "x")).await, Err(CommitError::Epoch));
    let loaded = bench.store.load(&RecordKey::Run(run(1))).await;
    assert_eq!(loaded, Err(StoreError::Epoch));
    fs::rename(path.with_extension("old"), &path).unwrap();
    assert_eq!(bench.store.commit(change(2, 0, "x")).await, Err(CommitError::Epoch));
}

#[tokio::test]
async fn an_emptied_store_does_not_answer_that_a_record_is_absent() {
    let bench = bench().await;
    bench.store.commit(change(1, 0, "x")).await.unwrap();
    bench.wipe().await;
    // No commit comes before this one that could have noticed.
    let loaded = bench.store.load(&RecordKey::Run(run(1))).await;
    assert_eq!(loaded, Err(StoreError::Epoch));
}

#[tokio::test]
async fn an_unreadable_record_is_refused_alone() {
    let bench = bench().await;
    bench.store.commit(change(1, 0, "x")).await.unwrap();
    for spoil in ["ops = x'010203'", "ops = x''", "ops = zeroblob(72)"] {
        bench.shell().execute(&format!("UPDATE record SET {spoil}"), []).unwrap();
        let answer = bench.store.commit(change(1, 1, "y")).await;
        assert!(matches!(answer, Err(CommitError::Unavailable(_))), "{spoil}: {answer:?}");
    }
    for spoil in ["ops = zeroblob(8), version = 0", "version = -1"] {
        bench.shell().execute(&format!("UPDATE record SET {spoil}"), []).unwrap();
        let answer = bench.store.commit(change(1, 1, "y")).await;
        assert!(matches!(answer, Err(CommitError::Unavailable(_))), "{spoil}: {answer:?}");
        let loaded = bench.store.load(&RecordKey::Run(run(1))).await;
        assert!(matches!(loaded, Err(StoreError::Corrupt(_))), "{spoil}: {loaded:?}");
    }
    bench.store.commit(change(2, 0, "x")).await.unwrap();
    assert_eq!(version(&bench.store, 2).await, Some(1));
}

#[tokio::test]
async fn a_blob_with_other_bytes_than_its_name_says_is_not_given_out() {
    let bench = bench().await;
    let digest = bench.store.put(Shard(0), "as it was".into(), 60_000).await.unwrap();
    bench.shell().execute("UPDATE blob SET bytes = x'00'", []).unwrap();
    let found = bench.store.get(Shard(0), digest).await;
    assert!(matches!(found, Err(StoreError::Corrupt(_))), "{found:?}");
}

#[tokio::test]
async fn a_record_of_another_installation_is_not_taken() {
    let bench = bench().await;
    let foreign = RunId::new("s07-mzxw6ytboi2gk3tdmuqhk3tdmu").unwrap();
    let mut commit = change(1, 0, "x");
    commit.key = RecordKey::Run(foreign);
    assert_eq!(bench.store.commit(commit.clone()).await, Err(CommitError::Epoch));
    assert_eq!(bench.store.load(&commit.key).await.unwrap().stored, None);
    let put = bench.store.put(Shard(7), "x".into(), 60_000).await;
    assert_eq!(put, Err(StoreError::Epoch));
    assert_eq!(bench.store.due(Shard(7), Ms(i64::MAX), 0, 9).await.unwrap().entries, []);
}

#[tokio::test]
async fn a_place_of_another_feed_is_refused() {
    let bench = bench().await;
    for place in ["", "1700000000000-0", "x"] {
        let found = bench.store.after(Shard(0), &FeedCursor(place.to_owned()), 9).await;
        assert!(matches!(found, Err(StoreError::Corrupt(_))), "{place}: {found:?}");
    }
}

#[tokio::test]
async fn another_program_that_holds_the_file_makes_commits_unavailable_not_lost() {
    let bench = bench().await;
    let shell = bench.shell();
    shell.execute_batch("BEGIN IMMEDIATE").unwrap();
    let answer = bench.store.commit(change(1, 0, "x")).await;
    let Err(CommitError::Unavailable(why)) = answer else { panic!("{answer:?}") };
    assert!(why.contains("another program"), "{why}");
    assert_eq!(version(&bench.store, 1).await, None, "reads go on");
    shell.execute_batch("ROLLBACK").unwrap();
    bench.store.commit(change(1, 0, "x")).await.unwrap();
}
