//! How a call becomes a child run, and how each learns that the other has ended.

use super::fixtures::*;
use super::{check, check_all};
use crate::call::{Progress, SideEffect, Status};
use crate::denial::DenialCode;
use crate::ids::{JobKey, RunId, Tenant};
use crate::job::{Attendance, CHILDREN_MAX, DEPTH_MAX, Job, Origin, Parent};
use crate::run::{CHILD_CHECK_MS, Effect, Event, Outcome, Reject, next_deadline};

fn ready() -> Life {
    Life::with(&[call("agent")])
}

fn with_job(life: &Life, change: impl FnOnce(&mut Job)) -> Event {
    let mut job = life.child(0);
    change(&mut job);
    let child = run_id(&job.key);
    Event::SpawnChild { claim: A, seq: 0, start: life.showing(0), child, job: Box::new(job) }
}

fn parent_of(job: &mut Job) -> &mut Parent {
    job.parent.as_mut().unwrap()
}

#[test]
fn a_call_starts_a_child_under_the_rules_of_a_start() {
    let begun = "running [spawned] | spawned | create:0 | firm <lease steady";
    let reads = Life::with(&[call("agent").effect(SideEffect::ReadOnly)]);
    let asked = Life::with(&[gated("agent")]);
    let approved = asked.clone().approve("bob", 0);
    let gated = "running [spawned] | spawned | create:0 | firm <lease steady epoch=7";
    check_all([
        ("allowed", ready(), ready().spawning(0), Ok(begun)),
        ("approved", approved, ready().spawning(0), Ok(gated)),
        ("read only", reads.clone(), reads.spawning(0), Ok(begun)),
        ("asked", asked, ready().spawning(0), Err(Reject::NotApproved)),
        ("again", ready().spawn(0), ready().spawning(0), Err(Reject::AlreadyStarted)),
        ("not held", ready().then(|_| release(None)), ready().spawning(0), Err(Reject::LostClaim)),
    ]);
}

type Change = fn(&mut Job);

#[test]
fn a_child_inherits_and_only_narrows() {
    let attended = |who: &str| Attendance::Session { approver: subject(who) };
    let mine = || Err(Reject::NotThatChild);
    let wrong: [(&str, Change); 8] = [
        ("no parent", |job| job.parent = None),
        ("another call", |job| parent_of(job).call = 1),
        ("another run", |job| {
            parent_of(job).run = run_id(&JobKey::child(&approval_id(0).run(), 9))
        }),
        ("another depth", |job| parent_of(job).depth = 0),
        ("a later cap", |job| parent_of(job).hard_cap = parent_of(job).hard_cap.plus(1)),
        ("another key", |job| job.key = JobKey::api(&job.tenant, b"x")),
        ("another tenant", |job| job.tenant = Tenant::new("other").unwrap()),
        ("another origin", |job| job.origin = Origin::Api),
    ];
    for (row, change) in wrong {
        check(row, &ready(), with_job(&ready(), change), mine());
    }
    let wider = with_job(&ready(), |job| job.attendance = attended("alice"));
    check("more attendance", &ready(), wider, mine());
    let parent = Job { attendance: attended("alice"), ..job() };
    let life = Life::held(parent).plan(&[call("agent")]);
    let none = with_job(&life, |job| job.attendance = Attendance::Unattended);
    assert!(life.answer(&none).is_ok(), "less attendance");
    assert!(life.answer(&life.spawning(0)).is_ok(), "the same attendance");
    let earlier = with_job(&life, |job| parent_of(job).hard_cap = T0.plus(60_000));
    assert!(life.answer(&earlier).is_ok(), "an earlier cap");
}

#[test]
fn runs_nest_and_branch_only_so_far() {
    let mut deep = job_under(T0.plus(HOUR_MS));
    parent_of(&mut deep).depth = DEPTH_MAX;
    let life = Life::held(deep).plan(&[call("agent")]);
    check("deep", &life, life.spawning(0), Err(Reject::TooDeep { max: DEPTH_MAX }));
    let mut wide = Life::with(&vec![call("agent"); CHILDREN_MAX + 1]);
    for seq in 0..u32::try_from(CHILDREN_MAX).unwrap() {
        // Ended children count as well: otherwise a run could start any number, one by one.
        wide = wide.spawn(seq).then(|life| life.child_done(seq, Outcome::Succeeded));
    }
    let seq = u32::try_from(CHILDREN_MAX).unwrap();
    check("wide", &wide, wide.spawning(seq), Err(Reject::TooManyChildren { max: CHILDREN_MAX }));
}

