//! Why a reminder's rule is refused, in words its author can act on.

use super::{PERIOD_MS_MAX, PERIOD_MS_MIN, RULE_BYTES_MAX};

/// A rule that cannot be saved, or a question it cannot answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CalendarError {
    /// More text than any rule needs.
    #[error("the rule has {bytes} bytes, the limit is {RULE_BYTES_MAX}")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// Seconds, years and `@daily` are not supported.
    #[error(
        "cron `{pattern}` has {found} fields, it needs 5: \
         minute hour day-of-month month day-of-week"
    )]
    FieldCount {
        /// As written.
        pattern: String,
        /// How many fields it has.
        found: usize,
    },
    /// A word in a field that knows no such word.
    #[error("cron `{pattern}`: `{word}` means nothing in the {field} field")]
    Word {
        /// As written.
        pattern: String,
        /// The word.
        word: String,
        /// Name of the field.
        field: &'static str,
    },
    /// A field cannot be read.
    #[error("cron `{pattern}` is not valid: {why}")]
    Pattern {
        /// As written.
        pattern: String,
        /// What the parser says.
        why: String,
    },
    /// No day of the calendar matches, as with 30 February.
    #[error("cron `{pattern}` never occurs: no month has such a day")]
    NeverOccurs {
        /// As written.
        pattern: String,
    },
    /// Not an IANA time zone of this machine's database.
    #[error("unknown time zone `{name}`: use an IANA name such as Europe/Berlin or UTC")]
    UnknownZone {
        /// As written.
        name: String,
    },
    /// Not a duration.
    #[error("period `{text}` is not a duration such as 15m or 36h: {why}")]
    PeriodUnreadable {
        /// As written.
        text: String,
        /// What the parser says.
        why: String,
    },
    /// Below [`PERIOD_MS_MIN`], zero and negative included.
    #[error("a period of {period_ms} ms is too short, the least is {PERIOD_MS_MIN} ms")]
    PeriodTooShort {
        /// As written.
        period_ms: i64,
    },
    /// Above [`PERIOD_MS_MAX`].
    #[error("a period of {period_ms} ms is too long, the most is {PERIOD_MS_MAX} ms")]
    PeriodTooLong {
        /// As written.
        period_ms: i64,
    },
    /// Not an instant.
    #[error("`{text}` is not an instant such as 2026-03-01T09:00:00+01:00: {why}")]
    InstantUnreadable {
        /// As written.
        text: String,
        /// What the parser says.
        why: String,
    },
    /// A local time says nothing without a zone.
    #[error("`{text}` has no offset: add one, such as +01:00 or Z, or set a time zone")]
    InstantWithoutZone {
        /// As written.
        text: String,
    },
    /// The clock jumps over this time, or shows it twice.
    #[error("`{text}` {problem} in {timezone}, the clock changes then: write it with an offset")]
    LocalTimeUnclear {
        /// As written.
        text: String,
        /// The zone.
        timezone: String,
        /// «does not exist» or «happens twice».
        problem: &'static str,
    },
    /// Outside the years the calendar knows.
    #[error("instant {at_ms} ms is outside the calendar")]
    OutOfRange {
        /// Unix milliseconds.
        at_ms: i64,
    },
    /// The bound on clock changes looked at was reached. A real zone and pattern never get there.
    #[error("cron `{pattern}`: no occurrence found within {changes_max} changes of the clock")]
    SearchLimit {
        /// As written.
        pattern: String,
        /// The bound.
        changes_max: usize,
    },
}
