//! What does a doctor see in a file, and does it leave it alone?

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use portcullis_engine::finding::{Finding, Severity};
use portcullis_engine::sqlite::{WallClock, look, wall_clock};
use portcullis_tests::conformance::store::StoreBench as _;
use rusqlite::Connection;

use super::{Bench, bench, change, database};

fn named<'a>(findings: &'a [Finding], check: &str) -> &'a Finding {
    let found = findings.iter().find(|finding| finding.check == check);
    found.unwrap_or_else(|| panic!("no {check}: {findings:?}"))
}

/// The names and the bytes of all that lies beside a database.
fn beside(path: &Path) -> Vec<(String, Vec<u8>, u32)> {
    let mut all: Vec<_> = fs::read_dir(path.parent().unwrap())
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let mode = entry.metadata().unwrap().permissions().mode();
            (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap(), mode)
        })
        .collect();
    all.sort();
    all
}

/// A store with something in it, closed in good order.
async fn closed() -> Bench {
    let bench = bench().await;
    bench.store().commit(change(1, 0, "x")).await.unwrap();
    bench
}

#[tokio::test]
async fn a_sound_store_has_nothing_to_mend_open_or_not() {
    let bench = closed().await;
    let path = database(&bench.folder);
    let open = bench.store.examine().await.unwrap();
    let seen_open = look(&path, &wall_clock());
    for findings in [&open, &seen_open] {
        // How much space is left, and where the test's folder lies, is not this test's doing.
        let bad = findings.iter().filter(|finding| finding.severity != Severity::Fine);
        let ours = bad.filter(|f| !["sqlite-free-space", "sqlite-file-system"].contains(&f.check));
        assert_eq!(ours.collect::<Vec<_>>(), [] as [&Finding; 0]);
    }
    assert_eq!(named(&open, "sqlite-durability").severity, Severity::Fine);
    assert_eq!(named(&seen_open, "sqlite-content").found, "sound");
    assert_eq!(bench.store.quick_check().await.unwrap().found, "sound");
}

#[tokio::test]
async fn looking_at_a_closed_store_changes_nothing() {
    let Bench { store, folder, .. } = closed().await;
    drop(store);
    let path = database(&folder);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let before = beside(&path);
    let findings = look(&path, &wall_clock());
    assert_eq!(named(&findings, "sqlite-content").found, "sound");
    assert_eq!(beside(&path), before);
    assert_eq!(named(&findings, "sqlite-file-mode").severity, Severity::Fatal);
}

#[tokio::test]
async fn open_permissions_and_a_lagging_clock_are_named() {
    let bench = closed().await;
    let path = database(&bench.folder);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    bench.offset_ms.store(-60_000, Ordering::Release);
    let late: WallClock = Arc::new(|| wall_clock()() - 60_000);
    for findings in [bench.store.examine().await.unwrap(), look(&path, &late)] {
        let mode = named(&findings, "sqlite-file-mode");
        assert_eq!(mode.severity, Severity::Warning);
        assert!(mode.mend.starts_with("chmod 600"), "{mode}");
        let clock = named(&findings, "sqlite-clock-lag");
        assert_eq!(clock.severity, Severity::Fatal, "{clock}");
    }
}

#[tokio::test]
async fn a_damaged_a_foreign_and_an_absent_file_are_told_apart() {
    let Bench { store, folder, .. } = closed().await;
    drop(store);
    let path = database(&folder);
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[100..middle].fill(0xa5);
    fs::write(&path, bytes).unwrap();
    assert_eq!(named(&look(&path, &wall_clock()), "sqlite-content").severity, Severity::Fatal);

    let other = folder.path().join("other.db");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE a (b)").unwrap();
    let foreign = look(&other, &wall_clock());
    assert!(named(&foreign, "sqlite-content").found.contains("another program"), "{foreign:?}");

    let absent = folder.path().join("nowhere/there.db");
    let findings = look(&absent, &wall_clock());
    assert_eq!(named(&findings, "sqlite-content").severity, Severity::Fine);
    assert!(!absent.parent().unwrap().exists(), "looking makes nothing");
}
