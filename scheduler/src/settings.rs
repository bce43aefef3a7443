//! What is this scheduler told to do, by whom, and within which bounds?
//!
//! Authority: the operator's configuration, read and validated once by `main`. Plain values: what
//! stands here is usable as it is.
//! Invariant: there is no default for who may decide, no default for a secret, and every wait and
//! payload has a bound.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use portcullis_proto::decision::KeyRing;
use portcullis_proto::ids::{AgentName, PoolName, ReminderName, RouteName, Subject, Tenant};
use portcullis_proto::job::{Attendance, Limits};
use portcullis_proto::policy::Roster;
use ring::signature::Ed25519KeyPair;
use serde_json::Value;

use crate::reminders::calendar::Rule;
use crate::webhooks::verify::Scheme;

/// A job that no worker begins within this time never begins, in milliseconds: one day.
pub const START_BY_MS_DEFAULT: i64 = 24 * 3_600_000;
/// The longest that may be asked for: seven days, in milliseconds.
pub const START_BY_MS_MAX: i64 = 7 * 24 * 3_600_000;
/// The longest webhook body, in bytes, unless its route says otherwise.
pub const WEBHOOK_BYTES_DEFAULT: usize = 256 * 1024;
/// The longest webhook body that a route may allow, in bytes.
pub const WEBHOOK_BYTES_MAX: usize = 1024 * 1024;
/// The longest body of an API request, in bytes.
pub const REQUEST_BYTES_MAX: usize = 1024 * 1024;

/// Everything a scheduler is told.
#[derive(Debug)]
pub struct Settings {
    /// Where the HTTP server listens. On a loopback address reading and starting runs need no
    /// token; on any other one they do, and without [`Self::api_tokens`] nobody may.
    pub listen: SocketAddr,
    /// Further host names under which the API may be called on loopback, in lower case, without
    /// port. `localhost` and the loopback addresses are always among them.
    pub hosts: Vec<String>,
    pub agents: BTreeMap<AgentName, Agent>,
    pub webhooks: BTreeMap<RouteName, Webhook>,
    pub reminders: BTreeMap<ReminderName, Reminder>,
    /// Who may decide now, by pool.
    pub roster: Roster,
    /// Those who decide over HTTP, CLI or console. Empty: nobody.
    pub approvers: Vec<Approver>,
    /// The public keys whose decisions count, the notary's included.
    pub keys: Arc<KeyRing>,
    /// Signs what comes in over HTTP. Absent: decisions come over the bus only.
    pub notary: Option<Notary>,
    /// SHA-256 of the tokens that may read and start runs where a token is needed.
    pub api_tokens: Vec<[u8; 32]>,
    pub in_flight: InFlight,
    /// What the operator says this installation is for; nothing here depends on it. `/readyz`
    /// tells it to tools that break things on purpose.
    pub deployment: Option<Deployment>,
}

/// What an installation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deployment {
    Production,
    Staging,
    Development,
}

impl Deployment {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Production => "production",
            Self::Staging => "staging",
            Self::Development => "development",
        }
    }
}

/// An agent as far as starting it goes; what it does is the worker's affair.
#[derive(Clone, Debug)]
pub struct Agent {
    pub description: String,
    pub limits: Limits,
    /// How long its jobs may wait for a worker, in milliseconds; see [`START_BY_MS_DEFAULT`].
    pub start_by_ms: i64,
}

/// One route, `POST /hooks/{route}`.
#[derive(Clone, Debug)]
pub struct Webhook {
    pub agent: AgentName,
    pub tenant: Tenant,
    pub scheme: Scheme,
    /// At most [`WEBHOOK_BYTES_MAX`]; see [`WEBHOOK_BYTES_DEFAULT`].
    pub body_bytes_max: usize,
}

/// One reminder.
#[derive(Clone, Debug)]
pub struct Reminder {
    pub agent: AgentName,
    pub tenant: Tenant,
    pub rule: Rule,
    /// The input of every run it starts.
    pub input: Value,
    pub catch_up: CatchUp,
    pub overlap: Overlap,
    pub attendance: Attendance,
}

/// What becomes of instants that passed while nothing could fire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CatchUp {
    /// They are recorded as missed.
    None,
    /// The latest one fires if it is at most an hour late.
    One,
    /// The latest ten fire, in order, however late.
    All,
}

/// What becomes of an instant while the run of an earlier one is still live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Overlap {
    /// It is recorded as skipped.
    Skip,
    /// It fires all the same.
    Allow,
}

/// A person or service that proves itself by a bearer token.
#[derive(Clone, Debug)]
pub struct Approver {
    pub subject: Subject,
    /// SHA-256 of each token; several while one is being replaced.
    pub token_sha256: Vec<[u8; 32]>,
    /// Whose requests it may decide with these tokens; [`Settings::roster`] must agree.
    pub pools: Vec<PoolName>,
}

/// The key that signs decisions which came in over HTTP, naming who proved who they are.
pub struct Notary {
    /// Its name in [`Settings::keys`].
    pub key_id: String,
    pub pair: Ed25519KeyPair,
}

impl std::fmt::Debug for Notary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Notary").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

/// How much may be under way at once; beyond it the answer is 503 with `Retry-After`.
#[derive(Clone, Copy, Debug)]
pub struct InFlight {
    pub webhooks_max: usize,
    /// Requests to `/v1`, event streams not counted.
    pub requests_max: usize,
    pub streams_max: usize,
}

impl Default for InFlight {
    fn default() -> Self {
        Self { webhooks_max: 1_024, requests_max: 1_024, streams_max: 64 }
    }
}

impl Settings {
    /// Settings that start nothing and let nobody decide, to be filled in.
    #[must_use]
    pub fn nothing(listen: SocketAddr) -> Self {
        Self {
            listen,
            hosts: Vec::new(),
            agents: BTreeMap::new(),
            webhooks: BTreeMap::new(),
            reminders: BTreeMap::new(),
            roster: Roster::default(),
            approvers: Vec::new(),
            keys: Arc::new(KeyRing::default()),
            notary: None,
            api_tokens: Vec::new(),
            in_flight: InFlight::default(),
            deployment: None,
        }
    }

    /// Whether only processes of this machine can reach the server.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.listen.ip().to_canonical().is_loopback()
    }
}
