//! The same promise for Redis.

use std::time::Duration;

use portcullis_tests::servers::{AppendFsync, RedisOptions, RedisServer};
use redis::AsyncCommands as _;
use redis::aio::MultiplexedConnection;

use super::processes_using;

async fn connect(server: &RedisServer) -> MultiplexedConnection {
    let client = redis::Client::open(server.url()).unwrap();
    client.get_multiplexed_async_connection().await.unwrap()
}

async fn setting(connection: &mut MultiplexedConnection, name: &str) -> String {
    let answer = redis::cmd("CONFIG").arg("GET").arg(name).query_async(connection).await;
    let (_, value): (String, String) = answer.unwrap();
    value
}

#[tokio::test]
async fn a_default_redis_is_set_up_as_production_requires() {
    let server = RedisServer::start(RedisOptions::default()).unwrap();
    let mut connection = connect(&server).await;
    assert_eq!(setting(&mut connection, "appendonly").await, "yes");
    assert_eq!(setting(&mut connection, "appendfsync").await, "always");
    assert_eq!(setting(&mut connection, "maxmemory-policy").await, "noeviction");
    assert_eq!(setting(&mut connection, "save").await, "");
}

#[tokio::test]
async fn options_reach_redis() {
    let options = RedisOptions {
        appendfsync: AppendFsync::EverySecond,
        maxmemory_policy: "volatile-lru",
        extra: vec![("maxmemory".to_owned(), "50mb".to_owned())],
        ..RedisOptions::default()
    };
    let server = RedisServer::start(options).unwrap();
    let mut connection = connect(&server).await;
    assert_eq!(setting(&mut connection, "appendfsync").await, "everysec");
    assert_eq!(setting(&mut connection, "maxmemory-policy").await, "volatile-lru");
    assert_eq!(setting(&mut connection, "maxmemory").await, "52428800");
}

#[tokio::test]
async fn redis_killed_and_restarted_keeps_its_data_and_its_address() {
    let mut server = RedisServer::start(RedisOptions::default()).unwrap();
    let url = server.url();
    let () = connect(&server).await.set("kept", "yes").await.unwrap();
    server.kill9().unwrap();
    assert!(redis::Client::open(url.as_str()).unwrap().get_connection().is_err());
    server.restart().unwrap();
    assert_eq!(server.url(), url);
    let kept: String = connect(&server).await.get("kept").await.unwrap();
    assert_eq!(kept, "yes");
}

#[tokio::test]
async fn two_redis_at_once_share_nothing() {
    let one = RedisServer::start(RedisOptions::default()).unwrap();
    let two = RedisServer::start(RedisOptions::default()).unwrap();
    let () = connect(&one).await.set("key", "one").await.unwrap();
    let found: Option<String> = connect(&two).await.get("key").await.unwrap();
    assert_eq!(found, None);
}

#[tokio::test]
async fn a_paused_redis_answers_only_after_resume() {
    let server = RedisServer::start(RedisOptions::default()).unwrap();
    let mut connection = connect(&server).await;
    server.pause().unwrap();
    let mut ping = redis::cmd("PING");
    let early = ping.query_async::<String>(&mut connection);
    assert!(tokio::time::timeout(Duration::from_millis(200), early).await.is_err());
    server.resume().unwrap();
    ping = redis::cmd("PING");
    let pong: String = ping.query_async(&mut connect(&server).await).await.unwrap();
    assert_eq!(pong, "PONG");
}

#[test]
fn a_refused_option_fails_with_what_redis_says() {
    let extra = vec![("no-such-setting".to_owned(), "1".to_owned())];
    let options = RedisOptions { extra, ..RedisOptions::default() };
    let why = RedisServer::start(options).map(|server| server.pid()).unwrap_err().to_string();
    assert!(why.contains("no-such-setting"), "{why}");
}

#[test]
fn nothing_of_redis_is_left_after_drop() {
    let server = RedisServer::start(RedisOptions::default()).unwrap();
    let folder = server.folder().to_path_buf();
    assert_eq!(processes_using(&folder), [format!("/proc/{}", server.pid())]);
    server.pause().unwrap(); // a frozen server must go, too
    drop(server);
    assert_eq!(processes_using(&folder), [] as [String; 0]);
    assert!(!folder.exists());
}
