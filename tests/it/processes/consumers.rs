//! The broker closes the channels of consumers that have not acknowledged in time.

use std::fs;
use std::path::Path;

use portcullis_tests::processes::{Approver, Installation, Listening, Setup, Signing, outcome};
use portcullis_tests::processes::{People, until};
use serde_json::json;
use tokio::task::block_in_place;

use super::{asker, gated, plain};

/// Consumers have a second, and each channel is looked at five times in it. Both hold for the
/// channels that are opened from now on.
const SHORT: &str = "application:set_env(rabbit, consumer_timeout, 1000), \
                     application:set_env(rabbit, channel_tick_interval, 200).";

fn shorten(site: &mut Installation) {
    block_in_place(|| site.servers().broker.own().control(&["eval", SHORT]).unwrap());
}

/// How many channels the broker has closed for that.
fn closed(folder: &Path) -> usize {
    let files = fs::read_dir(folder.join("log")).unwrap().map(|file| file.unwrap().path());
    let texts = files.filter(|path| path.is_file()).map(|path| fs::read(path).unwrap());
    let says_so = |text: Vec<u8>| {
        let text = String::from_utf8_lossy(&text).into_owned();
        text.matches("has timed out waiting").count()
    };
    texts.map(says_so).sum()
}

/// Waits until it has closed one more than it had.
async fn until_closed(site: &mut Installation, before: usize) {
    let folder = site.servers().broker.own().folder().to_owned();
    until("the broker closes a consumer's channel", async || closed(&folder) > before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_acknowledged_too_late_consumes_again_and_each_run_acts_once() {
    let mut site = Installation::with_own_broker(&Setup::of(vec![plain()]));
    shorten(&mut site);
    let desk = site.scheduler(0).await;
    let worker = site.worker(0).await;
    let mut ids = vec![desk.run("plain", json!({})).await];
    desk.ended(&ids[0]).await;
    worker.pause();
    for _ in 0..3 {
        ids.push(desk.run("plain", json!({})).await);
    }
    until_closed(&mut site, 0).await;
    worker.resume();
    ids.push(desk.run("plain", json!({})).await);
    for id in &ids {
        assert_eq!(outcome(&desk.ended(id).await), ("succeeded", "done"));
        assert_eq!(site.effects.count(id), 1);
    }
    assert_eq!(site.effects.lines().len(), ids.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_and_a_decision_acknowledged_too_late_come_again_and_count_once() {
    let setup =
        Setup { people: People::ServiceOnly, approval_seconds: 60.0, ..Setup::of(vec![asker()]) };
    let mut site = Installation::with_own_broker(&setup);
    shorten(&mut site);
    let desk = site.scheduler(0).await;
    let _worker = site.worker(0).await;
    // The approver's service takes the request, and does not say so.
    let deaf = Listening::at(&site.bus_url()).await;
    let id = desk.run("asker", json!({})).await;
    until_closed(&mut site, 0).await;
    drop(deaf);
    let mut carol = Listening::at(&site.bus_url()).await;
    let request = carol.next().await;
    // Nor does the scheduler with the decision.
    let folder = site.servers().broker.own().folder().to_owned();
    let before = closed(&folder);
    desk.pause();
    let yes = Approver::carol().sign(&request, &Signing::of(&request, "approve"));
    carol.send(&request, &yes).await;
    until_closed(&mut site, before).await;
    assert_eq!(site.effects.lines(), [""; 0], "nobody has read the yes");
    desk.resume();
    let run = desk.ended(&id).await;
    assert_eq!(outcome(&run), ("succeeded", "done"));
    assert_eq!(run["calls"][0]["approval"]["votes"].as_array().unwrap().len(), 1);
    assert_eq!(site.effects.lines(), [gated(&id)]);
}
