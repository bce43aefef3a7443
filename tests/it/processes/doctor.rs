//! What fails a promise is named by the real program, told at a start, and refused where the
//! operator wants it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use portcullis_proto::topology;
use portcullis_tests::home::Kind;
use portcullis_tests::processes::{Broker, Installation, People, Setup};
use serde_json::{Value, json};

use super::{asker, on_both_homes, plain};

on_both_homes! {
    strict_starts_where_every_promise_holds
    strict_refuses_an_open_data_folder_and_standard_tells_it
}

fn setup() -> Setup {
    Setup::of(vec![plain(), asker()])
}

/// Puts a line before everything else in the configuration.
fn prepend(site: &Installation, line: &str) {
    let path = site.folder().join("portcullis.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{line}\n{text}")).unwrap();
}

/// The configuration with a password in it, and keys, as an operator protects them.
fn close_folder(site: &Installation) {
    for (path, mode) in [("data", 0o700), ("portcullis.toml", 0o600)] {
        let path = site.folder().join(path);
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
}

fn installation(kind: Kind) -> Installation {
    let site = Installation::of(kind, &setup());
    close_folder(&site);
    site
}

fn findings<'a>(report: &'a Value, check: &str) -> Vec<&'a Value> {
    let all = report["findings"].as_array().unwrap();
    let found: Vec<_> = all.iter().filter(|finding| finding["check"] == check).collect();
    assert!(!found.is_empty(), "no {check}: {report:#}");
    found
}

#[track_caller]
fn is(report: &Value, check: &str, severity: &str, text: &str) {
    let found = findings(report, check);
    let fits = |finding: &&Value| {
        finding["severity"] == severity && finding["found"].as_str().unwrap().contains(text)
    };
    assert!(found.iter().any(fits), "{check} is not {severity} with `{text}`: {found:#?}");
}

fn role(kind: Kind) -> &'static str {
    match kind {
        Kind::Embedded => "up",
        Kind::Distributed => "scheduler",
    }
}

async fn strict_starts_where_every_promise_holds(kind: Kind) {
    let site = installation(kind);
    prepend(&site, "profile = \"strict\"");
    let crew = site.start().await;
    crew.desk.await_line("every promise holds");
    if let Some(worker) = &crew.worker {
        worker.await_line("every promise holds");
    }
}

