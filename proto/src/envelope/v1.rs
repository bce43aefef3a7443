//! Version 1 of the job message, as it was first written. Frozen: this file is never edited.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::digest::Digest;
use crate::ids::{AgentName, Epoch, JobKey, ReminderName, RouteName, RunId, Subject, Tenant};
use crate::job;
use crate::time::Ms;

pub const KIND: &str = "job";

#[derive(Serialize, Deserialize, schemars::JsonSchema)]
pub struct JobEnvelope {
    pub v: u32,
    pub kind: String,
    pub epoch: Epoch,
    pub job: Job,
}

#[derive(Serialize, Deserialize, schemars::JsonSchema)]
pub struct Job {
    pub key: JobKey,
    pub tenant: Tenant,
    pub agent: AgentName,
    pub input: Payload,
    pub input_hash: Digest,
    pub origin: Origin,
    pub attendance: Attendance,
    pub limits: Limits,
    pub start_by: Ms,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
}

#[derive(Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Payload {
    Inline(Value),
    Stored { digest: Digest, bytes: u64 },
}

#[derive(Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    Reminder { name: ReminderName, instant: Ms },
    Webhook { route: RouteName },
    Api,
}

#[derive(Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Attendance {
    Unattended,
    Session { approver: Subject },
}

#[derive(Serialize, Deserialize, schemars::JsonSchema)]
pub struct Limits {
    pub cap_ms: i64,
    pub step_ms: i64,
    pub approval_ms: i64,
}

#[derive(Serialize, Deserialize, schemars::JsonSchema)]
pub struct Parent {
    pub run: RunId,
    pub call: u32,
    pub depth: u8,
    pub hard_cap: Ms,
}

#[derive(Serialize, Deserialize, schemars::JsonSchema)]
pub struct Trace {
    pub traceparent: String,
}

impl From<JobEnvelope> for super::JobEnvelope {
    fn from(v1: JobEnvelope) -> Self {
        Self { epoch: v1.epoch, job: v1.job.into() }
    }
}

impl From<&super::JobEnvelope> for JobEnvelope {
    fn from(now: &super::JobEnvelope) -> Self {
        Self { v: 1, kind: KIND.to_owned(), epoch: now.epoch, job: (&now.job).into() }
    }
}

impl From<Job> for job::Job {
    fn from(v1: Job) -> Self {
        Self {
            key: v1.key,
            tenant: v1.tenant,
            agent: v1.agent,
            input: match v1.input {
                Payload::Inline(value) => job::Payload::Inline(value),
                Payload::Stored { digest, bytes } => job::Payload::Stored { digest, bytes },
            },
            input_hash: v1.input_hash,
            origin: match v1.origin {
                Origin::Reminder { name, instant } => job::Origin::Reminder { name, instant },
                Origin::Webhook { route } => job::Origin::Webhook { route },
                Origin::Api => job::Origin::Api,
            },
            attendance: match v1.attendance {
                Attendance::Unattended => job::Attendance::Unattended,
                Attendance::Session { approver } => job::Attendance::Session { approver },
            },
            limits: job::Limits {
                cap_ms: v1.limits.cap_ms,
                step_ms: v1.limits.step_ms,
                approval_ms: v1.limits.approval_ms,
            },
            start_by: v1.start_by,
            parent: v1.parent.map(|parent| job::Parent {
                run: parent.run,
                call: parent.call,
                depth: parent.depth,
                hard_cap: parent.hard_cap,
            }),
            // A trace is a courtesy: a malformed one is dropped, not the job.
            trace: v1.trace.and_then(|trace| job::Trace::of_header(&trace.traceparent)),
        }
    }
}

impl From<&job::Job> for Job {
    fn from(now: &job::Job) -> Self {
        Self {
            key: now.key.clone(),
            tenant: now.tenant.clone(),
            agent: now.agent.clone(),
            input: match now.input.clone() {
                job::Payload::Inline(value) => Payload::Inline(value),
                job::Payload::Stored { digest, bytes } => Payload::Stored { digest, bytes },
            },
            input_hash: now.input_hash,
            origin: match now.origin.clone() {
                job::Origin::Reminder { name, instant } => Origin::Reminder { name, instant },
                job::Origin::Webhook { route } => Origin::Webhook { route },
                job::Origin::Api => Origin::Api,
            },
            attendance: match now.attendance.clone() {
                job::Attendance::Unattended => Attendance::Unattended,
                job::Attendance::Session { approver } => Attendance::Session { approver },
            },
            limits: Limits {
                cap_ms: now.limits.cap_ms,
                step_ms: now.limits.step_ms,
                approval_ms: now.limits.approval_ms,
            },
            start_by: now.start_by,
            parent: now.parent.as_ref().map(|parent| Parent {
                run: parent.run.clone(),
                call: parent.call,
                depth: parent.depth,
                hard_cap: parent.hard_cap,
            }),
            trace: now.trace.as_ref().map(|trace| Trace { traceparent: trace.traceparent.clone() }),
        }
    }
}
