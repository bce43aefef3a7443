//! Section 3 of the protocol: whose word counts, until when, and what voids it.

use super::fixtures::*;
use super::{check, check_all};
use crate::approval::{State, USE_BY_MS};
use crate::decision::{Channel, Decision, Forged, Verdict};
use crate::denial::DenialCode;
use crate::digest::Digest;
use crate::ids::Nonce;
use crate::run::event::Standing;
use crate::run::{Event, Reject, next_deadline};

const WAIT_MS: i64 = 1_800_000;

fn asked() -> Life {
    Life::with(&[gated("rm")])
}

fn of_two() -> Life {
    Life::with(&[call("rm").asking(terms(2, &["alice", "bob"]))])
}

fn yes(who: &str) -> Event {
    asked().deciding(who, 0, Verdict::Approve)
}

fn no(who: &str) -> Event {
    asked().deciding(who, 0, Verdict::Deny)
}

#[test]
fn enough_timely_votes_approve_and_one_no_denies() {
    let one = || of_two().approve("alice", 0);
    let parked = || asked().park();
    let enough = "running [approved] | voted approved |  | firm <deadline steady ?0 -0";
    let roused = "queued:hi [approved] | voted approved roused | wake:hi \
                  | firm <deadline steady ?0 -0";
    let vote = "running [asked+1] | voted |  | firm <deadline steady ?0";
    let denied = "running [denied!] | voted denied |  | firm <deadline -0";
    let settled = "queued:hi [denied!] | voted denied roused | wake:hi | firm <deadline -0";
    check_all([
        ("the one needed", asked(), yes("bob"), Ok(enough)),
        ("the one needed, parked", parked(), yes("bob"), Ok(roused)),
        ("one of two", of_two(), yes("bob"), Ok(vote)),
        ("two of two", one(), yes("bob"), Ok(enough)),
        ("the same one twice", one(), yes("alice"), Err(Reject::AlreadySo)),
        ("a no", asked(), no("bob"), Ok(denied)),
        ("a no, parked", parked(), no("bob"), Ok(settled)),
        ("a no after another's yes", one(), no("bob"), Ok(denied)),
        ("a change of mind", one(), no("alice"), Ok(denied)),
        ("no run", Life::none(), yes("bob"), Err(Reject::Unknown)),
    ]);
}

#[test]
fn what_was_decided_stays_decided() {
    let (approved, denied) = (asked().approve("bob", 0), asked().deny("bob", 0));
    let changed = of_two().approve("alice", 0).deny("alice", 0);
    check_all([
        ("approved, same again", approved.clone(), yes("bob"), Err(Reject::AlreadySo)),
        ("approved, by another too", approved.clone(), yes("alice"), Err(Reject::AlreadyDecided)),
        ("approved, then a no", approved.clone(), no("bob"), Err(Reject::AlreadyDecided)),
        ("denied, same again", denied.clone(), no("bob"), Err(Reject::AlreadySo)),
        ("denied, then a yes", denied, yes("bob"), Err(Reject::AlreadyDecided)),
        ("mind changed, then back", changed.clone(), yes("alice"), Err(Reject::AlreadyDecided)),
        ("mind changed, same again", changed, no("alice"), Err(Reject::AlreadySo)),
        ("started", approved.start(0), no("alice"), Err(Reject::AlreadyDecided)),
    ]);
}

#[test]
fn a_decision_counts_until_its_deadline_and_not_at_it() {
    let late = || Reject::Late { at: T0.plus(WAIT_MS) };
    let yes = asked().deciding("bob", 0, Verdict::Approve);
    let no = asked().deciding("bob", 0, Verdict::Deny);
    let last = "running [approved] | voted approved |  | firm <deadline steady ?0 -0";
    check("the last moment", &asked().later(WAIT_MS - 1), yes.clone(), Ok(last));
    check("a yes at the deadline", &asked().later(WAIT_MS), yes.clone(), Err(late()));
    check("a no at the deadline", &asked().later(WAIT_MS), no, Err(late()));
    check("committed long ago", &asked().later(WAIT_MS).tick().later(1), yes.clone(), Err(late()));
    let half = of_two().approve("alice", 0).park().later(WAIT_MS);
    check(
        "one of two is silence",
        &half,
        Event::Tick,
        Ok("queued:hi [approval_timed_out!] | denied roused | wake:hi | -0"),
    );
    let change = asked().answer(&yes).unwrap();
    assert_eq!(change.not_after, Some(T0.plus(WAIT_MS)), "and the store sees to it");
}