async fn strict_refuses_an_open_data_folder_and_standard_tells_it(kind: Kind) {
    let site = installation(kind);
    fs::set_permissions(site.folder().join("data"), fs::Permissions::from_mode(0o755)).unwrap();
    let crew = site.start().await;
    crew.desk.await_line("W052");
    assert!(crew.desk.log().contains("files-data-folder"), "{}", crew.desk.log());
    drop(crew);
    let (code, report) = site.doctor();
    assert_eq!((code, &report["fatal"]), (1, &json!(true)), "{report:#}");
    is(&report, "files-data-folder", "fatal", "open to everybody");

    prepend(&site, "profile = \"strict\"");
    let mut refused = site.launch(role(kind), site.desk_port(0));
    assert_eq!(refused.exit_code(), Some(1), "{}", refused.log());
    let log = refused.log();
    for part in ["profile = \"strict\"", "files-data-folder: ", "chmod 700"] {
        assert!(log.contains(part), "{part}: {log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn strict_refuses_a_catch_all_queue_in_every_process() {
    let mut site = installation(Kind::Distributed);
    let Broker::Shared(vhost) = &site.servers().broker else { panic!("it is shared") };
    let (management, name) = (vhost.management().clone(), vhost.name().to_owned());
    drop(site.start().await);
    let queue = format!("/api/queues/{name}/audit");
    management.put(&queue, &json!({ "durable": true })).unwrap();
    let bind = format!("/api/bindings/{name}/e/{}/q/audit", topology::APPROVALS);
    management.post(&bind, &json!({ "routing_key": "#" })).unwrap();

    let desk = site.scheduler(0).await;
    desk.await_line("rabbitmq-catch-all");
    drop(desk);
    prepend(&site, "profile = \"strict\"");
    for (role, port) in [("scheduler", site.desk_port(0)), ("worker", site.desk_port(1))] {
        let mut refused = site.launch(role, port);
        assert_eq!(refused.exit_code(), Some(1), "{role}: {}", refused.log());
        assert!(refused.log().contains("rabbitmq-catch-all: "), "{role}: {}", refused.log());
    }
    management.delete(&queue).unwrap();
    site.scheduler(0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_set_otherwise_while_it_runs_is_named() {
    let mut site = installation(Kind::Distributed);
    let url = site.servers().redis.url();
    let mut redis =
        redis::Client::open(url).unwrap().get_multiplexed_async_connection().await.unwrap();
    let (_, report) = site.doctor();
    is(&report, "redis-appendonly", "fine", "yes");
    is(&report, "redis-maxmemory-policy", "fine", "noeviction");
    for (name, value) in [("appendonly", "no"), ("maxmemory-policy", "volatile-ttl")] {
        let mut set = redis::cmd("CONFIG");
        let () = set.arg("SET").arg(name).arg(value).query_async(&mut redis).await.unwrap();
    }
    let (code, report) = site.doctor();
    assert_eq!(code, 1);
    is(&report, "redis-appendonly", "fatal", "no append-only file");
    is(&report, "redis-maxmemory-policy", "fatal", "volatile-ttl");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_management_api_shows_policies_bindings_and_approvers() {
    let setup = Setup { people: People::ServiceOnly, ..setup() };
    let mut site = Installation::distributed(&setup);
    let Broker::Shared(vhost) = &site.servers().broker else { panic!("it is shared") };
    let (management, name) = (vhost.management().clone(), vhost.name().to_owned());
    drop(site.start().await);

    // At the usual port there is none, or one of somebody else: what was not seen is told.
    let (_, report) = site.doctor();
    is(&report, "rabbitmq-management", "warning", "could not be looked at");

    let path = site.folder().join("portcullis.toml");
    let text = fs::read_to_string(&path).unwrap();
    let url =
        format!("[bus]\nmanagement_url = \"http://guest:guest@127.0.0.1:{}\"\n", management.port());
    fs::write(&path, text.replace("[bus]\n", &url)).unwrap();
    let (_, report) = site.doctor();
    is(&report, "rabbitmq-management", "fine", "answers");
    is(&report, "rabbitmq-policies", "fine", "");
    is(&report, "rabbitmq-consumer-timeout", "fine", "");
    is(&report, "rabbitmq-nodes", "fine", "1");
    is(&report, "rabbitmq-queue-replicas", "fine", "all 1 nodes");
    is(&report, "rabbitmq-alternate-exchange", "fine", "");
    is(&report, "rabbitmq-bindings", "fine", "none");
    is(&report, "rabbitmq-approvers", "warning", "no queue takes requests to pool `ops`");
    is(&report, "rabbitmq-rights", "warning", "configure, write, read");

    for (queue, key) in [("approvals.ops", "approval.*.ops.*"), ("audit", "#")] {
        let path = format!("/api/queues/{name}/{queue}");
        management.put(&path, &json!({ "durable": true })).unwrap();
        let bind = format!("/api/bindings/{name}/e/{}/q/{queue}", topology::APPROVALS);
        management.post(&bind, &json!({ "routing_key": key })).unwrap();
    }
    // A queue of ours that somebody made without limits.
    let bare = format!("/api/queues/{name}/jobs.lo.99");
    let quorum = json!({ "durable": true, "arguments": { "x-queue-type": "quorum" } });
    management.put(&bare, &quorum).unwrap();
    let (code, report) = site.doctor();
    assert_eq!(code, 1);
    is(&report, "rabbitmq-bindings", "fatal", "`audit` by `#`");
    is(&report, "rabbitmq-catch-all", "fatal", "catch-all");
    is(&report, "rabbitmq-approvers", "warning", "nobody reads");
    is(&report, "rabbitmq-policies", "fatal", "`jobs.lo.99` drops what is dead");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_was_swapped_is_named_before_anything_starts() {
    let mut site = installation(Kind::Distributed);
    drop(site.start().await);
    let (_, report) = site.doctor();
    is(&report, "epoch-witness", "fine", "the broker knows");
    let url = site.servers().redis.url();
    let mut redis =
        redis::Client::open(url).unwrap().get_multiplexed_async_connection().await.unwrap();
    let () = redis::cmd("FLUSHALL").query_async(&mut redis).await.unwrap();
    let (code, report) = site.doctor();
    assert_eq!(code, 1);
    is(&report, "epoch-witness", "fatal", "the store is empty");
}
