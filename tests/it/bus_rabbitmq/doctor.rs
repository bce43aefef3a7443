//! What does a doctor see in a real RabbitMQ, and does it leave it alone?

use std::sync::Arc;

use lapin::options::QueueDeclareOptions;
use lapin::types::FieldTable;
use portcullis_engine::finding::{Finding, Severity};
use portcullis_engine::ports::{Bus, Settled, Source};
use portcullis_engine::rabbitmq::{Declare, RabbitBus, RabbitSettings};
use portcullis_proto::topology::Lane;
use portcullis_tests::conformance::bus::{consume, next, ring, wake_of};
use portcullis_tests::servers::{Vhost, delete_queue, shared_rabbit};
use serde_json::{Value, json};

use super::publishing::{User, approver_queue, stranger};
use super::{READY_MS_MAX, bus, settings};

/// Somebody who only looks, and declares nothing.
async fn looker(url: &str) -> Arc<RabbitBus> {
    let settings = RabbitSettings { declare: Declare::Nothing, ..settings(url) };
    let bus = RabbitBus::connect(settings).unwrap();
    bus.ready(READY_MS_MAX).await.unwrap();
    bus
}

async fn look(url: &str) -> Vec<Finding> {
    looker(url).await.examine(Declare::Arguments).await.unwrap()
}

#[track_caller]
fn is(findings: &[Finding], check: &str, severity: Severity, text: &str) {
    let found = findings.iter().find(|finding| finding.check == check);
    let finding = found.unwrap_or_else(|| panic!("no {check}: {findings:?}"));
    assert_eq!(finding.severity, severity, "{finding}");
    assert!(finding.found.contains(text), "{finding}");
    assert_eq!(finding.mend.is_empty(), severity == Severity::Fine, "{finding}");
}

/// A user with the rights that the shipped definitions give one.
fn shipped(vhost: &Vhost, name: &str) -> User {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/rabbitmq/definitions.json");
    let all: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let permissions = all["permissions"].as_array().unwrap();
    User::create(vhost, permissions.iter().find(|entry| entry["user"] == name).unwrap())
}

#[tokio::test]
async fn a_broker_set_up_as_shipped_has_nothing_to_mend() {
    let vhost = shared_rabbit().unwrap();
    let bus = bus(&vhost.url()).await;
    assert!(bus.version().await.unwrap().starts_with("RabbitMQ "));
    let scheduler = shipped(&vhost, "scheduler");
    let findings = look(&scheduler.url).await;
    assert_eq!(findings.len(), 10, "{findings:?}");
    for finding in findings {
        assert_eq!(finding.severity, Severity::Fine, "{finding}");
    }
}

#[tokio::test]
async fn looking_at_an_empty_broker_declares_nothing() {
    let vhost = shared_rabbit().unwrap();
    let findings = look(&vhost.url()).await;
    is(&findings, "rabbitmq-queues", Severity::Warning, "absent: dead.jobs, dead.decisions");
    is(&findings, "rabbitmq-catch-all", Severity::Fine, "not there yet");
    let queues = vhost.management().get(&format!("/api/queues/{}", vhost.name())).unwrap();
    assert_eq!(queues, json!([]));
    let there = vhost.management().get(&format!("/api/exchanges/{}", vhost.name())).unwrap();
    let ours = |exchange: &&Value| exchange["name"].as_str().unwrap().starts_with("portcullis");
    assert_eq!(there.as_array().unwrap().iter().find(ours), None);
}

