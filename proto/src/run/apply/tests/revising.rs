//! Section 3 of the protocol: how an open request changes, later, wider or to another call.

use super::fixtures::*;
use super::{check, check_all};
use crate::approval::{CAP_RESERVE_MS, Delivery, State};
use crate::call::Gate;
use crate::decision::{Decision, Forged, Verdict};
use crate::denial::DenialCode;
use crate::digest::Digest;
use crate::ids::{ApprovalId, Nonce};
use crate::policy::{LEVELS_MAX, Terms};
use crate::run::event::Standing;
use crate::run::{Edit, Effect, Event, Reject, index_entries, next_deadline};

const WAIT_MS: i64 = 1_800_000;
const MINUTE_MS: i64 = 60_000;

fn asked() -> Life {
    Life::with(&[gated("rm")])
}

/// Alice first, carol after a minute, bob after two.
fn with_levels() -> Terms {
    let levels =
        vec![level(MINUTE_MS, "leads", &["carol"]), level(2 * MINUTE_MS, "owners", &["bob"])];
    Terms { levels, ..terms(1, &["alice"]) }
}

fn levelled() -> Life {
    Life::with(&[call("rm").asking(with_levels())]).park()
}

fn number(seq: u32, n: u32) -> ApprovalId {
    ApprovalId::of(&run_id(&job().key), seq, n)
}

#[test]
fn an_approver_moves_a_deadline_later_and_never_past_the_cap() {
    let until = T0.plus(2 * WAIT_MS);
    let latest = job().limits.cap_ms - CAP_RESERVE_MS;
    let longer = |who| asked().extending(who, 0, until);
    let later = "running [asked+0] | extended | publish:0 | firm <deadline steady ?0 +0";
    let no = |at| Err(Reject::NotLater { at: T0.plus(at) });
    let capped = asked().then(|life| life.extending("bob", 0, crate::time::Ms(1 << 52)));
    let late = Reject::Late { at: T0.plus(WAIT_MS) };
    check_all([
        ("later", asked(), longer("bob"), Ok(later)),
        ("the last moment", asked().later(WAIT_MS - 1), longer("bob"), Ok(later)),
        ("at the deadline", asked().later(WAIT_MS), longer("bob"), Err(late)),
        ("no later", asked(), asked().extending("bob", 0, T0.plus(WAIT_MS)), no(WAIT_MS)),
        ("earlier", asked(), asked().extending("bob", 0, T0), no(WAIT_MS)),
        ("as late as can be", capped.clone(), longer("alice"), no(latest)),
        ("approved", asked().approve("bob", 0), longer("bob"), Err(Reject::AlreadyDecided)),
        ("denied", asked().deny("bob", 0), longer("bob"), Err(Reject::AlreadyDecided)),
        ("ended", asked().then(|_| cancel()), longer("bob"), Err(Reject::Terminal)),
        ("no run", Life::none(), longer("bob"), Err(Reject::Unknown)),
    ]);
    assert_eq!(capped.asked(0).deadline, T0.plus(latest));
    assert_eq!(capped.last().licences_set, [(approval_id(0), T0.plus(latest))]);
    let life = asked().park().then(|life| life.published(0)).then(|_| longer("bob"));
    assert_eq!((life.asked(0).rev, life.asked(0).deadline), (2, until));
    let life = life.then(|life| life.published(0));
    assert_eq!(next_deadline(life.run()), Some(until));
    let life = life.later(WAIT_MS).approve("alice", 0);
    assert!(life.run().calls[0].is_runnable(), "what was asked is the same: so is the answer");
}

