//! The same promise for Redis.

use std::fs;

use portcullis_tests::servers::{RedisOptions, RedisServer};
use redis::aio::MultiplexedConnection;
use redis::{Client, RedisResult};

use super::{PASSWORD, run_script, secrets, shipped};

fn start() -> RedisServer {
    let folder = secrets(&["scheduler", "worker"], PASSWORD);
    let acl = folder.path().join("users.acl");
    fs::write(&acl, run_script("redis/make-acl.sh", folder.path()).unwrap()).unwrap();
    let extra = vec![("aclfile".to_owned(), acl.display().to_string())];
    let conf = Some(shipped("redis/redis.conf"));
    RedisServer::start(RedisOptions { conf, extra, ..RedisOptions::default() }).unwrap()
}

async fn log_in(server: &RedisServer, user: &str) -> RedisResult<MultiplexedConnection> {
    let password = PASSWORD.replace(' ', "%20");
    let url = format!("redis://{user}:{password}@127.0.0.1:{}/0", server.port());
    Client::open(url)?.get_multiplexed_async_connection().await
}

#[tokio::test]
async fn the_shipped_redis_loses_and_evicts_nothing() {
    let server = start();
    let mut connection = log_in(&server, "scheduler").await.unwrap();
    for (name, wanted) in [
        ("appendonly", "yes"),
        ("appendfsync", "always"),
        ("maxmemory-policy", "noeviction"),
        ("no-appendfsync-on-rewrite", "no"),
        ("protected-mode", "yes"),
        ("save", ""),
    ] {
        let answer = redis::cmd("CONFIG").arg("GET").arg(name).query_async(&mut connection).await;
        let (_, value): (String, String) = answer.unwrap();
        assert_eq!(value, wanted, "{name}");
    }
}

#[tokio::test]
async fn a_redis_user_may_commit_and_not_destroy() {
    let server = start();
    for user in ["scheduler", "worker"] {
        let mut connection = log_in(&server, user).await.unwrap();
        let script = "redis.call('SET', KEYS[1], ARGV[1]) return redis.call('TIME')[1]";
        let mut commit = redis::cmd("EVAL");
        commit.arg(script).arg(1).arg("r:{s00}:x").arg("1");
        let _: String = commit.query_async(&mut connection).await.unwrap();
        let mut wait = redis::cmd("WAIT");
        let _: u32 = wait.arg(0).arg(10).query_async(&mut connection).await.unwrap();
        for refused in [
            "FLUSHALL",
            "KEYS *",
            "SHUTDOWN NOSAVE",
            "CONFIG SET appendonly no",
            "REPLICAOF localhost 1",
        ] {
            let mut command = redis::Cmd::new();
            command.arg(refused.split(' ').collect::<Vec<_>>());
            let why = command.query_async::<()>(&mut connection).await.unwrap_err();
            assert_eq!(why.code(), Some("NOPERM"), "{user}: {refused}: {why}");
        }
    }
}

#[tokio::test]
async fn nobody_enters_the_shipped_redis_without_a_password() {
    let server = start();
    let mut connection =
        Client::open(server.url()).unwrap().get_multiplexed_async_connection().await.unwrap();
    let why = redis::cmd("GET").arg("x").query_async::<()>(&mut connection).await.unwrap_err();
    assert_eq!(why.code(), Some("NOAUTH"), "{why}");
}

#[test]
fn a_short_or_missing_password_of_redis_is_refused_by_its_file() {
    let why =
        run_script("redis/make-acl.sh", secrets(&["scheduler"], PASSWORD).path()).unwrap_err();
    assert!(why.contains("/worker: cannot be read"), "{why}");
    let short = secrets(&["scheduler", "worker"], "short");
    let why = run_script("redis/make-acl.sh", short.path()).unwrap_err();
    assert!(why.contains("/scheduler: shorter than 16 letters"), "{why}");
}
