//! Section 2 of the protocol: how a run is accepted, claimed, held, parked and let go.

use super::fixtures::*;
use super::{check, check_all};
use crate::denial::DenialCode;
use crate::digest::Digest;
use crate::job::Job;
use crate::run::{CHILD_RESERVE_MS, Event, Parentage, Phase, Reject, next_deadline};
use crate::time::Ms;

fn as_child(parentage: Parentage) -> Event {
    Event::Claim { claim: A, parentage }
}

fn with_other_input() -> Job {
    Job { input_hash: Digest::of_bytes(b"other"), ..job() }
}

#[test]
fn a_job_becomes_one_run() {
    let none = Life::none;
    let ended = Life::held(job()).then(|_| done(A));
    let late = none().until(job().start_by);
    let under = |ms| accepted(job_under(T0.plus(ms)));
    check_all([
        ("none", none(), accepted(job()), Ok("queued:lo | accepted | wake:lo | firm <start_by")),
        (
            "too late",
            late,
            accepted(job()),
            Ok("failed(expired_in_queue) | accepted ended |  | firm"),
        ),
        (
            "its parent has no time left for it",
            none(),
            under(CHILD_RESERVE_MS),
            Ok("failed(expired_in_queue) | accepted ended | notify | firm <ever"),
        ),
        ("again", Life::of(job()), accepted(job()), Err(Reject::Duplicate)),
        ("again, ended", ended.clone(), accepted(job()), Err(Reject::Duplicate)),
        ("other input", Life::of(job()), accepted(with_other_input()), Err(Reject::KeyReused)),
        ("other input, ended", ended, accepted(with_other_input()), Err(Reject::KeyReused)),
        ("nobody to claim", none(), claim(A), Err(Reject::Unknown)),
        ("nobody to cancel", none(), cancel(), Err(Reject::Unknown)),
        ("nobody to tick", none(), Event::Tick, Err(Reject::Unknown)),
    ]);
}

#[test]
fn a_run_has_one_holder() {
    let queued = || Life::of(job());
    let parked = Life::with(&[gated("rm")]).park();
    let backoff = Life::held(job()).then(|_| release(Some(1_000)));
    let child = || Life::of(job_under(T0.plus(HOUR_MS)));
    let ended = Life::held(job()).then(|_| done(A));
    let resumed = parked.clone().approve("alice", 0);
    let stale = queued().until(job().start_by);
    let hardly = queued().until(job().start_by.minus(1));
    check_all([
        ("first claim", queued(), claim(A), Ok("running | claimed")),
        ("first claim, hardly in time", hardly, claim(A), Ok("running | claimed |  | <start_by")),
        ("later claim", resumed, claim(B), Ok("running [approved] | claimed")),
        ("held", Life::held(job()), claim(B), Err(Reject::Busy)),
        ("held by itself", Life::held(job()), claim(A), Err(Reject::Busy)),
        ("waiting", parked, claim(A), Err(Reject::Waiting)),
        ("backing off", backoff, claim(A), Err(Reject::Waiting)),
        ("ended", ended, claim(A), Err(Reject::Terminal)),
        ("never begun in time", stale, claim(A), Err(Reject::Terminal)),
        ("no parent to ask", queued(), as_child(Parentage::None), Ok("running | claimed")),
        ("parent not looked at", child(), as_child(Parentage::None), Err(Reject::ParentUnknown)),
        ("parent lives", child(), as_child(Parentage::Live), Ok("running | claimed")),
        (
            "parent has ended",
            child(),
            as_child(Parentage::Ended),
            Ok("cancelled(parent_ended) | ended | notify | firm"),
        ),
    ]);
}

#[test]
fn the_first_claim_sets_the_cap_and_only_ever_earlier() {
    let cap = job().limits.cap_ms;
    assert_eq!(Life::of(job()).run().hard_cap, job().start_by.plus(cap));
    let held = Life::of(job()).later(1_000).then(|_| claim(A));
    assert_eq!(held.run().hard_cap, T0.plus(1_000 + cap));
    let again = held.then(|_| release(None)).later(1_000).then(|_| claim(B));
    assert_eq!(again.run().hard_cap, T0.plus(1_000 + cap), "a later claim moves nothing");
    let under = Life::held(job_under(T0.plus(60_000)));
    assert_eq!(under.run().hard_cap, T0.plus(60_000 - CHILD_RESERVE_MS));
    let endless = Life::held(limited(|limits| limits.cap_ms = i64::MAX));
    assert_eq!(endless.run().hard_cap, T0.plus(7 * 24 * HOUR_MS), "there is a ceiling");
    let short = Life::held(limited(|limits| limits.cap_ms = 5_000));
    assert_eq!(hold(&short), (T0.plus(5_000), T0.plus(5_000)), "nor a hold that outlasts it");
    let none = Life::held(limited(|limits| limits.cap_ms = 0));
    assert_eq!(none.run().hard_cap, T0.plus(1), "and no way to say «for ever»");
}

