//! Section 2 of the protocol: how a run ends, by its own word, by another's or by dying.

use super::fixtures::*;
use super::{check, check_all};
use crate::call::{OnUnknown, SideEffect};
use crate::decision::Verdict;
use crate::denial::DenialCode;
use crate::run::{ATTEMPTS_MAX, Event, Outcome, Reject};

#[test]
fn an_end_is_honest() {
    let with = |plan| Life::with(&[plan]);
    let refused = with(call("no").denied(DenialCode::PolicyDenied));
    let bad_child = with(call("agent")).spawn(0);
    let bad_child = bad_child.then(|life| life.child_done(0, Outcome::CompletedWithDenials));
    let child = Life::held(job_under(T0.plus(HOUR_MS)));
    check_all([
        ("done", Life::held(job()), done(A), Ok("succeeded(done) | ended |  | firm")),
        (
            "a call ran",
            with(call("ls")).start(0).finish(0),
            done(A),
            Ok("succeeded(done) [succeeded] | ended |  | firm"),
        ),
        (
            "refused",
            refused,
            done(A),
            Ok("completed_with_denials(denied) [policy_denied] | ended |  | firm"),
        ),
        (
            "refused in a child",
            bad_child,
            done(A),
            Ok("completed_with_denials(denied) [completedwithdenials] | ended |  | firm"),
        ),
        ("a call is open", with(call("ls")), done(A), Err(Reject::CallsOpen)),
        ("a call is asked about", with(gated("rm")), done(A), Err(Reject::CallsOpen)),
        ("a call runs", with(call("ls")).start(0), done(A), Err(Reject::CallsOpen)),
        ("another's", Life::held(job()), done(B), Err(Reject::LostClaim)),
        ("done child", child, done(A), Ok("succeeded(done) | ended | notify | firm")),
        ("failed", Life::held(job()), fail(A), Ok("failed(agent_error) | ended |  | firm")),
        (
            "failed, asked",
            with(gated("rm")),
            fail(A),
            Ok("failed(agent_error) [withdrawn!] | denied ended |  | firm -0"),
        ),
        ("failed, a tool runs", with(call("ls")).start(0), fail(A), Err(Reject::ToolRunning)),
        ("failed, another's", Life::held(job()), fail(B), Err(Reject::LostClaim)),
    ]);
}

#[test]
fn cancelling_ends_a_run_wherever_it_stands() {
    let parked = Life::with(&[gated("rm")]).park();
    let approved = Life::with(&[gated("rm")]).approve("bob", 0);
    let spawned = Life::with(&[call("agent")]).spawn(0);
    check_all([
        (
            "queued",
            Life::of(job()),
            cancel(),
            Ok("cancelled(cancelled) | cancel_asked ended |  | firm"),
        ),
        (
            "running",
            Life::held(job()),
            cancel(),
            Ok("cancelled(cancelled) | cancel_asked ended |  | firm"),
        ),
        (
            "a tool runs",
            Life::with(&[call("ls")]).start(0),
            cancel(),
            Ok("cancelled(cancelled) [started] | cancel_asked ended |  | firm"),
        ),
        (
            "waiting",
            parked,
            cancel(),
            Ok("cancelled(cancelled) [withdrawn!] | cancel_asked denied ended |  | firm -0"),
        ),
        (
            "approved",
            approved,
            cancel(),
            Ok("cancelled(cancelled) [withdrawn!] | cancel_asked denied ended |  | firm"),
        ),
        (
            "backing off",
            Life::held(job()).then(|_| release(Some(9))),
            cancel(),
            Ok("cancelled(cancelled) | cancel_asked ended |  | firm"),
        ),
        (
            "a child lives",
            spawned,
            cancel(),
            Ok("cancelled(cancelled) [spawned] | cancel_asked ended | cancel:0 | firm"),
        ),
        ("ended", Life::held(job()).then(|_| done(A)), cancel(), Err(Reject::Terminal)),
    ]);
}

#[test]
fn what_has_ended_answers_terminal_to_everything() {
    let ended = Life::with(&[gated("rm"), call("agent"), call("ls")]).spawn(1).then(|_| cancel());
    let refused = [
        claim(A),
        Event::Renew { claim: A },
        need_approval(2),
        gate_closed(2),
        release(None),
        finish(A, 2),
        done(A),
        fail(A),
        cancel(),
        Event::Park { claim: A },
        ended.planning(&[]),
        ended.starting(2),
        ended.spawning(2),
        Event::ChildCreated { seq: 1 },
        ended.child_done(1, Outcome::Succeeded),
        ended.published(0),
        ended.unroutable(0),
        ended.deciding("alice", 0, Verdict::Approve),
        Event::LicenceGone { approval: approval_id(0) },
        Event::PolicyChanged { approval: approval_id(0) },
    ];
    for event in refused {
        check(event.name(), &ended, event, Err(Reject::Terminal));
    }
    check("WakeFailed", &ended, Event::WakeFailed, Err(Reject::NothingDue));
    check("WorkersGone", &ended, Event::WorkersGone, Err(Reject::NothingDue));
    check("Tick", &ended, Event::Tick, Err(Reject::NothingDue));
}

