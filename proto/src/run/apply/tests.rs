//! The tables of `docs/protocol.md`, row by row, and a walk over every state that can be reached.

mod asks;
mod children;
mod ends;
mod fixtures;
mod folds;
mod life;
mod outline;
mod revising;
mod starts;
mod time;
mod votes;
mod walk;

use crate::run::{Event, Reject, effective, next_deadline};
use fixtures::Life;
use outline::outline;

/// One row: what an event does to a run, all of it, or why it does nothing.
#[track_caller]
fn check(row: &str, life: &Life, event: Event, answer: Result<&str, Reject>) {
    let got = life.answer(&event);
    let told = got.as_ref().map(|change| outline(life.run.as_ref(), change));
    assert_eq!(told, answer.as_ref().map(|text| (*text).to_owned()), "{row}");
    let Ok(change) = got else { return };
    let deadline = next_deadline(&change.next);
    if change.next.is_live() {
        assert!(deadline.is_some_and(|at| at <= change.next.hard_cap), "{row}: {deadline:?}");
    }
    assert_eq!(effective(&change.next, life.now), change.next, "{row}: time has more to say");
}

type Row = (&'static str, Life, Event, Result<&'static str, Reject>);

#[track_caller]
fn check_all(rows: impl IntoIterator<Item = Row>) {
    for (row, life, event, answer) in rows {
        check(row, &life, event, answer);
    }
}