#[test]
fn only_a_genuine_extension_of_exactly_this_request_counts() {
    let until = T0.plus(2 * WAIT_MS);
    let longer = || asked().extension("bob", 0, until);
    let changed = |change: fn(&mut crate::decision::Extension), key| {
        let mut extension = longer();
        change(&mut extension);
        extend_with(sign_extension(extension, key), Standing::Member)
    };
    let mut broken = sign_extension(longer(), "bob");
    broken.extension.until = until.plus(1);
    let broken = extend_with(broken, Standing::Member);
    let left = extend_with(sign_extension(longer(), "bob"), Standing::NoMember);
    let forged = |why| Err(Reject::Forged(why));
    let later = "running [asked+0] | extended | publish:0 | firm <deadline steady ?0 +0";
    check_all([
        ("by the notary", asked(), changed(|_| {}, "notary"), Ok(later)),
        ("in another's name", asked(), changed(|_| {}, "alice"), forged(Forged::WrongSpeaker)),
        ("an unknown key", asked(), changed(|_| {}, "mallory"), forged(Forged::UnknownKey)),
        ("a changed field", asked(), broken, forged(Forged::BadSignature)),
        (
            "no canonical form",
            asked(),
            changed(|e| e.until = crate::time::Ms(1 << 53), "bob"),
            forged(Forged::BadSignature),
        ),
        (
            "another nonce",
            asked(),
            changed(|e| e.nonce = Nonce([1; 16]), "bob"),
            Err(Reject::WrongNonce),
        ),
        (
            "other arguments",
            asked(),
            changed(|e| e.args_hash = Digest::of_bytes(b"x"), "bob"),
            Err(Reject::WrongArgs),
        ),
        ("never asked", asked(), asked().extending("carol", 0, until), Err(Reject::NotEligible)),
        ("no member now", asked(), left, Err(Reject::NotEligible)),
        (
            "another request",
            asked(),
            changed(|e| e.approval_id = number(0, 2), "bob"),
            Err(Reject::UnknownApproval),
        ),
    ]);
}

#[test]
fn an_unanswered_request_goes_to_further_approvers() {
    let first = levelled().then(|life| life.published(0));
    assert_eq!(next_deadline(first.run()), Some(T0.plus(MINUTE_MS)));
    let early = first.deciding("alice", 0, Verdict::Approve);
    let carol = |life: &Life| life.deciding("carol", 0, Verdict::Approve);
    let before = first.clone().until(T0.plus(MINUTE_MS - 1));
    check("not yet", &before, Event::Tick, Err(Reject::NothingDue));
    check("not asked yet", &before, carol(&before), Err(Reject::NotEligible));
    let due = before.later(1);
    let grown = "waiting [asked+0] | escalated | publish:0 | firm";
    check("due", &due, Event::Tick, Ok(grown));
    let second = due.tick();
    let request = second.asked(0);
    assert_eq!((request.rev, request.need, request.deadline), (2, 1, T0.plus(WAIT_MS)));
    assert_eq!(request.eligible, [subject("alice"), subject("carol")]);
    let pools: Vec<_> = request.pools().map(ToString::to_string).collect();
    assert_eq!((pools, request.pool.as_str()), (vec!["ops".into(), "leads".into()], "leads"));
    let lists: Vec<_> = index_entries(second.run()).into_iter().map(|(list, ..)| list).collect();
    assert_eq!(lists, ["run.waiting", "ask.ops", "ask.leads"]);
    assert!(second.clone().then(|_| early).run().calls[0].is_runnable(), "the first may still");
    assert!(second.clone().then(|_| carol(&second)).run().calls[0].is_runnable());
    let stale = Event::Published { approval: approval_id(0), rev: 1 };
    check("the earlier revision", &second, stale, Err(Reject::StaleRevision));
    let all = second.later(2 * MINUTE_MS).tick();
    assert_eq!(all.asked(0).eligible.len(), 3);
    let both = levelled().until(T0.plus(2 * MINUTE_MS)).tick();
    assert_eq!(both.asked(0).eligible.len(), 3, "two at once, when nobody looked");
    assert_eq!(both.last().effects, [Effect::PublishRequest(approval_id(0))]);
}

#[test]
fn an_approved_or_refused_request_goes_no_further() {
    for life in [levelled().approve("alice", 0), levelled().deny("alice", 0)] {
        let later = life.later(MINUTE_MS).tick();
        assert_eq!(later.asked(0).eligible, [subject("alice")]);
    }
}

