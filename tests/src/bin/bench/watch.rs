//! Learns of what happens to runs from the feed, as any client would: nobody polls records.
//!
//! Authority: the feed, which holds what was committed. One task reads all shards; on Redis it
//! waits in the server, embedded it looks every few milliseconds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use portcullis_engine::FeedLine;
use portcullis_engine::ports::FeedCursor;
use portcullis_proto::ids::{RunId, Shard};
use portcullis_proto::journal::Fact;
use portcullis_proto::topology;
use portcullis_tests::home::Home;
use redis::streams::{StreamReadOptions, StreamReadReply};
use redis::{AsyncCommands as _, FromRedisValue as _};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// How often the embedded feed is looked at, in milliseconds.
const LOOK_MS: u64 = 4;
/// How many entries one read returns at most.
const PAGE: usize = 1_000;
/// How long one read waits in Redis, in milliseconds.
const BLOCK_MS: usize = 1_000;

/// What a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Moment {
    Parked,
    Ended,
}

#[derive(Default)]
struct Known {
    /// Happened before anybody asked.
    seen: HashMap<RunId, Vec<Moment>>,
    waiting: HashMap<(RunId, Moment), oneshot::Sender<()>>,
}

/// Follows the feed of one home until dropped.
pub(crate) struct Watch {
    known: Arc<Mutex<Known>>,
    reader: JoinHandle<()>,
}

impl Watch {
    pub(crate) async fn over(home: &Arc<Home>) -> Self {
        let known = Arc::new(Mutex::new(Known::default()));
        let reader = match &home.servers {
            Some(servers) => {
                let shards = home.engine.store.shape().shards.all();
                let keys: Vec<String> = shards.map(topology::feed_key).collect();
                tokio::spawn(follow_redis(servers.redis.url(), keys, Arc::clone(&known)))
            }
            None => {
                let mut cursors = Vec::new();
                for shard in home.engine.store.shape().shards.all() {
                    let end = home.engine.store.end(shard).await.expect("the store answers");
                    cursors.push((shard, end));
                }
                tokio::spawn(follow_port(Arc::clone(home), cursors, Arc::clone(&known)))
            }
        };
        Self { known, reader }
    }

    /// Resolves when the moment has come for the run.
    pub(crate) async fn wait(&self, run: &RunId, moment: Moment) {
        let told = {
            let mut known = self.known.lock().expect("no panic while held");
            if known.seen.get(run).is_some_and(|seen| seen.contains(&moment)) {
                None
            } else {
                let (tell, told) = oneshot::channel();
                known.waiting.insert((run.clone(), moment), tell);
                Some(told)
            }
        };
        if let Some(told) = told {
            told.await.expect("the reader runs on");
        }
        if moment == Moment::Ended {
            self.known.lock().expect("no panic while held").seen.remove(run);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Known {
    fn take(&mut self, json: &str) {
        let line: FeedLine = serde_json::from_str(json).expect("a line of this release");
        for entry in &line.entries {
            self.note(&line.run, &entry.fact);
        }
    }

    fn note(&mut self, run: &RunId, fact: &Fact) {
        let moment = if matches!(fact, Fact::Parked { .. }) {
            Moment::Parked
        } else if matches!(fact, Fact::Ended { .. }) {
            Moment::Ended
        } else {
            return;
        };
        if let Some(tell) = self.waiting.remove(&(run.clone(), moment)) {
            // Whoever waited may have gone; the figure is then not taken.
            let _heard = tell.send(());
        } else {
            self.seen.entry(run.clone()).or_default().push(moment);
        }
    }
}

async fn follow_port(
    home: Arc<Home>,
    mut cursors: Vec<(Shard, FeedCursor)>,
    known: Arc<Mutex<Known>>,
) {
    loop {
        let mut idle = true;
        for (shard, cursor) in &mut cursors {
            let page = home.engine.store.after(*shard, cursor, PAGE).await;
            for entry in page.expect("the store answers") {
                known.lock().expect("no panic while held").take(&entry.json);
                *cursor = entry.cursor;
                idle = false;
            }
        }
        if idle {
            // sleep: the embedded feed has no way to wait for more
            tokio::time::sleep(Duration::from_millis(LOOK_MS)).await;
        }
    }
}

async fn follow_redis(url: String, keys: Vec<String>, known: Arc<Mutex<Known>>) {
    let client = redis::Client::open(url).expect("a URL");
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    let connection = client.get_multiplexed_async_connection_with_config(&config).await;
    let mut connection = connection.expect("Redis answers");
    let mut cursors = vec!["0-0".to_owned(); keys.len()];
    let options = StreamReadOptions::default().count(PAGE).block(BLOCK_MS);
    loop {
        let read = connection.xread_options(&keys, &cursors, &options).await;
        let read: Option<StreamReadReply> = read.expect("Redis answers");
        for stream in read.into_iter().flat_map(|reply| reply.keys) {
            let place = keys.iter().position(|key| *key == stream.key).expect("one we asked for");
            for entry in stream.ids {
                let json = entry.map.get("j").cloned().expect("every entry has a line");
                let json = String::from_redis_value(json).expect("a text");
                known.lock().expect("no panic while held").take(&json);
                cursors[place] = entry.id;
            }
        }
    }
}
