//! An agent, a run and a tool's name for this crate's own tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use portcullis_proto::digest::Digest;
use portcullis_proto::ids::{AgentName, JobKey, RunId, ShardCount, Tenant, ToolName};
use portcullis_proto::job::{Attendance, Job, Limits, Origin, Payload};
use portcullis_proto::policy::Policy;
use portcullis_proto::run::{Event, Run, apply};
use portcullis_proto::time::Ms;
use serde_json::json;

use crate::models::playbook::{CallSource, OnFailure, Playbook, StepSource};
use crate::settings::{Agent, Brain};

pub(crate) fn shell() -> ToolName {
    ToolName::new("shell").unwrap()
}

pub(crate) fn agent() -> Agent {
    let calls = vec![CallSource { tool: shell(), args: json!({ "argv": ["true"] }) }];
    let playbook = Playbook::new(&[StepSource { calls, on_failure: OnFailure::Stop }]).unwrap();
    Agent {
        name: AgentName::new("deployer").unwrap(),
        brain: Brain::Playbook(Arc::new(playbook)),
        policy: Policy::default(),
        tools: BTreeMap::new(),
        limits: Limits::default(),
        start_by_ms: 86_400_000,
    }
}

pub(crate) fn run() -> Run {
    let tenant = Tenant::new("default").unwrap();
    let key = JobKey::api(&tenant, b"one");
    let id = RunId::of(&key, ShardCount::new(1).unwrap());
    let job = Job {
        key,
        tenant,
        agent: AgentName::new("deployer").unwrap(),
        input: Payload::Inline(json!({})),
        input_hash: Digest::of_bytes(b"{}"),
        origin: Origin::Api,
        attendance: Attendance::Unattended,
        limits: Limits::default(),
        start_by: Ms(1_000),
        parent: None,
        trace: None,
    };
    apply(None, &Event::Accepted { id, job: Box::new(job) }, Ms(1)).unwrap().next
}
