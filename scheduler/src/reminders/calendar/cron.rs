//! At which instants does a cron pattern match the clocks of a time zone?
//!
//! croner answers on a calendar without a zone; the zone is walked here, one stretch of constant
//! offset after the other. Its own walk treats only single values as fixed times: it loses 02:00 of
//! `0 2,14` in the spring and runs `30 1,13` twice in the autumn.
//!
//! Authority: the pattern and the zone's changes.
//! Invariant: `next_after` is strictly increasing, and equal instants are one.

use croner::{
    Cron,
    errors::CronError,
    parser::{CronParser, Seconds, Year},
};
use jiff::{
    SignedDuration, Timestamp,
    civil::{DateTime, date},
    tz::TimeZone,
};
use portcullis_proto::quote::{quote, told};

use super::{
    CalendarError, DstPolicy, FoldPolicy, GapPolicy, check_length,
    stretch::{Change, Stretch},
    zone,
};

/// Changes of the clock looked at in one search. The rarest pattern, 29 February on one weekday,
/// skips 40 years; the busiest zone changes four times a year.
const CHANGES_MAX: usize = 400;

const MONTHS: &[&str] =
    &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: &[&str] = &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT", "L"];

/// The words each field may hold, in the order of the fields.
const FIELDS: [(&str, &[&str]); 5] = [
    ("minute", &[]),
    ("hour", &[]),
    ("day-of-month", &["L", "W", "LW"]),
    ("month", MONTHS),
    ("day-of-week", WEEKDAYS),
];

/// A cron pattern in a time zone.
///
/// Five fields: minute, hour, day of month, month, day of week. Names of months and weekdays,
/// lists, ranges and steps work; 0 and 7 are Sunday; if neither day field is `*`, either of them
/// matching is enough. Also `L` (last), `15W` (nearest weekday) and `5#2` (second Friday).
#[derive(Clone, Debug, PartialEq)]
pub struct CronRule {
    pattern: String,
    cron: Box<Cron>,
    zone: TimeZone,
    asked: DstPolicy,
    effective: DstPolicy,
}

impl CronRule {
    /// Parses and validates a pattern.
    ///
    /// # Errors
    /// See [`CalendarError`].
    pub fn parse(pattern: &str, timezone: &str, policy: DstPolicy) -> Result<Self, CalendarError> {
        check_length(pattern)?;
        let fields: Vec<&str> = pattern.split_whitespace().collect();
        let quoted = quote(pattern);
        let Ok([minute, hour, ..]) = <[&str; 5]>::try_from(fields.as_slice()) else {
            return Err(CalendarError::FieldCount { pattern: quoted, found: fields.len() });
        };
        check_words(&quoted, &fields)?;
        let parser =
            CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let cron = parser
            .parse(pattern)
            .map_err(|why| CalendarError::Pattern { pattern: quoted.clone(), why: told(&why) })?;
        // Any start does: the calendar repeats every 400 years and the search covers more.
        let some_day = date(2000, 1, 1).at(0, 0, 0, 0);
        if Matches::of(&cron, &quoted).at_or_after(some_day)?.is_none() {
            return Err(CalendarError::NeverOccurs { pattern: quoted });
        }
        let follows_the_wall = minute.starts_with('*') || hour.starts_with('*');
        let effective = if follows_the_wall {
            DstPolicy { gap: GapPolicy::Skip, fold: FoldPolicy::Both }
        } else {
            policy
        };
        let pattern = fields.join(" ");
        Ok(Self { pattern, cron: Box::new(cron), zone: zone(timezone)?, asked: policy, effective })
    }

    /// The pattern, its fields separated by single spaces.
    #[must_use]
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// The zone's IANA name.
    #[must_use]
    pub fn timezone(&self) -> &str {
        self.zone.iana_name().expect("only zones with a name pass `zone`")
    }

    /// The policy as it was asked for.
    #[must_use]
    pub fn policy(&self) -> DstPolicy {
        self.asked
    }

