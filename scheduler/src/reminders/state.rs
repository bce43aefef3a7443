//! What does a reminder owe, and what has become of its fires?
//!
//! Authority: the reminder's record in the store; this is the pure part that moves it.
//! States: armed (a next fire) ──due──▶ firing (instants pending, held for ten seconds)
//! ──fired──▶ armed. Without a next fire and without pending instants it is spent.
//! Invariant: the next fire is stored before any pending instant is decided; a pending instant
//! stays until its outcome is stored; an instant never becomes pending twice. No IO, no clock.
//! If we crash after `Due`: the instants are still pending, and whoever comes after the hold ends
//! fires them under the same job keys.

use portcullis_proto::digest::Digest;
use portcullis_proto::ids::RunId;
use portcullis_proto::quote::told;
use portcullis_proto::time::Ms;
use serde::{Deserialize, Serialize};

use super::calendar::{CalendarError, Rule};
use crate::settings::CatchUp;

/// How many instants may be pending at once.
pub const PENDING_MAX: usize = 10;
/// How long one process keeps the others off the pending instants, in milliseconds.
pub const HOLD_MS: i64 = 10_000;
/// With [`CatchUp::None`], an instant this late still counts as on time, in milliseconds.
pub const ON_TIME_MS: i64 = 60_000;
/// With [`CatchUp::One`], an instant later than this is no longer worth firing, in milliseconds.
pub const CATCH_UP_MS_MAX: i64 = 3_600_000;
/// The version that is written.
const VERSION: u32 = 1;

/// What became of one instant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Outcome {
    Started {
        run: RunId,
    },
    /// The run of an earlier instant was still live.
    Skipped {
        live: RunId,
    },
    /// It passed while nothing could fire, and the catch-up rule let it go.
    Missed,
    /// It could not become a run, and trying again would not help.
    Failed {
        code: String,
    },
}

/// One instant and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fire {
    pub instant: Ms,
    pub at: Ms,
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// A reminder as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    v: u32,
    /// Of the rule that `next_fire` was computed from.
    pub rule: Digest,
    /// `None`: the rule has no later instant, or the reminder was removed.
    pub next_fire: Option<Ms>,
    /// Oldest first.
    pub pending: Vec<Ms>,
    /// Who decides the pending instants: whoever was told this very hold.
    pub hold_until: Option<Ms>,
    pub last: Option<Fire>,
    /// The run of the newest instant that became one.
    pub last_run: Option<RunId>,
    pub fired: u64,
    pub skipped: u64,
    /// Instants known to have been missed; a long absence counts as at most [`PENDING_MAX`].
    pub missed: u64,
    pub failed: u64,
}

/// What the configuration says about the reminder.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    pub rule: &'a Rule,
    pub digest: Digest,
    pub catch_up: CatchUp,
}

/// Something that happened to a reminder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A scheduler started and offers its rule.
    Synced,
    /// The timer rang.
    Due,
    /// A pending instant was decided under a hold.
    Fired { instant: Ms, hold_until: Ms, outcome: Outcome },
}

/// The next state, and what to do once it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub next: Schedule,
    /// Instants that the caller now holds, oldest first.
    pub fire: Vec<Ms>,
}

/// Why an event changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reject {
    #[error("nothing is due")]
    NothingDue,
    #[error("another process decides these instants until {until}")]
    Held { until: Ms },
    #[error("the hold has passed to another process")]
    LostHold,
    #[error("the reminder is not in the store")]
    Unknown,
    #[error("the store holds this reminder under another rule: another process was configured so")]
    OtherRule,
    #[error(transparent)]
    Calendar(#[from] CalendarError),
}

/// Takes one step.
///
/// # Errors
/// The reason why nothing changes.
pub fn apply(
    before: Option<&Schedule>,
    event: &Event,
    terms: Terms<'_>,
    now: Ms,
) -> Result<Change, Reject> {
    match (before, event) {
        (None, Event::Synced) => {
            let next = Schedule::new(terms.digest, next_after(terms.rule, now)?);
            Ok(Change { next, fire: Vec::new() })
        }
        (None, Event::Due | Event::Fired { .. }) => Err(Reject::Unknown),
        (Some(schedule), Event::Synced) => synced(schedule, terms, now),
        (Some(schedule), Event::Due | Event::Fired { .. }) if schedule.rule != terms.digest => {
            Err(Reject::OtherRule)
        }
        (Some(schedule), Event::Due) => due(schedule, terms, now),
        (Some(schedule), Event::Fired { instant, hold_until, outcome }) => {
            fired(schedule, *instant, *hold_until, outcome, now)
        }
    }
}

impl Schedule {
    fn new(rule: Digest, next_fire: Option<Ms>) -> Self {
        Self {
            v: VERSION,
            rule,
            next_fire,
            pending: Vec::new(),
            hold_until: None,
            last: None,
            last_run: None,
            fired: 0,
            skipped: 0,
            missed: 0,
            failed: 0,
        }
    }