#[test]
fn a_level_after_the_deadline_is_never_reached() {
    let late = Terms { levels: vec![level(WAIT_MS, "leads", &["carol"])], ..terms(1, &["alice"]) };
    let life = Life::with(&[call("rm").asking(late.clone())]).park();
    let shown = life.then(|life| life.published(0));
    assert_eq!(next_deadline(shown.run()), Some(T0.plus(WAIT_MS)));
    let told = "queued:hi [approval_timed_out!] | denied roused | wake:hi | -0";
    check("silence", &shown.clone().later(WAIT_MS), Event::Tick, Ok(told));
    let returned = shown.then(|life| life.extending("alice", 0, T0.plus(WAIT_MS + 1)));
    let returned = returned.then(|life| life.unroutable(0));
    assert_eq!(returned.asked(0).pool.as_str(), "leads", "unless there is nobody else at once");
    let two = Terms { need: 2, ..late };
    let held = Life::held(job());
    let event = held.planning(&[call("rm").asking(two)]);
    let hopeless = "running [quorum_unreachable!] | planned denied |  | firm -0";
    check("nor counted on", &held, event, Ok(hopeless));
}

#[test]
fn a_quorum_may_count_on_later_levels_and_an_empty_level_is_passed_over() {
    let two = Terms { need: 2, ..with_levels() };
    let life = Life::with(&[call("rm").asking(two)]).park().approve("alice", 0);
    let life = life.later(MINUTE_MS).tick();
    assert_eq!(life.asked(0).votes.len(), 1, "a vote outlives the revision");
    assert!(life.approve("carol", 0).run().calls[0].is_runnable());
    let nobody = Terms { eligible: Vec::new(), ..with_levels() };
    let life = Life::with(&[call("rm").asking(nobody)]);
    let request = life.asked(0);
    assert_eq!((request.eligible.as_slice(), request.rev), ([subject("carol")].as_slice(), 1));
    let many = vec![level(MINUTE_MS, "leads", &["carol"]); LEVELS_MAX + 1];
    let life = Life::with(&[call("rm").asking(Terms { levels: many, ..with_levels() })]);
    assert_eq!(life.asked(0).levels.len(), LEVELS_MAX);
    let empty = Terms { levels: vec![level(MINUTE_MS, "leads", &[])], ..terms(1, &[]) };
    let held = Life::held(job());
    let event = held.planning(&[call("rm").asking(empty)]);
    check(
        "nobody at all",
        &held,
        event,
        Ok("running [no_approver!] | planned denied |  | firm -0"),
    );
}

#[test]
fn a_request_without_a_queue_goes_to_the_next_level_at_once() {
    let returned = |life: &Life| life.unroutable(0);
    let next = "waiting [asked+0] | unroutable escalated | publish:0 | firm";
    check("a level is left", &levelled(), returned(&levelled()), Ok(next));
    let last = levelled().then(returned).then(returned);
    let denied = "queued:hi [no_approver!] | unroutable denied roused | wake:hi | -0";
    check("none is left", &last, returned(&last), Ok(denied));
    let shown = levelled().then(|life| life.published(0)).later(2 * MINUTE_MS).tick();
    check("the first level has it", &shown, returned(&shown), Ok("waiting [shown+0] | unroutable"));
    let longer = asked().then(|life| life.published(0));
    let longer = longer.then(|life| life.extending("bob", 0, T0.plus(2 * WAIT_MS)));
    check("an extension", &longer, returned(&longer), Ok("running [shown+0] | unroutable"));
    let mut inbox = with_levels();
    inbox.levels[0].inbox = true;
    let life = Life::with(&[call("rm").asking(inbox)]).then(returned);
    assert!(life.asked(0).inbox);
    let seen = life.then(returned);
    assert_eq!(seen.asked(0).state, State::Requested(Delivery::InboxOnly));
}

