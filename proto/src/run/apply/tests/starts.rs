//! Section 4 of the protocol: what must hold before a call begins, and what its end needs.

use super::fixtures::*;
use super::{check, check_all};
use crate::approval::{Delivery, State};
use crate::call::{Gate, OnDenied, SideEffect, Status};
use crate::decision::{Decision, Forged, KeyRing, Verdict};
use crate::denial::DenialCode;
use crate::digest::Digest;
use crate::ids::Nonce;
use crate::policy;
use crate::run::{Event, Reject, Start};
use crate::time::Ms;

fn ready(effect: SideEffect) -> Life {
    Life::with(&[call("ls").effect(effect)])
}

fn approved() -> Life {
    Life::with(&[gated("rm")]).approve("bob", 0)
}

fn showing(life: &Life, change: impl FnOnce(&mut Start)) -> Event {
    let mut start = life.showing(0);
    change(&mut start);
    Event::StartTool { claim: A, seq: 0, start }
}

fn deny(start: &mut Start) {
    start.verdict = policy::Verdict::Deny { code: DenialCode::PolicyDenied, detail: None };
}

#[test]
fn a_call_starts_once_under_the_claim_with_the_arguments_that_were_planned() {
    let once = || ready(SideEffect::AtMostOnce);
    let start = || once().starting(0);
    let other = |life: &Life| showing(life, |start| start.args_hash = Digest::of_bytes(b"x"));
    let released = once().then(|_| release(None));
    let taken = released.clone().then(|_| claim(B));
    check_all([
        (
            "at most once",
            once(),
            start(),
            Ok("running [started] | started |  | firm <lease steady"),
        ),
        (
            "idempotent",
            ready(SideEffect::Idempotent),
            start(),
            Ok("running [started] | started |  | <lease steady"),
        ),
        (
            "read only",
            ready(SideEffect::ReadOnly),
            start(),
            Ok("running [started] | started |  | <lease steady"),
        ),
        ("again", once().start(0), start(), Err(Reject::AlreadyStarted)),
        ("finished", once().start(0).finish(0), start(), Err(Reject::AlreadyStarted)),
        ("a child", once().spawn(0), start(), Err(Reject::AlreadyStarted)),
        ("other arguments", once(), other(&once()), Err(Reject::ArgsMismatch)),
        ("not held", released, start(), Err(Reject::LostClaim)),
        ("held by another", taken, start(), Err(Reject::LostClaim)),
        ("lease lapsed", once().later(30_000), start(), Err(Reject::LostClaim)),
        ("step over", once().later(600_000), start(), Err(Reject::StepOver)),
        ("cap passed", once().later(2 * HOUR_MS), start(), Err(Reject::Terminal)),
        (
            "no such call",
            once(),
            Event::StartTool { claim: A, seq: 1, start: once().showing(0) },
            Err(Reject::NoSuchCall(1)),
        ),
    ]);
}

#[test]
fn the_gate_is_asked_again_at_the_start() {
    let plain = || ready(SideEffect::ReadOnly);
    let asks = |start: &mut Start| start.verdict = policy::Verdict::Ask(terms(1, &["bob"]));
    let allows = |start: &mut Start| start.verdict = policy::Verdict::Allow;
    let closed = || Reject::GateClosed(DenialCode::PolicyDenied);
    let refused = Life::with(&[call("no").denied(DenialCode::PolicyError)]);
    let refusal = refused.starting(0);
    check_all([
        ("refuses now", plain(), showing(&plain(), deny), Err(closed())),
        ("asks now", plain(), showing(&plain(), asks), Err(Reject::NeedsApproval)),
        ("refused before", refused, refusal, Err(Reject::GateClosed(DenialCode::PolicyError))),
        ("refuses what was approved", approved(), showing(&approved(), deny), Err(closed())),
        (
            "allows what was asked about",
            approved(),
            showing(&approved(), allows),
            Ok("running [started] | started |  | firm <lease steady epoch=7"),
        ),
    ]);
    let asked = Life::with(&[gated("rm")]);
    check("allows what is asked about", &asked, showing(&asked, allows), Err(Reject::NotApproved));
}

