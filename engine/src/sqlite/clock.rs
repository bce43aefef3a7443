//! What time is it, for this store?
//!
//! Authority: the wall clock, and the highest time ever seen, which the writer keeps in the file.
//! Invariant: an answer is never earlier than one given before, in this process or (for answers
//! that came with a commit) in an earlier one. Nothing else in this crate reads the wall clock.
//! If we crash here: times that only reads were told since the last commit may be told again.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use portcullis_proto::time::Ms;

/// Says the wall clock's time in milliseconds since the Unix epoch. Injected, so a test can move
/// it.
pub type WallClock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// The clock of a production store.
#[must_use]
pub fn wall_clock() -> WallClock {
    Arc::new(wall_ms)
}

/// A wall clock before 1970 reads as 0: it then lags behind all that was seen, so nothing starts.
#[expect(clippy::disallowed_methods, reason = "this is the store's clock")]
fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The store's time, and how far the wall clock lags behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) now: Ms,
    pub(super) lag_ms: i64,
}

/// `now = max(wall clock, highest time seen)`.
pub(super) struct Clock {
    wall: WallClock,
    high_ms: AtomicI64,
}

impl Clock {
    /// A clock that never answers earlier than `seen`, the highest time the file knows of.
    pub(super) fn starting_at(seen: Ms, wall: WallClock) -> Self {
        Self { wall, high_ms: AtomicI64::new(seen.0) }
    }

    pub(super) fn read(&self) -> Reading {
        let wall = (self.wall)();
        let before = self.high_ms.fetch_max(wall, Ordering::AcqRel);
        let now = Ms(wall.max(before));
        Reading { now, lag_ms: now.since(Ms(wall)) }
    }

    pub(super) fn now(&self) -> Ms {
        self.read().now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(seen: i64) -> (Arc<AtomicI64>, Clock) {
        let wall = Arc::new(AtomicI64::new(0));
        let read = Arc::clone(&wall);
        let wall_clock: WallClock = Arc::new(move || read.load(Ordering::Relaxed));
        (wall, Clock::starting_at(Ms(seen), wall_clock))
    }

    #[test]
    fn time_never_runs_backwards_and_the_lag_is_told() {
        let (wall, clock) = clock(1_000);
        for (at, now, lag_ms) in
            [(900, 1_000, 100), (1_500, 1_500, 0), (1_400, 1_500, 100), (1_501, 1_501, 0)]
        {
            wall.store(at, Ordering::Relaxed);
            assert_eq!(clock.read(), Reading { now: Ms(now), lag_ms }, "wall clock at {at}");
        }
    }

    #[test]
    fn the_wall_clock_is_later_than_the_day_this_was_written() {
        assert!(1_700_000_000_000 < wall_clock()());
    }
}