#[test]
fn an_approver_allows_a_narrower_call_instead() {
    let edit = |life: &Life, who| life.editing(who, 0, "tmp");
    let parked = || asked().park();
    let two = || Life::with(&[call("rm").asking(terms(2, &["alice", "bob"]))]);
    let voted = two().approve("alice", 0);
    let once = "running [approved] | edited voted approved |  | firm <deadline steady ?0 -0";
    let queued = "queued:hi [approved] | edited voted approved roused | wake:hi \
                  | firm <deadline steady ?0 -0";
    let anew = "running [asked+1] | edited voted | publish:0 | firm <deadline steady ?0 -0 +0";
    let late = Reject::Late { at: T0.plus(WAIT_MS) };
    check_all([
        ("enough", asked(), edit(&asked(), "bob"), Ok(once)),
        ("parked", parked(), edit(&asked(), "bob"), Ok(queued)),
        ("one of two", two(), edit(&two(), "bob"), Ok(anew)),
        ("others' votes are void", voted.clone(), edit(&voted, "bob"), Ok(anew)),
        ("at the deadline", asked().later(WAIT_MS), edit(&asked(), "bob"), Err(late)),
        ("approved", asked().approve("bob", 0), edit(&asked(), "bob"), Err(Reject::AlreadyDecided)),
        ("denied", asked().deny("bob", 0), edit(&asked(), "bob"), Err(Reject::AlreadyDecided)),
        ("ended", asked().then(|_| cancel()), edit(&asked(), "bob"), Err(Reject::Terminal)),
        ("no run", Life::none(), edit(&asked(), "bob"), Err(Reject::Unknown)),
    ]);
}

#[test]
fn the_edited_call_is_the_one_that_starts() {
    let before = asked();
    let planned = before.showing(0);
    let life = before.then(|life| life.editing("bob", 0, "tmp"));
    let old = Event::StartTool { claim: A, seq: 0, start: planned };
    check("as planned", &life, old, Err(Reject::ArgsMismatch));
    let begun = "running [started] | started |  | firm <lease steady epoch=7";
    check("as edited", &life, life.starting(0), Ok(begun));
    let request = life.asked(0);
    assert_eq!((request.id.clone(), request.rev), (number(0, 2), 1));
    assert_eq!(request.deadline, T0.plus(WAIT_MS), "no time was gained");
}

#[test]
fn an_edit_makes_another_request_with_the_same_deadline() {
    let two = Life::with(&[call("rm").asking(terms(2, &["alice", "bob"]))]).later(5_000);
    let old = two.deciding("alice", 0, Verdict::Approve);
    let same = two.editing("bob", 0, "tmp");
    let life = two.then(|_| same.clone());
    let deadline = T0.plus(WAIT_MS);
    assert_eq!(life.last().licences_set, [(number(0, 2), deadline)]);
    assert_eq!(
        (life.last().licences_del.clone(), life.asked(0).deadline),
        (vec![number(0, 1)], deadline)
    );
    check("for the old one", &life, old, Err(Reject::StaleRevision));
    check("the same again", &life, same, Err(Reject::AlreadySo));
    check(
        "his vote counts",
        &life,
        life.deciding("bob", 0, Verdict::Approve),
        Err(Reject::AlreadySo),
    );
    let old = Event::LicenceGone { approval: number(0, 1) };
    check("the old licence", &life, old, Err(Reject::StaleRevision));
    let both = life.clone().approve("alice", 0);
    assert!(both.answer(&both.starting(0)).is_ok(), "a vote for the edit, and one for its request");
    let refused = life.clone().deny("bob", 0);
    assert!(refused.run().calls[0].refusal().is_some(), "and he may still say no");
    let again = life.clone().then(|life| life.editing("alice", 0, "var"));
    assert_eq!(again.asked(0).id, number(0, 3));
    assert_eq!(again.asked(0).votes.len(), 1);
    let shown = life.then(|life| life.published(0));
    let longer = shown.then(|life| life.extending("bob", 0, deadline.plus(1)));
    let next = longer.then(|life| life.editing("alice", 0, "var"));
    let (request, edit) = (next.asked(0), next.edit(0, "var"));
    assert_eq!((request.rev, request.shown, request.nonce), (1, false, edit.nonce));
    assert!(matches!(request.state, State::Requested(Delivery::Unsent(_))));
    assert_eq!(next.run().calls[0].fingerprint, edit.fingerprint);
}

