//! Does `portcullis torture` run clean on what works, break nothing it must not, and see a lie?

use std::path::Path;
use std::process::Output;

use portcullis_tests::home::Kind;
use portcullis_tests::processes::{Crew, Installation, Setup, program, token_of};
use serde_json::Value;

use super::on_both_homes;

on_both_homes! {
    it_runs_clean_and_says_what_it_did
    a_line_that_nobody_approved_is_told
}

/// A staging deployment with what `--print-config` prints, and an approver called alice.
async fn deployment(kind: Kind, marker: &str) -> (Installation, Crew) {
    let site = Installation::of(kind, &Setup::of(Vec::new()));
    std::fs::create_dir(site.folder().join("torture")).unwrap();
    let printed = torture(&site, &["--print-config"]).await;
    let fragment = json(&printed)["config"].as_str().unwrap().replace("\"default\"", "\"ops\"");
    let file = site.folder().join("portcullis.toml");
    let first = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{marker}{first}{fragment}")).unwrap();
    let crew = site.start().await;
    (site, crew)
}

async fn torture(site: &Installation, arguments: &[&str]) -> Output {
    let mut command = tokio::process::Command::new(program());
    command
        .current_dir(site.folder())
        .args(["--json", "torture", "--api", &site.api(0).url("")])
        .args(arguments)
        .env("PORTCULLIS_TOKEN", token_of("alice"))
        .kill_on_drop(true);
    command.output().await.unwrap()
}

fn json(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    let why = String::from_utf8_lossy(&output.stderr);
    serde_json::from_str(text.trim()).unwrap_or_else(|_| panic!("no JSON: {text}\n{why}"))
}

fn lines(folder: &Path) -> usize {
    let text = std::fs::read_to_string(folder.join("torture/ledger.jsonl")).unwrap_or_default();
    text.lines().count()
}

const STAGING: &str = "deployment = \"staging\"\n";

async fn it_runs_clean_and_says_what_it_did(kind: Kind) {
    let (site, _crew) = deployment(kind, STAGING).await;
    let planned = torture(&site, &[]).await;
    assert_eq!(planned.status.code(), Some(0), "{planned:?}");
    assert_eq!(json(&planned)["run"], false);
    assert_eq!(lines(site.folder()), 0, "a plan does nothing");

    // Carol's key as a file: PKCS#8 around the 32 bytes of its seed.
    let head = b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20";
    std::fs::write(site.folder().join("carol.der"), [&head[..], &[8; 32]].concat()).unwrap();
    let (more, faults): (&str, &[&str]) = match kind {
        Kind::Embedded => ("", &["replay", "forge", "late", "opposite"]),
        Kind::Distributed => {
            let all = &["kill", "cut", "wakes", "replay", "forge", "late", "opposite"];
            ("--workers 2 --approver carol --key carol.der --key-id carol-1", all)
        }
    };
    let more: Vec<&str> = more.split_whitespace().collect();
    let tortured = torture(&site, &[&["--run", "--runs", "12"], &more[..]].concat()).await;
    let told = json(&tortured);
    assert_eq!(tortured.status.code(), Some(0), "{told:#}");
    let report = &told["report"];
    assert_eq!((&report["holds"], &report["runs"]), (&Value::from(true), &Value::from(12)));
    for fault in faults {
        assert!(0 < report["injected"][fault].as_u64().unwrap(), "{fault}: {report:#}");
    }
    assert_eq!(report["injected"].as_object().unwrap().len(), faults.len(), "{report:#}");
    let effects = report["effects"].as_u64().unwrap();
    assert_eq!(usize::try_from(effects).unwrap(), lines(site.folder()), "{report:#}");
}

async fn a_line_that_nobody_approved_is_told(kind: Kind) {
    let (site, _crew) = deployment(kind, STAGING).await;
    let ledger = site.folder().join("torture/ledger.jsonl");
    let rigged = async {
        // As soon as a real line is there, so that it is one of this session's.
        portcullis_tests::processes::until("a line", async || 0 < lines(site.folder())).await;
        let first = std::fs::read_to_string(&ledger).unwrap();
        let mut file = std::fs::OpenOptions::new().append(true).open(&ledger).unwrap();
        std::io::Write::write_all(&mut file, first.lines().next().unwrap().as_bytes()).unwrap();
        std::io::Write::write_all(&mut file, b"\n{\"run\":\"nobody's\",\"call\":0,").unwrap();
        std::io::Write::write_all(&mut file, b"\"key\":\"x\",\"at_ms\":1}\n").unwrap();
    };
    let arguments = ["--run", "--runs", "6", "--fault", "forge", "--fault", "opposite"];
    let (tortured, ()) = tokio::join!(torture(&site, &arguments), rigged);
    let told = json(&tortured);
    assert_eq!(tortured.status.code(), Some(1), "{told:#}");
    let report = &told["report"];
    assert_eq!(report["holds"], false);
    assert_eq!(report["unapproved_effects"], 1, "{report:#}");
    assert_eq!(report["effects_per_approval_max"], 2, "{report:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_broken_where_it_is_not_said_to_be_for_trying() {
    let cases = [("", "unknown_deployment"), ("deployment = \"production\"\n", "production")];
    for (marker, code) in cases {
        let (site, _crew) = deployment(Kind::Embedded, marker).await;
        let refused = torture(&site, &["--run", "--runs", "1"]).await;
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        let why: Value = serde_json::from_slice(&refused.stderr).unwrap();
        assert_eq!(why["error"]["code"], code);
        assert_eq!(lines(site.folder()), 0);
        let (_, runs) = site.api(0).get("/v1/runs").await;
        assert_eq!(runs["runs"].as_array().unwrap().len(), 0, "{runs:#}");
        let forced = torture(&site, &["--force-production"]).await;
        assert_eq!(forced.status.code(), Some(0), "{forced:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_done_here_is_refused_with_the_reason() {
    let (site, _crew) = deployment(Kind::Embedded, STAGING).await;
    for arguments in [&["--fault", "kill"][..], &["--workers", "1"], &["--fault", "wakes"]] {
        let refused = torture(&site, arguments).await;
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    }
}
