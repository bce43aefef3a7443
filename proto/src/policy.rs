//! May this call run, must somebody be asked, or is the answer no?
//!
//! Authority: the operator's configuration, for every origin alike. Rules are read deny first,
//! then ask, then allow; what no rule knows is denied, and a rule that cannot be worked out
//! denies too.
//! Invariant: the answer depends on its arguments alone. Nothing is allowed because a run is
//! unattended, because a channel exists, or because a field was missing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::denial::DenialCode;
use crate::ids::{PoolName, Subject, ToolName};
use crate::job::{Attendance, Origin};

/// What a tool or a rule demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Demand {
    Deny,
    Ask,
    Allow,
}

/// How much harm a call may do; part of the routing key of its request.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Risk {
    Low,
    Medium,
    High,
}

impl Risk {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// How one field of the arguments must look for a rule to match.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Pin {
    Equals(Value),
    /// The field must be a string; anything else is an error of the rule, hence a denial.
    StartsWith(String),
    /// One of several exact values.
    OneOf(Vec<Value>),
    /// Whether the field is there at all.
    Present(bool),
}

/// One line of an operator's policy. Every condition that is given must hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    pub then: Demand,
    /// Only this tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolName>,
    /// Only runs of this origin: `reminder`, `webhook` or `api`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// Fields of the arguments by JSON pointer (RFC 6901), such as `/argv/0`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub args: BTreeMap<String, Pin>,
    /// Told to the agent and the operator when the rule decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How a request is put to people, where the policy says «ask».
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Asking {
    pub pool: PoolName,
    pub risk: Risk,
    /// How many approvers must agree, at least 1.
    pub need: u8,
    /// Who is asked as well while nobody answers, at most [`LEVELS_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<Escalation>,
}

/// How many times one request may be taken to further approvers.
pub const LEVELS_MAX: usize = 8;

/// Unanswered for so long, a request goes to the members of another pool as well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Escalation {
    /// After the request was made, in milliseconds.
    pub after_ms: i64,
    pub pool: PoolName,
}

/// What is known about one tool of one agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ToolPolicy {
    pub gate: Demand,
    pub asking: Asking,
}

/// What an installation does with a call of an unattended run that would need a human.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unattended {
    /// Publish the request and wait, at most until its deadline.
    Ask,
    /// Refuse at once.
    Deny,
}

/// The people and services of one pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    /// Who may decide.
    pub members: Vec<Subject>,
    /// Those members who can see requests in an inbox (console, CLI, HTTP): they hold a token.
    pub inbox: Vec<Subject>,
}

/// Who there is to ask. Configured, not online: presence is another question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roster {
    pub pools: BTreeMap<PoolName, Pool>,
}

impl Roster {
    /// Whether a subject may decide for a pool now.
    #[must_use]
    pub fn is_member(&self, pool: &PoolName, subject: &Subject) -> bool {
        self.pools.get(pool).is_some_and(|p| p.members.contains(subject))
    }

    fn holds_inbox(&self, subject: &Subject) -> bool {
        self.pools.values().any(|pool| pool.inbox.contains(subject))
    }
}

/// One agent's policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    pub tools: BTreeMap<ToolName, ToolPolicy>,
    pub rules: Vec<Rule>,
}

/// One call, as the gate sees it: its arguments are validated, with defaults filled in.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    pub tool: &'a ToolName,
    pub args: &'a Value,
    pub origin: &'a Origin,
    pub attendance: &'a Attendance,
}

/// To whom a request goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Terms {
    pub pool: PoolName,
    pub risk: Risk,
    pub need: u8,
    /// Who may decide, as of now. Empty: nobody, and the call is denied at once.
    pub eligible: Vec<Subject>,
    /// Whether some of them can see the request without any message being delivered.
    pub inbox: bool,
    /// Who is asked as well, and when, should nobody answer: earliest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<Level>,
}

/// A further group of approvers. It adds people; it never lowers how many must agree.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Level {
    /// After the request was made, in milliseconds.
    pub after_ms: i64,
    pub pool: PoolName,
    pub add: Vec<Subject>,
    /// Whether some of them can see the request without any message being delivered.
    pub inbox: bool,
}

/// The gate's answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Allow,
    Ask(Terms),
    Deny { code: DenialCode, detail: Option<String> },
}

impl Verdict {
    fn deny(code: DenialCode, detail: impl Into<String>) -> Self {
        Self::Deny { code, detail: Some(detail.into()) }
    }
}

