//! Can the store keep what it confirms?

use std::path::Path;

use portcullis_engine::finding::Finding;
use portcullis_engine::redis::{RedisSettings, RedisSite};
use portcullis_engine::sqlite;

use crate::config::{Config, StorePlace, without_login};
use crate::words::one_sentence;

/// What was found; and the store, to be asked for its epoch, where it is a Redis.
pub(super) async fn look(config: &Config) -> (Vec<Finding>, Option<RedisSite>) {
    match &config.home.store {
        StorePlace::Sqlite(path) => (of_file(path).await, None),
        StorePlace::Redis(settings) => redis(settings).await,
    }
}

async fn of_file(path: &Path) -> Vec<Finding> {
    let path = path.to_owned();
    let looking = tokio::task::spawn_blocking(move || sqlite::look(&path, &sqlite::wall_clock()));
    looking.await.unwrap_or_else(|why| {
        let mend = "report it, with this line";
        vec![Finding::unseen("sqlite-content", why, mend)]
    })
}

async fn redis(settings: &RedisSettings) -> (Vec<Finding>, Option<RedisSite>) {
    const CHECK: &str = "redis-reachable";
    let shown = without_login(&settings.url);
    match RedisSite::inspect(settings, &sqlite::wall_clock()).await {
        Ok(site) => {
            let mut findings = vec![Finding::fine(CHECK, shown)];
            findings.extend(site.findings().iter().cloned());
            (findings, Some(site))
        }
        Err(why) => {
            let found = format!("{shown}: {}", one_sentence(&why));
            let why = "webhooks are still taken by the broker; nothing runs";
            let mend = "start Redis, or correct `store.url`";
            (vec![Finding::fatal(CHECK, found, why, mend)], None)
        }
    }
}
