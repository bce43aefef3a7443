//! What time alone does: rings, caps, and what readers see before anybody has committed it.

use super::check;
use super::fixtures::*;
use crate::call::OnDenied;
use crate::denial::DenialCode;
use crate::run::{Effect, Event, Outcome, Phase, Reject, effective, index_entries, next_deadline};
use crate::time::Ms;
use crate::topology::Lane;

#[test]
fn a_queued_run_rings_until_it_is_claimed() {
    let mut life = Life::of(limited(|limits| limits.cap_ms = 100 * HOUR_MS));
    let mut waits = Vec::new();
    for _ in 0..7 {
        let due = next_deadline(life.run()).unwrap();
        check("too early", &life.clone().until(due.minus(1)), Event::Tick, Err(Reject::NothingDue));
        waits.push(due.since(life.now) / 1_000);
        life = life.until(due).tick();
        assert_eq!(life.last().effects, [Effect::Wake(Lane::Lo)]);
    }
    assert_eq!(waits, [30, 120, 480, 1_920, 3_600, 3_600, 3_600]);
}

#[test]
fn a_wake_that_is_known_to_have_failed_rings_sooner_and_ever_later() {
    let mut life = Life::of(job());
    let mut waits = Vec::new();
    for _ in 0..8 {
        life = life.then(|_| Event::WakeFailed);
        waits.push(next_deadline(life.run()).unwrap().since(life.now) / 1_000);
    }
    assert_eq!(waits, [5, 10, 20, 40, 80, 160, 300, 300]);
    for elsewhere in [Life::held(job()), Life::with(&[gated("rm")]).park()] {
        check("no wake", &elsewhere, Event::WakeFailed, Err(Reject::NothingDue));
    }
    let backoff = Life::held(job()).then(|_| release(Some(1)));
    check("no wake", &backoff, Event::WakeFailed, Err(Reject::NothingDue));
}

#[test]
fn after_an_outage_of_the_bus_a_run_rings_as_soon_as_one_that_never_rang_in_vain() {
    let mut life = Life::of(limited(|limits| limits.cap_ms = 100 * HOUR_MS));
    for _ in 0..8 {
        life = life.then(|_| Event::WakeFailed);
        let due = next_deadline(life.run()).unwrap();
        life = life.until(due).tick();
    }
    // The last ring is not known to have failed: it counts as the first.
    let due = next_deadline(life.run()).unwrap();
    assert_eq!(due.since(life.now) / 1_000, 120);
}

/// Lives in every phase, and with every kind of call.
fn lives() -> Vec<(&'static str, Life)> {
    let parked = Life::with(&[gated("rm")]).park();
    vec![
        ("queued", Life::of(job())),
        ("running", Life::held(job())),
        ("asked", Life::with(&[gated("rm"), call("ls")])),
        ("started", Life::with(&[gated("rm"), call("ls")]).start(1)),
        ("waiting", parked.clone()),
        ("approved", parked.approve("bob", 0)),
        ("fatal", Life::with(&[gated("rm").on_denied(OnDenied::EndRun)]).park()),
        ("child", Life::with(&[call("agent")]).spawn(0).park()),
        ("backoff", Life::held(job()).then(|_| release(Some(3 * HOUR_MS)))),
    ]
}

#[test]
fn the_hard_cap_ends_a_run_wherever_it_stands() {
    for (row, life) in lives() {
        let cap = life.run().hard_cap;
        assert!(next_deadline(life.run()).unwrap() <= cap, "{row}");
        let ended = life.clone().until(cap.minus(1)).answer(&Event::Tick);
        let timed_out = |run: &crate::run::Run| {
            run.ended()
                .is_some_and(|e| e.outcome == Outcome::TimedOut && e.reason.code == "hard_cap")
        };
        if row != "queued" {
            assert!(!ended.is_ok_and(|change| timed_out(&change.next)), "{row}: not before it");
            let life = life.until(cap).tick();
            assert!(timed_out(life.run()), "{row}: {:?}", life.run().phase);
            assert!(life.last().is_firm());
        }
    }
}

#[test]
fn a_timer_never_rings_after_the_cap_nor_after_the_last_moment_to_begin() {
    let short = Life::held(limited(|limits| limits.cap_ms = 10_000)).then(|_| release(None));
    assert_eq!(next_deadline(short.run()), Some(T0.plus(10_000)), "though a ring is due at 30 s");
    let soon = crate::job::Job { start_by: T0.plus(10_000), ..job() };
    assert_eq!(next_deadline(Life::of(soon).run()), Some(T0.plus(10_000)));
}

#[test]
fn every_event_meets_the_cap_first() {
    let life = Life::with(&[gated("rm")]).approve("bob", 0).until(T0.plus(job().limits.cap_ms));
    for event in [life.starting(0), finish(A, 0), cancel(), claim(B), done(A), life.planning(&[])] {
        check(event.name(), &life, event, Err(Reject::Terminal));
    }
    for (row, life) in lives() {
        let change = life.answer(&cancel()).unwrap();
        assert_eq!(change.not_after, Some(life.run().hard_cap), "{row}");
    }
}

#[test]
fn readers_see_what_a_tick_will_commit() {
    for (row, life) in lives() {
        for ms in [0, 1_799_999, 1_800_000, 900_000, 2 * HOUR_MS - 1, 2 * HOUR_MS, 30 * HOUR_MS] {
            let life = life.clone().later(ms);
            let seen = effective(life.run(), life.now);
            let ticked = life.answer(&Event::Tick).map_or(life.run().clone(), |c| c.next);
            let refusals = |run: &crate::run::Run| -> Vec<Option<(DenialCode, Ms)>> {
                let refusals = run.calls.iter().map(|call| call.refusal());
                refusals.map(|refusal| refusal.map(|denial| (denial.code, denial.at))).collect()
            };
            if ticked.ended().is_some_and(|ended| ended.outcome == Outcome::Interrupted) {
                continue; // A lapse is no matter of time alone: its worker may still renew.
            }
            assert_eq!(refusals(&seen), refusals(&ticked), "{row} + {ms}");
            assert_eq!(seen.ended(), ticked.ended(), "{row} + {ms}");
        }
    }
}

#[test]
fn an_expired_wait_rouses_the_run_whatever_comes_first() {
    let life = Life::with(&[gated("rm")]).park().later(1_800_000);
    assert!(matches!(effective(life.run(), life.now).phase, Phase::Queued { lane: Lane::Hi, .. }));
    let claimed = "running [approval_timed_out!] | denied roused claimed |  | -0";
    check("a claim", &life, claim(B), Ok(claimed));
    check(
        "a tick",
        &life,
        Event::Tick,
        Ok("queued:hi [approval_timed_out!] | denied roused | wake:hi | -0"),
    );
}

#[test]
fn a_run_stands_in_the_lists_of_its_phase_and_its_open_requests() {
    let life = Life::with(&[gated("rm"), gated("mv"), call("ls")]).approve("bob", 1);
    let run = life.run();
    let deadline = T0.plus(1_800_000);
    let phase = ("run.running".to_owned(), run.id.to_string(), T0);
    let open = ("ask.ops".to_owned(), approval_id(0).to_string(), deadline);
    assert_eq!(index_entries(run), [phase, open]);
    let ended = life.then(|_| cancel());
    let phase = ("run.ended".to_owned(), ended.run().id.to_string(), T0);
    assert_eq!(index_entries(ended.run()), [phase]);
}
