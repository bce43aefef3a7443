//! Between which two changes of the clock does an instant lie?
//!
//! Authority: the time zone database.
//! Invariant: inside a stretch the offset is one number, so wall clock and instant are a
//! subtraction apart and both run forward. Everything odd about daylight saving time happens at its
//! two ends.

use jiff::{
    Timestamp,
    civil::DateTime,
    tz::{Offset, TimeZone, TimeZoneTransition},
};

/// A span of time with one offset: `start <= instant < end`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    /// The change it begins with, and the offset that held before it.
    pub(super) start: Option<Change>,
    pub(super) offset: Offset,
    /// The change it ends with, and the offset that holds from then on.
    pub(super) end: Option<Change>,
}

/// A change of the clock, seen from inside a stretch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) at: Timestamp,
    /// The offset on the other side.
    pub(super) beyond: Offset,
}

impl Stretch {
    /// Returns the stretch that `instant` lies in.
    pub(super) fn around(zone: &TimeZone, instant: Timestamp) -> Self {
        let offset = zone.to_offset(instant);
        // «Preceding» is exclusive and a stretch includes its start. Beyond the last representable
        // instant there is no change to find.
        let just_after = instant.checked_add(jiff::SignedDuration::from_nanos(1));
        let latest = just_after.ok().and_then(|after| zone.preceding(after).next());
        let start = latest.map(|change| Change {
            at: change.timestamp(),
            beyond: offset_before(zone, change.timestamp()),
        });
        Self { start, offset, end: zone.following(instant).next().map(Change::from) }
    }

    /// Returns the stretch after this one, if the zone ever changes again.
    pub(super) fn following(&self, zone: &TimeZone) -> Option<Self> {
        let end = self.end?;
        Some(Self {
            start: Some(Change { at: end.at, beyond: self.offset }),
            offset: end.beyond,
            end: zone.following(end.at).next().map(Change::from),
        })
    }

    /// What the clock on the wall shows at `instant` by this stretch's offset.
    pub(super) fn wall(&self, instant: Timestamp) -> DateTime {
        self.offset.to_datetime(instant)
    }
}

impl From<TimeZoneTransition<'_>> for Change {
    fn from(change: TimeZoneTransition<'_>) -> Self {
        Self { at: change.timestamp(), beyond: change.offset() }
    }
}

fn offset_before(zone: &TimeZone, at: Timestamp) -> Offset {
    match at.checked_sub(jiff::SignedDuration::from_nanos(1)) {
        Ok(before) => zone.to_offset(before),
        Err(_) => zone.to_offset(at), // the calendar begins here: nothing changed
    }
}
