//! When must somebody look at a run again? Worked out apart from the rules.

use super::super::proto::approval::{Delivery, State};
use super::super::proto::call::{Call, Progress};
use super::super::proto::run::{Phase, Run};

/// When something in the record has to happen next, in milliseconds; late for ever if nothing.
pub(super) fn first(run: &Run) -> i64 {
    let phase = match &run.phase {
        Phase::Queued { ring_at, .. } if run.begun.is_none() => ring_at.0.min(run.job.start_by.0),
        Phase::Queued { ring_at, .. } => ring_at.0,
        Phase::Running { lease_until, .. } => lease_until.0,
        Phase::Backoff { until } => until.0,
        Phase::Waiting => run.hard_cap.0,
        Phase::Ended(ended) => {
            let pending = ended.notify.iter().chain(ended.cancelling.iter().map(|(_, p)| p));
            return pending.map(|pending| pending.again_at.0).min().unwrap_or(i64::MAX);
        }
    };
    let calls = run.calls.iter().map(duty_of).min().unwrap_or(i64::MAX);
    phase.min(calls).min(run.hard_cap.0)
}

fn duty_of(call: &Call) -> i64 {
    match &call.progress {
        Progress::Planned => call.approval().map_or(i64::MAX, |approval| match &approval.state {
            State::Requested(delivery) => {
                let level = approval.levels.first().map_or(i64::MAX, |level| level.at.0);
                let again = match delivery {
                    Delivery::Unsent(pending) => pending.again_at.0,
                    Delivery::Published | Delivery::InboxOnly => i64::MAX,
                };
                approval.deadline.0.min(level).min(again)
            }
            State::Approved { use_by, .. } => use_by.0,
            State::Refused(_) => i64::MAX,
        }),
        Progress::Spawned { creating, check_at, .. } => {
            creating.map_or(check_at.0, |pending| pending.again_at.0.min(check_at.0))
        }
        Progress::Started { .. } | Progress::Finished { .. } => i64::MAX,
    }
}