#[test]
fn a_child_is_made_until_it_exists_and_looked_at_until_it_ends() {
    let spawned = ready().spawn(0).park();
    let mut life = spawned.clone();
    for wait in [5_000, 10_000, 20_000] {
        let due = life.now.plus(wait);
        assert_eq!(next_deadline(life.run()), Some(due));
        check("too early", &life.clone().until(due.minus(1)), Event::Tick, Err(Reject::NothingDue));
        life = life.until(due).tick();
        assert_eq!(life.last().effects, [Effect::CreateChild(0)]);
    }
    let exists = spawned.then(|_| Event::ChildCreated { seq: 0 });
    check("exists already", &exists, Event::ChildCreated { seq: 0 }, Err(Reject::NothingDue));
    check("no child", &ready(), Event::ChildCreated { seq: 0 }, Err(Reject::NothingDue));
    check("no call", &ready(), Event::ChildCreated { seq: 9 }, Err(Reject::NoSuchCall(9)));
    assert_eq!(next_deadline(exists.run()), Some(T0.plus(CHILD_CHECK_MS)));
    let looked = exists.later(CHILD_CHECK_MS).tick();
    assert_eq!(looked.last().effects, [Effect::CheckChild(0)]);
    assert_eq!(next_deadline(looked.run()), Some(T0.plus(2 * CHILD_CHECK_MS)));
}

#[test]
fn a_child_comes_back_as_its_calls_result() {
    let spawned = || ready().spawn(0);
    let done = |outcome| spawned().child_done(0, outcome);
    let ok = || done(Outcome::Succeeded);
    let other = Event::ChildDone {
        seq: 0,
        child: RunId::new("s00-aaaaaaaaaaaaaaaaaaaaaaaaaa").unwrap(),
        outcome: Outcome::Succeeded,
        result: text("out"),
    };
    check_all([
        ("running", spawned(), ok(), Ok("running [succeeded] | finished |  | firm")),
        (
            "waiting",
            spawned().park(),
            ok(),
            Ok("queued:hi [succeeded] | finished roused | wake:hi | firm"),
        ),
        (
            "denials",
            spawned(),
            done(Outcome::CompletedWithDenials),
            Ok("running [completedwithdenials] | finished |  | firm"),
        ),
        ("failed", spawned(), done(Outcome::Failed), Ok("running [failed] | finished |  | firm")),
        (
            "timed out",
            spawned(),
            done(Outcome::TimedOut),
            Ok("running [failed] | finished |  | firm"),
        ),
        (
            "cancelled",
            spawned(),
            done(Outcome::Cancelled),
            Ok("running [failed] | finished |  | firm"),
        ),
        (
            "interrupted",
            spawned(),
            done(Outcome::Interrupted),
            Ok("running [unknown] | finished |  | firm"),
        ),
        ("again", spawned().then(|_| ok()), ok(), Err(Reject::AlreadySo)),
        ("another child", spawned(), other, Err(Reject::NotThatChild)),
        ("never started", ready(), ok(), Err(Reject::NotThatChild)),
        ("a tool", ready().start(0), ok(), Err(Reject::NotThatChild)),
        (
            "no such call",
            spawned(),
            Event::ChildDone {
                seq: 5,
                child: run_id(&job().key),
                outcome: Outcome::Failed,
                result: text(""),
            },
            Err(Reject::NoSuchCall(5)),
        ),
    ]);
    let life = spawned().then(|_| done(Outcome::Interrupted));
    assert!(matches!(
        life.run().calls[0].progress,
        Progress::Finished { status: Status::Unknown, .. }
    ));
}

#[test]
fn an_ended_run_tells_its_parent_and_its_children_until_they_know() {
    let under = || Life::held(job_under(T0.plus(HOUR_MS))).plan(&[call("agent"), call("agent")]);
    let ended = under().spawn(0).spawn(1).then(|_| cancel());
    let every = [Effect::NotifyParent, Effect::CancelChild(0), Effect::CancelChild(1)];
    assert_eq!(ended.last().effects, every);
    let mut life = ended.clone();
    for wait in [5_000, 10_000, 20_000] {
        let due = life.now.plus(wait);
        assert_eq!(next_deadline(life.run()), Some(due));
        check("too early", &life.clone().until(due.minus(1)), Event::Tick, Err(Reject::NothingDue));
        life = life.until(due).tick();
        assert_eq!(life.last().effects, every);
    }
    let told = life.then(|_| Event::ParentNotified).then(|_| Event::ChildEnded { seq: 1 });
    check("told twice", &told, Event::ParentNotified, Err(Reject::NothingDue));
    check("ended twice", &told, Event::ChildEnded { seq: 1 }, Err(Reject::NothingDue));
    let all = told.then(|_| Event::ChildEnded { seq: 0 });
    assert_eq!(next_deadline(all.run()), None, "then it needs no timer any more");
    check("live", &under(), Event::ParentNotified, Err(Reject::NothingDue));
    check("live", &under().spawn(0), Event::ChildEnded { seq: 0 }, Err(Reject::NothingDue));
}

#[test]
fn a_parent_that_ends_without_news_of_a_child_still_cancels_it() {
    let fatal = ready().spawn(0).then(|_| fail(A));
    assert_eq!(fatal.last().effects, [Effect::CancelChild(0)]);
    let capped = ready().spawn(0).park().later(2 * HOUR_MS).tick();
    assert_eq!(capped.last().effects, [Effect::CancelChild(0)]);
    let refused = Life::with(&[call("no").denied(DenialCode::PolicyDenied)]);
    assert!(refused.then(|_| done(A)).last().effects.is_empty(), "no child, no word");
}
