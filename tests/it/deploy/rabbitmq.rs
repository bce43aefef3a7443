//! The same promise for RabbitMQ: who may do what, and what the queues are held to.

use std::fs;
use std::time::Duration;

use futures_util::StreamExt as _;
use lapin::message::Delivery;
use lapin::options::{
    BasicConsumeOptions, BasicPublishOptions, BasicRejectOptions, ConfirmSelectOptions,
    ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, Consumer,
    ExchangeKind,
};
use portcullis_proto::topology::{self, Lane};
use portcullis_tests::servers::{RabbitOptions, RabbitServer};
use serde_json::{Value, json};

use super::{PASSWORD, run_script, secrets, shipped};

const USERS: [&str; 3] = ["scheduler", "worker", "approver"];
const APPROVERS_QUEUE: &str = "approvals.default";

pub(super) fn start() -> RabbitServer {
    let folder = secrets(&USERS, PASSWORD);
    let definitions = folder.path().join("definitions.json");
    fs::write(&definitions, run_script("rabbitmq/make-users.sh", folder.path()).unwrap()).unwrap();
    let options = RabbitOptions { definitions: Some(definitions), ..RabbitOptions::default() };
    RabbitServer::start_with(&options).unwrap()
}

pub(super) fn url_of(server: &RabbitServer, user: &str) -> String {
    server.url_as(user, &PASSWORD.replace(' ', "%20"), "portcullis")
}

/// What a user may do: every act on a channel of its own, for a refusal closes it.
struct User(Connection);

impl User {
    async fn log_in(server: &RabbitServer, name: &str) -> Self {
        let url = url_of(server, name);
        Self(Connection::connect(&url, ConnectionProperties::default()).await.unwrap())
    }

    async fn channel(&self) -> Channel {
        self.0.create_channel().await.unwrap()
    }

    async fn publish(&self, exchange: &str, key: &str) -> lapin::Result<Confirmation> {
        let channel = self.channel().await;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let properties = BasicProperties::default();
        channel.basic_publish(exchange.into(), key.into(), options, b"x", properties).await?.await
    }

    async fn consume(&self, queue: &str) -> lapin::Result<()> {
        self.deliveries(queue).await.map(drop)
    }

    async fn deliveries(&self, queue: &str) -> lapin::Result<Consumer> {
        let options = BasicConsumeOptions::default();
        let arguments = FieldTable::default();
        let channel = self.channel().await;
        channel.basic_consume(queue.into(), "".into(), options, arguments).await
    }

    async fn declare(&self, queue: &str, passive: bool) -> lapin::Result<()> {
        let mut arguments = FieldTable::default();
        arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
        let options = QueueDeclareOptions { durable: true, passive, ..Default::default() };
        self.channel().await.queue_declare(queue.into(), options, arguments).await.map(drop)
    }

    async fn declare_exchange(&self, name: &str, passive: bool) -> lapin::Result<()> {
        let options = ExchangeDeclareOptions { durable: true, passive, ..Default::default() };
        let kind = ExchangeKind::Fanout;
        let arguments = FieldTable::default();
        self.channel().await.exchange_declare(name.into(), kind, options, arguments).await
    }

    async fn delete(&self, queue: &str) -> lapin::Result<u32> {
        self.channel().await.queue_delete(queue.into(), QueueDeleteOptions::default()).await
    }

    async fn bind(&self, queue: &str, exchange: &str, key: &str) -> lapin::Result<()> {
        let (options, arguments) = (QueueBindOptions::default(), FieldTable::default());
        let channel = self.channel().await;
        channel.queue_bind(queue.into(), exchange.into(), key.into(), options, arguments).await
    }
}

#[track_caller]
fn assert_refused<T>(answer: lapin::Result<T>, what: &str) {
    let why = answer.map(|_| "allowed").unwrap_err().to_string();
    assert!(why.contains("ACCESS_REFUSED") || why.contains("ACCESS-REFUSED"), "{what}: {why}");
}

#[track_caller]
fn assert_routed(answer: lapin::Result<Confirmation>) {
    let confirm = answer.unwrap();
    assert!(matches!(confirm, Confirmation::Ack(None)), "{confirm:?}");
}

#[tokio::test]
async fn each_user_of_the_shipped_rabbit_may_do_its_part_and_no_more() {
    let server = start();
    let scheduler = User::log_in(&server, "scheduler").await;
    let worker = User::log_in(&server, "worker").await;
    let approver = User::log_in(&server, "approver").await;
    schedulers_part(&scheduler).await;
    approvers_part(&approver).await;
    workers_part(&worker).await;
    what_workers_may_not(&worker).await;
    what_approvers_may_not(&approver).await;
}

