//! The machine's clock goes back an hour between two starts: nothing is granted on borrowed time.

use portcullis_tests::processes::{Installation, Setup, outcome};
use serde_json::json;

use super::{asker, gated, plain};

/// What makes a process see another wall clock; the package `faketime`.
fn library() -> String {
    let folders = std::fs::read_dir("/usr/lib").unwrap();
    let files = folders.map(|folder| folder.unwrap().path().join("faketime/libfaketime.so.1"));
    let found = files.into_iter().find(|file| file.is_file());
    found.expect("libfaketime: install the package faketime").to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn started_an_hour_in_the_past_nothing_is_approved_until_the_clock_is_right_again() {
    let setup = Setup { approval_seconds: 600.0, ..Setup::of(vec![plain(), asker()]) };
    let site = Installation::embedded(&setup);
    let mut up = site.up().await;
    let waiting = up.run("asker", json!({})).await;
    let request = up.asked(&waiting).await;
    up.kill9();

    let past = [
        ("LD_PRELOAD", library()),
        ("FAKETIME", "-1h".to_owned()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
    ];
    let mut up = site.up_with(&past).await;
    let (status, told) = up.decide(&request, "alice", "approve").await;
    assert_eq!((status, &told["error"]["code"]), (503, &json!("clock_unsteady")), "{told}");
    let still = up.approval(request["approval_id"].as_str().unwrap()).await;
    assert_eq!((&still["state"], &still["deadline"]), (&json!("requested"), &request["deadline"]));
    assert_eq!(site.effects.lines(), [""; 0]);
    up.kill9();

    let up = site.up().await;
    assert_eq!(up.decide(&request, "alice", "approve").await.0, 200);
    assert_eq!(outcome(&up.ended(&waiting).await), ("succeeded", "done"));
    assert_eq!(site.effects.lines(), [gated(&waiting)]);
}
