//! When does a reminder fire next?
//!
//! Authority: the rule the user wrote and the time zone database; «now» is the store's, passed in.
//! Invariant: a pure function of rule and instant. Answers are strictly later than the question and
//! each instant is answered once, daylight saving time or not. No clock is read here; parsing looks
//! the zone up, so a rule keeps the zone's rules as they were when it was parsed: parse it again
//! when the time zone database changes.
//! If we crash here: nothing is lost, the next fire is computed again from the stored rule.

mod cron;
mod error;
mod stretch;

use jiff::{Timestamp, civil, tz::TimeZone};
use portcullis_proto::quote::{quote, told};
use serde::{Deserialize, Serialize};

pub use cron::CronRule;
pub use error::CalendarError;

/// Shortest period of an interval, in milliseconds.
pub const PERIOD_MS_MIN: i64 = 1_000;
/// Longest period of an interval, in milliseconds: ten years of 366 days.
pub const PERIOD_MS_MAX: i64 = 10 * 366 * 24 * 3_600 * 1_000;
/// Longest text a rule is parsed from, in bytes.
pub const RULE_BYTES_MAX: usize = 256;

/// What to do with a time of day that the clock jumps over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GapPolicy {
    /// Fire once, at the first instant after the jump.
    #[default]
    RunAtEnd,
    /// Do not fire that day.
    Skip,
}

/// What to do with a time of day that happens twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FoldPolicy {
    /// Fire on the first pass only.
    #[default]
    First,
    /// Fire on the second pass only.
    Last,
    /// Fire on both passes.
    Both,
}

/// How a cron rule with a fixed time of day meets daylight saving time.
///
/// It holds for patterns whose minute and hour fields both do not start with `*`. The others follow
/// the clock on the wall, as in every cron since Vixie's: silent in the gap, on both passes of the
/// fold, always in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DstPolicy {
    /// For times of day the clock jumps over.
    #[serde(default)]
    pub gap: GapPolicy,
    /// For times of day that happen twice.
    #[serde(default)]
    pub fold: FoldPolicy,
}

/// A validated rule: when a reminder fires.
#[derive(Clone, Debug, PartialEq)]
pub enum Rule {
    /// By the calendar of a time zone.
    Cron(CronRule),
    /// Every so many milliseconds from a stored anchor.
    Every(Every),
    /// Once.
    At(At),
}

/// An interval: the instants `anchor + n × period`, n = 0, 1, 2…
///
/// The anchor is stored with the reminder, so a restart does not move the instants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Every {
    period_ms: i64,
    anchor_ms: i64,
}

/// A single instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    instant_ms: i64,
}

impl Rule {
    /// Parses five cron fields and an IANA time zone name.
    ///
    /// # Errors
    /// Says which part is wrong: the field count, a field, the zone, or that no day of the calendar
    /// matches.
    pub fn parse_cron(
        pattern: &str,
        timezone: &str,
        policy: DstPolicy,
    ) -> Result<Self, CalendarError> {
        CronRule::parse(pattern, timezone, policy).map(Self::Cron)
    }

    /// Builds an interval of `period_ms` (from [`PERIOD_MS_MIN`] to [`PERIOD_MS_MAX`]).
    ///
    /// # Errors
    /// The period is out of bounds.
    pub fn every(period_ms: i64, anchor_ms: i64) -> Result<Self, CalendarError> {
        if period_ms < PERIOD_MS_MIN {
            return Err(CalendarError::PeriodTooShort { period_ms });
        }
        if PERIOD_MS_MAX < period_ms {
            return Err(CalendarError::PeriodTooLong { period_ms });
        }
        Ok(Self::Every(Every { period_ms, anchor_ms }))
    }

    /// Parses a period such as `15m`, `1h 30m` or `PT36H`.
    ///
    /// Days and longer are refused: with daylight saving time a day is no fixed number of hours.
    ///
    /// # Errors
    /// The text is no such duration, or the period is out of bounds.
    pub fn parse_every(period: &str, anchor_ms: i64) -> Result<Self, CalendarError> {
        check_length(period)?;
        let parsed: jiff::SignedDuration = period.trim().parse().map_err(|why: jiff::Error| {
            CalendarError::PeriodUnreadable { text: quote(period), why: told(&why) }
        })?;
        match i64::try_from(parsed.as_millis()) {
            Ok(period_ms) => Self::every(period_ms, anchor_ms),
            Err(_) => Err(CalendarError::PeriodTooLong { period_ms: i64::MAX }),
        }
    }