async fn schedulers_part(scheduler: &User) {
    for exchange in [topology::INSTALLED, "portcullis.epoch.one"] {
        scheduler.declare_exchange(exchange, false).await.unwrap();
    }
    for queue in all_queues() {
        scheduler.declare(&queue, false).await.unwrap();
    }
    let wake = topology::jobs_queue(Lane::Lo, 0);
    assert_routed(scheduler.publish(topology::JOBS, &wake).await);
    assert_routed(scheduler.publish(topology::JOBS, topology::INTAKE_QUEUE).await);
    for queue in [topology::INTAKE_QUEUE, "decisions.0", topology::DEAD_JOBS_QUEUE] {
        scheduler.consume(queue).await.unwrap();
    }
}

async fn approvers_part(approver: &User) {
    approver.declare(APPROVERS_QUEUE, false).await.unwrap();
    for key in ["approval.acme.default.high", "approval.*.default.*"] {
        approver.bind(APPROVERS_QUEUE, topology::APPROVALS, key).await.unwrap();
    }
    approver.consume(APPROVERS_QUEUE).await.unwrap();
    assert_routed(approver.publish(topology::DECISIONS, "decisions.0").await);
}

async fn workers_part(worker: &User) {
    assert_routed(worker.publish(topology::JOBS, &topology::jobs_queue(Lane::Hi, 3)).await);
    assert_routed(worker.publish(topology::APPROVALS, "approval.acme.default.low").await);
    let unheard = worker.publish(topology::APPROVALS, "approval.acme.nobody.low").await;
    assert!(matches!(unheard.unwrap(), Confirmation::Ack(Some(_))), "no catch-all queue");
    worker.consume(&topology::jobs_queue(Lane::Hi, 0)).await.unwrap();
    // It sees what is there, and declares nothing.
    worker.declare("decisions.0", true).await.unwrap();
    worker.declare_exchange(topology::INSTALLED, true).await.unwrap();
}

async fn what_workers_may_not(worker: &User) {
    for (exchange, key) in [
        (topology::DECISIONS, "decisions.0"),
        (topology::DEAD, topology::DEAD_DECISIONS_KEY),
        (topology::EVENTS, "run.ended"),
        ("", "decisions.0"),
        (topology::APPROVALS, "not-a-request"),
    ] {
        assert_refused(worker.publish(exchange, key).await, exchange);
    }
    for queue in ["decisions.0", topology::DEAD_JOBS_QUEUE, topology::INTAKE_QUEUE, APPROVERS_QUEUE]
    {
        assert_refused(worker.consume(queue).await, queue);
        assert_refused(worker.delete(queue).await, queue);
    }
    assert_refused(worker.declare("jobs.hi.9", false).await, "declare");
    assert_refused(worker.declare_exchange("portcullis.epoch.two", false).await, "declare");
    let jobs = topology::jobs_queue(Lane::Hi, 0);
    assert_refused(worker.bind(&jobs, topology::DECISIONS, "decisions.0").await, "bind");
}

async fn what_approvers_may_not(approver: &User) {
    for (exchange, key) in [
        (topology::JOBS, "jobs.hi.0"),
        (topology::APPROVALS, "approval.acme.default.low"),
        (topology::EVENTS, "run.ended"),
        ("", "jobs.hi.0"),
    ] {
        assert_refused(approver.publish(exchange, key).await, exchange);
    }
    // A catch-all would make every request routable, and another pool's is not ours to hear.
    for key in ["#", "approval.#", "approval.acme.other.low", "approval.*.*.*"] {
        let bound = approver.bind(APPROVERS_QUEUE, topology::APPROVALS, key).await;
        assert_refused(bound, key);
    }
    for queue in ["jobs.hi.0", "decisions.0", "dead.decisions"] {
        assert_refused(approver.consume(queue).await, queue);
        assert_refused(approver.delete(queue).await, queue);
    }
    assert_refused(approver.declare("approvals.other", false).await, "another pool's queue");
}

fn all_queues() -> Vec<String> {
    let buckets = 0..topology::BUCKETS_DEFAULT;
    let lanes = [Lane::Hi, Lane::Lo];
    let jobs = buckets.clone().flat_map(|k| lanes.map(|lane| topology::jobs_queue(lane, k)));
    let single =
        [topology::INTAKE_QUEUE, topology::DEAD_JOBS_QUEUE, topology::DEAD_DECISIONS_QUEUE];
    let decisions = buckets.map(topology::decisions_queue);
    jobs.chain(decisions).chain(single.map(str::to_owned)).collect()
}

