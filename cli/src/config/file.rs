//! What may stand in `portcullis.toml`?
//!
//! Authority: these structs. The JSON Schema, the reference and the names of the environment
//! variables are made from them, so every field says its unit and its default here.
//! Invariant: an unknown key is an error, and no secret and no yes has a default.

mod agent;
mod trigger;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use portcullis_proto::policy::Unattended;
use portcullis_scheduler::settings::Deployment;
use schemars::JsonSchema;
use serde::Deserialize;

pub(crate) use agent::{AgentFile, HttpTool, LimitsSection, ShellTool, StepText, ToolCommon};
pub(crate) use trigger::{
    CatchUpText, FoldText, GapText, OverlapText, ReminderFile, SecretNames, Verify, WebhookFile,
};

use super::duration::Span;
use super::profile::Profile;

/// Everything Portcullis is told. Relative paths are seen from the folder of this file.
#[derive(Debug, JsonSchema)]
#[schemars(title = "portcullis.toml", rename = "Portcullis", deny_unknown_fields)]
#[expect(
    dead_code,
    reason = "the shape of the file, for the schema; it is read section by section"
)]
pub(crate) struct ConfigFile {
    /// What a start does about what `portcullis doctor` calls fatal: `standard` tells it in the
    /// log, `strict` refuses to start. Default: `standard`.
    #[schemars(default)]
    pub(crate) profile: Profile,
    /// The folder of the store, keys, tokens and work folders. No tool sees it. Default:
    /// `portcullis-data`.
    #[schemars(default)]
    pub(crate) data_dir: Option<PathBuf>,
    /// What this installation is for: `production`, `staging` or `development`. `/readyz` tells
    /// it, and `portcullis torture` breaks nothing where it is not `staging` or `development`.
    /// Default: not said.
    #[schemars(default)]
    pub(crate) deployment: Option<DeploymentText>,
    #[schemars(default)]
    pub(crate) store: StoreSection,
    #[schemars(default)]
    pub(crate) bus: BusSection,
    #[schemars(default)]
    pub(crate) http: HttpSection,
    #[schemars(default)]
    pub(crate) approvals: ApprovalsSection,
    /// Who may decide, by name. Default: nobody.
    #[schemars(default)]
    pub(crate) approvers: BTreeMap<String, ApproverSection>,
    #[schemars(default)]
    pub(crate) worker: WorkerSection,
    #[schemars(default)]
    pub(crate) sandbox: SandboxSection,
    #[schemars(default)]
    pub(crate) log: LogSection,
    #[schemars(default)]
    pub(crate) telemetry: TelemetrySection,
    /// Agents by name; also one per file in `agents.d/<name>.toml`. Default: none.
    #[schemars(default)]
    pub(crate) agents: BTreeMap<String, AgentFile>,
    /// Reminders by name; also one per file in `reminders.d/<name>.toml`. Default: none.
    #[schemars(default)]
    pub(crate) reminders: BTreeMap<String, ReminderFile>,
    /// Webhook routes by name; also one per file in `webhooks.d/<name>.toml`. Default: none.
    #[schemars(default)]
    pub(crate) webhooks: BTreeMap<String, WebhookFile>,
}

/// What an installation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DeploymentText {
    Production,
    Staging,
    Development,
}

impl From<DeploymentText> for Deployment {
    fn from(text: DeploymentText) -> Self {
        match text {
            DeploymentText::Production => Self::Production,
            DeploymentText::Staging => Self::Staging,
            DeploymentText::Development => Self::Development,
        }
    }
}

/// Where runs are kept.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct StoreSection {
    /// `sqlite:<file>` (embedded) or `redis://[user:password@]host[:port][/db]` (distributed).
    /// Default: `sqlite:portcullis.db` in the data folder.
    pub(crate) url: Option<String>,
    /// Redis: how many shards the store has, 1 to 256; fixed when it is installed. Default: 16.
    pub(crate) shards: u16,
    /// Redis: how many replicas may be promoted; a firm commit waits for as many. Default: 0.
    pub(crate) replicas: u32,
    /// Redis: refuse one that may lose or evict what it confirmed. Default: true.
    pub(crate) strict: bool,
    /// Redis: vouch for `appendfsync always` where `CONFIG` may not be asked. Default: false.
    pub(crate) assume_durable: bool,
}