    /// Builds a one-shot.
    #[must_use]
    pub fn at(instant_ms: i64) -> Self {
        Self::At(At { instant_ms })
    }

    /// Parses an RFC 3339 instant (`2026-03-01T09:00:00+01:00`), or a local time
    /// (`2026-03-01T09:00`) of `timezone`.
    ///
    /// # Errors
    /// Unreadable; a local time without a zone; a local time that the zone skips or repeats, for
    /// which of the two is meant is not ours to guess.
    pub fn parse_at(text: &str, timezone: Option<&str>) -> Result<Self, CalendarError> {
        check_length(text)?;
        let text = text.trim();
        if let Ok(instant) = text.parse::<Timestamp>() {
            return Ok(Self::at(instant.as_millisecond()));
        }
        let local: civil::DateTime = text.parse().map_err(|why: jiff::Error| {
            CalendarError::InstantUnreadable { text: quote(text), why: told(&why) }
        })?;
        let Some(name) = timezone else {
            return Err(CalendarError::InstantWithoutZone { text: quote(text) });
        };
        let ambiguous = zone(name)?.to_ambiguous_timestamp(local);
        let problem = match ambiguous.offset() {
            jiff::tz::AmbiguousOffset::Unambiguous { .. } => None,
            jiff::tz::AmbiguousOffset::Gap { .. } => Some("does not exist"),
            jiff::tz::AmbiguousOffset::Fold { .. } => Some("happens twice"),
        };
        if let Some(problem) = problem {
            let (text, timezone) = (quote(text), quote(name));
            return Err(CalendarError::LocalTimeUnclear { text, timezone, problem });
        }
        match ambiguous.unambiguous() {
            Ok(instant) => Ok(Self::at(instant.as_millisecond())),
            Err(_) => Err(CalendarError::InstantUnreadable {
                text: quote(text),
                why: "the year is out of range".to_owned(),
            }),
        }
    }

    /// Returns the first instant strictly after `after_ms`, or `None` if there is none left.
    ///
    /// # Errors
    /// `after_ms` is outside the calendar's years, or a cron search hit its bound.
    pub fn next_after(&self, after_ms: i64) -> Result<Option<i64>, CalendarError> {
        match self {
            Self::Cron(cron) => cron.next_after(after_ms),
            Self::Every(every) => Ok(every.next_after(after_ms)),
            Self::At(at) => Ok((after_ms < at.instant_ms).then_some(at.instant_ms)),
        }
    }
}

impl Every {
    /// The time between two instants, in milliseconds.
    #[must_use]
    pub fn period_ms(&self) -> i64 {
        self.period_ms
    }

    /// The instant everything is counted from, unix milliseconds.
    #[must_use]
    pub fn anchor_ms(&self) -> i64 {
        self.anchor_ms
    }

    fn next_after(&self, after_ms: i64) -> Option<i64> {
        if after_ms < self.anchor_ms {
            return Some(self.anchor_ms);
        }
        let elapsed_ms = after_ms.checked_sub(self.anchor_ms)?;
        let periods = elapsed_ms / self.period_ms + 1;
        periods.checked_mul(self.period_ms)?.checked_add(self.anchor_ms)
    }
}

impl At {
    /// The instant, unix milliseconds.
    #[must_use]
    pub fn instant_ms(&self) -> i64 {
        self.instant_ms
    }
}

/// Looks an IANA zone up.
fn zone(name: &str) -> Result<TimeZone, CalendarError> {
    let unknown = || CalendarError::UnknownZone { name: quote(name) };
    // Files that mean one zone on this machine and another one on the next.
    let local = ["localtime", "posixrules", "factory"];
    if local.contains(&name.to_ascii_lowercase().as_str()) {
        return Err(unknown());
    }
    let zone = TimeZone::get(name).map_err(|_| unknown())?;
    // `Etc/Unknown` is found, but is no place.
    if zone.iana_name().is_none() {
        return Err(unknown());
    }
    Ok(zone)
}

fn check_length(text: &str) -> Result<(), CalendarError> {
    if RULE_BYTES_MAX < text.len() {
        return Err(CalendarError::TooLong { bytes: text.len() });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
