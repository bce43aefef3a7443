//! When do reminders fire, and what happens to the fires that were missed?
//!
//! Authority: one record per reminder in the store, with its own timer entry; the store's clock.
//! Invariant: any number of schedulers fire the same reminders; each instant becomes at most one
//! run, because its job key is the instant. There is no leader.
//! If we crash here: see `state`; the instant is still pending and comes again under its key.

pub mod calendar;
mod fire;
mod keep;
pub mod state;

use async_trait::async_trait;
use portcullis_engine::ports::{RecordKey, StoreError};
use portcullis_engine::sweep::OnDue;
use portcullis_proto::digest::Digest;
use portcullis_proto::ids::ReminderName;
use tracing::{error, info, warn};

use self::calendar::Rule;
use self::keep::KeepError;
use self::state::{Event, Reject, Schedule, Terms};
use crate::Scheduler;
use crate::settings::Reminder;

/// The list of reminders that the store holds, by their next fire.
pub(crate) const INDEX: &str = "reminder";
/// How many reminders a store may hold.
const REMINDERS_MAX: usize = 10_000;

/// Tells two rules apart, whatever they are written like.
#[must_use]
pub fn rule_digest(rule: &Rule) -> Digest {
    match rule {
        Rule::Cron(cron) => {
            let policy = serde_json::to_vec(&cron.policy()).expect("two words are always JSON");
            let (pattern, zone) = (cron.pattern().as_bytes(), cron.timezone().as_bytes());
            Digest::of_fields(&[b"cron", pattern, zone, &policy])
        }
        Rule::Every(every) => {
            let (period, anchor) = (every.period_ms().to_be_bytes(), every.anchor_ms());
            Digest::of_fields(&[b"every", &period, &anchor.to_be_bytes()])
        }
        Rule::At(at) => Digest::of_fields(&[b"at", &at.instant_ms().to_be_bytes()]),
    }
}

impl Reminder {
    fn terms(&self) -> Terms<'_> {
        Terms { rule: &self.rule, digest: rule_digest(&self.rule), catch_up: self.catch_up }
    }
}

impl Scheduler {
    /// Arms the configured reminders, and disarms those that are configured no more. One that
    /// cannot be armed is logged and does not keep the others from it.
    ///
    /// # Errors
    /// When the store cannot be read: nobody knows then which reminders there are.
    pub async fn sync_reminders(&self) -> Result<(), StoreError> {
        for name in self.stored_reminders().await? {
            if !self.settings.reminders.contains_key(&name) {
                match self.retire_reminder(&name).await {
                    Ok(()) => info!(reminder = %name, "reminder disarmed: no longer configured"),
                    Err(why) => warn!(reminder = %name, %why, "reminder not disarmed"),
                }
            }
        }
        for (name, reminder) in &self.settings.reminders {
            match self.move_reminder(name, reminder, &Event::Synced).await {
                Ok(moved) => {
                    let next_ms = moved.change.next.next_fire.map(|at| at.0);
                    info!(reminder = %name, next_ms, "reminder armed");
                }
                Err(KeepError::Rejected(Reject::NothingDue)) => {}
                Err(KeepError::Store(why)) => return Err(why),
                Err(why) => error!(reminder = %name, %why, "W031 reminder not armed"),
            }
        }
        Ok(())
    }

    /// The names of all reminders in the store.
    async fn stored_reminders(&self) -> Result<Vec<ReminderName>, StoreError> {
        let entries = self.list_all(INDEX, REMINDERS_MAX).await?;
        Ok(entries.iter().filter_map(|e| ReminderName::new(e.member.as_str()).ok()).collect())
    }

    /// A reminder as it is stored.
    pub(crate) async fn reminder_state(
        &self,
        name: &ReminderName,
    ) -> Result<Option<Schedule>, StoreError> {
        let kept = self.load_reminder(name).await?;
        Ok(kept.schedule)
    }

    /// Works off a due reminder. `false`: to be tried again.
    async fn reminder_due(&self, name: &ReminderName) -> bool {
        let Some(reminder) = self.settings.reminders.get(name) else {
            // Another scheduler was configured with it, or this one does not know it any more.
            warn!(reminder = %name, "a reminder is due that is not configured here");
            return false;
        };
        match self.fire_due(name, reminder).await {
            Ok(()) => true,
            Err(KeepError::Rejected(
                Reject::NothingDue | Reject::Held { .. } | Reject::LostHold,
            )) => true,
            Err(why) => {
                warn!(reminder = %name, %why, "reminder not fired, its instants stay pending");
                false
            }
        }
    }
}

#[async_trait]
impl OnDue for Scheduler {
    async fn due(&self, key: &RecordKey) -> bool {
        match key {
            RecordKey::Reminder { name, .. } => self.reminder_due(name).await,
            RecordKey::Run(_) => true,
        }
    }
}

#[cfg(test)]
mod tests;
