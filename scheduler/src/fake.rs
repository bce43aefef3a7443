//! A store and a bus in memory, for tests: as strict as a real one, with a clock set by hand.
//!
//! Invariant: it grants nothing that a real store would refuse (versions, windows, licences,
//! epochs), so a test that passes here shows something.

mod bus;
mod stage;
mod store;

pub(crate) use bus::{FakeBus, Given};
pub(crate) use stage::{
    ALICE, Asked, BOB, MALLORY, Stage, TOKEN, Told, is_approved, pair, session, settings,
};
pub(crate) use store::{FakeStore, Trouble};

/// When every test begins, by the store's clock: an arbitrary Monday.
pub(crate) const START_MS: i64 = 1_767_600_000_000;
