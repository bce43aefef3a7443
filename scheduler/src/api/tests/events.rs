use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::extract::Request;
use axum::response::Response;
use futures_util::StreamExt as _;
use tower::ServiceExt as _;

use crate::app;
use crate::fake::{ALICE, Stage, settings};

async fn open(stage: &Stage, path: &str, last_id: Option<&str>) -> Response {
    let mut request = Request::get(path).header("host", "localhost");
    if let Some(id) = last_id {
        request = request.header("last-event-id", id);
    }
    app(&stage.scheduler).oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
}

async fn stream(stage: &Stage, path: &str, last_id: Option<&str>) -> Reader {
    let answer = open(stage, path, last_id).await;
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    Reader { parts: answer.into_body().into_data_stream(), text: String::new() }
}

struct Reader {
    parts: BodyDataStream,
    text: String,
}

impl Reader {
    /// The next event as `(event, data, id)`; `None` at the end of the stream.
    async fn next(&mut self) -> Option<(String, String, Option<String>)> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let field = |name: &str| {
                    let line = event.lines().find_map(|line| line.strip_prefix(name));
                    line.map(|value| value.trim_start().to_owned())
                };
                let found = (field("event:"), field("data:"), field("id:"));
                self.text = rest.to_owned();
                match found {
                    (Some(event), Some(data), id) => return Some((event, data, id)),
                    _ => continue,
                }
            }
            let waited = tokio::time::timeout(Duration::from_secs(10), self.parts.next());
            let part = waited.await.expect("an event arrives in time")?.unwrap();
            self.text.push_str(std::str::from_utf8(&part).unwrap());
        }
    }

    /// Reads up to the first event of this name, and returns the names on the way and its id.
    async fn until(&mut self, name: &str) -> (Vec<String>, Option<String>) {
        let (mut names, mut last_id) = (Vec::new(), None);
        loop {
            let (event, _, id) = self.next().await.expect("the stream goes on");
            names.push(event.clone());
            last_id = id.or(last_id);
            if event == name {
                return (names, last_id);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_tells_what_happens_in_order() {
    let stage = Stage::new();
    let mut reader = stream(&stage, "/v1/events", None).await;
    assert_eq!(reader.next().await.unwrap().0, "open");
    let asked = stage.ask("a").await;
    stage.decide(&asked, ALICE, "approve").await;
    let (names, _) = reader.until("roused").await;
    let wanted = ["accepted", "claimed", "planned", "asked", "parked", "voted", "approved"];
    let places: Vec<_> = wanted.iter().map(|w| names.iter().position(|n| n == w)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{names:?}");
}

#[tokio::test(start_paused = true)]
async fn each_entry_names_its_run_and_its_number_in_it() {
    let stage = Stage::new();
    let mut reader = stream(&stage, "/v1/events", None).await;
    assert_eq!(reader.next().await.unwrap().0, "open");
    let asked = stage.ask("a").await;
    for number in 0..5_u64 {
        let (what, data, _) = reader.next().await.unwrap();
        let entry: serde_json::Value = serde_json::from_str(&data).unwrap();
        assert_eq!(entry["run"], asked.run.as_str());
        assert_eq!((&entry["no"], &entry["what"]), (&number.into(), &what.into()), "{data}");
        assert!(entry["at"].is_i64(), "{data}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_goes_on_from_its_last_id_and_misses_nothing() {
    let stage = Stage::new();
    let mut reader = stream(&stage, "/v1/events", None).await;
    let (_, _, id) = reader.next().await.unwrap();
    drop(reader);
    stage.start("a").await;
    let mut reader = stream(&stage, "/v1/events", id.as_deref()).await;
    // Whoever reads no further than this gets the rest next time.
    assert_eq!(reader.next().await, Some(("open".to_owned(), "{}".to_owned(), id)));
    let (names, id) = reader.until("accepted").await;
    assert_eq!(names, ["accepted"]);
    drop(reader);
    stage.start("b").await;
    let mut reader = stream(&stage, "/v1/events", id.as_deref()).await;
    reader.until("accepted").await;
    let again = tokio::time::timeout(Duration::from_secs(1), reader.parts.next()).await;
    assert!(again.is_err(), "and nothing comes twice");
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_one_run_tells_of_no_other() {
    let stage = Stage::new();
    let run = stage.start("a").await;
    let mut reader = stream(&stage, &format!("/v1/events?run={run}"), None).await;
    assert_eq!(reader.next().await.unwrap().0, "open");
    for other in ["b", "c", "d", "e", "f", "g"] {
        stage.start(other).await;
    }
    let cancel = format!("/v1/runs/{run}/cancel");
    stage.post(&cancel, None, serde_json::json!({})).await;
    let (event, data, _) = reader.next().await.unwrap();
    assert_eq!(event, "cancel_asked");
    assert!(data.contains(run.as_str()));
}

#[tokio::test]
async fn an_id_that_is_none_is_refused() {
    let stage = Stage::new();
    let encode = |text: &str| data_encoding::BASE64URL_NOPAD.encode(text.as_bytes());
    for id in ["!", &encode("1"), &encode("a b c d"), &encode(&"1 ".repeat(9_000))] {
        assert_eq!(open(&stage, "/v1/events", Some(id)).await.status(), 422, "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_quiet_stream_beats_and_a_drain_ends_it() {
    let stage = Stage::new();
    let mut reader = stream(&stage, "/v1/events", None).await;
    assert_eq!(reader.next().await.unwrap().0, "open");
    let beat = tokio::time::timeout(Duration::from_secs(16), reader.parts.next()).await;
    assert_eq!(beat.unwrap().unwrap().unwrap().as_ref(), b":\n\n");
    stage.scheduler.ending.cancel();
    assert!(reader.next().await.is_none());
}

#[tokio::test]
async fn there_are_no_more_streams_than_allowed_and_a_closed_one_makes_room() {
    let mut narrow = settings();
    narrow.in_flight.streams_max = 1;
    let stage = Stage::with(narrow);
    let first = open(&stage, "/v1/events", None).await;
    assert_eq!(open(&stage, "/v1/events", None).await.status(), 503);
    drop(first);
    assert_eq!(open(&stage, "/v1/events", None).await.status(), 200);
}