#[test]
fn only_a_genuine_decision_on_exactly_this_request_counts() {
    let given = asked();
    let yes = || given.decision("bob", 0, Verdict::Approve);
    let member = Standing::Member;
    let signed_by = |key: &str| decide_with(sign(yes(), key), member);
    let changed = |change: fn(&mut Decision)| {
        let mut decision = yes();
        change(&mut decision);
        decide_with(sign(decision, "bob"), member)
    };
    let mut broken = sign(yes(), "bob");
    broken.decision.channel = Channel::Http;
    let stranger = decide_with(sign(given.decision("carol", 0, Verdict::Approve), "carol"), member);
    let left = decide_with(sign(yes(), "bob"), Standing::NoMember);
    let elsewhere = changed(|d| d.approval_id = approval_id(1));
    check_all([
        (
            "by the notary",
            given.clone(),
            signed_by("notary"),
            Ok("running [approved] | voted approved |  | firm <deadline steady ?0 -0"),
        ),
        (
            "in another's name",
            given.clone(),
            signed_by("alice"),
            Err(Reject::Forged(Forged::WrongSpeaker)),
        ),
        (
            "an unknown key",
            given.clone(),
            signed_by("mallory"),
            Err(Reject::Forged(Forged::UnknownKey)),
        ),
        (
            "a changed field",
            given.clone(),
            decide_with(broken, member),
            Err(Reject::Forged(Forged::BadSignature)),
        ),
        (
            "older than the request",
            given.clone(),
            changed(|d| d.nonce = Nonce([1; 16])),
            Err(Reject::WrongNonce),
        ),
        (
            "other arguments",
            given.clone(),
            changed(|d| d.args_hash = Digest::of_bytes(b"x")),
            Err(Reject::WrongArgs),
        ),
        ("never asked", given.clone(), stranger, Err(Reject::NotEligible)),
        ("asked then, no member now", given.clone(), left, Err(Reject::NotEligible)),
        ("another call", given.clone(), elsewhere, Err(Reject::UnknownApproval)),
    ]);
}

#[test]
fn a_refused_decision_leaves_the_request_open_to_everybody_else() {
    let life = asked();
    let forged =
        decide_with(sign(life.decision("bob", 0, Verdict::Deny), "mallory"), Standing::Member);
    assert!(life.answer(&forged).is_err());
    assert!(life.approve("bob", 0).run().calls[0].is_runnable());
}

#[test]
fn an_approval_grows_stale_and_a_denial_does_not() {
    let approved = asked().park().approve("bob", 0);
    let State::Approved { use_by, .. } = approved.asked(0).state else { panic!("approved") };
    assert_eq!(use_by, T0.plus(USE_BY_MS));
    let near = Life::held(limited(|limits| limits.cap_ms = 60_000));
    let near = near.plan(&[gated("rm")]).approve("bob", 0);
    let capped =
        matches!(near.asked(0).state, State::Approved { use_by, .. } if use_by == T0.plus(60_000));
    assert!(capped, "nothing may start at the cap");
    let rung =
        [30_000, 120_000, 480_000].into_iter().fold(approved, |life, ms| life.later(ms).tick());
    assert_eq!(next_deadline(rung.run()), Some(use_by));
    let held = rung.until(use_by.minus(10_000)).then(|_| claim(A));
    let last = "running [started] | started |  | firm <use_by steady epoch=7";
    check("the last moment", &held.clone().until(use_by.minus(1)), held.starting(0), Ok(last));
    let stale = held.clone().until(use_by);
    check("unused", &stale, Event::Tick, Ok("running [grant_stale!] | denied"));
    let closed = Reject::GateClosed(DenialCode::GrantStale);
    check("too late to start", &stale, held.starting(0), Err(closed));
    let used = held.start(0).until(use_by).finish(0);
    assert!(used.run().calls[0].refusal().is_none());
}

