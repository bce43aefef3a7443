//! An approver service: reads requests from its own queue, and signs decisions itself.

use std::path::Path;

use data_encoding::{BASE64, HEXLOWER};
use futures_util::StreamExt as _;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, ConfirmSelectOptions,
    QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, Consumer};
use portcullis_proto::decision::{Decision, Signature, SignedDecision};
use portcullis_proto::topology;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};

use super::{PATIENCE, POOL};
use crate::servers::{Process, TempFolder};

/// A name, a key, and the id under which the installation knows its public half.
pub struct Approver {
    name: &'static str,
    pair: Ed25519KeyPair,
}

/// What a decision is made of: as the request says, or with one thing that is wrong.
#[derive(Clone, Debug)]
pub struct Signing {
    pub verdict: &'static str,
    pub nonce: Value,
    pub args_hash: Value,
}

impl Signing {
    /// As the request says.
    #[must_use]
    pub fn of(request: &Value, verdict: &'static str) -> Self {
        Self { verdict, nonce: request["nonce"].clone(), args_hash: request["args_hash"].clone() }
    }
}

impl Approver {
    /// The one that every installation of a test knows.
    ///
    /// # Panics
    /// Never: 32 bytes are a seed.
    #[must_use]
    pub fn carol() -> Self {
        Self { name: "carol", pair: Ed25519KeyPair::from_seed_unchecked(&CAROLS_SEED).unwrap() }
    }

    /// One that says it is `carol`, with a key of its own.
    ///
    /// # Panics
    /// Never: 32 bytes are a seed.
    #[must_use]
    pub fn impostor() -> Self {
        Self { name: "carol", pair: Ed25519KeyPair::from_seed_unchecked(&[66; 32]).unwrap() }
    }

    pub(super) const fn key_id(&self) -> &'static str {
        "carol-1"
    }

    pub(super) fn public_key(&self) -> String {
        BASE64.encode(self.pair.public_key().as_ref())
    }

    /// A decision on a request, as it goes over the wire.
    ///
    /// # Panics
    /// When the request is none.
    #[must_use]
    pub fn sign(&self, request: &Value, signing: &Signing) -> Vec<u8> {
        let decision: Decision = serde_json::from_value(json!({
            "v": 1,
            "approval_id": request["approval_id"],
            "nonce": signing.nonce,
            "args_hash": signing.args_hash,
            "verdict": signing.verdict,
            "approver": self.name,
            "channel": "amqp",
            "issued_at": request["asked_at"],
        }))
        .unwrap();
        let sig = Signature(self.pair.sign(&decision.signed_bytes()).as_ref().try_into().unwrap());
        let signed = SignedDecision { decision, key_id: self.key_id().to_owned(), sig };
        serde_json::to_vec(&signed).unwrap()
    }
}

/// Of the test approver's key; the Python approver is given the same.
const CAROLS_SEED: [u8; 32] = [8; 32];

/// The shipped approver in Python, as `carol`.
pub struct PythonApprover {
    // Before the folder with its key.
    process: Process,
    _folder: TempFolder,
}

impl PythonApprover {
    /// Starts it, and waits until it reads requests.
    ///
    /// # Panics
    /// When Python, pika or PyNaCl is missing.
    #[must_use]
    pub fn start(bus_url: &str) -> Self {
        let script =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/approvers/python/approver.py");
        let folder = TempFolder::new("approver").unwrap();
        let key = folder.path().join("carol.key");
        std::fs::write(&key, HEXLOWER.encode(&CAROLS_SEED)).unwrap();
        let process =
            Process::start_file("approver.py", Path::new("/usr/bin/python3"), |command| {
                command
                    .arg(script)
                    .env("POOL", POOL)
                    .env("APPROVER", "carol")
                    .env("KEY_ID", "carol-1")
                    .env("KEY_FILE", key)
                    .env("BUCKETS", topology::BUCKETS_DEFAULT.to_string())
                    .env("PORTCULLIS_BUS_URL", bus_url);
            });
        let process = process.unwrap();
        process.wait_for_line("carol decides", READY_MS_MAX).unwrap();
        Self { process, _folder: folder }
    }

    /// What it printed.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.log_text()
    }
}

/// How long the approver may take to start, in milliseconds.
const READY_MS_MAX: u64 = 20_000;

/// An approver's connection, with a queue bound to the pool's requests.
pub struct Listening {
    channel: Channel,
    requests: Consumer,
    _connection: Connection,
}

impl Listening {
    /// Binds a queue and reads from it.
    ///
    /// # Panics
    /// When the broker refuses.
    pub async fn at(url: &str) -> Self {
        let connection = Connection::connect(url, ConnectionProperties::default()).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        let queue = format!("approvals.{POOL}");
        let mut quorum = FieldTable::default();
        let kind = lapin::types::AMQPValue::LongString("quorum".into());
        quorum.insert("x-queue-type".into(), kind);
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        channel.queue_declare(queue.as_str().into(), durable, quorum).await.unwrap();
        let key = format!("approval.*.{POOL}.*");
        channel
            .queue_bind(
                queue.as_str().into(),
                topology::APPROVALS.into(),
                key.as_str().into(),
                QueueBindOptions::default(),
                FieldTable::default(),
            )
            .await
            .unwrap();
        let requests = channel
            .basic_consume(
                queue.as_str().into(),
                "approver".into(),
                BasicConsumeOptions::default(),
                FieldTable::default(),
            )
            .await
            .unwrap();
        Self { channel, requests, _connection: connection }
    }

    /// The next request.
    ///
    /// # Panics
    /// When none comes in time.
    pub async fn next(&mut self) -> Value {
        let next = tokio::time::timeout(PATIENCE, self.requests.next()).await;
        let delivery = next.expect("a request in time").expect("the channel is open").unwrap();
        delivery.ack(BasicAckOptions::default()).await.unwrap();
        serde_json::from_slice(&delivery.data).unwrap()
    }

    /// Publishes a decision, and returns once the broker has it.
    ///
    /// # Panics
    /// When the broker refuses it.
    pub async fn send(&self, request: &Value, decision: &[u8]) {
        let run = request["run_id"].as_str().unwrap().parse().unwrap();
        let bucket = topology::decisions_bucket(&run, topology::BUCKETS_DEFAULT);
        let confirm = self
            .channel
            .basic_publish(
                topology::DECISIONS.into(),
                topology::decisions_queue(bucket).as_str().into(),
                BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() },
                decision,
                BasicProperties::default().with_delivery_mode(2),
            )
            .await
            .unwrap()
            .await
            .unwrap();
        assert!(confirm.is_ack() && confirm.take_message().is_none(), "it was routed and taken");
    }
}
