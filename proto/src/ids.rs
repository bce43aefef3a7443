//! What everything is called: ids that cannot be confused with one another.
//!
//! Authority: a run's id follows from its job key and the store's shard count, so that the same
//! job can never become two runs; claim ids, nonces and operation ids are random and only ever
//! compared for equality.
//! Invariant: an id that parses is safe in a Redis key, a routing key, a URL path and a log line.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;

/// The longest name anything may have, in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// Why a text is not an id of the wanted kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {kind}: {rule}")]
pub struct BadId {
    pub text: String,
    pub kind: &'static str,
    pub rule: &'static str,
}

fn bad(text: &str, kind: &'static str, rule: &'static str) -> BadId {
    BadId { text: crate::quote::quote(text), kind, rule }
}

fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    text.len() <= NAME_BYTES_MAX
        && bytes.next().is_some_and(|b| b.is_ascii_alphanumeric())
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $rule:literal, $valid:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize,
                 schemars::JsonSchema)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Takes a text as this kind of id.
            ///
            /// # Errors
            /// When it breaks the rule that the error states.
            pub fn new(text: impl Into<String>) -> Result<Self, BadId> {
                let text = text.into();
                let valid: fn(&str) -> bool = $valid;
                if valid(&text) { Ok(Self(text)) } else { Err(bad(&text, $kind, $rule)) }
            }

            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::str::FromStr for $name {
            type Err = BadId;

            fn from_str(text: &str) -> Result<Self, BadId> {
                Self::new(text)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                Self::new(String::deserialize(from)?).map_err(serde::de::Error::custom)
            }
        }
    };
}

const NAME_RULE: &str = "1 to 64 letters, digits, `_` or `-`, beginning with a letter or digit";

macro_rules! name_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        text_id!($(#[$doc])* $name, $kind,
            "1 to 64 letters, digits, `_` or `-`, beginning with a letter or digit", is_name);
    };
}

name_id!(/// Whose runs these are; the default one is `default`.
    Tenant, "a tenant");
name_id!(/// A named definition of an agent.
    AgentName, "an agent's name");
name_id!(/// A tool as the policy and the worker know it.
    ToolName, "a tool's name");
name_id!(/// A group of approvers.
    PoolName, "a pool's name");
name_id!(/// A reminder.
    ReminderName, "a reminder's name");
name_id!(/// A webhook route, as in `/hooks/{route}`.
    RouteName, "a route's name");
text_id!(/// Who decides: a verified person or service, never a display name.
    Subject, "a subject", "1 to 128 visible ASCII characters without spaces or `\"`",
    |t| !t.is_empty() && t.len() <= 128 && t.bytes().all(|b| b.is_ascii_graphic() && b != b'"'));

/// The identity of a job: the dedupe key. Two jobs with the same key are the same job.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct JobKey(String);

impl JobKey {
    /// One fire of a reminder. The instant is UTC, so a change of zone data cannot fire it twice.
    #[must_use]
    pub fn reminder(name: &ReminderName, instant: crate::time::Ms) -> Self {
        Self(format!("rem:{name}:{}", instant.0))
    }

    /// One webhook delivery, by the identity that its sender signed.
    #[must_use]
    pub fn webhook(route: &RouteName, signed: Digest) -> Self {
        Self(format!("wh:{route}:{signed}"))
    }

    /// A start through the API, by the caller's idempotency key (hashed, never sanitised).
    #[must_use]
    pub fn api(tenant: &Tenant, idempotency: &[u8]) -> Self {
        Self(format!("api:{tenant}:{}", Digest::of_bytes(idempotency)))
    }

    /// The one child of one call.
    #[must_use]
    pub fn child(parent: &RunId, call: u32) -> Self {
        Self(format!("child:{parent}:{call}"))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for JobKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A logical shard of the store, written `s07` (two hexadecimal digits).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard(pub u8);

impl std::fmt::Display for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "s{:02x}", self.0)
    }
}

/// How many logical shards a store has: fixed when it is installed, 1 to 256.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardCount(u16);

impl ShardCount {
    /// # Errors
    /// When `count` is not between 1 and 256.
    pub fn new(count: u16) -> Result<Self, BadId> {
        if (1..=256).contains(&count) {
            Ok(Self(count))
        } else {
            Err(bad(&count.to_string(), "a shard count", "1 to 256"))
        }
    }

    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }

    /// The shard that a digest falls on.
    #[must_use]
    pub fn of(self, digest: Digest) -> Shard {
        let shard = u16::from(digest.0[0]) % self.0;
        Shard(u8::try_from(shard).expect("a remainder of at most 255"))
    }

    pub fn all(self) -> impl Iterator<Item = Shard> {
        (0..self.0).map(|n| Shard(u8::try_from(n).expect("at most 255")))
    }
}

fn shard_of_text(text: &str) -> Option<Shard> {
    let digits = text.strip_prefix('s').filter(|d| d.len() == 2)?;
    if !digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) {
        return None;
    }
    u8::from_str_radix(digits, 16).ok().map(Shard)
}

fn is_run_id(text: &str) -> bool {
    text.split_once('-').is_some_and(|(shard, rest)| {
        shard_of_text(shard).is_some()
            && rest.len() == 26
            && rest.bytes().all(|b| b.is_ascii_lowercase() || (b'2'..=b'7').contains(&b))
    })
}