/// How long the worker holds the run, and until when its step may last.
fn hold(life: &Life) -> (Ms, Ms) {
    match life.run().phase {
        Phase::Running { lease_until, step_deadline, .. } => (lease_until, step_deadline),
        Phase::Queued { .. } | Phase::Waiting | Phase::Backoff { .. } | Phase::Ended(_) => {
            panic!("{:?} holds nothing", life.run().phase)
        }
    }
}

#[test]
fn a_lease_is_renewed_until_the_step_is_over() {
    let held = || Life::held(job());
    let step = job().limits.step_ms;
    let renew = |claim| Event::Renew { claim };
    check_all([
        ("in time", held().later(10_000), renew(A), Ok("running |  |  | <step")),
        ("lapsed, not yet noticed", held().later(40_000), renew(A), Ok("running |  |  | <step")),
        ("another's", held(), renew(B), Err(Reject::LostClaim)),
        ("after the step", held().later(step), renew(A), Err(Reject::StepOver)),
        ("not held", Life::of(job()), renew(A), Err(Reject::LostClaim)),
        ("ended", held().then(|_| done(A)), renew(A), Err(Reject::Terminal)),
    ]);
    let short = Life::held(limited(|limits| limits.step_ms = 20_000));
    assert_eq!(hold(&short), (T0.plus(20_000), T0.plus(20_000)), "nor begun past it");
    let near = held().later(step - 1).then(|_| renew(A));
    assert_eq!(next_deadline(near.run()), Some(T0.plus(step)), "never past the step's deadline");
}

#[test]
fn a_turn_is_planned_whole_and_before_anything_runs() {
    let held = || Life::held(job());
    let plans = [call("ls"), gated("rm"), call("no").denied(DenialCode::PolicyDenied)];
    let whole = held().planning(&plans);
    let next = Life::with(&[call("ls")]).start(0).finish(0);
    let open = Life::with(&[gated("rm")]);
    let elsewhere = Event::Planned {
        claim: A,
        calls: vec![call("ls").at(&run_id(&job().key), 1)],
        definition: None,
    };
    let mut misprinted = call("ls").at(&run_id(&job().key), 0);
    misprinted.fingerprint = Digest::of_bytes(b"another call");
    let other_print = Event::Planned { claim: A, calls: vec![misprinted], definition: None };
    check_all([
        (
            "three",
            held(),
            whole,
            Ok("running [ready asked+0 policy_denied] | planned asked denied | publish:1 \
 | firm +1"),
        ),
        ("only allowed", held(), held().planning(&[call("ls")]), Ok("running [ready] | planned")),
        (
            "all refused",
            held(),
            held().planning(&[call("no").denied(DenialCode::PolicyError)]),
            Ok("running [policy_error] | planned denied"),
        ),
        (
            "the next turn",
            next.clone(),
            next.planning(&[call("ls")]),
            Ok("running [succeeded ready] | planned"),
        ),
        ("a turn is open", open.clone(), open.planning(&[call("ls")]), Err(Reject::CallsOpen)),
        ("digest of another place", held(), elsewhere, Err(Reject::ArgsMismatch)),
        ("fingerprint of another call", held(), other_print, Err(Reject::ArgsMismatch)),
    ]);
    let defined = |life: Life, words: &str| {
        let (calls, definition) = (Vec::new(), Some(text(words)));
        life.then(|_| Event::Planned { claim: A, calls, definition })
    };
    let twice = defined(defined(held(), "first"), "second");
    assert_eq!(twice.run().definition, Some(text("first")), "an agent is what it began as");
    let many = |count: usize| vec![call("ls"); count];
    let life = held();
    check(
        "as many as allowed",
        &life.clone().plan(&many(512)),
        finish(A, 0),
        Err(Reject::NotStarted),
    );
    check("too many", &life, life.planning(&many(513)), Err(Reject::TooManyCalls { max: 512 }));
}

