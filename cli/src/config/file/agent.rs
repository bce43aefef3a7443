//! What may stand in `[agents.<name>]`, or in `agents.d/<name>.toml`?
//!
//! Invariant: a tool that is not listed is none the agent has, and a listed one whose gate is not
//! given asks.

use std::collections::BTreeMap;
use std::path::PathBuf;

use portcullis_proto::call::{OnDenied, OnUnknown, SideEffect};
use portcullis_proto::policy::{Demand, Risk, Rule};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::config::duration::Span;

/// A named definition: a playbook, its tools, its policy, its limits.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AgentFile {
    /// For people. Default: empty.
    #[serde(default)]
    pub(crate) description: String,
    /// The declared steps, in order, 1 to 256.
    pub(crate) playbook: Vec<StepText>,
    /// The tools it has, each with its gate. Default: none.
    #[serde(default)]
    pub(crate) tools: ToolsSection,
    /// Rules about calls: every rule is read, «deny» goes before «ask», «ask» before «allow»; what
    /// no rule knows is up to the tool's gate. Default: none.
    #[serde(default)]
    pub(crate) rules: Vec<Rule>,
    #[serde(default)]
    pub(crate) limits: LimitsSection,
}

/// How long each part may take.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LimitsSection {
    /// One step, not counting the time it waits for people or children. Default: 10m.
    pub(crate) step: Span,
    /// From the first claim to the end, waits included; at most 7d. Default: 2h.
    pub(crate) hard_cap: Span,
    /// From being accepted to the first claim; at most 7d. Default: 24h.
    pub(crate) start_by: Span,
    /// One wait for a decision. Default: `approvals.timeout_seconds`.
    pub(crate) approval: Option<Span>,
}

impl Default for LimitsSection {
    fn default() -> Self {
        Self {
            step: Span::of_ms(600_000),
            hard_cap: Span::of_ms(7_200_000),
            start_by: Span::of_ms(86_400_000),
            approval: None,
        }
    }
}

/// One step of a playbook, as it is written: `{ tool = "shell", argv = ["true"] }`,
/// `{ tool = "shell", args = { … } }`, or `{ calls = [ … ] }` for calls made together.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct StepText(pub(crate) Value);

impl JsonSchema for StepText {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Step".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let on_failure = serde_json::json!({
            "description": "What happens after a call of the step failed. Default: stop.",
            "enum": ["stop", "continue"],
        });
        let tool = serde_json::json!({
            "description": "The tool that is called; it must be among the agent's tools.",
            "enum": ["shell", "http", "agent"],
        });
        let args = serde_json::json!({
            "description": "The tool's arguments; `{{ input.x }}` is filled from the run's input. \
                            They may also stand beside `tool`.",
            "type": "object",
        });
        schemars::json_schema!({
            "description": "One step: a call, or several calls that are made together.",
            "anyOf": [
                {
                    "type": "object",
                    "required": ["tool"],
                    "properties": { "tool": tool, "args": args, "on_failure": on_failure },
                },
                {
                    "type": "object",
                    "required": ["calls"],
                    "additionalProperties": false,
                    "properties": {
                        "calls": {
                            "type": "array", "minItems": 1, "maxItems": 64,
                            "items": {
                                "type": "object",
                                "required": ["tool"],
                                "properties": { "tool": tool, "args": args },
                            },
                        },
                        "on_failure": on_failure,
                    },
                },
            ],
        })
    }
}

/// The tools of an agent.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ToolsSection {
    pub(crate) shell: Option<ShellTool>,
    pub(crate) http: Option<HttpTool>,
    pub(crate) agent: Option<AgentTool>,
}

/// What every tool has, read from any of the sections below.
pub(crate) struct ToolCommon {
    pub(crate) gate: Demand,
    pub(crate) pool: String,
    pub(crate) risk: Risk,
    pub(crate) need: u8,
    pub(crate) effect: SideEffect,
    pub(crate) timeout: Span,
    pub(crate) on_denied: Option<OnDenied>,
    pub(crate) on_unknown: OnUnknown,
}

fn pool_default() -> String {
    "default".to_owned()
}

const fn ask() -> Demand {
    Demand::Ask
}

const fn medium() -> Risk {
    Risk::Medium
}

const fn one() -> u8 {
    1
}

const fn at_most_once() -> SideEffect {
    SideEffect::AtMostOnce
}

const fn five_minutes() -> Span {
    Span::of_ms(300_000)
}

const fn fail() -> OnUnknown {
    OnUnknown::Fail
}