impl Default for StoreSection {
    fn default() -> Self {
        Self { url: None, shards: 16, replicas: 0, strict: true, assume_durable: false }
    }
}

/// Who sets limits, overflow and dead-lettering of RabbitMQ's queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DeclareText {
    /// The operator's policies; the shipped definitions have them.
    Policies,
    /// Portcullis itself, as queue arguments: for development, where nobody sets policies.
    Arguments,
}

/// How processes ring each other.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct BusSection {
    /// `embedded:` or `amqp://user:password@host[:port]/vhost`. Default: `embedded:`.
    pub(crate) url: String,
    /// RabbitMQ: how many queues of a kind there are, 1 to 255, the same in every process.
    /// Default: 4.
    pub(crate) buckets: u8,
    /// RabbitMQ: who sets the queues' limits, `policies` or `arguments`. Default: `policies`.
    pub(crate) declare: DeclareText,
    /// RabbitMQ: its management API, which `doctor` asks for policies, bindings and nodes, such as
    /// `http://monitor:password@host:15672`. Without a login, that of `bus.url` is shown. When it
    /// is set, every start asks it too. Default: port 15672 of the broker, asked by `doctor` alone.
    pub(crate) management_url: Option<String>,
}

impl Default for BusSection {
    fn default() -> Self {
        Self {
            url: "embedded:".to_owned(),
            buckets: 4,
            declare: DeclareText::Policies,
            management_url: None,
        }
    }
}

/// The HTTP server: webhooks, API, approvals, health, metrics.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct HttpSection {
    /// Address and port. Default: `127.0.0.1:8080`. On any other than a loopback address reading
    /// and starting runs needs a token, see `api_token_sha256`.
    pub(crate) listen: SocketAddr,
    /// Further host names under which the API may be called on loopback. Default: none.
    pub(crate) hosts: Vec<String>,
    /// SHA-256 (hexadecimal) of the tokens that may read and start runs where one is needed.
    /// Default: none.
    pub(crate) api_token_sha256: Vec<String>,
    /// Webhooks under way at once, beyond which the answer is 503. Default: 1024.
    pub(crate) webhooks_in_flight_max: usize,
    /// API requests under way at once, beyond which the answer is 503. Default: 1024.
    pub(crate) requests_in_flight_max: usize,
    /// Event streams open at once. Default: 64.
    pub(crate) streams_max: usize,
}

impl Default for HttpSection {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            hosts: Vec::new(),
            api_token_sha256: Vec::new(),
            webhooks_in_flight_max: 1_024,
            requests_in_flight_max: 1_024,
            streams_max: 64,
        }
    }
}

/// Asking people.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ApprovalsSection {
    /// How long a request waits, in seconds; fractions are allowed. Zero or less: no deadline of
    /// its own, the run's hard cap alone bounds the wait. Default: 1800. Also
    /// `AGENTIC_APPROVAL_TIMEOUT_SECONDS`.
    pub(crate) timeout_seconds: f64,
    /// What becomes of an unattended run's call that needs a human: `ask` publishes the request,
    /// `deny` refuses at once. Default: `ask`.
    pub(crate) unattended: Unattended,
    /// The Ed25519 private key (PKCS#8) that signs decisions made over HTTP, CLI or console. Only
    /// schedulers read it. Default: none, and then nobody can decide over HTTP.
    pub(crate) notary_key_file: Option<PathBuf>,
    /// The notary's public keys by id, 32 bytes in Base64; several while one is replaced.
    /// Default: none.
    pub(crate) notary_public_keys: BTreeMap<String, String>,
}

