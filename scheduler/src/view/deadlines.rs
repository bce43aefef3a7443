//! What does time do to this run next, and when?

use portcullis_proto::approval::{Delivery, State};
use portcullis_proto::call::{Call, Progress};
use portcullis_proto::run::{Phase, Run};
use portcullis_proto::time::Ms;
use serde::Serialize;

/// One thing that time will do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Deadline {
    pub(crate) at: Ms,
    /// What happens then, as a word; `text` says it to people.
    pub(crate) what: &'static str,
    pub(crate) text: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) call: Option<u32>,
}

const fn of(at: Ms, what: &'static str, text: &'static str) -> Deadline {
    Deadline { at, what, text, call: None }
}

/// Every deadline that holds now, earliest first. The first one is the run's timer entry.
pub(crate) fn deadlines(run: &Run) -> Vec<Deadline> {
    let mut all = Vec::new();
    match &run.phase {
        Phase::Ended(ended) => {
            let told = ended
                .notify
                .iter()
                .map(|p| of(p.again_at, "notify_parent", "its parent is told again how it ended"));
            let cancelling = ended.cancelling.iter().map(|(call, pending)| Deadline {
                call: Some(*call),
                ..of(pending.again_at, "cancel_child", "its child is cancelled again")
            });
            all.extend(told.chain(cancelling));
            all.sort_by_key(|deadline| deadline.at);
            return all;
        }
        Phase::Queued { ring_at, .. } => {
            all.push(of(*ring_at, "ring", "workers are rung for again"));
            if run.begun.is_none() {
                let text = "it ends as failed, expired_in_queue, if no worker has begun it";
                all.push(of(run.job.start_by, "start_by", text));
            }
        }
        Phase::Running { lease_until, .. } => {
            let text = "its worker counts as lost unless it has renewed the lease";
            all.push(of(*lease_until, "lease", text));
        }
        Phase::Waiting => {}
        Phase::Backoff { until } => all.push(of(*until, "backoff", "it is queued again")),
    }
    all.extend(run.turn_calls().flat_map(of_call));
    all.push(of(run.hard_cap, "hard_cap", "it ends as timed_out, whatever it is doing"));
    all.sort_by_key(|deadline| deadline.at);
    all
}

fn of_call(call: &Call) -> Vec<Deadline> {
    let found = match &call.progress {
        Progress::Planned => match call.approval().map(|asked| (&asked.state, asked.deadline)) {
            Some((State::Requested(delivery), deadline)) => {
                let denied = of(deadline, "approval", "silence denies it: approval_timed_out");
                let again = match delivery {
                    Delivery::Unsent(pending) => {
                        Some(of(pending.again_at, "publish", "its request is published again"))
                    }
                    Delivery::Published | Delivery::InboxOnly => None,
                };
                std::iter::once(denied).chain(again).collect()
            }
            Some((State::Approved { use_by, .. }, _)) => {
                vec![of(*use_by, "use_by", "its approval grows stale: grant_stale")]
            }
            Some((State::Refused(_), _)) | None => Vec::new(),
        },
        Progress::Spawned { creating, check_at, .. } => {
            let again = creating.map(|p| of(p.again_at, "create_child", "its child is made again"));
            let check = of(*check_at, "check_child", "its child is looked at");
            std::iter::once(check).chain(again).collect()
        }
        Progress::Started { .. } | Progress::Finished { .. } => Vec::new(),
    };
    found.into_iter().map(|deadline| Deadline { call: Some(call.seq), ..deadline }).collect()
}