/// `flatten` and `deny_unknown_fields` exclude each other, so the common fields are repeated here.
macro_rules! tool_section {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct $name {
            /// `allow`, `ask` or `deny`, where no rule says otherwise. Default: `ask`.
            #[serde(default = "ask")]
            pub(crate) gate: Demand,
            /// Which approvers are asked. Default: `default`.
            #[serde(default = "pool_default")]
            pub(crate) pool: String,
            /// `low`, `medium` or `high`: told to the approvers, part of the routing key.
            /// Default: `medium`.
            #[serde(default = "medium")]
            pub(crate) risk: Risk,
            /// How many approvers must agree, at least 1. Default: 1.
            #[serde(default = "one")]
            pub(crate) need: u8,
            /// What a second execution would do: `read_only`, `idempotent` or `at_most_once`, which
            /// is never repeated. Default: `at_most_once`.
            #[serde(default = "at_most_once")]
            pub(crate) effect: SideEffect,
            /// How long one call may run; 3 s less than the agent's `limits.step`. Default: 5m.
            #[serde(default = "five_minutes")]
            pub(crate) timeout: Span,
            /// What becomes of the run when a call is refused: `end_run` or `tell_model`.
            /// Default: `end_run` for a playbook.
            #[serde(default)]
            pub(crate) on_denied: Option<OnDenied>,
            /// What becomes of the run when nobody knows whether a call took effect: `fail` or
            /// `tell_model`. Default: `fail`.
            #[serde(default = "fail")]
            pub(crate) on_unknown: OnUnknown,
            $($(#[$field_doc])* #[serde(default)] pub(crate) $field: $type,)*
        }

        impl $name {
            pub(crate) fn common(&self) -> ToolCommon {
                ToolCommon {
                    gate: self.gate,
                    pool: self.pool.clone(),
                    risk: self.risk,
                    need: self.need,
                    effect: self.effect,
                    timeout: self.timeout,
                    on_denied: self.on_denied,
                    on_unknown: self.on_unknown,
                }
            }
        }
    };
}

tool_section!(
    /// Runs a program by its argv, in the sandbox; never through a shell.
    ShellTool {
        /// Where programs start and may write. Default: `work/<agent>` in the data folder.
        work_dir: Option<PathBuf>,
        /// Further paths that may be read and executed. Default: none but the system's.
        read_only: Vec<PathBuf>,
        /// Further paths that may be written. Default: none.
        read_write: Vec<PathBuf>,
        /// Names that a call may set in the program's environment, which is otherwise made from
        /// nothing. Default: none.
        env_allowed: Vec<String>,
        /// `PATH` of the program. Default: the system's folders.
        path: Option<String>,
        /// `LANG` of the program. Default: not set.
        lang: Option<String>,
        /// `TZ` of the program. Default: not set.
        time_zone: Option<String>,
        /// TCP ports that the program may connect to, on any host. Default: none, no network.
        connect_ports: Vec<u16>,
        /// Allows UDP, for name resolution; to any host and port. Default: false.
        dns: bool,
        /// Allows unix sockets: a way out if the host has a container engine's. Default: false.
        unix_sockets: bool,
        /// Allows leaving the process group; such a process outlives its call. Default: false.
        detach: bool,
        /// Bytes kept of each of its output streams, 4096 to 4194304. Default: 65536.
        output_bytes_max: Option<usize>,
        /// Open files of each process. Default: 1024.
        open_files_max: Option<u64>,
        /// Bytes of address space of each process. Default: no limit.
        address_space_bytes_max: Option<u64>,
        /// Seconds of processor time of each process. Default: no limit.
        cpu_seconds_max: Option<u64>,
        /// Bytes of one file that it writes. Default: no limit.
        file_bytes_max: Option<u64>,
        /// Processes of the tool's user; useful with `sandbox.uid`. Default: no limit.
        processes_max: Option<u64>,
    }
);

tool_section!(
    /// Calls a web server.
    HttpTool {
        /// Host names, addresses and ranges that may be reached though they are private, such as
        /// `db.internal` or `10.1.0.0/16`. Default: none.
        allow_private: Vec<String>,
    }
);

tool_section!(
    /// Starts another agent as a child run and waits for its end.
    AgentTool {}
);

/// The tools there are, by name.
impl ToolsSection {
    pub(crate) fn common(&self) -> BTreeMap<&'static str, ToolCommon> {
        let shell = self.shell.as_ref().map(|tool| ("shell", tool.common()));
        let http = self.http.as_ref().map(|tool| ("http", tool.common()));
        let agent = self.agent.as_ref().map(|tool| ("agent", tool.common()));
        shell.into_iter().chain(http).chain(agent).collect()
    }
}