impl Default for ApprovalsSection {
    fn default() -> Self {
        Self {
            timeout_seconds: 1_800.0,
            unattended: Unattended::Ask,
            notary_key_file: None,
            notary_public_keys: BTreeMap::new(),
        }
    }
}

/// A person or service that may decide.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApproverSection {
    /// The pools whose requests they may see and decide. No default.
    pub(crate) pools: Vec<String>,
    /// SHA-256 (hexadecimal) of their bearer tokens; several while one is replaced. With one they
    /// have an inbox: HTTP, CLI, console. Default: none.
    #[serde(default)]
    pub(crate) token_sha256: Vec<String>,
    /// Their Ed25519 public keys by id, 32 bytes in Base64: with one they sign decisions
    /// themselves, over RabbitMQ. Default: none.
    #[serde(default)]
    pub(crate) public_keys: BTreeMap<String, String>,
}

/// Working on runs.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct WorkerSection {
    /// Runs worked on at once, 1 to 4096. Default: 16.
    pub(crate) slots: usize,
    /// How long running tools may finish after the order to stop. Default: 25s.
    pub(crate) drain: Span,
    /// Where a `worker` process serves `/metrics` and `/healthz`. Default: nowhere.
    pub(crate) metrics_listen: Option<SocketAddr>,
}

impl Default for WorkerSection {
    fn default() -> Self {
        Self { slots: 16, drain: Span::of_ms(25_000), metrics_listen: None }
    }
}

/// Whether tools are shut in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SandboxMode {
    /// Every layer, or the tool does not run.
    Enforce,
    /// Tools can do whatever Portcullis' own user can, approving themselves included.
    Off,
}

/// What tools are kept from, for every agent.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SandboxSection {
    /// `enforce` or `off`. Default: `enforce`.
    pub(crate) mode: SandboxMode,
    /// Further paths that no tool may see. The data folder, this file, its drop-in folders, keys,
    /// tokens and secrets always are among them. Default: none.
    pub(crate) denied: Vec<PathBuf>,
    /// Further ports that no tool may connect to. Those of the API, Redis and RabbitMQ always are
    /// among them. Default: none.
    pub(crate) guarded_ports: Vec<u16>,
    /// The user id that tools run under; needs a worker started as root. Default: the worker's.
    pub(crate) uid: Option<u32>,
    /// The group id that tools run under; given together with `uid`. Default: the worker's.
    pub(crate) gid: Option<u32>,
}

impl Default for SandboxSection {
    fn default() -> Self {
        Self {
            mode: SandboxMode::Enforce,
            denied: Vec::new(),
            guarded_ports: Vec::new(),
            uid: None,
            gid: None,
        }
    }
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// One readable line each.
    Human,
    /// One JSON object each.
    Json,
}

/// Log lines, on standard error.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LogSection {
    /// `human` or `json`. Default: `human`.
    pub(crate) format: LogFormat,
    /// `error`, `warn`, `info`, `debug`, `trace`, or directives such as
    /// `info,portcullis_worker=debug`. Default: `info`.
    pub(crate) level: String,
}

impl Default for LogSection {
    fn default() -> Self {
        Self { format: LogFormat::Human, level: "info".to_owned() }
    }
}

/// Traces and metrics for others.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TelemetrySection {
    /// An OTLP endpoint over HTTP, such as `http://127.0.0.1:4318`. Default: none, nothing is
    /// exported. Also `OTEL_EXPORTER_OTLP_ENDPOINT`.
    pub(crate) otlp_endpoint: Option<String>,
    /// The service's name in traces. Default: `portcullis`.
    pub(crate) service_name: String,
    /// The share of traces that is exported, 0 to 1. Default: 1.
    pub(crate) sample_ratio: f64,
}

impl Default for TelemetrySection {
    fn default() -> Self {
        Self { otlp_endpoint: None, service_name: "portcullis".to_owned(), sample_ratio: 1.0 }
    }
}