text_id!(/// A run: `s07-` and 26 base-32 characters of the hash of its job key.
    RunId, "a run id", "like s07-mzxw6ytboi2gk3tdmuqhk3tdmu", is_run_id);

impl RunId {
    /// The only run that this job can ever become.
    #[must_use]
    pub fn of(key: &JobKey, shards: ShardCount) -> Self {
        let digest = Digest::of_fields(&[b"portcullis.run.v1", key.0.as_bytes()]);
        let tail = data_encoding::BASE32_NOPAD.encode(&digest.0[..16]).to_ascii_lowercase();
        Self(format!("{}-{tail}", shards.of(digest)))
    }

    /// The shard that holds this run: a part of the id, so anybody can address it.
    #[must_use]
    pub fn shard(&self) -> Shard {
        shard_of_text(&self.0[..3]).expect("checked when the id was made")
    }
}

fn is_approval_id(text: &str) -> bool {
    let mut parts = text.split('.');
    let run = parts.next().is_some_and(is_run_id);
    let number = |part: Option<&str>| {
        part.is_some_and(|p| p.parse::<u32>().is_ok_and(|n| n.to_string() == p))
    };
    run && number(parts.next()) && number(parts.next()) && parts.next().is_none()
}

text_id!(/// One request for a decision: `<run>.<call>.<n>`. It carries its own address.
    ApprovalId, "an approval id", "like s07-mzxw6ytboi2gk3tdmuqhk3tdmu.0.1", is_approval_id);

impl ApprovalId {
    /// The `n`th request (counted from 1) for a call.
    #[must_use]
    pub fn of(run: &RunId, call: u32, n: u32) -> Self {
        Self(format!("{run}.{call}.{n}"))
    }

    #[must_use]
    pub fn run(&self) -> RunId {
        let (run, _) = self.0.split_once('.').expect("checked when the id was made");
        RunId(run.to_owned())
    }

    /// Which request for its call, counted from 1.
    #[must_use]
    pub fn number(&self) -> u32 {
        let part = self.0.split('.').nth(2).expect("checked when the id was made");
        part.parse().expect("checked when the id was made")
    }

    /// The call's number within its run.
    #[must_use]
    pub fn call(&self) -> u32 {
        let part = self.0.split('.').nth(1).expect("checked when the id was made");
        part.parse().expect("checked when the id was made")
    }
}

macro_rules! random_id {
    ($(#[$doc:meta])* $name:ident, $bytes:literal, $kind:literal, $rule:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; $bytes]);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&data_encoding::HEXLOWER.encode(&self.0))
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }

        impl std::str::FromStr for $name {
            type Err = BadId;

            fn from_str(text: &str) -> Result<Self, BadId> {
                let wrong = || bad(text, $kind, $rule);
                let bytes =
                    data_encoding::HEXLOWER.decode(text.as_bytes()).map_err(|_| wrong())?;
                Ok(Self(bytes.try_into().map_err(|_| wrong())?))
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "description": $rule })
            }
        }
    };
}

random_id!(/// Who holds a run. Random, because a counter is issued twice after a rollback.
    ClaimId, 16, "a claim id", "32 lower-case hexadecimal digits");
random_id!(/// What makes a decision impossible before its request exists.
    Nonce, 16, "a nonce", "32 lower-case hexadecimal digits");
random_id!(/// One attempt to commit; tells a lost reply from a lost race.
    OpId, 8, "an operation id", "16 lower-case hexadecimal digits");
random_id!(/// One installation of a store.
    Epoch, 16, "an epoch", "32 lower-case hexadecimal digits");

/// The rule that names follow, for messages.
#[must_use]
pub const fn name_rule() -> &'static str {
    NAME_RULE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Ms;

    fn run() -> RunId {
        let key = JobKey::reminder(&ReminderName::new("nightly").unwrap(), Ms(1));
        RunId::of(&key, ShardCount::new(16).unwrap())
    }

    #[test]
    fn a_run_id_follows_from_its_job_key_and_reads_back() {
        let id = run();
        assert_eq!(id, run());
        assert_eq!(RunId::new(id.as_str()).unwrap(), id);
        assert!(id.shard().0 < 16);
    }

    #[test]
    fn an_approval_id_carries_its_own_address() {
        let id = ApprovalId::of(&run(), 3, 1);
        assert_eq!((id.run(), id.call(), id.number()), (run(), 3, 1));
        assert_eq!(ApprovalId::new(id.as_str()).unwrap(), id);
    }

    #[test]
    fn malformed_ids_are_refused() {
        for text in ["", "s07", "S07-mzxw6ytboi2gk3tdmuqhk3tdmu", "s07-MZXW", "s7-aaaa", "s0g-a"] {
            assert!(RunId::new(text).is_err(), "{text}");
        }
        let id = run();
        for tail in ["", ".1", ".1.x", ".01.1", ".1.1.1", ".-1.1", ".+1.1"] {
            assert!(ApprovalId::new(format!("{id}{tail}")).is_err(), "{tail}");
        }
        for name in ["", "-a", "a b", "a.b", "a/b", &"x".repeat(65), "ä"] {
            assert!(AgentName::new(name).is_err(), "{name}");
        }
    }

    #[test]
    fn job_keys_of_different_triggers_never_meet() {
        let route = RouteName::new("x").unwrap();
        let a = JobKey::webhook(&route, Digest::of_bytes(b"1"));
        let b = JobKey::api(&Tenant::new("x").unwrap(), b"1");
        assert_ne!(a, b);
    }
}