#[test]
fn a_gated_call_starts_only_on_enough_genuine_votes_for_it() {
    let begun = "running [started] | started |  | firm <lease steady epoch=7";
    let asked = Life::with(&[gated("rm")]);
    let denied = asked.clone().deny("bob", 0);
    let silent = asked.clone().later(2_000_000);
    let read = Life::with(&[gated("cat")]).approve("bob", 0);
    check_all([
        ("approved", approved(), approved().starting(0), Ok(begun)),
        ("asked", asked.clone(), asked.starting(0), Err(Reject::NotApproved)),
        ("denied", denied.clone(), denied.starting(0), Err(Reject::GateClosed(DenialCode::Denied))),
        ("silence", silent.clone(), silent.starting(0), Err(Reject::StepOver)),
        ("even when it only reads", read.clone(), read.starting(0), Ok(begun)),
    ]);
}

/// What somebody could have written into the store, without any key.
fn tampered(change: impl FnOnce(&mut crate::approval::Approval)) -> Life {
    let mut life = approved();
    let call = &mut life.run.as_mut().unwrap().calls[0];
    let Gate::Asked(approval) = &mut call.gate else { panic!("a gated call") };
    change(approval);
    life
}

#[test]
fn a_record_that_says_approved_is_not_enough() {
    let resigned = |change: fn(&mut Decision), key: &'static str| {
        tampered(move |approval| {
            let mut decision = approval.votes[0].signed.decision.clone();
            change(&mut decision);
            approval.votes[0].signed = sign(decision, key);
        })
    };
    let verdict = tampered(|a| a.votes[0].signed.decision.verdict = Verdict::Deny);
    let forged = |why| Err(Reject::VoteForged(why));
    let other_call = |d: &mut Decision| d.args_hash = Digest::of_bytes(b"x");
    let rows = [
        (
            "votes, but no approval",
            tampered(|a| a.state = State::Requested(Delivery::Published)),
            Err(Reject::NotApproved),
        ),
        ("no votes", tampered(|a| a.votes.clear()), Err(Reject::NotApproved)),
        ("a no among the votes", verdict, Err(Reject::NotApproved)),
        ("unknown key", resigned(|_| {}, "mallory"), forged(Forged::UnknownKey)),
        ("another's key", resigned(|_| {}, "alice"), forged(Forged::WrongSpeaker)),
        (
            "a changed vote",
            tampered(|a| a.votes[0].signed.decision.issued_at = Ms(1)),
            forged(Forged::BadSignature),
        ),
        ("for other arguments", resigned(other_call, "bob"), Err(Reject::WrongArgs)),
        (
            "for another nonce",
            resigned(|d| d.nonce = Nonce([1; 16]), "bob"),
            Err(Reject::WrongArgs),
        ),
        (
            "for another request",
            resigned(|d| d.approval_id = approval_id(1), "bob"),
            Err(Reject::WrongArgs),
        ),
        (
            "by one not asked",
            resigned(|d| d.approver = subject("carol"), "carol"),
            Err(Reject::NotEligible),
        ),
        (
            "one vote twice",
            tampered(|a| {
                a.need = 2;
                a.votes.push(a.votes[0].clone());
            }),
            Err(Reject::NotApproved),
        ),
        (
            "need of nothing",
            tampered(|a| {
                a.need = 0;
                a.votes.clear();
            }),
            Err(Reject::NotApproved),
        ),
    ];
    for (row, life, answer) in rows {
        check(row, &life, life.starting(0), answer);
    }
}

#[test]
fn a_key_that_was_taken_away_starts_nothing() {
    let event = showing(&approved(), |start| start.keys = KeyRing::default().into());
    check("no keys", &approved(), event, Err(Reject::VoteForged(Forged::UnknownKey)));
}

