//! When does time next change something about this run? And in which lists does it stand?

use crate::approval::State;
use crate::call::{Call, Progress};
use crate::run::{Phase, Run};
use crate::time::Ms;

/// The run's one timer entry. `None` only for an ended run that has told everybody.
#[must_use]
pub fn next_deadline(run: &Run) -> Option<Ms> {
    let phase = match &run.phase {
        Phase::Ended(ended) => {
            let pending = ended.notify.iter().chain(ended.cancelling.iter().map(|(_, p)| p));
            return pending.map(|p| p.again_at).min();
        }
        Phase::Queued { ring_at, .. } if run.begun.is_none() => (*ring_at).min(run.job.start_by),
        Phase::Queued { ring_at, .. } => *ring_at,
        Phase::Running { lease_until, .. } => *lease_until,
        Phase::Waiting => run.hard_cap,
        Phase::Backoff { until } => *until,
    };
    let calls = run.turn_calls().filter_map(of_call).min();
    Some(calls.map_or(phase, |at| at.min(phase)).min(run.hard_cap))
}

fn of_call(call: &Call) -> Option<Ms> {
    match &call.progress {
        Progress::Planned => call.approval().and_then(|approval| approval.next_deadline()),
        Progress::Spawned { creating, check_at, .. } => {
            Some(creating.map_or(*check_at, |pending| pending.again_at.min(*check_at)))
        }
        Progress::Started { .. } | Progress::Finished { .. } => None,
    }
}

/// `(index, member, score)`: the run's phase by creation, and its open requests by deadline.
#[must_use]
pub fn index_entries(run: &Run) -> Vec<(String, String, Ms)> {
    let phase = (format!("run.{}", run.phase.name()), run.id.to_string(), run.created);
    let open = run.calls.iter().filter_map(|call| {
        let approval = call.approval()?;
        match (&call.progress, &approval.state) {
            (Progress::Planned, State::Requested(_)) => Some(approval),
            (Progress::Planned, State::Approved { .. } | State::Refused(_))
            | (
                Progress::Started { .. } | Progress::Spawned { .. } | Progress::Finished { .. },
                _,
            ) => None,
        }
    });
    let asked = open.flat_map(|approval| {
        let entry = |pool| (format!("ask.{pool}"), approval.id.to_string(), approval.deadline);
        approval.pools().map(entry)
    });
    std::iter::once(phase).chain(asked).collect()
}