#[test]
fn five_deaths_in_one_place_are_poison_and_thirty_waits_are_not() {
    let mut life = Life::of(job());
    for _ in 0..ATTEMPTS_MAX {
        life = life.then(|_| claim(A)).later(30_000).tick();
    }
    check("one more", &life, claim(A), Ok("failed(poison) | ended |  | firm"));
    let mut life = Life::of(limited(|limits| limits.cap_ms = 100 * HOUR_MS));
    for turn in 0..30 {
        life = life.then(|_| claim(A));
        life = life.plan(&[gated("rm")]).park().approve("bob", turn).then(|_| claim(A));
        life = life.start(turn).finish(turn).then(|_| release(None));
    }
    assert_eq!(life.run().attempts, 0);
}

#[test]
fn progress_clears_the_attempts() {
    let died = |life: Life| life.later(30_000).tick().then(|_| claim(A));
    let twice = || died(died(Life::held(job())));
    assert_eq!(twice().run().attempts, 3);
    assert_eq!(twice().plan(&[call("ls")]).run().attempts, 0, "planned");
    let planned = died(Life::with(&[call("ls"), gated("rm")]));
    assert_eq!(planned.run().attempts, 1);
    assert_eq!(planned.clone().start(0).run().attempts, 1, "a start is no progress");
    assert_eq!(planned.clone().start(0).finish(0).run().attempts, 0, "finished");
    assert_eq!(planned.spawn(0).run().attempts, 0, "spawned");
    let parked = died(Life::with(&[gated("rm")])).park();
    assert_eq!(parked.run().attempts, 0, "parked");
}

#[test]
fn a_lapsed_lease_leaves_what_was_started_to_its_kind() {
    let lapsed = |plans: &[Plan]| {
        let count = u32::try_from(plans.len()).unwrap();
        (0..count).fold(Life::with(plans), Life::start).later(30_000)
    };
    let (once, again) = (|| call("pay"), || call("put").effect(SideEffect::Idempotent));
    let goes_on = "queued:hi [unknown] | lapsed finished | wake:hi";
    check_all([
        (
            "nothing started",
            Life::with(&[call("ls")]).later(30_000),
            Event::Tick,
            Ok("queued:hi [ready] | lapsed | wake:hi"),
        ),
        (
            "still held",
            Life::with(&[call("ls")]).later(29_999),
            Event::Tick,
            Err(Reject::NothingDue),
        ),
        (
            "at most once",
            lapsed(&[once()]),
            Event::Tick,
            Ok("interrupted(outcome_unknown) [started] | lapsed ended |  | firm"),
        ),
        (
            "idempotent",
            lapsed(&[again()]),
            Event::Tick,
            Ok("queued:hi [ready] | lapsed retried | wake:hi"),
        ),
        (
            "read only",
            lapsed(&[call("ls").effect(SideEffect::ReadOnly)]),
            Event::Tick,
            Ok("queued:hi [ready] | lapsed retried | wake:hi"),
        ),
        (
            "the model is told",
            lapsed(&[once().on_unknown(OnUnknown::TellModel)]),
            Event::Tick,
            Ok(goes_on),
        ),
        (
            "one of two is lost",
            lapsed(&[again(), once()]),
            Event::Tick,
            Ok("interrupted(outcome_unknown) [started started] | lapsed ended |  | firm"),
        ),
    ]);
}

#[test]
fn a_claim_whose_holder_is_gone_for_certain_is_void_before_its_lease_is_over() {
    let again = || Life::with(&[call("put").effect(SideEffect::Idempotent)]).start(0);
    let backoff = Life::held(job()).then(|_| release(Some(60_000)));
    check_all([
        (
            "nothing planned",
            Life::held(job()),
            Event::WorkersGone,
            Ok("queued:hi | lapsed | wake:hi"),
        ),
        (
            "at most once",
            Life::with(&[call("pay")]).start(0),
            Event::WorkersGone,
            Ok("interrupted(outcome_unknown) [started] | lapsed ended |  | firm"),
        ),
        (
            "idempotent",
            again(),
            Event::WorkersGone,
            Ok("queued:hi [ready] | lapsed retried | wake:hi"),
        ),
        ("queued", Life::of(job()), Event::WorkersGone, Err(Reject::NothingDue)),
        ("parked", Life::with(&[gated("rm")]).park(), Event::WorkersGone, Err(Reject::NothingDue)),
        ("backing off", backoff, Event::WorkersGone, Err(Reject::NothingDue)),
    ]);
}

#[test]
fn an_idempotent_call_is_tried_three_times() {
    let put = call("put").effect(SideEffect::Idempotent);
    let mut life = Life::with(&[put]).start(0).later(30_000).tick();
    for _ in 0..2 {
        life = life.then(|_| claim(A)).start(0).later(30_000).tick();
    }
    assert_eq!(life.run().ended().map(|ended| ended.outcome), Some(Outcome::Interrupted));
    assert_eq!(life.run().calls[0].tries, 3);
}
