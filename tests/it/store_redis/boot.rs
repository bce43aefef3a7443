//! Which Redis is opened, and which is refused?

use futures_util::future::join_all;
use portcullis_engine::finding::Finding;
use portcullis_engine::ports::Installation as _;
use portcullis_engine::redis::{OpenError, RedisSettings, RedisSite, RedisStore};
use portcullis_proto::ids::{Epoch, Shard, ShardCount};
use portcullis_proto::topology::meta_key;
use portcullis_tests::servers::{AppendFsync, RedisOptions, RedisServer};

use super::bench::{ask, settings};

fn server(options: RedisOptions) -> RedisServer {
    RedisServer::start(options).unwrap()
}

async fn refused(settings: RedisSettings) -> OpenError {
    RedisStore::connect(settings).await.err().expect("it is refused")
}

/// It was refused because of `check` alone, and told how to mend it.
#[track_caller]
fn is_unfit(error: OpenError, check: &str) -> Finding {
    let OpenError::Unfit(findings) = error else { panic!("{error}") };
    let found: Vec<_> = findings.iter().map(|finding| finding.check).collect();
    assert_eq!(found, [check]);
    assert!(!findings[0].mend.is_empty());
    findings[0].clone()
}

#[tokio::test]
async fn a_redis_that_may_lose_records_is_refused_unless_told_otherwise() {
    let good = RedisOptions::default;
    let everysec = RedisOptions { appendfsync: AppendFsync::EverySecond, ..good() };
    let cases = [
        ("redis-maxmemory-policy", RedisOptions { maxmemory_policy: "volatile-lru", ..good() }),
        ("redis-appendonly", RedisOptions { appendonly: false, ..good() }),
        ("redis-appendfsync", everysec),
    ];
    for (check, options) in cases {
        let server = server(options);
        is_unfit(refused(settings(&server)).await, check);
        let mut lax = settings(&server);
        lax.strict = false;
        let site = RedisSite::connect(lax).await.unwrap();
        let told = site.findings().iter().find(|finding| finding.is_fatal());
        assert_eq!(told.unwrap().check, check);
    }
}

#[tokio::test]
async fn a_redis_that_hides_its_settings_needs_somebody_to_vouch_for_it() {
    let extra = vec![("rename-command".to_owned(), "CONFIG ".to_owned())];
    let server = server(RedisOptions { extra, ..RedisOptions::default() });
    is_unfit(refused(settings(&server)).await, "redis-appendfsync");
    let mut vouched = settings(&server);
    vouched.assume_durable = true;
    RedisStore::connect(vouched).await.unwrap();
}

#[tokio::test]
async fn a_user_who_may_not_run_the_scripts_is_refused() {
    let server = server(RedisOptions::default());
    for (rule, missing) in [("-xadd", "XADD"), ("-@scripting", "scripts cannot run")] {
        let () = ask(&server, &["ACL", "SETUSER", "u", "on", ">secret", "~*", "+@all", rule]).await;
        let mut limited = settings(&server);
        limited.url = server.url().replace("redis://", "redis://u:secret@");
        let finding = is_unfit(refused(limited).await, "redis-permissions");
        assert!(finding.found.contains(missing), "{finding}");
        let () = ask(&server, &["ACL", "DELUSER", "u"]).await;
    }
}

#[tokio::test]
async fn a_replica_is_refused() {
    let primary = server(RedisOptions::default());
    let extra = vec![("replicaof".to_owned(), format!("127.0.0.1 {}", primary.port()))];
    let replica = server(RedisOptions { extra, ..RedisOptions::default() });
    is_unfit(refused(settings(&replica)).await, "redis-role");
}

#[tokio::test]
async fn another_number_of_shards_is_refused_with_both_numbers() {
    let server = server(RedisOptions::default());
    RedisStore::connect(settings(&server)).await.unwrap();
    let mut other = settings(&server);
    other.shards = ShardCount::new(16).unwrap();
    let error = refused(other).await;
    assert_eq!(error, OpenError::Shards { stored: "4".into(), configured: 16 });
    RedisStore::connect(settings(&server)).await.unwrap();
}

#[tokio::test]
async fn processes_that_found_an_installation_at_once_agree_on_its_epoch() {
    let server = server(RedisOptions::default());
    let stores = join_all((0..8).map(|_| RedisStore::connect(settings(&server)))).await;
    let epochs: Vec<_> = stores.into_iter().map(|store| store.unwrap().shape().epoch).collect();
    assert!(epochs.iter().all(|epoch| *epoch == epochs[0]), "{epochs:?}");
}

#[tokio::test]
async fn an_epoch_stays_the_same_for_ever() {
    let server = server(RedisOptions::default());
    let site = RedisSite::connect(settings(&server)).await.unwrap();
    assert_eq!(site.read_epoch().await, Ok(None));
    let (first, second) = (Epoch([1; 16]), Epoch([2; 16]));
    assert_eq!(site.found_epoch(first).await, Ok(first));
    assert_eq!(site.found_epoch(second).await, Ok(first));
    assert_eq!(site.read_epoch().await, Ok(Some(first)));
    let error = site.adopt(second).await.err().unwrap();
    assert_eq!(error, OpenError::Foreign { found: first.to_string(), wanted: second });
}

#[tokio::test]
async fn an_installation_that_was_broken_off_is_completed() {
    let server = server(RedisOptions::default());
    let site = RedisSite::connect(settings(&server)).await.unwrap();
    let epoch = site.found_epoch(Epoch([7; 16])).await.unwrap();
    let store = RedisStore::connect(settings(&server)).await.unwrap();
    assert_eq!(store.shape().epoch, epoch);
    let last: Option<String> = ask(&server, &["HGET", &meta_key(Shard(3)), "epoch"]).await;
    assert_eq!(last, Some(epoch.to_string()));
}

#[tokio::test]
async fn a_shard_that_was_emptied_is_not_healed_on_the_quiet() {
    let server = server(RedisOptions::default());
    RedisStore::connect(settings(&server)).await.unwrap();
    let () = ask(&server, &["DEL", &meta_key(Shard(2))]).await;
    assert_eq!(refused(settings(&server)).await, OpenError::Emptied(Shard(2)));
}

#[tokio::test]
async fn a_store_that_cannot_be_reached_is_told_without_its_password() {
    let mut gone = server(RedisOptions::default());
    let mut settings = settings(&gone);
    gone.kill9().unwrap();
    settings.url = settings.url.replace("redis://", "redis://user:hunter2@");
    let error = refused(settings.clone()).await.to_string();
    assert!(error.contains("cannot connect to Redis") && !error.contains("hunter2"), "{error}");
    settings.url = "http://user:hunter2@store".into();
    let error = refused(settings).await;
    assert!(matches!(error, OpenError::BadUrl(_)), "{error}");
    assert!(!error.to_string().contains("hunter2"), "{error}");
}
