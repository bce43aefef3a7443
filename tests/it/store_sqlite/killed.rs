//! `kill -9` takes back nothing that was answered, and leaves nothing half done.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use portcullis_engine::ports::{Due, Feed as _, FeedCursor, Order, RecordKey, Store as _};
use portcullis_engine::sqlite::{OpenError, SqliteSettings, SqliteStore};
use portcullis_proto::ids::Shard;
use portcullis_proto::time::Ms;
use portcullis_tests::ledger;
use portcullis_tests::servers::TempFolder;
use rusqlite::Connection;

use super::database;

const KILLS: usize = 25;
const SHARD: Shard = Shard(0);
/// The highest version that was answered, by run.
type Answered = BTreeMap<u64, u64>;

fn start(path: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_ledger-writer"))
        .arg(path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Kills the writer once it has said `lines` answers, and reads what it had said by then.
fn kill_after(mut writer: Child, lines: usize, answered: &mut Answered) {
    let output = BufReader::new(writer.stdout.take().unwrap());
    for (count, line) in output.lines().enumerate() {
        let line = line.unwrap();
        let (n, version) = line.split_once(' ').unwrap();
        answered.insert(n.parse().unwrap(), version.parse().unwrap());
        if count == lines {
            writer.kill().unwrap();
        }
    }
    let ended = writer.wait().unwrap();
    assert_eq!(ended.signal(), Some(9), "it went on until it was killed: {ended}");
}

fn random_below(end: u16) -> usize {
    let mut bytes = [0; 2];
    getrandom::fill(&mut bytes).unwrap();
    usize::from(u16::from_be_bytes(bytes) % end)
}

/// Every part of every run says the same version, and none lies behind what was answered.
async fn check(path: &Path, answered: &Answered) {
    let store = SqliteStore::open(SqliteSettings::new(path)).unwrap();
    let mut versions = BTreeMap::new();
    for n in 0..ledger::RUNS {
        let key = RecordKey::Run(ledger::run(n));
        let Some(stored) = store.load(&key).await.unwrap().stored else { continue };
        let version = stored.version.0;
        assert!(stored.bytes == ledger::bytes(n, version), "run {n} at {version}: other bytes");
        versions.insert(n, version);
    }
    for (n, answered) in answered {
        let version = versions.get(n).copied().unwrap_or(0);
        assert!(*answered <= version, "run {n}: {answered} was answered, {version} is there");
    }

    let all = ledger::RUNS as usize + 1;
    let mut due = store.due(SHARD, Ms(i64::MAX), 0, all).await.unwrap().entries;
    due.sort_by_key(|entry| entry.key.store_key());
    let mut wanted: Vec<_> = versions
        .iter()
        .map(|(n, version)| Due {
            key: RecordKey::Run(ledger::run(*n)),
            at: ledger::deadline(*n, *version),
        })
        .collect();
    wanted.sort_by_key(|entry| entry.key.store_key());
    assert_eq!(due, wanted, "timers");

    let range = Ms(0)..=Ms(i64::MAX);
    let listed = store.list(SHARD, ledger::LIST, range, Order::LowestFirst, all).await.unwrap();
    let listed: BTreeMap<_, _> = listed.into_iter().map(|e| (e.member, e.score.0)).collect();
    let wanted: BTreeMap<_, _> = versions
        .iter()
        .map(|(n, version)| (ledger::run(*n).to_string(), version.cast_signed()))
        .collect();
    assert_eq!(listed, wanted, "lists");
    assert_eq!(store.count(ledger::LIST).await, Ok(wanted.len() as u64));

    check_licences(path, &versions);
    check_feed(&store, &versions).await;
    assert_eq!(store.quick_check().await.unwrap().found, "sound");
}

fn check_licences(path: &Path, versions: &BTreeMap<u64, u64>) {
    let shell = Connection::open(path).unwrap();
    let mut rows = shell.prepare("SELECT approval FROM licence ORDER BY approval").unwrap();
    let found: Vec<String> =
        rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let mut wanted: Vec<_> =
        versions.iter().map(|(n, version)| ledger::licence(*n, *version).to_string()).collect();
    wanted.sort();
    assert_eq!(found, wanted, "licences");
}

async fn check_feed(store: &SqliteStore, versions: &BTreeMap<u64, u64>) {
    let start = FeedCursor("0".to_owned());
    let entries = store.after(SHARD, &start, usize::MAX).await.unwrap();
    let mut told: BTreeMap<u64, u64> = BTreeMap::new();
    for entry in entries {
        let journal: serde_json::Value = serde_json::from_str(&entry.json).unwrap();
        let n = journal["n"].as_u64().unwrap();
        let last = told.entry(n).or_insert(0);
        *last += 1;
        assert_eq!(entry.json, ledger::journal(n, *last), "each version once, in order");
    }
    assert_eq!(&told, versions, "feed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_process_keeps_every_answered_commit_whole() {
    let folder = TempFolder::new("killed").unwrap();
    let path = database(&folder);
    let mut answered = Answered::new();
    for _ in 0..KILLS {
        kill_after(start(&path), random_below(400), &mut answered);
        check(&path, &answered).await;
    }
}

#[tokio::test]
async fn a_second_process_is_refused_until_the_first_has_died() {
    let folder = TempFolder::new("second").unwrap();
    let path = database(&folder);
    let mut first = start(&path);
    let mut output = BufReader::new(first.stdout.take().unwrap());
    output.read_line(&mut String::new()).unwrap();

    let refused = SqliteStore::open(SqliteSettings::new(&path)).err().unwrap();
    assert!(matches!(refused, OpenError::InUse { pid, .. } if pid == Some(first.id())));
    let message = refused.to_string();
    for part in [path.to_str().unwrap(), &format!("process {}", first.id()), "through its API"] {
        assert!(message.contains(part), "{message}");
    }

    first.kill().unwrap();
    first.wait().unwrap();
    SqliteStore::open(SqliteSettings::new(&path)).unwrap();
}