    /// Reads any version ever written.
    ///
    /// # Errors
    /// When the bytes are no reminder, or one of a newer release.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        let schedule: Self = serde_json::from_slice(bytes).map_err(|why| told(&why))?;
        if schedule.v == VERSION {
            Ok(schedule)
        } else {
            Err(format!("reminders of version {} are not known to this release", schedule.v))
        }
    }

    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings and numbers are always JSON")
    }

    /// When time next changes something here. `None`: it is spent.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Ms> {
        if self.pending.is_empty() { self.next_fire } else { self.hold_until }
    }

    /// The state of a reminder that is no longer configured: it fires no more.
    #[must_use]
    pub fn removed(&self) -> Self {
        let (next_fire, pending, hold_until) = (None, Vec::new(), None);
        // No rule has this digest, so the reminder is armed anew should it come back.
        let rule = Digest::of_bytes(b"removed");
        Self { rule, next_fire, pending, hold_until, ..self.clone() }
    }

    fn note(&mut self, instant: Ms, at: Ms, outcome: Outcome) {
        match &outcome {
            Outcome::Started { run } => {
                self.fired += 1;
                self.last_run = Some(run.clone());
            }
            Outcome::Skipped { .. } => self.skipped += 1,
            Outcome::Missed => self.missed += 1,
            Outcome::Failed { .. } => self.failed += 1,
        }
        self.last = Some(Fire { instant, at, outcome });
    }
}

fn synced(schedule: &Schedule, terms: Terms<'_>, now: Ms) -> Result<Change, Reject> {
    let mut next = schedule.clone();
    let overdue = schedule.next_fire.filter(|at| *at <= now);
    match (schedule.rule == terms.digest, overdue) {
        // An overdue fire is for `Due` to decide, and a spent reminder stays spent.
        (true, Some(_)) => {}
        (true, None) if schedule.next_fire.is_none() => {}
        // Also under the same rule: the zone's own rules may have changed since.
        (true, None) => next.next_fire = next_after(terms.rule, now)?,
        (false, overdue) => {
            if let Some(instant) = overdue {
                next.note(instant, now, Outcome::Missed);
            }
            next.rule = terms.digest;
            next.next_fire = next_after(terms.rule, now)?;
        }
    }
    if next == *schedule {
        return Err(Reject::NothingDue);
    }
    Ok(Change { next, fire: Vec::new() })
}

fn due(schedule: &Schedule, terms: Terms<'_>, now: Ms) -> Result<Change, Reject> {
    if let Some(until) = schedule.hold_until.filter(|until| now < *until) {
        return Err(Reject::Held { until });
    }
    let mut next = schedule.clone();
    if let Some(first) = schedule.next_fire.filter(|at| *at <= now) {
        let passed = latest(terms.rule, first, now)?;
        let mut worth = passed.as_slice();
        if let [.., newest] = worth {
            let late = now.since(*newest);
            let keep = match terms.catch_up {
                CatchUp::None => usize::from(late <= ON_TIME_MS),
                CatchUp::One => usize::from(late <= CATCH_UP_MS_MAX),
                CatchUp::All => PENDING_MAX,
            };
            worth = &worth[worth.len().saturating_sub(keep)..];
        }
        for instant in &passed[..passed.len() - worth.len()] {
            next.note(*instant, now, Outcome::Missed);
        }
        next.pending.extend_from_slice(worth);
        next.next_fire = next_after(terms.rule, now)?;
    }
    let surplus = next.pending.len().saturating_sub(PENDING_MAX);
    let dropped: Vec<Ms> = next.pending.drain(..surplus).collect();
    for instant in dropped {
        next.note(instant, now, Outcome::Missed);
    }
    next.hold_until = (!next.pending.is_empty()).then(|| now.plus(HOLD_MS));
    if next == *schedule {
        return Err(Reject::NothingDue);
    }
    let fire = next.pending.clone();
    Ok(Change { next, fire })
}

fn fired(
    schedule: &Schedule,
    instant: Ms,
    hold_until: Ms,
    outcome: &Outcome,
    now: Ms,
) -> Result<Change, Reject> {
    // Without the hold two processes could store «skipped» and «started» for one instant.
    if schedule.hold_until != Some(hold_until) || !schedule.pending.contains(&instant) {
        return Err(Reject::LostHold);
    }
    let mut next = schedule.clone();
    next.pending.retain(|pending| *pending != instant);
    if next.pending.is_empty() {
        next.hold_until = None;
    }
    next.note(instant, now, outcome.clone());
    Ok(Change { next, fire: Vec::new() })
}

fn next_after(rule: &Rule, after: Ms) -> Result<Option<Ms>, CalendarError> {
    Ok(rule.next_after(after.0)?.map(Ms))
}

/// The newest instants of the rule within `first..=now`, at most [`PENDING_MAX`], oldest first.
///
/// A reminder may have slept through millions of instants, so they are not counted off: whether
/// `next_after(t) <= now` only ever turns from yes to no as `t` grows, and the last yes is one
/// millisecond before the newest instant.
fn latest(rule: &Rule, first: Ms, now: Ms) -> Result<Vec<Ms>, CalendarError> {
    let mut found = Vec::new();
    let mut end = now;
    while found.len() < PENDING_MAX {
        let within =
            |t: i64| Ok::<_, CalendarError>(rule.next_after(t)?.is_some_and(|n| n <= end.0));
        let (mut yes, mut no) = (first.minus(1).0, end.0);
        // Only the first round can fail here, when the zone's rules moved the instant away.
        if !within(yes)? {
            break;
        }
        while 1 < no - yes {
            let middle = yes + (no - yes) / 2;
            if within(middle)? { yes = middle } else { no = middle }
        }
        let newest = Ms(yes + 1);
        found.push(newest);
        if newest <= first {
            break;
        }
        end = newest.minus(1);
    }
    found.reverse();
    Ok(found)
}

#[cfg(test)]
mod tests;
