//! Scripted agents: a playbook of `act` calls whose effects are counted from outside.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;

use async_trait::async_trait;
use portcullis_proto::call::{OnDenied, OnUnknown, SideEffect, Traits};
use portcullis_proto::ids::{AgentName, PoolName, Subject, ToolName};
use portcullis_proto::job::Limits;
use portcullis_proto::policy::{
    Asking, Demand, Escalation, Policy, Pool, Risk, Roster, ToolPolicy,
};
use portcullis_worker::models::playbook::{CallSource, OnFailure, Playbook, StepSource};
use portcullis_worker::settings::{Agent, AgentTool, Brain, ToolKind};
use portcullis_worker::tools::{ArgsError, Invocation, Outcome, Tool};
use serde_json::{Value, json};

use super::Effects;

/// People of pool `ops`; those of `inbox` hold tokens.
#[must_use]
pub fn roster(members: &[&str], inbox: &[&str]) -> Roster {
    let people = |list: &[&str]| list.iter().map(|who| Subject::new(*who).unwrap()).collect();
    let pool = Pool { members: people(members), inbox: people(inbox) };
    Roster { pools: BTreeMap::from([(PoolName::new("ops").unwrap(), pool)]) }
}

/// One agent of a test's installation.
pub struct AgentBuilder {
    name: &'static str,
    steps: Vec<StepSource>,
    on_denied: OnDenied,
    effect: SideEffect,
    need: u8,
    levels: Vec<Escalation>,
    tool: Option<Arc<dyn Tool>>,
}

impl AgentBuilder {
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        let (on_denied, effect) = (OnDenied::TellModel, SideEffect::AtMostOnce);
        let steps = Vec::new();
        let levels = Vec::new();
        Self { name, steps, on_denied, effect, need: 1, levels, tool: None }
    }

    /// Acts by another tool than the one that appends lines.
    #[must_use]
    pub fn acting_by(mut self, tool: Arc<dyn Tool>) -> Self {
        self.tool = Some(tool);
        self
    }

    /// A step of calls, as `(tool, args)`. Tools: `act` runs, `asks` is gated, `never` is denied,
    /// `agent` starts a child.
    #[must_use]
    pub fn step(mut self, calls: Vec<(&str, Value)>) -> Self {
        let calls = calls
            .into_iter()
            .map(|(tool, args)| CallSource { tool: ToolName::new(tool).unwrap(), args })
            .collect();
        self.steps.push(StepSource { calls, on_failure: OnFailure::Stop });
        self
    }

    #[must_use]
    pub const fn idempotent(mut self) -> Self {
        self.effect = SideEffect::Idempotent;
        self
    }

    #[must_use]
    pub const fn ends_when_denied(mut self) -> Self {
        self.on_denied = OnDenied::EndRun;
        self
    }

    #[must_use]
    pub const fn needs(mut self, approvers: u8) -> Self {
        self.need = approvers;
        self
    }

    /// Unanswered for so long, in milliseconds, its requests go to another pool as well.
    ///
    /// # Panics
    /// When the pool's name is none.
    #[must_use]
    pub fn escalates(mut self, after_ms: i64, pool: &str) -> Self {
        self.levels.push(Escalation { after_ms, pool: PoolName::new(pool).unwrap() });
        self
    }

    /// # Panics
    /// When the test's steps are no playbook.
    #[must_use]
    pub fn build(self, effects: &Effects) -> Agent {
        let playbook = Playbook::new(&self.steps).unwrap();
        let traits = Traits {
            effect: self.effect,
            timeout_ms: 60_000,
            on_denied: self.on_denied,
            on_unknown: OnUnknown::Fail,
        };
        let work = effects.work().to_owned();
        let act = self.tool.clone().unwrap_or_else(|| Arc::new(Act { work }));
        let local = || AgentTool { traits, kind: ToolKind::Local(Arc::clone(&act)) };
        let tool = |name: &str| ToolName::new(name).unwrap();
        let pool = PoolName::new("ops").unwrap();
        let gate = |gate| {
            let (pool, risk, need) = (pool.clone(), Risk::High, self.need);
            let asking = Asking { pool, risk, need, levels: self.levels.clone() };
            ToolPolicy { gate, asking }
        };
        let policy = BTreeMap::from([
            (tool("act"), gate(Demand::Allow)),
            (tool("asks"), gate(Demand::Ask)),
            (tool("never"), gate(Demand::Deny)),
            (tool("agent"), gate(Demand::Allow)),
        ]);
        Agent {
            name: AgentName::new(self.name).unwrap(),
            brain: Brain::Playbook(Arc::new(playbook)),
            policy: Policy { tools: policy, rules: vec![] },
            tools: BTreeMap::from([
                (tool("act"), local()),
                (tool("asks"), local()),
                (tool("never"), local()),
                (tool("agent"), AgentTool { traits, kind: ToolKind::Child }),
            ]),
            limits: Limits::default(),
            start_by_ms: 60_000,
        }
    }
}

/// Appends a line by a process of its own, fails, or hangs until it is stopped.
struct Act {
    work: PathBuf,
}

#[async_trait]
impl Tool for Act {
    fn name(&self) -> &str {
        "act"
    }

    fn check(&self, args: &Value) -> Result<Value, ArgsError> {
        Ok(args.clone())
    }

    async fn run(&self, call: Invocation) -> Outcome {
        if let Some(line) = call.args["line"].as_str() {
            let written = tokio::process::Command::new("/bin/sh")
                .args(["-c", "echo \"$0\" >> effects.log", line])
                .current_dir(&self.work)
                .stdin(Stdio::null())
                .status();
            if !written.await.is_ok_and(|status| status.success()) {
                return Outcome::Failed(json!({ "error": "not written" }));
            }
        }
        match call.args["then"].as_str() {
            Some("fail") => Outcome::Failed(json!({ "error": "as told" })),
            Some("hang") => {
                let stopped = tokio::time::timeout(call.timeout, call.cancel.cancelled()).await;
                let error = if stopped.is_ok() { "cancelled" } else { "tool_timed_out" };
                Outcome::Failed(json!({ "error": error }))
            }
            Some(_) | None => Outcome::Succeeded(json!({ "line": call.args["line"] })),
        }
    }
}