/// What somebody with a key, but no right to it, could have written into the store.
#[test]
fn a_vote_on_an_edit_names_the_request_it_was_cast_on() {
    let changes: [fn(&mut Decision); 3] = [
        |decision| decision.nonce = Nonce([1; 16]),
        |decision| decision.approval_id = approval_id(1),
        |decision| decision.args_hash = Digest::of_bytes(b"x"),
    ];
    for change in changes {
        let mut life = asked().then(|life| life.editing("bob", 0, "tmp"));
        let call = &mut life.run.as_mut().unwrap().calls[0];
        let Gate::Asked(approval) = &mut call.gate else { panic!("a gated call") };
        let mut decision = approval.votes[0].signed.decision.clone();
        change(&mut decision);
        approval.votes[0].signed = sign(decision, "bob");
        check("another", &life, life.starting(0), Err(Reject::WrongArgs));
    }
}

#[test]
fn only_a_genuine_yes_to_exactly_the_edited_call_counts() {
    let life = asked();
    let edit = || life.edit(0, "tmp");
    let with = |change: fn(&mut Decision), edit: Edit| {
        let mut decision = life.edited("bob", 0, &edit);
        change(&mut decision);
        edit_with(sign(decision, "bob"), Standing::Member, edit)
    };
    let signed_by = |key: &str, edit: Edit| {
        edit_with(sign(life.edited("bob", 0, &edit), key), Standing::Member, edit)
    };
    let other = life.edit(0, "everything");
    let swapped =
        edit_with(sign(life.edited("bob", 0, &edit()), "bob"), Standing::Member, other.clone());
    let relabelled = Edit { args: other.args, ..edit() };
    let elsewhere = Edit { args_hash: life.edit(0, "usr").args_hash, ..edit() };
    let print = Edit { fingerprint: Digest::of_bytes(b"x"), ..edit() };
    let call = &life.run().calls[0];
    let same = Edit {
        args: call.args.clone(),
        args_hash: call.args_hash,
        fingerprint: call.fingerprint,
        ..edit()
    };
    let left = edit_with(sign(life.edited("bob", 0, &edit()), "bob"), Standing::NoMember, edit());
    let forged = |why| Err(Reject::Forged(why));
    let rows = [
        ("an unknown key", signed_by("mallory", edit()), forged(Forged::UnknownKey)),
        ("another's key", signed_by("alice", edit()), forged(Forged::WrongSpeaker)),
        ("a no", with(|d| d.verdict = Verdict::Deny, edit()), Err(Reject::WrongArgs)),
        ("a yes to another call", swapped, Err(Reject::WrongArgs)),
        (
            "a yes to what was asked",
            with(|d| d.args_hash = Digest::of_bytes(b"x"), edit()),
            Err(Reject::WrongArgs),
        ),
        ("nothing changed", with(|_| {}, same), Err(Reject::WrongArgs)),
        ("arguments of another digest", with(|_| {}, relabelled), Err(Reject::ArgsMismatch)),
        ("a digest of other arguments", with(|_| {}, elsewhere), Err(Reject::ArgsMismatch)),
        ("another fingerprint", with(|_| {}, print), Err(Reject::ArgsMismatch)),
        ("another nonce", with(|d| d.nonce = Nonce([1; 16]), edit()), Err(Reject::WrongNonce)),
        ("never asked", life.editing("carol", 0, "tmp"), Err(Reject::NotEligible)),
        ("no member now", left, Err(Reject::NotEligible)),
        (
            "another request",
            with(|d| d.approval_id = number(0, 2), edit()),
            Err(Reject::UnknownApproval),
        ),
    ];
    for (row, event, answer) in rows {
        check(row, &asked(), event, answer);
    }
    let plain = decide_with(sign(life.edited("bob", 0, &edit()), "bob"), Standing::Member);
    check("as a plain decision", &asked(), plain, Err(Reject::WrongArgs));
    let denied = asked().deny("bob", 0);
    assert_eq!(denied.asked(0).refusal().map(|denial| denial.code), Some(DenialCode::Denied));
}