#[test]
fn an_approval_is_void_without_its_licence_or_under_another_policy() {
    let gone = || Event::LicenceGone { approval: approval_id(0) };
    let changed = || Event::PolicyChanged { approval: approval_id(0) };
    let approved = || asked().approve("bob", 0);
    check_all([
        ("licence gone", asked(), gone(), Ok("running [licence_gone!] | denied |  | firm -0")),
        (
            "licence gone, parked",
            asked().park(),
            gone(),
            Ok("queued:hi [licence_gone!] | denied roused | wake:hi | firm -0"),
        ),
        ("licence used up", approved(), gone(), Err(Reject::AlreadyDecided)),
        ("licence gone, denied", asked().deny("bob", 0), gone(), Err(Reject::AlreadyDecided)),
        (
            "licence gone, late",
            asked().later(WAIT_MS),
            gone(),
            Err(Reject::Late { at: T0.plus(WAIT_MS) }),
        ),
        ("licence gone, started", approved().start(0), gone(), Err(Reject::AlreadyStarted)),
        ("licence of nothing", Life::with(&[call("ls")]), gone(), Err(Reject::UnknownApproval)),
        ("policy changed", asked(), changed(), Ok("running [withdrawn!] | denied |  | firm -0")),
        (
            "policy changed, approved",
            approved(),
            changed(),
            Ok("running [withdrawn!] | denied |  | firm"),
        ),
        ("policy changed, started", approved().start(0), changed(), Err(Reject::AlreadyStarted)),
        ("policy changed, denied", asked().deny("bob", 0), changed(), Err(Reject::AlreadyDecided)),
    ]);
}

#[test]
fn each_approved_call_runs_when_it_is_approved() {
    let names = ["rm", "mv", "cp"].map(gated);
    let plans = [&names[..], &[call("ls"), call("df")]].concat();
    let life = Life::with(&plans).start(3).finish(3).start(4).finish(4).park();
    let life = life.approve("bob", 1).then(|_| claim(A)).start(1).finish(1);
    check("waits for the others", &life, life.planning(&[]), Err(Reject::CallsOpen));
    let life = life.park().deny("alice", 2);
    check("a refusal settles no turn", &life, claim(A), Err(Reject::Waiting));
    let life = life.later(WAIT_MS);
    let settled = "queued:hi [approval_timed_out! succeeded denied! succeeded succeeded]";
    check(
        "silence does",
        &life,
        Event::Tick,
        Ok(&*format!("{settled} | denied roused | wake:hi | -0")),
    );
}

#[test]
fn a_denial_names_who_was_asked_and_nobody_who_was_silent() {
    let silent = asked().later(WAIT_MS + 5).tick();
    let denial = silent.asked(0).refusal().unwrap();
    assert_eq!((denial.code, &denial.by), (DenialCode::ApprovalTimedOut, &None));
    assert_eq!((denial.at, denial.waited_ms), (T0.plus(WAIT_MS), Some(WAIT_MS)));
    assert_eq!(denial.pool.as_ref().unwrap().as_str(), "ops");
    let mut no = asked().decision("bob", 0, Verdict::Deny);
    no.reason = Some("not today".into());
    let denied = asked().later(7).then(|_| decide_with(sign(no, "bob"), Standing::Member));
    let denial = denied.asked(0).refusal().unwrap();
    assert_eq!((denial.by.as_ref(), denial.waited_ms), (Some(&subject("bob")), Some(7)));
    assert_eq!(denial.detail.as_deref(), Some("not today"));
}
