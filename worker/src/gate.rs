//! Asks the gate, and takes every kind of silence for a no.
//!
//! Authority: the worker's own policy, worked out when a call is planned and again when it starts.
//! Invariant: a gate that hangs, panics or fails has denied the call, with `policy_error`.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use portcullis_proto::denial::DenialCode;
use portcullis_proto::ids::ToolName;
use portcullis_proto::policy::{Question, Roster, Unattended, Verdict, gate};
use portcullis_proto::run::Run;
use serde_json::Value;

use crate::settings::{Agent, GATE_MS_MAX};

/// Judges one call.
#[async_trait]
pub trait Judge: Send + Sync {
    async fn judge(&self, agent: &Agent, run: &Run, tool: &ToolName, args: &Value) -> Verdict;
}

/// The operator's policy, as `proto` works it out.
pub struct PolicyJudge {
    pub roster: Roster,
    pub unattended: Unattended,
}

#[async_trait]
impl Judge for PolicyJudge {
    async fn judge(&self, agent: &Agent, run: &Run, tool: &ToolName, args: &Value) -> Verdict {
        let (origin, attendance) = (&run.job.origin, &run.job.attendance);
        let question = Question { tool, args, origin, attendance };
        gate(&agent.policy, &self.roster, self.unattended, &question)
    }
}

/// The judge's answer, or the denial that its silence is.
pub async fn ask(
    judge: &dyn Judge,
    agent: &Agent,
    run: &Run,
    tool: &ToolName,
    args: &Value,
) -> Verdict {
    let refuse =
        |detail: String| Verdict::Deny { code: DenialCode::PolicyError, detail: Some(detail) };
    let asked = AssertUnwindSafe(judge.judge(agent, run, tool, args)).catch_unwind();
    match tokio::time::timeout(Duration::from_millis(GATE_MS_MAX), asked).await {
        Ok(Ok(verdict)) => verdict,
        Ok(Err(_)) => refuse("the policy panicked".to_owned()),
        Err(_) => refuse(format!("the policy gave no answer within {GATE_MS_MAX} ms")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    struct Hangs;
    struct Panics;

    #[async_trait]
    impl Judge for Hangs {
        async fn judge(&self, _: &Agent, _: &Run, _: &ToolName, _: &Value) -> Verdict {
            std::future::pending().await
        }
    }

    #[async_trait]
    impl Judge for Panics {
        async fn judge(&self, _: &Agent, _: &Run, _: &ToolName, _: &Value) -> Verdict {
            panic!("a bug in a policy")
        }
    }

    async fn code(judge: &dyn Judge) -> Option<DenialCode> {
        let (agent, run, tool) = (testing::agent(), testing::run(), testing::shell());
        match ask(judge, &agent, &run, &tool, &Value::Null).await {
            Verdict::Deny { code, .. } => Some(code),
            Verdict::Allow | Verdict::Ask(_) => None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_hung_policy_has_denied() {
        assert_eq!(code(&Hangs).await, Some(DenialCode::PolicyError));
    }

    #[tokio::test]
    async fn a_panicking_policy_has_denied() {
        assert_eq!(code(&Panics).await, Some(DenialCode::PolicyError));
    }
}
