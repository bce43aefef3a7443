//! What about this broker would an operator want to know? For `portcullis doctor`.
//!
//! Only what AMQP itself shows: no management API is needed, and none is asked.
//! Invariant: looking changes nothing, but for one canary message that nobody should get and that
//! expires within a second.

use std::time::Duration;

use bytes::Bytes;
use lapin::protocol::{AMQPClass, connection, parse_class};
use lapin::types::AMQPValue;
use portcullis_proto::topology::{self, Lane};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::RabbitBus;
use super::channel::{AmqpError, Asker};
use super::parcel;
use crate::ports::{Condition, Published};

const GREETING_MS_MAX: u64 = 3_000;
const GREETING_BYTES_MAX: usize = 64 * 1024;
const VERSION_MIN: (u32, u32) = (3, 10);
const CANARY_MS: u64 = 1_000;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was found, with its name.
    pub what: String,
    /// What it leads to.
    pub why: &'static str,
    /// What to do about it.
    pub mend: &'static str,
}

fn finding(what: impl Into<String>, why: &'static str, mend: &'static str) -> Finding {
    Finding { what: what.into(), why, mend }
}

impl RabbitBus {
    /// Looks at the broker; an empty list is a clean bill of health.
    ///
    /// # Errors
    /// The broker is not connected or stops answering meanwhile.
    pub async fn examine(&self) -> Result<Vec<Finding>, AmqpError> {
        let mut findings = Vec::new();
        let session = self.asking_session()?;
        findings.extend(self.examine_version().await);
        if *self.condition.borrow() == Condition::Blocked {
            findings.push(finding(
                "the broker blocks publishers",
                "requests are not published and expire; wakes are rung again only later",
                "free memory or disk on the broker, until its alarm is gone",
            ));
        }
        let mut asker = Asker::new(session.connection());
        findings.extend(self.examine_queues(&mut asker).await?);
        findings.extend(self.examine_catch_all().await);
        Ok(findings)
    }

    /// The broker's product and version, as it greets everybody; `None` over TLS or in silence.
    pub async fn version(&self) -> Option<String> {
        if !self.address.is_plain() {
            return None;
        }
        let authority = &self.address.uri.authority;
        let greeting = greeting(&authority.host, authority.port);
        let limit = Duration::from_millis(GREETING_MS_MAX);
        tokio::time::timeout(limit, greeting).await.ok().flatten()
    }

    async fn examine_version(&self) -> Option<Finding> {
        let version = self.version().await?;
        let (product, number) = version.split_once(' ')?;
        let mut parts = number.split('.').map_while(|part| part.parse::<u32>().ok());
        let found = (parts.next()?, parts.next()?);
        (product != "RabbitMQ" || found < VERSION_MIN).then(|| {
            finding(
                format!("the broker is {version}"),
                "at-least-once dead-lettering and message expiry need RabbitMQ 3.10 or later",
                "upgrade the broker",
            )
        })
    }

    async fn examine_queues(&self, asker: &mut Asker<'_>) -> Result<Vec<Finding>, AmqpError> {
        let mut findings = Vec::new();
        for name in [topology::DEAD_JOBS_QUEUE, topology::DEAD_DECISIONS_QUEUE] {
            let waiting = asker.find_queue(name).await?.map_or(0, |queue| queue.message_count());
            if 0 < waiting {
                findings.push(finding(
                    format!("{waiting} messages wait in `{name}`"),
                    "something could not be read or settled",
                    "run a scheduler, which sorts them; see its log for what they were",
                ));
            }
        }
        let live = (0..self.buckets).flat_map(|bucket| {
            let jobs = |lane| topology::jobs_queue(lane, bucket);
            [jobs(Lane::Hi), jobs(Lane::Lo), topology::decisions_queue(bucket)]
        });
        for name in live.chain([topology::INTAKE_QUEUE.to_owned()]) {
            let Some(queue) = asker.find_queue(&name).await? else {
                findings.push(finding(
                    format!("queue `{name}` is absent"),
                    "messages for it are returned",
                    "restart a process of this version, which declares it",
                ));
                continue;
            };
            if queue.consumer_count() == 0 && 0 < queue.message_count() {
                findings.push(finding(
                    format!(
                        "{} messages wait in `{name}`, and nobody reads it",
                        queue.message_count()
                    ),
                    "what they announce is late",
                    "run a worker (jobs) or a scheduler (intake, decisions) with this bucket count",
                ));
            }
        }
        Ok(findings)
    }

    /// Publishes a request for nobody. If it is taken, no request can ever be returned again.
    async fn examine_catch_all(&self) -> Option<Finding> {
        let random = random_hex()?;
        // Shaped like a request's key, so that `approval.#` and `approval.*.*.*` catch it as well
        // as `#` does; a tenant's, a pool's or a risk's own binding cannot.
        let key = format!("approval.{random}.{random}.{random}");
        let id = format!("canary.{random}");
        let body = Bytes::from_static(br#"{"v":1,"kind":"canary"}"#);
        let made = parcel::of_body(topology::APPROVALS, key, "canary", id, body);
        let mut canary = made.expect("random digits fit into a key");
        let expiration = CANARY_MS.to_string().as_str().into();
        canary.properties = canary.properties.with_expiration(expiration);
        match self.publisher.publish(canary).await {
            Published::Returned => None,
            Published::Confirmed => Some(finding(
                "a catch-all queue, or an alternate exchange, takes every request",
                "every request looks routable, so a missing approver is no longer denied at once: \
                 it is denied only when its time is over",
                "unbind it from `portcullis.approvals`; to audit, bind `portcullis.events`",
            )),
            // Refused: by a full queue, or because this user may not publish.
            unclear @ (Published::Nacked | Published::Unknown(_)) => Some(finding(
                format!("whether a catch-all queue is bound is not known: {unclear:?}"),
                "a catch-all queue switches off the immediate denial",
                "look again once the broker takes messages of this user",
            )),
        }
    }
}

fn random_hex() -> Option<String> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Says hello and reads what the broker says of itself, on a connection of its own.
async fn greeting(host: &str, port: u16) -> Option<String> {
    let mut socket = TcpStream::connect((host, port)).await.ok()?;
    socket.write_all(b"AMQP\x00\x00\x09\x01").await.ok()?;
    // A frame: type, channel (2 bytes), size (4 bytes), payload, end mark.
    let mut head = [0_u8; 7];
    socket.read_exact(&mut head).await.ok()?;
    let size = usize::try_from(u32::from_be_bytes(head[3..7].try_into().ok()?)).ok()?;
    if head[0] != 1 || GREETING_BYTES_MAX < size {
        return None;
    }
    let mut payload = vec![0_u8; size];
    socket.read_exact(&mut payload).await.ok()?;
    let (_, class) = parse_class(payload.as_slice()).ok()?;
    let AMQPClass::Connection(connection::AMQPMethod::Start(start)) = class else { return None };
    let text = |name: &str| match start.server_properties.inner().get(name) {
        Some(AMQPValue::LongString(text)) => Some(text.to_string()),
        Some(_) | None => None,
    };
    Some(format!("{} {}", text("product")?, text("version")?))
}
