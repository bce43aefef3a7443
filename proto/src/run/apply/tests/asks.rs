//! Section 3 of the protocol: when people are asked, by when, and whether it reaches them.

use super::fixtures::*;
use super::{check, check_all};
use crate::approval::{CAP_RESERVE_MS, Delivery, NOTICE_MS_MIN, State};
use crate::denial::DenialCode;
use crate::ids::ApprovalId;
use crate::run::{Effect, Event, Reject, next_deadline};

const WAIT_MS: i64 = 1_800_000;

fn asked() -> Life {
    Life::with(&[gated("rm")])
}

fn inbox() -> Plan {
    let mut terms = terms(1, &["alice"]);
    terms.inbox = true;
    call("rm").asking(terms)
}

#[test]
fn a_wait_for_nobody_is_denied_at_once() {
    let cap = |ms| Life::held(limited(|limits| limits.cap_ms = CAP_RESERVE_MS + ms));
    let plan = |plan: Plan| Life::held(job()).planning(&[plan]);
    let eligible = |need, who: &[&str]| plan(call("rm").asking(terms(need, who)));
    check_all([
        (
            "nobody",
            Life::held(job()),
            eligible(1, &[]),
            Ok("running [no_approver!] | planned denied |  | firm -0"),
        ),
        (
            "too few",
            Life::held(job()),
            eligible(3, &["alice", "bob"]),
            Ok("running [quorum_unreachable!] | planned denied |  | firm -0"),
        ),
        (
            "no time",
            cap(NOTICE_MS_MIN),
            plan(gated("rm")),
            Ok("running [no_time!] | planned denied |  | firm -0"),
        ),
        (
            "just time enough",
            cap(NOTICE_MS_MIN + 1),
            plan(gated("rm")),
            Ok("running [asked+0] | planned asked | publish:0 | firm +0"),
        ),
    ]);
}

#[test]
fn a_request_ends_before_its_run_whatever_was_configured() {
    let deadline = |ms| {
        let life = Life::held(limited(|limits| limits.approval_ms = ms)).plan(&[gated("rm")]);
        assert_eq!(life.last().licences_set, [(approval_id(0), life.asked(0).deadline)]);
        life.asked(0).deadline.since(T0)
    };
    let latest = job().limits.cap_ms - CAP_RESERVE_MS;
    assert_eq!(deadline(WAIT_MS), WAIT_MS);
    assert_eq!(deadline(i64::MAX), latest);
    for unlimited in [0, -1, i64::MIN] {
        assert_eq!(deadline(unlimited), latest, "no deadline of its own: the cap bounds it");
    }
}

#[test]
fn a_need_of_zero_is_a_need_of_one() {
    let life = Life::with(&[call("rm").asking(terms(0, &["alice"]))]);
    assert_eq!(life.asked(0).need, 1);
    check("nobody voted", &life, life.starting(0), Err(Reject::NotApproved));
}

#[test]
fn the_gate_may_ask_or_refuse_between_planning_and_start() {
    let ready = || Life::with(&[call("ls")]);
    let refused = Life::with(&[call("no").denied(DenialCode::PolicyDenied)]);
    let closed = || Reject::GateClosed(DenialCode::PolicyDenied);
    check_all([
        ("asks", ready(), need_approval(0), Ok("running [asked+0] | asked | publish:0 | firm +0")),
        ("asks again", asked(), need_approval(0), Err(Reject::AlreadySo)),
        ("asks, refused", refused.clone(), need_approval(0), Err(closed())),
        ("asks, started", ready().start(0), need_approval(0), Err(Reject::AlreadyStarted)),
        ("asks, no such call", ready(), need_approval(1), Err(Reject::NoSuchCall(1))),
        (
            "asks, not held",
            ready().then(|_| release(None)),
            need_approval(0),
            Err(Reject::LostClaim),
        ),
        ("closes", ready(), gate_closed(0), Ok("running [policy_denied] | denied |  | firm")),
        (
            "closes, asked",
            asked(),
            gate_closed(0),
            Ok("running [policy_denied!] | denied |  | firm -0"),
        ),
        (
            "closes, approved",
            asked().approve("bob", 0),
            gate_closed(0),
            Ok("running [policy_denied!] | denied |  | firm"),
        ),
        ("closes again", refused, gate_closed(0), Err(closed())),
        ("closes, started", ready().start(0), gate_closed(0), Err(Reject::AlreadyStarted)),
        ("closes, no such call", ready(), gate_closed(1), Err(Reject::NoSuchCall(1))),
        (
            "closes, not held",
            ready().then(|_| release(None)),
            gate_closed(0),
            Err(Reject::LostClaim),
        ),
    ]);
}

