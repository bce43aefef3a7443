//! What a trigger enqueues, and how long each part of it may take.
//!
//! Authority: the trigger that made it; nothing in a job changes once its run exists.
//! Invariant: a child's job inherits origin and attendance and can only narrow them, and every
//! limit is finite: there is no way to say «for ever».

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::digest::Digest;
use crate::ids::{AgentName, JobKey, ReminderName, RouteName, RunId, Subject, Tenant};
use crate::time::Ms;

/// The longest a run may live after its first claim: seven days, in milliseconds.
pub const CAP_MS_CEILING: i64 = 7 * 24 * 3_600_000;
/// Values longer than this many bytes of JSON live outside the record.
pub const INLINE_BYTES_MAX: usize = 2_048;
/// How deep runs may start runs.
pub const DEPTH_MAX: u8 = 4;
/// How many children one run may start.
pub const CHILDREN_MAX: usize = 16;

/// A JSON value, kept in the record when short and by content when long.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Payload {
    Inline(Value),
    /// SHA-256 of the stored bytes, and how many there are before compression.
    Stored {
        digest: Digest,
        bytes: u64,
    },
}

/// Where a run comes from. Children keep the origin of the run that started it all.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    Reminder { name: ReminderName, instant: Ms },
    Webhook { route: RouteName },
    Api,
}

impl Origin {
    /// One word for lists and policy rules.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Reminder { .. } => "reminder",
            Self::Webhook { .. } => "webhook",
            Self::Api => "api",
        }
    }
}

/// Whether somebody is there who can answer a prompt. Declared by the trigger, inherited by
/// children, never inferred from the presence of a channel.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Attendance {
    Unattended,
    /// This approver has a live session and is one more inbox for the run's requests.
    Session {
        approver: Subject,
    },
}

impl Attendance {
    /// What a child gets that asks for `wanted`: never more than its parent has.
    #[must_use]
    pub fn narrowed(&self, wanted: &Self) -> Self {
        match (self, wanted) {
            (Self::Session { approver: have }, Self::Session { approver }) if have == approver => {
                self.clone()
            }
            (Self::Session { .. } | Self::Unattended, Self::Session { .. } | Self::Unattended) => {
                Self::Unattended
            }
        }
    }
}

/// How long each part may take, in milliseconds. Defaults: `protocol` section «Watchdogs».
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Limits {
    /// From the first claim to the end, waiting included. At most [`CAP_MS_CEILING`].
    pub cap_ms: i64,
    /// One step, not counting the time it is parked.
    pub step_ms: i64,
    /// One wait for a decision. Zero or less: no deadline of its own, the cap alone bounds it.
    pub approval_ms: i64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { cap_ms: 2 * 3_600_000, step_ms: 600_000, approval_ms: 1_800_000 }
    }
}

/// The call that started a child.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Parent {
    pub run: RunId,
    pub call: u32,
    /// How many runs stand above this one: 1 for a child of a triggered run.
    pub depth: u8,
    /// The child ends before this, so that its parent can still act on the result.
    pub hard_cap: Ms,
}

/// W3C trace context: where in a trace this began. Both bounded, neither trusted for sampling.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Trace {
    /// 55 characters: `00-<trace>-<span>-<flags>`.
    pub traceparent: String,
}

impl Trace {
    /// Takes a `traceparent` header if it is one of version 00 (W3C Trace Context, section 3.2).
    #[must_use]
    pub fn of_header(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let hex = |part: Option<&str>, len: usize| {
            part.is_some_and(|p| {
                p.len() == len
                    && p.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
            })
        };
        let nonzero = |from: usize, to: usize| {
            text.as_bytes().get(from..to).is_some_and(|b| b.iter().any(|b| *b != b'0'))
        };
        let well_formed = parts.next() == Some("00")
            && hex(parts.next(), 32)
            && hex(parts.next(), 16)
            && hex(parts.next(), 2)
            && parts.next().is_none();
        (well_formed && nonzero(3, 35) && nonzero(36, 52))
            .then(|| Self { traceparent: text.to_owned() })
    }
}

/// One piece of work to be done once: the same key is the same job.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Job {
    pub key: JobKey,
    pub tenant: Tenant,
    pub agent: AgentName,
    pub input: Payload,
    /// SHA-256 of the canonical input: tells a repeat of this job from a misuse of its key.
    pub input_hash: Digest,
    pub origin: Origin,
    pub attendance: Attendance,
    pub limits: Limits,
    /// Not begun by then, it never begins.
    pub start_by: Ms,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
}

impl Job {
    /// How many runs stand above this one.
    #[must_use]
    pub fn depth(&self) -> u8 {
        self.parent.as_ref().map_or(0, |parent| parent.depth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_never_gets_more_attendance_than_its_parent() {
        let session =
            |name: &str| Attendance::Session { approver: Subject::new(name).expect("a subject") };
        let none = Attendance::Unattended;
        assert_eq!(session("a").narrowed(&session("a")), session("a"));
        assert_eq!(session("a").narrowed(&session("b")), none);
        assert_eq!(session("a").narrowed(&none), none);
        assert_eq!(none.narrowed(&session("a")), none);
    }

    #[test]
    fn only_a_well_formed_traceparent_is_taken() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert!(Trace::of_header(good).is_some());
        for bad in [
            "",
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
        ] {
            assert!(Trace::of_header(bad).is_none(), "{bad}");
        }
    }
}