#[tokio::test]
async fn a_catch_all_binding_and_an_alternate_exchange_are_fatal() {
    const CHECK: &str = "rabbitmq-catch-all";
    for key in ["#", "approval.#", "approval.*.*.*"] {
        let vhost = shared_rabbit().unwrap();
        bus(&vhost.url()).await;
        approver_queue(&vhost.url(), "approval.*.ops.*", FieldTable::default()).await;
        is(&look(&vhost.url()).await, CHECK, Severity::Fine, "comes back");
        approver_queue(&vhost.url(), key, FieldTable::default()).await;
        is(&look(&vhost.url()).await, CHECK, Severity::Fatal, "catch-all");
    }
    let vhost = shared_rabbit().unwrap();
    bus(&vhost.url()).await;
    let policy = json!({
        "pattern": "^portcullis\\.approvals$", "apply-to": "exchanges",
        "definition": { "alternate-exchange": "amq.fanout" },
    });
    let path = format!("/api/policies/{}/audit", vhost.name());
    vhost.management().put(&path, &policy).unwrap();
    let channel = stranger(&vhost.url()).await;
    let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    channel.queue_declare("audit".into(), options, FieldTable::default()).await.unwrap();
    let (queue, exchange) = ("audit".into(), "amq.fanout".into());
    let all = FieldTable::default();
    channel.queue_bind(queue, exchange, "".into(), Default::default(), all).await.unwrap();
    // A policy comes into force a moment after it was taken.
    let limit = std::time::Duration::from_millis(READY_MS_MAX);
    let fatal = async { while !look(&vhost.url()).await.iter().any(|f| f.is_fatal()) {} };
    tokio::time::timeout(limit, fatal).await.unwrap();
    is(&look(&vhost.url()).await, CHECK, Severity::Fatal, "alternate exchange");
}

#[tokio::test]
async fn a_classic_queue_in_the_place_of_ours_is_fatal() {
    let vhost = shared_rabbit().unwrap();
    bus(&vhost.url()).await;
    is(&look(&vhost.url()).await, "rabbitmq-queue-type", Severity::Fine, "quorum");
    delete_queue(&vhost.url(), "jobs.hi.1").await.unwrap();
    let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    let channel = stranger(&vhost.url()).await;
    channel.queue_declare("jobs.hi.1".into(), options, FieldTable::default()).await.unwrap();
    is(&look(&vhost.url()).await, "rabbitmq-queue-type", Severity::Fatal, "`jobs.hi.1`");
}

#[tokio::test]
async fn what_a_user_may_do_too_much_or_not_see_is_told() {
    let vhost = shared_rabbit().unwrap();
    bus(&vhost.url()).await;
    let wide = look(&vhost.url()).await;
    is(&wide, "rabbitmq-wide-permissions", Severity::Warning, "make and delete, and read any");
    let reader = User::reader(&vhost);
    let findings = look(&reader.url).await;
    is(&findings, "rabbitmq-wide-permissions", Severity::Warning, "may read any");
    is(&findings, "rabbitmq-catch-all", Severity::Warning, "could not be looked at");
    drop(reader);
    let worker = shipped(&vhost, "worker");
    let findings = look(&worker.url).await;
    is(&findings, "rabbitmq-wide-permissions", Severity::Fine, "");
    is(&findings, "rabbitmq-queue-type", Severity::Warning, "could not be looked at");
    is(&findings, "rabbitmq-catch-all", Severity::Fine, "comes back");
}

#[tokio::test]
async fn queues_that_nobody_reads_and_what_is_dead_are_found() {
    let vhost = shared_rabbit().unwrap();
    let bus = bus(&vhost.url()).await;
    let as_port: Arc<dyn Bus> = bus.clone();
    let mut consumer = consume(&as_port, Source::Wakes(Lane::Lo), 1).await;
    ring(&as_port, wake_of(Lane::Lo, 1)).await;
    assert_eq!(next(&mut consumer).await.settle.dead_letter().await, Settled::Done);
    drop(next(&mut consume(&as_port, Source::DeadJobs, 1).await).await);
    ring(&as_port, wake_of(Lane::Hi, 1)).await;
    delete_queue(&vhost.url(), "decisions.0").await.unwrap();

    let findings = look(&vhost.url()).await;
    is(&findings, "rabbitmq-unread", Severity::Warning, "1 in `jobs.hi.");
    is(&findings, "rabbitmq-dead-letters", Severity::Warning, "`dead.jobs`");
    is(&findings, "rabbitmq-queues", Severity::Warning, "absent: decisions.0");
}
