//! Several events as one commit: fewer commits, the same rules.

use super::fixtures::*;
use super::outline::outline;
use crate::call::Gate;
use crate::decision::Verdict;
use crate::run::{Change, Effect, Event, Reject, fold};

fn folded(life: &Life, events: &[Event]) -> Result<Change, (usize, Reject)> {
    fold(life.run.as_ref(), events, life.now)
}

#[track_caller]
fn check_fold(life: &Life, events: &[Event], answer: Result<&str, (usize, Reject)>) {
    let told = folded(life, events).map(|change| outline(life.run.as_ref(), &change));
    assert_eq!(told, answer.map(ToOwned::to_owned));
}

#[test]
fn a_playbook_step_is_one_commit() {
    let queued = Life::of(job());
    let held = queued.clone().then(|_| claim(A));
    let planned = held.clone().plan(&[call("ls")]);
    let events = [claim(A), held.planning(&[call("ls")]), planned.starting(0)];
    check_fold(
        &queued,
        &events,
        Ok("running [started] | claimed planned started |  | firm <1000030000 steady"),
    );
    let started = planned.start(0);
    check_fold(
        &started,
        &[finish(A, 0), done(A)],
        Ok("succeeded(done) [succeeded] | finished ended |  | firm"),
    );
}

#[test]
fn asking_and_parking_is_one_commit() {
    let queued = Life::of(job());
    let held = queued.clone().then(|_| claim(A));
    let events = [claim(A), held.planning(&[gated("rm")]), Event::Park { claim: A }];
    check_fold(
        &queued,
        &events,
        Ok("waiting [asked+0] | claimed planned asked parked | publish:0 | firm +0"),
    );
}

#[test]
fn a_rejection_in_the_middle_changes_nothing() {
    let held = Life::held(job());
    let events = [held.planning(&[call("ls")]), Event::Park { claim: A }, done(A)];
    check_fold(&held, &events, Err((1, Reject::Runnable)));
    check_fold(&held, &[], Err((0, Reject::NothingDue)));
    check_fold(&Life::none(), &[accepted(job()), claim(A), claim(B)], Err((2, Reject::Busy)));
}

#[test]
fn a_licence_set_and_used_up_in_one_commit_is_neither() {
    let held = Life::held(job());
    let asked = held.clone().plan(&[gated("rm")]);
    let events = [held.planning(&[gated("rm")]), asked.deciding("bob", 0, Verdict::Approve)];
    let change = folded(&held, &events).unwrap();
    assert!(change.licences_set.is_empty() && change.licences_del.is_empty());
    assert!(change.require.is_empty(), "it could not be there");
    assert!(change.need_steady_clock);
    assert_eq!(change.not_after, Some(asked.asked(0).deadline));
}

#[test]
fn what_is_no_longer_due_is_not_done() {
    let held = Life::held(job());
    let ended = [held.planning(&[gated("rm")]), cancel()];
    check_fold(
        &held,
        &ended,
        Ok("cancelled(cancelled) [withdrawn!] | planned asked cancel_asked denied ended |  | firm"),
    );
    let roused = Life::with(&[gated("rm")]).park();
    let events = [roused.deciding("bob", 0, Verdict::Approve), claim(B)];
    let change = folded(&roused, &events).unwrap();
    assert_eq!(change.require, [approval_id(0)], "its licence must live all the same");
    assert!(change.effects.is_empty(), "nobody has to be woken for a run that is held");
    let asked = Life::with(&[gated("rm")]);
    let (sooner, later) = (T0.plus(2_000_000), T0.plus(3_000_000));
    let extend = |life: &Life, at| life.extending("bob", 0, at);
    let once = asked.clone().then(|life| extend(life, sooner));
    let change = folded(&asked, &[extend(&asked, sooner), extend(&once, later)]).unwrap();
    assert_eq!(change.effects, [Effect::PublishRequest(approval_id(0))], "once is enough");
    assert_eq!(change.licences_set, [(approval_id(0), later)], "the last one holds");
    let voted = folded(&asked, &[asked.published(0), extend(&asked, later)]).unwrap();
    assert_eq!(voted.require, [approval_id(0)]);
    let again = [release(None), claim(A), release(None)];
    check_fold(&held, &again, Ok("queued:hi | released claimed released | wake:hi"));
    let tombstone = [accepted(job()), cancel()];
    check_fold(
        &Life::none(),
        &tombstone,
        Ok("cancelled(cancelled) | accepted cancel_asked ended |  | firm <start_by"),
    );
}

#[test]
fn approvals_of_two_policy_epochs_cannot_both_be_used() {
    let life = Life::with(&[gated("rm"), gated("mv")]).approve("bob", 0).approve("bob", 1);
    let with_epochs = |a, b| {
        let mut life = life.clone();
        for (call, epoch) in life.run.as_mut().unwrap().calls.iter_mut().zip([a, b]) {
            let Gate::Asked(approval) = &mut call.gate else { panic!("gated") };
            approval.policy_epoch = epoch;
        }
        let events = [life.starting(0), life.starting(1)];
        folded(&life, &events).unwrap().policy_epoch
    };
    assert_eq!(with_epochs(7, 7), Some(7));
    assert_eq!(with_epochs(8, 7), Some(7), "which is no longer the store's");
    assert_eq!(with_epochs(7, 8), Some(7));
}
