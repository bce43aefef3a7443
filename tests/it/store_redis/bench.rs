//! A private Redis with a store in it.

use std::sync::Arc;

use async_trait::async_trait;
use portcullis_engine::ports::{Installation as _, Storage};
use portcullis_engine::redis::{RedisSettings, RedisStore};
use portcullis_proto::ids::{Shard, ShardCount};
use portcullis_proto::time::Ms;
use portcullis_proto::topology::{meta_key, timer_key};
use portcullis_tests::conformance::store::{Raw, StoreBench};
use portcullis_tests::servers::{RedisOptions, RedisServer};
use redis::aio::MultiplexedConnection;

/// Few enough that records of one test meet in a shard, many enough that they spread.
const SHARDS: u16 = 4;

pub(crate) struct RedisBench {
    pub(crate) server: RedisServer,
    pub(crate) store: Arc<RedisStore>,
}

pub(crate) fn settings(server: &RedisServer) -> RedisSettings {
    let mut settings = RedisSettings::new(server.url());
    settings.shards = ShardCount::new(SHARDS).unwrap();
    settings
}

/// A store on a fresh Redis, set up as production requires.
pub(crate) async fn fresh() -> RedisBench {
    let server = RedisServer::start(RedisOptions::default()).unwrap();
    let store = Arc::new(RedisStore::connect(settings(&server)).await.unwrap());
    RedisBench { server, store }
}

/// A connection around the adapter.
pub(crate) async fn raw(server: &RedisServer) -> MultiplexedConnection {
    let client = redis::Client::open(server.url()).unwrap();
    client.get_multiplexed_async_connection().await.unwrap()
}

/// Runs one command around the adapter, given as words.
pub(crate) async fn ask<T: redis::FromRedisValue>(server: &RedisServer, words: &[&str]) -> T {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    command.query_async(&mut raw(server).await).await.unwrap()
}

#[async_trait]
impl StoreBench for RedisBench {
    fn store(&self) -> Arc<dyn Storage> {
        self.store.clone()
    }

    async fn raw(&self) -> Raw {
        let mut connection = raw(&self.server).await;
        let keys: Vec<String> =
            redis::cmd("KEYS").arg("*").query_async(&mut connection).await.unwrap();
        let mut raw = Raw::new();
        for key in keys {
            if key.starts_with("m:") {
                let get = redis::cmd("HMGET").arg(&key).arg(&["epoch", "pe", "shards"]).clone();
                let fields: Vec<Option<String>> = get.query_async(&mut connection).await.unwrap();
                raw.insert(key, format!("{fields:?}").into_bytes());
                continue;
            }
            let dump = redis::cmd("DUMP").arg(&key).clone();
            let dump: Vec<u8> = dump.query_async(&mut connection).await.unwrap();
            let expires = redis::cmd("PEXPIRETIME").arg(&key).clone();
            let expires: i64 = expires.query_async(&mut connection).await.unwrap();
            raw.insert(format!("{key} until {expires}"), dump);
        }
        raw
    }

    async fn freeze(&self, ahead_ms: i64) -> Ms {
        let (seconds, micros): (i64, i64) = ask(&self.server, &["TIME"]).await;
        let frozen = seconds * 1_000 + micros / 1_000 + ahead_ms;
        for shard in self.store.shape().shards.all() {
            let frozen = frozen.to_string();
            let () = ask(&self.server, &["HSET", &meta_key(shard), "hw", &frozen]).await;
        }
        Ms(frozen)
    }

    async fn plant_timer(&self, shard: Shard, member: &str, at: Ms) {
        let () = ask(&self.server, &["ZADD", &timer_key(shard), &at.0.to_string(), member]).await;
    }

    async fn wipe(&self) {
        let () = ask(&self.server, &["FLUSHALL"]).await;
    }
}
