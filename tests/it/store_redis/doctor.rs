//! What does a doctor see in a real Redis, and does it leave it alone?

use std::sync::Arc;

use portcullis_engine::finding::{Finding, Severity};
use portcullis_engine::redis::{RedisSettings, RedisSite, RedisStore};
use portcullis_engine::sqlite::{WallClock, wall_clock};
use portcullis_proto::ids::{Shard, ShardCount};
use portcullis_proto::topology::meta_key;
use portcullis_tests::servers::{RedisOptions, RedisServer};

use super::bench::{ask, fresh, settings};

/// As `deploy/redis/make-acl.sh` writes a user.
const SHIPPED: &str = "~* &* +@all -@dangerous -@admin +info +config|get";

fn server() -> RedisServer {
    RedisServer::start(RedisOptions::default()).unwrap()
}

/// Makes a user with these rights, and says how to come as that user.
async fn user(server: &RedisServer, rights: &str) -> RedisSettings {
    let mut words = vec!["ACL", "SETUSER", "u", "reset", "on", ">secret"];
    words.extend(rights.split(' '));
    let () = ask(server, &words).await;
    let url = server.url().replace("redis://", "redis://u:secret@");
    RedisSettings { url, ..settings(server) }
}

async fn look(settings: &RedisSettings) -> Vec<Finding> {
    RedisSite::examine(settings).await.unwrap()
}

async fn one(settings: &RedisSettings, check: &str) -> Finding {
    let findings = look(settings).await;
    let found = findings.iter().find(|finding| finding.check == check);
    found.unwrap_or_else(|| panic!("no {check}: {findings:?}")).clone()
}

#[track_caller]
fn is(finding: &Finding, severity: Severity, text: &str) {
    assert_eq!(finding.severity, severity, "{finding}");
    assert!(finding.found.contains(text), "{finding}");
    assert_eq!(finding.mend.is_empty(), severity == Severity::Fine, "{finding}");
}

#[tokio::test]
async fn a_redis_set_up_as_production_requires_has_nothing_to_mend() {
    let server = server();
    let settings = user(&server, SHIPPED).await;
    let findings = look(&settings).await;
    assert!(17 <= findings.len(), "{findings:?}");
    for finding in findings {
        assert_eq!(finding.severity, Severity::Fine, "{finding}");
    }
    let keys: Vec<String> = ask(&server, &["KEYS", "*"]).await;
    assert_eq!(keys, [] as [String; 0], "looking writes nothing");
}

#[tokio::test]
async fn each_setting_that_was_changed_meanwhile_is_named() {
    let server = server();
    let settings = settings(&server);
    for (name, bad, good, check) in [
        ("maxmemory-policy", "allkeys-lru", "noeviction", "redis-maxmemory-policy"),
        ("appendfsync", "everysec", "always", "redis-appendfsync"),
        ("no-appendfsync-on-rewrite", "yes", "no", "redis-appendfsync"),
        ("appendonly", "no", "yes", "redis-appendonly"),
    ] {
        let () = ask(&server, &["CONFIG", "SET", name, bad]).await;
        assert_eq!(one(&settings, check).await.severity, Severity::Fatal, "{name} {bad}");
        let () = ask(&server, &["CONFIG", "SET", name, good]).await;
        assert_eq!(one(&settings, check).await.severity, Severity::Fine, "{name} {good}");
    }
}

#[tokio::test]
async fn memory_that_runs_out_is_told_before_it_has() {
    let server = server();
    is(&one(&settings(&server), "redis-memory").await, Severity::Fine, "bytes in use");
    let () = ask(&server, &["CONFIG", "SET", "maxmemory", "1mb"]).await;
    is(&one(&settings(&server), "redis-memory").await, Severity::Warning, "of `maxmemory`");
}

#[tokio::test]
async fn rights_too_wide_and_too_narrow_are_named() {
    const WIDE: &str = "redis-wide-permissions";
    let server = server();
    let all = user(&server, "~* +@all").await;
    is(&one(&all, WIDE).await, Severity::Warning, "FLUSHALL");
    let debug = user(&server, &format!("{SHIPPED} +debug")).await;
    is(&one(&debug, WIDE).await, Severity::Warning, "may call DEBUG");
    let shipped = user(&server, SHIPPED).await;
    is(&one(&shipped, WIDE).await, Severity::Fine, "");
    is(&one(&shipped, "redis-permissions").await, Severity::Fine, "");
    let narrow = user(&server, &format!("{SHIPPED} -xadd")).await;
    is(&one(&narrow, "redis-permissions").await, Severity::Fatal, "XADD");
    let mute = user(&server, &format!("{SHIPPED} -@scripting")).await;
    is(&one(&mute, WIDE).await, Severity::Warning, "could not be looked at");
    is(&one(&mute, "redis-permissions").await, Severity::Fatal, "scripts cannot run");
    let exists: Vec<String> = ask(&server, &["KEYS", "*"]).await;
    assert!(exists.is_empty(), "nothing was run to see whether it may be: {exists:?}");
}

#[tokio::test]
async fn a_redis_that_hides_its_settings_says_so() {
    let server = server();
    let hidden = user(&server, "~* &* +@all -@dangerous -@admin +info").await;
    is(&one(&hidden, "redis-appendfsync").await, Severity::Fatal, "not permitted");
    let vouched = RedisSettings { assume_durable: true, ..hidden };
    is(&one(&vouched, "redis-appendfsync").await, Severity::Warning, "vouched");
}

#[tokio::test]
async fn two_clocks_that_disagree_are_told_by_how_much() {
    let server = server();
    for (offset_ms, severity) in
        [(0, Severity::Fine), (2_000, Severity::Warning), (-7_000, Severity::Fatal)]
    {
        let wall: WallClock = Arc::new(move || wall_clock()() + offset_ms);
        let site = RedisSite::inspect(&settings(&server), &wall).await.unwrap();
        let skew = site.findings().iter().find(|f| f.check == "redis-clock-skew").unwrap();
        assert_eq!(skew.severity, severity, "{skew}");
    }
}

#[tokio::test]
async fn a_clock_that_was_set_back_is_told() {
    let bench = fresh().await;
    let settings = settings(&bench.server);
    is(&one(&settings, "redis-clock-lag").await, Severity::Fine, "0 ms behind");
    let ahead = (wall_clock()() + 60_000).to_string();
    let () = ask(&bench.server, &["HSET", &meta_key(Shard(1)), "hw", &ahead]).await;
    is(&one(&settings, "redis-clock-lag").await, Severity::Fatal, "behind the highest time");
}

#[tokio::test]
async fn an_installation_that_is_not_whole_is_told() {
    const CHECK: &str = "redis-installation";
    let server = server();
    let settings = settings(&server);
    is(&one(&settings, CHECK).await, Severity::Fine, "nothing is installed");
    RedisStore::connect(settings.clone()).await.unwrap();
    is(&one(&settings, CHECK).await, Severity::Fine, "4 shards");
    let other = RedisSettings { shards: ShardCount::new(8).unwrap(), ..settings.clone() };
    is(&one(&other, CHECK).await, Severity::Fatal, "installed with 4 shards");
    let () = ask(&server, &["DEL", &meta_key(Shard(2))]).await;
    is(&one(&settings, CHECK).await, Severity::Fatal, "shard 2 was emptied");
}
