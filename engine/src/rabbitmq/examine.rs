//! What about this broker would an operator want to know? For `portcullis doctor`.
//!
//! Only what AMQP itself shows: no management API is needed, and none is asked here.
//! Invariant: looking changes nothing, but for one canary message that nobody should get and that
//! expires within a second. What may not be looked at is said so.

mod access;
mod queues;

pub use access::Account;

use std::time::Duration;

use bytes::Bytes;
use lapin::protocol::{AMQPClass, connection, parse_class};
use lapin::types::AMQPValue;
use portcullis_proto::topology;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::channel::{AmqpError, Asker};
use super::{Declare, RabbitBus, parcel};
use crate::finding::Finding;
use crate::ports::{Condition, Published};
use crate::surroundings::{Surroundings as _, System};

const GREETING_MS_MAX: u64 = 3_000;
const GREETING_BYTES_MAX: usize = 64 * 1024;
const VERSION_MIN: (u32, u32) = (3, 10);
const CANARY_MS: u64 = 1_000;

impl RabbitBus {
    /// Looks at the broker. `declare`: how a process that serves or works would declare.
    ///
    /// # Errors
    /// The broker is not connected or stops answering meanwhile.
    pub async fn examine(&self, declare: Declare) -> Result<Vec<Finding>, AmqpError> {
        let session = self.asking_session()?;
        let mut asker = Asker::new(session.connection());
        let mut findings = vec![self.examine_version().await, self.examine_alarm()];
        findings.extend(queues::look(&mut asker, self.buckets, declare).await?);
        findings.push(self.examine_catch_all(&mut asker).await?);
        findings.push(access::wide(&mut asker, &random_hex()).await?);
        findings.push(access::login(&self.address));
        findings.push(access::tls(&self.address));
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

    async fn examine_version(&self) -> Finding {
        const CHECK: &str = "rabbitmq-version";
        let Some(version) = self.version().await else {
            return Finding::unseen(CHECK, "it does not say", "look at `rabbitmqctl version`");
        };
        judge_version(CHECK, &version)
    }

    fn examine_alarm(&self) -> Finding {
        const CHECK: &str = "rabbitmq-alarm";
        match *self.condition.borrow() {
            Condition::Up => Finding::fine(CHECK, "the broker takes messages"),
            Condition::Blocked => Finding::warning(
                CHECK,
                "the broker blocks publishers",
                "requests are not published and expire; wakes are rung again only later",
                "free memory or disk on the broker, until its alarm is gone",
            ),
            Condition::Down => Finding::unseen(CHECK, "the connection broke", "look again"),
        }
    }

    /// Publishes a request for nobody. If it is taken, no request can ever be returned again.
    async fn examine_catch_all(&self, asker: &mut Asker<'_>) -> Result<Finding, AmqpError> {
        const CHECK: &str = "rabbitmq-catch-all";
        if !asker.has_exchange(topology::APPROVALS).await? {
            let found = format!("`{}` is not there yet", topology::APPROVALS);
            return Ok(Finding::fine(CHECK, found));
        }
        let random = random_hex();
        // Shaped like a request's key, so that `approval.#` and `approval.*.*.*` catch it as well
        // as `#` does; a tenant's, a pool's or a risk's own binding cannot.
        let key = format!("approval.{random}.{random}.{random}");
        let id = format!("canary.{random}");
        let body = Bytes::from_static(br#"{"v":1,"kind":"canary"}"#);
        let made = parcel::of_body(topology::APPROVALS, key, "canary", id, body);
        let mut canary = made.expect("random digits fit into a key");
        let expiration = CANARY_MS.to_string().as_str().into();
        canary.properties = canary.properties.with_expiration(expiration);
        Ok(judge_canary(CHECK, &self.publisher.publish(canary).await))
    }
}

fn judge_version(check: &'static str, version: &str) -> Finding {
    let (product, number) = version.split_once(' ').unwrap_or((version, ""));
    let mut parts = number.split('.').map_while(|part| part.parse::<u32>().ok());
    let found = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    if product == "RabbitMQ" && VERSION_MIN <= found {
        return Finding::fine(check, version);
    }
    Finding::fatal(
        check,
        format!("the broker is {version}"),
        "at-least-once dead-lettering and message expiry need RabbitMQ 3.10 or later",
        "upgrade the broker",
    )
}

fn judge_canary(check: &'static str, published: &Published) -> Finding {
    match published {
        Published::Returned => Finding::fine(check, "a request for nobody comes back"),
        Published::Confirmed => Finding::fatal(
            check,
            "a catch-all queue, or an alternate exchange, takes every request",
            "every request looks routable, so a missing approver is no longer denied at once: it \
             is denied only when its time is over",
            "unbind it from `portcullis.approvals`; to audit, bind `portcullis.events`",
        ),
        // Refused: by a full queue, or because this user may not publish.
        Published::Nacked | Published::Unknown(_) => Finding::unseen(
            check,
            format!("the broker answered a request for nobody with {published:?}"),
            "look again once the broker takes messages of this user: a catch-all queue switches \
             off the immediate denial",
        ),
    }
}

fn random_hex() -> String {
    let mut bytes = [0_u8; 16];
    System.fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;

    #[test]
    fn an_old_broker_or_another_product_will_not_do() {
        for (version, severity) in [
            ("RabbitMQ 3.10.8", Severity::Fine),
            ("RabbitMQ 4.0.0", Severity::Fine),
            ("RabbitMQ 3.9.29", Severity::Fatal),
            ("RabbitMQ x", Severity::Fatal),
            ("Other 9.9", Severity::Fatal),
        ] {
            assert_eq!(judge_version("c", version).severity, severity, "{version}");
        }
    }

    #[test]
    fn only_a_request_that_comes_back_shows_that_nobody_takes_all() {
        let of = |published| judge_canary("c", &published).severity;
        assert_eq!(of(Published::Returned), Severity::Fine);
        assert_eq!(of(Published::Confirmed), Severity::Fatal);
        assert_eq!(of(Published::Nacked), Severity::Warning);
    }
}