#[test]
fn a_run_parks_only_when_there_is_something_to_wait_for_and_nothing_to_do() {
    let park = || Event::Park { claim: A };
    let both = || Life::with(&[gated("rm"), call("ls")]);
    check_all([
        ("one waits", Life::with(&[gated("rm")]), park(), Ok("waiting [asked+0] | parked")),
        ("a sibling may start", both(), park(), Err(Reject::Runnable)),
        ("a sibling runs", both().start(1), park(), Err(Reject::ToolRunning)),
        (
            "a sibling is done",
            both().start(1).finish(1),
            park(),
            Ok("waiting [asked+0 succeeded] | parked"),
        ),
        (
            "approved meanwhile",
            Life::with(&[gated("rm")]).approve("bob", 0),
            park(),
            Err(Reject::Runnable),
        ),
        (
            "refused meanwhile",
            Life::with(&[gated("rm")]).deny("bob", 0),
            park(),
            Err(Reject::Runnable),
        ),
        ("nothing planned", Life::held(job()), park(), Err(Reject::Runnable)),
        (
            "a child",
            Life::with(&[call("agent")]).spawn(0),
            park(),
            Ok("waiting [spawned] | parked"),
        ),
        ("another's", Life::with(&[gated("rm")]), Event::Park { claim: B }, Err(Reject::LostClaim)),
        ("not held", Life::with(&[gated("rm")]).park(), park(), Err(Reject::LostClaim)),
    ]);
}

#[test]
fn a_worker_lets_go_without_an_end() {
    let held = || Life::held(job());
    let started = Life::with(&[call("ls")]).start(0);
    check_all([
        ("at once", held(), release(None), Ok("queued:hi | released | wake:hi")),
        ("for a while", held(), release(Some(5_000)), Ok("backoff | released")),
        ("a tool runs", started, release(None), Err(Reject::ToolRunning)),
        ("another's", held().then(|_| release(None)), release(None), Err(Reject::LostClaim)),
    ]);
    assert_eq!(held().then(|_| release(None)).run().attempts, 0, "the attempt is given back");
    let long = held().then(|_| release(Some(i64::MAX)));
    let until = long.run().hard_cap;
    assert_eq!(long.run().phase, Phase::Backoff { until }, "nothing outlasts the cap");
    let over = held().later(job().limits.step_ms + 1).then(|_| release(None));
    assert_eq!(over.run().step_left_ms, 0, "and no time is owed");
    let backoff = held().then(|_| release(Some(5_000)));
    check("due", &backoff.clone().later(5_000), Event::Tick, Ok("queued:hi |  | wake:hi"));
    check("not due", &backoff.later(4_999), Event::Tick, Err(Reject::NothingDue));
}

#[test]
fn waiting_costs_a_step_none_of_its_time() {
    let step = |life: &Life| hold(life).1.since(life.now);
    let short = limited(|limits| limits.step_ms = 20_000);
    let life = Life::held(short).later(5_000).plan(&[gated("rm")]).park().later(600_000);
    let life = life.approve("bob", 0).later(600_000).then(|_| claim(A));
    assert_eq!(step(&life), 15_000, "longer in the wait than the whole step");
    let life = life.start(0).later(4_000).finish(0);
    assert_eq!(step(&life), 20_000, "the next step has its whole time");
    let life = life.later(5_000).then(|_| release(Some(60_000))).later(60_000).tick();
    assert_eq!(step(&life.clone().then(|_| claim(B))), 15_000, "nor does backing off");
    let lapsed = life.clone().then(|_| claim(B)).later(30_000).tick().then(|_| claim(A));
    assert_eq!(step(&lapsed), 20_000, "a step that is begun anew has all of it");
    let refused = Life::held(limited(|limits| limits.step_ms = 20_000)).later(5_000);
    let refused = refused.plan(&[call("no").denied(DenialCode::PolicyDenied)]);
    assert_eq!(step(&refused), 20_000, "a turn that is refused whole is settled, too");
    let near = limited(|limits| (limits.step_ms, limits.cap_ms) = (20_000, 30_000));
    let near = Life::held(near).plan(&[call("ls")]).start(0).later(19_000).finish(0);
    assert_eq!(step(&near), 11_000, "as far as the cap allows");
}

#[test]
fn an_expired_start_is_a_failure_and_a_begun_run_has_none() {
    let queued = Life::of(job()).until(job().start_by);
    check("never begun", &queued, Event::Tick, Ok("failed(expired_in_queue) | ended |  | firm"));
    let job = limited(|limits| limits.cap_ms = 48 * HOUR_MS);
    let begun = Life::held(job.clone()).then(|_| release(None)).until(job.start_by);
    assert!(begun.tick().run().is_live());
}