#[test]
fn two_votes_of_two_people_start_a_call_that_needs_two() {
    let life = Life::with(&[call("rm").asking(terms(2, &["alice", "bob", "carol"]))]);
    let one = life.approve("alice", 0);
    check("one", &one, one.starting(0), Err(Reject::NotApproved));
    let two = one.approve("carol", 0);
    assert!(matches!(two.asked(0).state, State::Approved { .. }));
    assert!(two.answer(&two.starting(0)).is_ok());
}

#[test]
fn a_refusal_that_ends_the_run_lets_nothing_further_begin() {
    let fatal = |tool| gated(tool).on_denied(OnDenied::EndRun);
    let both = || Life::with(&[fatal("rm"), call("ls"), call("df")]);
    let no = |life: &Life| life.deciding("bob", 0, Verdict::Deny);
    let over = "completed_with_denials(denied) [denied! ready ready] | voted denied ended \
                |  | firm <deadline -0";
    check("nothing runs", &both(), no(&both()), Ok(over));
    let parked = || Life::with(&[fatal("rm"), call("agent")]).spawn(1).park();
    let child = "completed_with_denials(denied) [denied! spawned] | voted denied ended \
                 | cancel:1 | firm <deadline -0";
    check("parked", &parked(), no(&parked()), Ok(child));
    let running = || both().start(1).deny("bob", 0);
    check(
        "a sibling may not begin",
        &running(),
        running().starting(2),
        Err(Reject::GateClosed(DenialCode::Denied)),
    );
    let last =
        "completed_with_denials(denied) [denied! succeeded ready] | finished ended |  | firm";
    check("the last one ends it", &running(), finish(A, 1), Ok(last));
    let planned = Life::held(job());
    let at_once = call("no").denied(DenialCode::PolicyDenied).on_denied(OnDenied::EndRun);
    let event = planned.planning(&[at_once, call("ls")]);
    let ended =
        "completed_with_denials(denied) [policy_denied ready] | planned denied ended |  | firm";
    check("refused when planned", &planned, event, Ok(ended));
    let asked = planned.planning(&[
        gated("rm"),
        call("no").denied(DenialCode::PolicyDenied).on_denied(OnDenied::EndRun),
    ]);
    let ended = "completed_with_denials(denied) [withdrawn! policy_denied] \
                 | planned asked denied denied ended |  | firm -0";
    check("asked in the same turn", &planned, asked, Ok(ended));
    let silent = parked().later(1_800_000);
    let told = "completed_with_denials(denied) [approval_timed_out! spawned] | denied ended \
                | cancel:1 | firm -0";
    check("silence", &silent, Event::Tick, Ok(told));
}

#[test]
fn a_finish_needs_the_claim_and_a_start() {
    let started = || ready(SideEffect::AtMostOnce).start(0);
    let not_run = Event::FinishTool { claim: A, seq: 0, status: Status::NotRun, result: text("") };
    check_all([
        ("finished", started(), finish(A, 0), Ok("running [succeeded] | finished |  | firm")),
        ("never begun after all", started(), not_run, Ok("running [notrun] | finished |  | firm")),
        (
            "lease lapsed, unnoticed",
            started().later(40_000),
            finish(A, 0),
            Ok("running [succeeded] | finished |  | firm"),
        ),
        ("not started", ready(SideEffect::ReadOnly), finish(A, 0), Err(Reject::NotStarted)),
        ("twice", started().finish(0), finish(A, 0), Err(Reject::NotStarted)),
        ("a child's", ready(SideEffect::ReadOnly).spawn(0), finish(A, 0), Err(Reject::NotStarted)),
        ("another's", started(), finish(B, 0), Err(Reject::LostClaim)),
        (
            "interrupted meanwhile",
            started().later(30_000).tick(),
            finish(A, 0),
            Err(Reject::Terminal),
        ),
        ("no such call", started(), finish(A, 1), Err(Reject::NoSuchCall(1))),
    ]);
}
