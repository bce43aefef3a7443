//! What one worker process is told when it starts. Read and checked once, by whoever starts it.

use std::collections::BTreeMap;
use std::sync::Arc;

use portcullis_proto::call::Traits;
use portcullis_proto::decision::KeyRing;
use portcullis_proto::ids::{AgentName, ToolName};
use portcullis_proto::job::Limits;
use portcullis_proto::policy::{Policy, Roster, Unattended};

use crate::models::playbook::Playbook;
use crate::tools::Tool;

/// A worker's settings.
pub struct Settings {
    /// How many runs it works on at once, 1 to 4096.
    pub slots: usize,
    pub agents: BTreeMap<AgentName, Arc<Agent>>,
    /// Who there is to ask.
    pub roster: Roster,
    pub unattended: Unattended,
    /// Public keys only: a worker can check a decision, never make one.
    pub keys: Arc<KeyRing>,
    /// How long running tools may finish after the order to stop, in milliseconds.
    pub drain_ms: u64,
}

/// A named definition: a brain, tools, a policy, limits.
pub struct Agent {
    pub name: AgentName,
    pub brain: Brain,
    pub policy: Policy,
    pub tools: BTreeMap<ToolName, AgentTool>,
    pub limits: Limits,
    /// From enqueueing to the first claim, in milliseconds; for runs that others start of it.
    pub start_by_ms: i64,
}

/// Who plans an agent's turns.
pub enum Brain {
    /// Declared steps, in order.
    Playbook(Arc<Playbook>),
}

/// One tool as one agent has it.
pub struct AgentTool {
    pub traits: Traits,
    pub kind: ToolKind,
}

/// How a call of the tool is carried out.
pub enum ToolKind {
    /// By this process.
    Local(Arc<dyn Tool>),
    /// As a child run: the `agent` tool.
    Child,
}

/// The longest that a tool started now may run, in milliseconds: the step must outlive it, so that
/// its end can be recorded.
pub const STEP_RESERVE_MS: i64 = 3_000;
/// The gate has this long to answer, in milliseconds. A hung one has said no.
pub const GATE_MS_MAX: u64 = 5_000;
