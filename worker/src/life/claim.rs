//! Takes a run into this worker's hands, or says why not.
//!
//! Invariant: the delivery that named the run may be settled as soon as the claim is answered: the
//! record and its timer carry on from there.

use std::sync::Arc;

use portcullis_engine::StepError;
use portcullis_engine::surroundings::Draw as _;
use portcullis_proto::ids::RunId;
use portcullis_proto::run::{Event, Parentage, Phase, Reject, effective};

use crate::life::session::{End, Session};
use crate::life::{Reached, Worker};

/// What became of one run that a wake named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    Claimed,
    /// Not to be worked on now; the run's own timer rings again if it should be.
    Rejected(Reject),
    /// The store could not be asked.
    StoreDown,
    /// The record cannot be read by this release.
    Unreadable,
}

impl Received {
    pub(super) fn of(session: &Session, reached: &Result<Reached, End>) -> Self {
        match reached {
            Ok(_) => Self::Claimed,
            Err(_) if session.is_claimed() => Self::Claimed,
            Err(end) => Self::of_end(end),
        }
    }

    fn of_end(end: &End) -> Self {
        match end {
            End::Lost(reject) => Self::Rejected(reject.clone()),
            End::Outage(_) => Self::StoreDown,
            End::Broken(_) => Self::Unreadable,
        }
    }
}

/// Reads the run, and prepares the claim without committing it yet.
pub(super) async fn begin(worker: &Arc<Worker>, id: &RunId) -> Result<Session, Received> {
    let broken = |why: StepError| match End::of(why) {
        End::Lost(reject) => Received::Rejected(reject),
        End::Outage(_) => Received::StoreDown,
        End::Broken(_) => Received::Unreadable,
    };
    let (held, now) = worker.engine.load(id).await.map_err(broken)?;
    let Some(held) = held else { return Err(Received::Rejected(Reject::Unknown)) };
    match &effective(held.run(), now).phase {
        Phase::Queued { .. } => {}
        Phase::Running { .. } => return Err(Received::Rejected(Reject::Busy)),
        Phase::Waiting | Phase::Backoff { .. } => return Err(Received::Rejected(Reject::Waiting)),
        Phase::Ended(_) => return Err(Received::Rejected(Reject::Terminal)),
    }
    let parentage = match &held.run().job.parent {
        None => Parentage::None,
        Some(parent) => {
            let (parent, now) = worker.engine.load(&parent.run).await.map_err(broken)?;
            match parent {
                Some(parent) if effective(parent.run(), now).is_live() => Parentage::Live,
                // A parent that is gone is as good as ended: nobody waits for this run.
                Some(_) | None => Parentage::Ended,
            }
        }
    };
    let claim = worker.engine.surroundings.claim_id();
    let mut session = Session::new(id.clone(), claim, held);
    match session.try_gather(Event::Claim { claim, parentage }) {
        Ok(()) => Ok(session),
        Err(reject) => Err(Received::Rejected(reject)),
    }
}