    /// See [`super::Rule::next_after`].
    pub(super) fn next_after(&self, after_ms: i64) -> Result<Option<i64>, CalendarError> {
        let out_of_range = |_| CalendarError::OutOfRange { at_ms: after_ms };
        let after = Timestamp::from_millisecond(after_ms).map_err(out_of_range)?;
        let mut matches = Matches::of(&self.cron, &self.pattern);
        let mut stretch = Stretch::around(&self.zone, after);
        let just_after = stretch.wall(after).checked_add(SignedDuration::from_nanos(1));
        let mut from = just_after.map_err(out_of_range)?;
        for _ in 0..CHANGES_MAX {
            if let Some(found) = self.first_in(&stretch, from, &mut matches)? {
                return Ok(Some(found.as_millisecond()));
            }
            let Some(next) = stretch.following(&self.zone) else {
                return Ok(None);
            };
            if let Some(change) = stretch.end
                && self.falls_into_gap(&stretch, change, &mut matches)?
            {
                return Ok(Some(change.at.as_millisecond()));
            }
            if let Some(change) = next.start {
                from = next.wall(change.at);
            }
            stretch = next;
        }
        let pattern = quote(&self.pattern);
        Err(CalendarError::SearchLimit { pattern, changes_max: CHANGES_MAX })
    }

    /// Returns the first match of a stretch, leaving out the pass of a fold that is not asked for.
    fn first_in(
        &self,
        stretch: &Stretch,
        from: DateTime,
        matches: &mut Matches<'_>,
    ) -> Result<Option<Timestamp>, CalendarError> {
        // A clock set back repeats the wall times up to what it showed before the change.
        let from = match (self.effective.fold, stretch.start) {
            (FoldPolicy::First, Some(change)) => from.max(change.beyond.to_datetime(change.at)),
            (FoldPolicy::Last | FoldPolicy::Both, _) | (_, None) => from,
        };
        let Some(wall) = matches.at_or_after(from)? else {
            return Ok(None);
        };
        if let Some(change) = stretch.end {
            let shown = stretch.wall(change.at);
            let wall_end = match self.effective.fold {
                FoldPolicy::Last => shown.min(change.beyond.to_datetime(change.at)),
                FoldPolicy::First | FoldPolicy::Both => shown,
            };
            if wall_end <= wall {
                return Ok(None);
            }
        }
        // A match beyond the last instant that can be told is no later fire.
        Ok(stretch.offset.to_timestamp(wall).ok())
    }

    /// Whether a time that the clock jumps over at `change` is to be made up for.
    fn falls_into_gap(
        &self,
        stretch: &Stretch,
        change: Change,
        matches: &mut Matches<'_>,
    ) -> Result<bool, CalendarError> {
        match self.effective.gap {
            GapPolicy::Skip => Ok(false),
            GapPolicy::RunAtEnd => {
                let (start, end) = (stretch.wall(change.at), change.beyond.to_datetime(change.at));
                if end <= start {
                    return Ok(false);
                }
                Ok(matches.at_or_after(start)?.is_some_and(|missed| missed < end))
            }
        }
    }
}

/// The matches of a pattern on a calendar without a zone.
///
/// The last answer is kept: a rare pattern asks for the same far match at every clock change.
struct Matches<'a> {
    cron: &'a Cron,
    pattern: &'a str,
    known: Option<(DateTime, Option<DateTime>)>,
}

impl<'a> Matches<'a> {
    fn of(cron: &'a Cron, pattern: &'a str) -> Self {
        Self { cron, pattern, known: None }
    }

    /// Returns the first match, `None` if there is none before the year 5000.
    fn at_or_after(&mut self, from: DateTime) -> Result<Option<DateTime>, CalendarError> {
        if let Some((asked, answer)) = self.known
            && asked <= from
            && answer.is_none_or(|answer| from <= answer)
        {
            return Ok(answer);
        }
        // croner drops fractions of a second: 10:00:00.5 must not count as 10:00:00 again.
        let inclusive = from.subsec_nanosecond() == 0;
        let answer = match self.cron.find_next_occurrence(&from, inclusive) {
            Ok(wall) => Some(wall),
            Err(CronError::TimeSearchLimitExceeded) => None,
            Err(
                why @ (CronError::EmptyPattern
                | CronError::InvalidDate
                | CronError::InvalidTime
                | CronError::InvalidPattern(_)
                | CronError::IllegalCharacters(_)
                | CronError::ComponentError(_)),
            ) => {
                let (pattern, why) = (quote(self.pattern), told(&why));
                return Err(CalendarError::Pattern { pattern, why });
            }
        };
        self.known = Some((from, answer));
        Ok(answer)
    }
}

/// Refuses words in the wrong field: croner would read `0 FRI * * *` as five o'clock.
fn check_words(pattern: &str, fields: &[&str]) -> Result<(), CalendarError> {
    for (text, (field, known)) in fields.iter().zip(FIELDS) {
        let words = text.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty());
        for word in words {
            if !known.contains(&word.to_ascii_uppercase().as_str()) {
                let (pattern, word) = (pattern.to_owned(), quote(word));
                return Err(CalendarError::Word { pattern, word, field });
            }
        }
    }
    Ok(())
}
