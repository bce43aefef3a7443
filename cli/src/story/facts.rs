//! One committed fact, as a sentence.

use portcullis_proto::call::Status;
use portcullis_proto::decision::{Channel, Verdict};
use portcullis_proto::ids::ApprovalId;
use portcullis_proto::journal::{Entry, Fact};
use portcullis_proto::time::Ms;

use super::why_denied;
use crate::api::RunView;
use crate::words::{instant, length};

/// What an entry says; nothing where the opening or the end says it already.
pub(crate) fn sentence(run: &RunView, entry: &Entry) -> Option<String> {
    Some(match &entry.fact {
        Fact::Accepted { .. } => return None,
        Fact::Claimed { attempt: 1 } => "A worker took it.".to_owned(),
        Fact::Claimed { attempt } => {
            format!("A worker took it, for the {} time in this place.", ordinal(*attempt))
        }
        Fact::Planned { turn, calls: 1 } => format!("Step {turn}: one call was planned."),
        Fact::Planned { turn, calls } => format!("Step {turn}: {calls} calls were planned."),
        Fact::Asked { approval, tool, pool, deadline } => format!(
            "Call {}, `{tool}`, needs a yes from pool `{pool}`; silence denies it at {}.",
            approval.call(),
            instant(*deadline)
        ),
        Fact::Published { .. } => "The request is on a queue of its approvers.".to_owned(),
        Fact::Unroutable { .. } => "No queue of its approvers takes the request.".to_owned(),
        Fact::Extended { approval, by, deadline } => format!(
            "`{by}` gave call {} more time: silence denies it at {}.",
            approval.call(),
            instant(*deadline)
        ),
        Fact::Escalated { approval, pool } => {
            format!("Pool `{pool}` is asked about call {} as well.", approval.call())
        }
        Fact::Edited { becomes, by, .. } => {
            format!("`{by}` allows call {} with other arguments.", becomes.call())
        }
        Fact::Voted { approval, by, verdict, channel } => format!(
            "`{by}` {} call {}, by {}.",
            match verdict {
                Verdict::Approve => "approved",
                Verdict::Deny => "denied",
            },
            approval.call(),
            through(*channel)
        ),
        Fact::Approved { approval, use_by } => format!(
            "Call {}{} may start, until {}.",
            approval.call(),
            waited(run, approval, entry.at),
            instant(*use_by)
        ),
        Fact::Denied { call, tool, denial } => {
            format!("Call {call}, `{tool}`, was denied: {}.", why_denied(denial))
        }
        Fact::Started { call, tool } => format!("Call {call}, `{tool}`, started."),
        Fact::Spawned { call, child } => format!("Call {call} started run {child}."),
        Fact::Finished { call, tool, status } => {
            format!("Call {call}, `{tool}`, {}.", ended_as(*status))
        }
        Fact::Retried { call, tries } => {
            format!(
                "Call {call} is tried again, for the {} time.",
                ordinal(tries.saturating_add(1))
            )
        }
        Fact::Parked { waits: 1 } => "It parked on one wait and holds no worker.".to_owned(),
        Fact::Parked { waits } => format!("It parked on {waits} waits and holds no worker."),
        Fact::Roused => "A wait is over: workers were rung for.".to_owned(),
        Fact::Released { why } => format!("Its worker let go of it: {why}."),
        Fact::Lapsed => "Its worker did not renew the lease and counts as lost.".to_owned(),
        Fact::CancelAsked { by } => format!("{by} asked to cancel it."),
        Fact::Ended { .. } => return None,
    })
}

/// How long its approvers took.
fn waited(run: &RunView, approval: &ApprovalId, at: Ms) -> String {
    let asked = run.history.iter().find(
        |entry| matches!(&entry.fact, Fact::Asked { approval: asked, .. } if asked == approval),
    );
    let took = asked.map(|asked| length(at.since(asked.at)));
    took.map(|took| format!(" was approved after {took} and")).unwrap_or_default()
}

const fn through(channel: Channel) -> &'static str {
    match channel {
        Channel::Amqp => "RabbitMQ",
        Channel::Http => "HTTP",
        Channel::Cli => "the command line",
        Channel::Console => "the console",
    }
}

const fn ended_as(status: Status) -> &'static str {
    match status {
        Status::Succeeded => "succeeded",
        Status::Failed => "failed",
        Status::NotRun => "was not run",
        Status::Unknown => "was begun, and nobody knows how it ended",
        Status::CompletedWithDenials => "ended, and something it wanted was denied",
    }
}

fn ordinal(number: u8) -> String {
    match number {
        1 => "first".to_owned(),
        2 => "second".to_owned(),
        3 => "third".to_owned(),
        more => format!("{more}th"),
    }
}