#[tokio::test]
async fn every_queue_of_the_shipped_rabbit_is_durable_bounded_and_dead_letters() {
    let server = start();
    let approver = User::log_in(&server, "approver").await;
    approver.declare(APPROVERS_QUEUE, false).await.unwrap();
    let listing = ["list_queues", "-p", "portcullis", "--formatter", "json"];
    let columns = ["name", "type", "durable", "policy"];
    let queues = server.control(&[&listing[..], &columns[..]].concat()).unwrap();
    let queues: Vec<Value> = serde_json::from_str(&queues).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut names: Vec<_> = queues.iter().map(|queue| text(&queue["name"])).collect();
    let mut wanted = all_queues();
    wanted.push(APPROVERS_QUEUE.to_owned());
    names.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(names, wanted);
    for queue in &queues {
        let kind = text(&queue["name"]).split('.').next().unwrap().to_owned();
        let found = (&queue["type"], &queue["durable"], text(&queue["policy"]));
        assert_eq!(found, (&json!("quorum"), &json!(true), kind), "{queue}");
    }
    a_refused_wake_is_dead_lettered(&server).await;
}

async fn a_refused_wake_is_dead_lettered(server: &RabbitServer) {
    let (scheduler, worker) =
        (User::log_in(server, "scheduler").await, User::log_in(server, "worker").await);
    let wake = topology::jobs_queue(Lane::Lo, 0);
    let mut deliveries = worker.deliveries(&wake).await.unwrap();
    assert_routed(scheduler.publish(topology::JOBS, &wake).await);
    let refused = next(&mut deliveries).await;
    assert!(refused.reject(BasicRejectOptions { requeue: false }).await.unwrap());
    let mut dead = scheduler.deliveries(topology::DEAD_JOBS_QUEUE).await.unwrap();
    assert_eq!(next(&mut dead).await.data, b"x");
}

async fn next(deliveries: &mut Consumer) -> Delivery {
    let delivery = tokio::time::timeout(Duration::from_secs(10), deliveries.next()).await;
    delivery.unwrap().unwrap().unwrap()
}

#[test]
fn the_shipped_policies_say_what_the_topology_says() {
    let dead_lettered = |key: &str| {
        json!({
            "delivery-limit": topology::DELIVERY_LIMIT,
            "dead-letter-exchange": topology::DEAD,
            "dead-letter-routing-key": key,
            "dead-letter-strategy": "at-least-once",
            "overflow": "reject-publish",
            "max-length": topology::QUEUE_LENGTH_MAX,
        })
    };
    let definitions = definitions();
    for policy in definitions["policies"].as_array().unwrap() {
        let (name, definition) = (policy["name"].as_str().unwrap(), &policy["definition"]);
        assert_eq!(policy["pattern"], json!(format!("^{name}\\.")));
        match name {
            "jobs" => assert_eq!(*definition, dead_lettered(topology::DEAD_JOBS_KEY)),
            "decisions" => assert_eq!(*definition, dead_lettered(topology::DEAD_DECISIONS_KEY)),
            name => {
                assert!(["approvals", "dead"].contains(&name), "{name}");
                assert_eq!(definition["dead-letter-exchange"], Value::Null, "{name}");
                assert_eq!(definition["overflow"], "reject-publish", "{name}");
                assert!(definition["max-length"].is_u64(), "{name}");
            }
        }
    }
}

fn definitions() -> Value {
    let text = fs::read_to_string(shipped("rabbitmq/definitions.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn the_shipped_definitions_let_nobody_in_and_do_not_claim_an_installation() {
    let definitions = definitions();
    for user in definitions["users"].as_array().unwrap() {
        assert_eq!((&user["password_hash"], &user["tags"]), (&json!(""), &json!([])));
    }
    let exchanges = definitions["exchanges"].as_array().unwrap();
    let witness = |exchange: &&Value| {
        let name = exchange["name"].as_str().unwrap();
        name == topology::INSTALLED || name.starts_with("portcullis.epoch")
    };
    assert_eq!(exchanges.iter().find(witness), None);
}

#[test]
fn a_short_or_missing_password_of_rabbitmq_is_refused_by_its_file() {
    let missing = secrets(&["scheduler", "worker"], PASSWORD);
    let why = run_script("rabbitmq/make-users.sh", missing.path()).unwrap_err();
    assert!(why.contains("/approver: cannot be read"), "{why}");
    let why = run_script("rabbitmq/make-users.sh", secrets(&USERS, "short").path()).unwrap_err();
    assert!(why.contains("/scheduler: shorter than 16 letters"), "{why}");
}