#[test]
fn a_call_that_a_person_refused_is_not_asked_about_again() {
    let denied = || asked().deny("bob", 0);
    let again = "running [denied! denied] | planned denied |  | firm";
    check("planned again", &denied(), denied().planning(&[gated("rm")]), Ok(again));
    let other = "running [denied! asked+0] | planned asked | publish:1 | firm +1";
    check("another call", &denied(), denied().planning(&[gated("mv")]), Ok(other));
    let allowed = denied().plan(&[call("rm")]);
    check(
        "asked later",
        &allowed,
        need_approval(1),
        Ok("running [denied! denied] | denied |  | firm"),
    );
    let silent = asked().park().later(WAIT_MS).tick().then(|_| claim(A));
    let after_silence =
        "running [approval_timed_out! asked+0] | planned asked | publish:1 | firm +1";
    check("silence is no person", &silent, silent.planning(&[gated("rm")]), Ok(after_silence));
    let by = denied().plan(&[gated("rm")]);
    let denial = by.run().calls[1].refusal().unwrap();
    assert_eq!(denial.by, Some(subject("bob")), "it says who");
}

#[test]
fn a_request_is_shown_or_denied_at_once() {
    let shown = || asked().then(|life| life.published(0));
    let hidden = || Life::with(&[inbox()]).then(|life| life.unroutable(0));
    let stale = |event: fn(ApprovalId, u32) -> Event| event(approval_id(0), 2);
    let published = |approval, rev| Event::Published { approval, rev };
    let unroutable = |approval, rev| Event::Unroutable { approval, rev };
    let other_run = run_id(&job_under(T0).key);
    let elsewhere = Event::Published { approval: ApprovalId::of(&other_run, 0, 1), rev: 1 };
    let no_call = Event::Published { approval: approval_id(1), rev: 1 };
    check_all([
        ("published", asked(), asked().published(0), Ok("running [shown+0] | published")),
        ("published twice", shown(), shown().published(0), Err(Reject::NothingDue)),
        (
            "published after all",
            hidden(),
            hidden().published(0),
            Ok("running [shown+0] | published"),
        ),
        ("published, other revision", asked(), stale(published), Err(Reject::StaleRevision)),
        ("published, no such request", asked(), no_call, Err(Reject::UnknownApproval)),
        ("published, of another run", asked(), elsewhere, Err(Reject::UnknownApproval)),
        (
            "published, late",
            asked().later(WAIT_MS),
            asked().published(0),
            Err(Reject::Late { at: T0.plus(WAIT_MS) }),
        ),
        (
            "published, decided",
            asked().approve("bob", 0),
            asked().published(0),
            Err(Reject::AlreadyDecided),
        ),
        (
            "returned",
            asked(),
            asked().unroutable(0),
            Ok("running [no_approver!] | unroutable denied |  | -0"),
        ),
        (
            "returned, parked",
            asked().park(),
            asked().unroutable(0),
            Ok("queued:hi [no_approver!] | unroutable denied roused | wake:hi | -0"),
        ),
        (
            "returned, but in an inbox",
            Life::with(&[inbox()]),
            asked().unroutable(0),
            Ok("running [inbox+0] | unroutable"),
        ),
        ("returned twice", hidden(), hidden().unroutable(0), Err(Reject::NothingDue)),
        ("returned, published before", shown(), shown().unroutable(0), Err(Reject::NothingDue)),
        ("returned, other revision", asked(), stale(unroutable), Err(Reject::StaleRevision)),
        (
            "returned, decided",
            asked().deny("bob", 0),
            asked().unroutable(0),
            Err(Reject::AlreadyDecided),
        ),
    ]);
}

#[test]
fn an_unconfirmed_request_is_published_again_until_it_is() {
    let mut life = asked().park();
    let mut waits = Vec::new();
    for _ in 0..8 {
        let due = next_deadline(life.run()).unwrap();
        waits.push(due.since(life.now) / 1_000);
        let early = life.clone().until(due.minus(1));
        check("not yet", &early, Event::Tick, Err(Reject::NothingDue));
        life = life.until(due).tick();
        assert_eq!(life.last().effects, [Effect::PublishRequest(approval_id(0))]);
    }
    assert_eq!(waits, [5, 10, 20, 40, 80, 160, 300, 300]);
    let shown = asked().park().then(|life| life.published(0));
    assert_eq!(next_deadline(shown.run()), Some(T0.plus(WAIT_MS)), "then never again");
}

#[test]
fn a_request_that_nobody_has_to_be_sent_stays_open() {
    let life = Life::with(&[inbox()]).then(|life| life.unroutable(0));
    assert_eq!(life.asked(0).state, State::Requested(Delivery::InboxOnly));
    assert!(life.approve("alice", 0).run().calls[0].is_runnable());
}
