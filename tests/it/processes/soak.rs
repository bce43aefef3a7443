//! A short slice of the soak: everybody is killed at random, and the books agree.

use std::time::Duration;

use portcullis_tests::home::Kind;
use portcullis_tests::soak::{Plan, soak};

use super::on_both_homes;

on_both_homes! {
    everybody_is_killed_at_random_and_every_promise_holds
}

async fn everybody_is_killed_at_random_and_every_promise_holds(kind: Kind) {
    let kills = match kind {
        Kind::Embedded => 8,
        Kind::Distributed => 50,
    };
    let report = soak(&Plan { kind, seed: 7, kills, longest: Duration::from_secs(25) }).await;
    assert!(report.held(), "{}", report.table());
    for what in ["effects", "requests", "instants fired", "accepted (202)"] {
        assert!(0 < report.counted(what), "{what} never happened:\n{}", report.table());
    }
    assert!(1 < report.killed.len(), "several kinds were killed:\n{}", report.table());
}
