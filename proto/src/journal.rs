//! What happened to a run, one entry per fact, in commit order.
//!
//! Authority: the commit that carries the entry; what is not committed did not happen.
//! Invariant: an entry names ids, digests and codes. It never holds a payload, a prompt or a
//! secret.

use serde::{Deserialize, Serialize};

use crate::call::Status;
use crate::decision::{Channel, Verdict};
use crate::denial::Denial;
use crate::ids::{AgentName, ApprovalId, PoolName, RunId, Subject, ToolName};
use crate::run::Outcome;
use crate::time::Ms;

/// One fact.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Fact {
    Accepted {
        agent: AgentName,
        origin: String,
    },
    Claimed {
        attempt: u8,
    },
    Planned {
        turn: u32,
        calls: u32,
    },
    Asked {
        approval: ApprovalId,
        tool: ToolName,
        pool: PoolName,
        deadline: Ms,
    },
    Published {
        approval: ApprovalId,
        rev: u32,
    },
    Unroutable {
        approval: ApprovalId,
    },
    Voted {
        approval: ApprovalId,
        by: Subject,
        verdict: Verdict,
        channel: Channel,
    },
    /// Its approver moved the deadline later.
    Extended {
        approval: ApprovalId,
        by: Subject,
        deadline: Ms,
    },
    /// Nobody had answered, or could have: further approvers are asked.
    Escalated {
        approval: ApprovalId,
        pool: PoolName,
    },
    /// An approver allowed other arguments, under a new request.
    Edited {
        approval: ApprovalId,
        becomes: ApprovalId,
        by: Subject,
    },
    Approved {
        approval: ApprovalId,
        use_by: Ms,
    },
    Denied {
        call: u32,
        tool: ToolName,
        denial: Denial,
    },
    Started {
        call: u32,
        tool: ToolName,
    },
    Spawned {
        call: u32,
        child: RunId,
    },
    Finished {
        call: u32,
        tool: ToolName,
        status: Status,
    },
    Retried {
        call: u32,
        tries: u8,
    },
    Parked {
        waits: u32,
    },
    Roused,
    Released {
        why: String,
    },
    Lapsed,
    CancelAsked {
        by: String,
    },
    Ended {
        outcome: Outcome,
        code: String,
        detail: Option<String>,
    },
}

/// A fact and the store's time of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Entry {
    pub at: Ms,
    #[serde(flatten)]
    pub fact: Fact,
}