/// The gate: the same for every origin. See `docs/protocol.md`, «The gate».
#[must_use]
pub fn gate(
    policy: &Policy,
    roster: &Roster,
    unattended: Unattended,
    question: &Question<'_>,
) -> Verdict {
    let Some(tool) = policy.tools.get(question.tool) else {
        return Verdict::deny(
            DenialCode::PolicyDenied,
            format!("the agent has no tool `{}`", question.tool),
        );
    };
    match demand(policy, tool, question) {
        Err(why) => Verdict::deny(DenialCode::PolicyError, why),
        Ok((Demand::Deny, reason)) => {
            Verdict::Deny { code: DenialCode::PolicyDenied, detail: reason }
        }
        Ok((Demand::Allow, _)) => Verdict::Allow,
        Ok((Demand::Ask, _)) => ask(&tool.asking, roster, unattended, question.attendance),
    }
}

fn ask(
    asking: &Asking,
    roster: &Roster,
    unattended: Unattended,
    attendance: &Attendance,
) -> Verdict {
    match (attendance, unattended) {
        (Attendance::Unattended, Unattended::Deny) => {
            return Verdict::deny(
                DenialCode::ApprovalRequiredUnattended,
                "a human would have to approve this call, and nobody attends this run",
            );
        }
        (Attendance::Unattended, Unattended::Ask) | (Attendance::Session { .. }, _) => {}
    }
    let pool = roster.pools.get(&asking.pool);
    let mut eligible = pool.map(|p| p.members.clone()).unwrap_or_default();
    let mut inbox = pool.is_some_and(|p| !p.inbox.is_empty());
    if let Attendance::Session { approver } = attendance {
        // A session is one more inbox, never more right: its approver must be of the pool.
        inbox = inbox || (eligible.contains(approver) && roster.holds_inbox(approver));
    }
    eligible.sort();
    eligible.dedup();
    Verdict::Ask(Terms {
        pool: asking.pool.clone(),
        risk: asking.risk,
        need: asking.need.max(1),
        eligible,
        inbox,
        levels: levels(&asking.levels, roster),
    })
}

fn levels(wanted: &[Escalation], roster: &Roster) -> Vec<Level> {
    let level = |wanted: &Escalation| {
        let pool = roster.pools.get(&wanted.pool).cloned().unwrap_or_default();
        let (after_ms, inbox) = (wanted.after_ms, !pool.inbox.is_empty());
        Level { after_ms, pool: wanted.pool.clone(), add: pool.members, inbox }
    };
    let mut levels: Vec<Level> = wanted.iter().take(LEVELS_MAX).map(level).collect();
    levels.sort_by_key(|level| level.after_ms);
    levels
}

/// What the rules demand, deny first, then ask, then allow, then the tool's own gate.
fn demand(
    policy: &Policy,
    tool: &ToolPolicy,
    question: &Question<'_>,
) -> Result<(Demand, Option<String>), String> {
    let mut found: Option<&Rule> = None;
    for (place, rule) in policy.rules.iter().enumerate() {
        // Every rule is worked out, so that a broken one denies wherever it stands.
        let matches = matches(rule, question).map_err(|why| format!("rule {place}: {why}"))?;
        let stricter = found.is_none_or(|best| strictness(rule.then) < strictness(best.then));
        if matches && stricter {
            found = Some(rule);
        }
    }
    Ok(match found {
        Some(rule) => (rule.then, rule.reason.clone()),
        None => (tool.gate, None),
    })
}

const fn strictness(demand: Demand) -> u8 {
    match demand {
        Demand::Deny => 0,
        Demand::Ask => 1,
        Demand::Allow => 2,
    }
}

fn matches(rule: &Rule, question: &Question<'_>) -> Result<bool, String> {
    if rule.tool.as_ref().is_some_and(|tool| tool != question.tool) {
        return Ok(false);
    }
    if rule.origin.as_ref().is_some_and(|origin| origin != question.origin.kind()) {
        return Ok(false);
    }
    for (pointer, pin) in &rule.args {
        if !pinned(pin, question.args.pointer(pointer), pointer)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn pinned(pin: &Pin, field: Option<&Value>, pointer: &str) -> Result<bool, String> {
    match (pin, field) {
        (Pin::Present(wanted), field) => Ok(field.is_some() == *wanted),
        (Pin::Equals(wanted), Some(value)) => Ok(wanted == value),
        (Pin::OneOf(wanted), Some(value)) => Ok(wanted.contains(value)),
        (Pin::StartsWith(prefix), Some(Value::String(text))) => Ok(text.starts_with(prefix)),
        (Pin::StartsWith(_), Some(_)) => Err(format!("`{pointer}` is no string")),
        (Pin::Equals(_) | Pin::OneOf(_) | Pin::StartsWith(_), None) => Ok(false),
    }
}

#[cfg(test)]
mod tests;
