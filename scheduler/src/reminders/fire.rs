//! How does a due instant become a run, or a recorded reason why not?

use portcullis_engine::StepError;
use portcullis_engine::ports::{CommitError, StoreError};
use portcullis_proto::digest::Digest;
use portcullis_proto::ids::{JobKey, ReminderName, RunId};
use portcullis_proto::job::Origin;
use portcullis_proto::run::{Reject, effective};
use portcullis_proto::time::Ms;
use tracing::{Instrument as _, error, info, info_span, warn};

use super::keep::KeepError;
use super::state::{Event, Outcome};
use crate::Scheduler;
use crate::offer::{Offer, OfferError};
use crate::settings::{Overlap, Reminder};

impl Scheduler {
    /// Takes the due instants under a hold and decides them one by one, oldest first.
    pub(super) async fn fire_due(
        &self,
        name: &ReminderName,
        reminder: &Reminder,
    ) -> Result<(), KeepError> {
        let moved = self.move_reminder(name, reminder, &Event::Due).await?.change;
        let Some(hold_until) = moved.next.hold_until else { return Ok(()) };
        let mut last_run = moved.next.last_run;
        for instant in moved.fire {
            let span = info_span!("reminder", reminder = %name, instant = instant.0);
            let firing = self.fire(name, reminder, instant, last_run.as_ref());
            let outcome = firing.instrument(span).await?;
            self.meters.fired(&outcome);
            told(name, instant, &outcome);
            let event = Event::Fired { instant, hold_until, outcome };
            last_run = self.move_reminder(name, reminder, &event).await?.change.next.last_run;
        }
        Ok(())
    }

    pub(super) async fn fire(
        &self,
        name: &ReminderName,
        reminder: &Reminder,
        instant: Ms,
        last_run: Option<&RunId>,
    ) -> Result<Outcome, KeepError> {
        if let (Overlap::Skip, Some(run)) = (reminder.overlap, last_run) {
            let (held, now) = self.engine.load(run).await.map_err(start_failed)?;
            let live = held.is_some_and(|held| effective(held.run(), now).is_live());
            // The run of this very instant: its outcome was not stored before a crash.
            let own = *run == self.engine.run_id(&JobKey::reminder(name, instant));
            if live && !own {
                return Ok(Outcome::Skipped { live: run.clone() });
            }
        }
        let input_hash = match Digest::of_json(&reminder.input) {
            Ok(hash) => hash,
            Err(_) => return Ok(Outcome::Failed { code: "input_not_canonical".to_owned() }),
        };
        let offer = Offer {
            key: JobKey::reminder(name, instant),
            tenant: reminder.tenant.clone(),
            agent: reminder.agent.clone(),
            input: reminder.input.clone(),
            input_hash,
            origin: Origin::Reminder { name: name.clone(), instant },
            attendance: reminder.attendance.clone(),
            start_by_ms: None,
            trace: None,
        };
        let run = self.engine.run_id(&offer.key);
        match self.offer(offer).await {
            Ok(accepted) => Ok(Outcome::Started { run: accepted.id }),
            // A scheduler with another configuration fired this instant before.
            Err(OfferError::Step(StepError::Rejected { reject: Reject::KeyReused, .. })) => {
                Ok(Outcome::Started { run })
            }
            Err(OfferError::UnknownAgent(_)) => {
                Ok(Outcome::Failed { code: "unknown_agent".to_owned() })
            }
            // Trying again would find the same.
            Err(OfferError::Step(
                StepError::Commit(CommitError::TooLarge { .. })
                | StepError::Store(StoreError::TooLarge { .. }),
            )) => Ok(Outcome::Failed { code: "input_too_large".to_owned() }),
            Err(why @ OfferError::Step(_)) => Err(KeepError::Start(why.to_string())),
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is mapped over a result")]
fn start_failed(why: StepError) -> KeepError {
    KeepError::Start(why.to_string())
}

fn told(name: &ReminderName, instant: Ms, outcome: &Outcome) {
    let instant = instant.0;
    match outcome {
        Outcome::Started { run } => info!(reminder = %name, instant, run.id = %run, "fired"),
        Outcome::Skipped { live } => warn!(reminder = %name, instant, run.id = %live, "skipped"),
        Outcome::Missed => warn!(reminder = %name, instant, "missed"),
        Outcome::Failed { code } => error!(reminder = %name, instant, code, "W032 not startable"),
    }
}
