//! `/v1/events`: what happens, as server-sent events, from the store's own feed.
//!
//! Authority: the feed. At least once, in commit order per shard; readers dedupe by `(run, no)`.
//! Invariant: a stream holds no more than one page of entries, and there are boundedly many
//! streams. Each ends with the process, and goes on elsewhere from its last id.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive};
use futures_util::Stream;
use futures_util::future::try_join_all;
use portcullis_engine::ports::{FeedCursor, StoreError};
use portcullis_proto::ids::{RunId, Shard};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::OwnedSemaphorePermit;
use tracing::warn;

use super::Ctx;
use super::answer::ApiError;
use super::extract::{StrictQuery, header};

/// How often the feed is looked at, in milliseconds.
const LOOK_MS: u64 = 200;
/// How long to leave a store alone that did not answer, in milliseconds.
const TROUBLE_MS: u64 = 2_000;
/// How many entries of a shard are read at once.
const PAGE: usize = 256;
/// A quiet stream says so this often, in milliseconds.
const HEARTBEAT_MS: u64 = 15_000;
/// The longest id that is read back, in bytes.
const ID_BYTES_MAX: usize = 16_384;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Query {
    /// Only this run's.
    run: Option<RunId>,
    /// Where to go on, for readers that cannot send `Last-Event-ID`.
    after: Option<String>,
}

/// `GET /v1/events?run=&after=`
pub(super) async fn follow(
    State(ctx): State<Ctx>,
    headers: HeaderMap,
    StrictQuery(query): StrictQuery<Query>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, ApiError> {
    let after = header(&headers, "last-event-id")?.map(str::to_owned).or(query.after);
    let tail = Tail::open(ctx, query.run, after.as_deref()).await?;
    let beat = KeepAlive::new().interval(Duration::from_millis(HEARTBEAT_MS));
    let events = futures_util::stream::unfold(tail, |mut tail| async move {
        let event = tail.next().await?;
        Some((Ok(event), tail))
    });
    Ok(Sse::new(events).keep_alive(beat))
}

/// A line of the feed, whose entries are not looked into.
#[derive(Deserialize)]
struct Line {
    run: RunId,
    first: u64,
    entries: Vec<Map<String, Value>>,
}

struct Tail {
    ctx: Ctx,
    run: Option<RunId>,
    cursors: Vec<(Shard, FeedCursor)>,
    ready: VecDeque<Event>,
    _permit: OwnedSemaphorePermit,
}

impl Tail {
    async fn open(ctx: Ctx, run: Option<RunId>, after: Option<&str>) -> Result<Self, ApiError> {
        let Ok(permit) = Arc::clone(&ctx.streams).try_acquire_owned() else {
            return Err(ApiError::busy(ctx.settings.in_flight.streams_max, "event streams"));
        };
        let shards: Vec<Shard> = match &run {
            Some(run) => vec![run.shard()],
            None => ctx.engine.store.shape().shards.all().collect(),
        };
        let cursors = match after {
            Some(id) => resume(&shards, id)?,
            None => {
                let ends = shards.iter().map(|shard| async {
                    let end = ctx.engine.store.end(*shard).await?;
                    Ok::<_, StoreError>((*shard, end))
                });
                try_join_all(ends).await?
            }
        };
        let mut tail = Self { ctx, run, cursors, ready: VecDeque::new(), _permit: permit };
        // Before anything is read, so that a reader that loses us early misses nothing.
        let open = Event::default().event("open").data("{}").id(tail.id());
        // Found out now: whether the place is one of this feed.
        tail.look().await.map_err(|why| match (after, why) {
            (Some(_), StoreError::Corrupt(_)) => bad_id(),
            (_, why) => why.into(),
        })?;
        tail.ready.push_front(open);
        Ok(tail)
    }

    /// The next event; `None` once the process drains.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            let pause = match self.look().await {
                Ok(()) if !self.ready.is_empty() => continue,
                Ok(()) => LOOK_MS,
                Err(why) => {
                    warn!(%why, "event stream waits for the store");
                    TROUBLE_MS
                }
            };
            tokio::select! {
                () = self.ctx.ending.cancelled() => return None,
                () = tokio::time::sleep(Duration::from_millis(pause)) => {}
            }
        }
    }

    /// Reads what is new on every shard. Only the last event of a look carries an id: whoever
    /// loses us in between gets the whole look again.
    async fn look(&mut self) -> Result<(), StoreError> {
        let reads = self
            .cursors
            .iter()
            .map(|(shard, cursor)| self.ctx.engine.store.after(*shard, cursor, PAGE));
        let pages = try_join_all(reads).await?;
        let mut found: Vec<(String, String)> = Vec::new();
        for ((_, cursor), page) in self.cursors.iter_mut().zip(pages) {
            if let Some(newest) = page.last() {
                *cursor = newest.cursor.clone();
            }
            let told = page.iter().flat_map(|line| told(&line.json, self.run.as_ref()));
            found.extend(told);
        }
        let last = found.pop();
        let plain = |(what, json)| Event::default().event(what).data(json);
        self.ready.extend(found.into_iter().map(plain));
        self.ready.extend(last.map(|line| plain(line).id(self.id())));
        Ok(())
    }

    fn id(&self) -> String {
        let places: Vec<&str> = self.cursors.iter().map(|(_, place)| place.0.as_str()).collect();
        data_encoding::BASE64URL_NOPAD.encode(places.join(" ").as_bytes())
    }
}

fn bad_id() -> ApiError {
    let message = "that is no id of an event of this store";
    ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_event_id", message)
        .at("Last-Event-ID")
        .mend("leave it out to begin now")
}

/// Reads an id back: one place per shard, in their order.
fn resume(shards: &[Shard], id: &str) -> Result<Vec<(Shard, FeedCursor)>, ApiError> {
    if ID_BYTES_MAX < id.len() {
        return Err(bad_id());
    }
    let bytes = data_encoding::BASE64URL_NOPAD.decode(id.as_bytes()).map_err(|_| bad_id())?;
    let text = String::from_utf8(bytes).map_err(|_| bad_id())?;
    let places: Vec<&str> = text.split(' ').collect();
    if places.len() != shards.len() {
        return Err(bad_id());
    }
    let place = |(shard, place): (&Shard, &str)| (*shard, FeedCursor(place.to_owned()));
    Ok(shards.iter().zip(places).map(place).collect())
}

/// What one line of the feed tells: for each entry a word, and the entry with its run and its
/// number. Nothing of another run. Entries that only a later release knows are passed on as well.
fn told(line: &str, wanted: Option<&RunId>) -> Vec<(String, String)> {
    let Ok(Line { run, first, entries }) = serde_json::from_str(line) else { return Vec::new() };
    if wanted.is_some_and(|wanted| *wanted != run) {
        return Vec::new();
    }
    let one = |(no, mut entry): (u64, Map<String, Value>)| {
        let what = entry.get("what").and_then(Value::as_str)?.to_owned();
        entry.insert("run".to_owned(), run.as_str().into());
        entry.insert("no".to_owned(), no.into());
        Some((what, Value::Object(entry).to_string()))
    };
    (first..).zip(entries).filter_map(one).collect()
}
