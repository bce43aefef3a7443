use proptest::prelude::*;

use super::*;

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
/// The first instant of the hourly rule below.
const FIRST: i64 = 1_767_600_000_000;

fn hourly() -> Rule {
    Rule::every(HOUR, FIRST).unwrap()
}

fn terms(rule: &Rule, catch_up: CatchUp) -> Terms<'_> {
    Terms { rule, digest: super::super::rule_digest(rule), catch_up }
}

/// Armed a minute before its first instant.
fn armed(rule: &Rule) -> Schedule {
    let at = Ms(FIRST - MINUTE);
    apply(None, &Event::Synced, terms(rule, CatchUp::One), at).unwrap().next
}

fn instants(times: &[i64]) -> Vec<Ms> {
    times.iter().map(|n| Ms(FIRST + n * HOUR)).collect()
}

fn run_id(n: u8) -> RunId {
    RunId::new(format!("s00-{}", char::from(b'a' + n).to_string().repeat(26))).unwrap()
}

#[test]
fn a_new_reminder_is_armed_for_its_next_instant() {
    let schedule = armed(&hourly());
    assert_eq!(schedule.next_fire, Some(Ms(FIRST)));
    assert_eq!(schedule.next_deadline(), Some(Ms(FIRST)));
    assert_eq!(Schedule::decode(&schedule.encode()), Ok(schedule));
}

/// What fires, and how many instants are let go, `late` hours after the last of `passed` instants.
#[track_caller]
fn check_catch_up(catch_up: CatchUp, now: i64, fire: &[i64], missed: u64) {
    let rule = hourly();
    let due = apply(Some(&armed(&rule)), &Event::Due, terms(&rule, catch_up), Ms(now)).unwrap();
    assert_eq!(due.fire, instants(fire), "{catch_up:?} {now}");
    assert_eq!(due.next.pending, due.fire, "what fires is stored first");
    assert_eq!(due.next.missed, missed, "{catch_up:?} {now}");
    assert!(due.next.next_fire.is_some_and(|at| Ms(now) < at), "the next fire is stored too");
    let hold = (!fire.is_empty()).then_some(Ms(now + HOLD_MS));
    assert_eq!(due.next.hold_until, hold);
}

#[test]
fn missed_instants_are_caught_up_as_the_reminder_says() {
    let (on_time, late, after_two) = (FIRST + 1_000, FIRST + 2 * MINUTE, FIRST + 2 * HOUR + 1_000);
    check_catch_up(CatchUp::None, on_time, &[0], 0);
    check_catch_up(CatchUp::One, on_time, &[0], 0);
    check_catch_up(CatchUp::All, on_time, &[0], 0);
    check_catch_up(CatchUp::None, late, &[], 1);
    check_catch_up(CatchUp::One, late, &[0], 0);
    check_catch_up(CatchUp::None, after_two, &[2], 2);
    check_catch_up(CatchUp::One, after_two, &[2], 2);
    check_catch_up(CatchUp::All, after_two, &[0, 1, 2], 0);
    let long_ago = FIRST + 1_000 * HOUR + 30 * MINUTE;
    let last_ten: Vec<i64> = (991..=1_000).collect();
    check_catch_up(CatchUp::One, long_ago, &[1_000], 9);
    check_catch_up(CatchUp::All, long_ago, &last_ten, 0);
}

#[test]
fn one_is_caught_up_only_within_the_hour() {
    let rule = Rule::at(FIRST);
    let due = |late| {
        let now = Ms(FIRST + late);
        apply(Some(&armed(&rule)), &Event::Due, terms(&rule, CatchUp::One), now).unwrap()
    };
    assert_eq!(due(CATCH_UP_MS_MAX).fire, [Ms(FIRST)]);
    let too_late = due(CATCH_UP_MS_MAX + 1);
    assert!(too_late.fire.is_empty());
    assert_eq!(too_late.next.last.map(|fire| fire.outcome), Some(Outcome::Missed));
    assert_eq!(too_late.next.next_fire, None, "it is spent");
}

#[test]
fn a_one_shot_fires_once() {
    let rule = Rule::at(FIRST);
    let terms = terms(&rule, CatchUp::One);
    let due = apply(Some(&armed(&rule)), &Event::Due, terms, Ms(FIRST)).unwrap().next;
    let outcome = Outcome::Started { run: run_id(0) };
    let fired = Event::Fired { instant: Ms(FIRST), hold_until: Ms(FIRST + HOLD_MS), outcome };
    let spent = apply(Some(&due), &fired, terms, Ms(FIRST + 1)).unwrap().next;
    assert_eq!((spent.next_deadline(), spent.fired), (None, 1));
    for event in [Event::Synced, Event::Due] {
        let again = apply(Some(&spent), &event, terms, Ms(FIRST + HOUR));
        assert_eq!(again, Err(Reject::NothingDue), "{event:?}");
    }
}

#[test]
fn one_process_at_a_time_decides_the_pending_instants() {
    let rule = hourly();
    let terms = terms(&rule, CatchUp::One);
    let at = |ms: i64| Ms(FIRST + ms);
    let first = apply(Some(&armed(&rule)), &Event::Due, terms, at(0)).unwrap().next;
    let held = apply(Some(&first), &Event::Due, terms, at(HOLD_MS - 1));
    assert_eq!(held, Err(Reject::Held { until: at(HOLD_MS) }));
    // The first one died: the next one takes over the same instant, and only it may decide now.
    let second = apply(Some(&first), &Event::Due, terms, at(HOLD_MS)).unwrap();
    assert_eq!(second.fire, [at(0)]);
    let fired = |hold_until| Event::Fired {
        instant: at(0),
        hold_until,
        outcome: Outcome::Skipped { live: run_id(0) },
    };
    let late = apply(Some(&second.next), &fired(at(HOLD_MS)), terms, at(HOLD_MS + 1));
    assert_eq!(late, Err(Reject::LostHold));
    let decided =
        apply(Some(&second.next), &fired(at(2 * HOLD_MS)), terms, at(HOLD_MS + 1)).unwrap().next;
    assert_eq!((decided.skipped, decided.next_deadline()), (1, decided.next_fire));
    let twice = apply(Some(&decided), &fired(at(2 * HOLD_MS)), terms, at(HOLD_MS + 2));
    assert_eq!(twice, Err(Reject::LostHold));
}

#[test]
fn a_changed_rule_is_armed_anew_and_owes_nothing_of_the_old_one() {
    let (rule, other) = (hourly(), Rule::every(HOUR, FIRST + 10 * MINUTE).unwrap());
    let now = Ms(FIRST + MINUTE);
    let changed =
        apply(Some(&armed(&rule)), &Event::Synced, terms(&other, CatchUp::One), now).unwrap().next;
    assert_eq!(changed.next_fire, Some(Ms(FIRST + 10 * MINUTE)));
    assert_eq!(changed.missed, 1, "the old rule's instant had passed");
    // A process with the old configuration must not fire by a rule that is not stored.
    let old = apply(Some(&changed), &Event::Due, terms(&rule, CatchUp::One), Ms(FIRST + HOUR));
    assert_eq!(old, Err(Reject::OtherRule));
}

#[test]
fn a_restart_changes_nothing_and_leaves_an_overdue_instant_due() {
    let rule = hourly();
    let terms = terms(&rule, CatchUp::One);
    for now in [FIRST - 1, FIRST + 1, FIRST + 5 * HOUR] {
        let synced = apply(Some(&armed(&rule)), &Event::Synced, terms, Ms(now));
        assert_eq!(synced, Err(Reject::NothingDue), "{now}");
    }
}

#[test]
fn a_removed_reminder_fires_no_more_and_comes_back_armed() {
    let rule = hourly();
    let terms = terms(&rule, CatchUp::One);
    let due = apply(Some(&armed(&rule)), &Event::Due, terms, Ms(FIRST)).unwrap().next;
    let removed = due.removed();
    assert_eq!(removed.next_deadline(), None);
    assert_eq!(apply(Some(&removed), &Event::Due, terms, Ms(FIRST + HOUR)), Err(Reject::OtherRule));
    let back = apply(Some(&removed), &Event::Synced, terms, Ms(FIRST + 1)).unwrap().next;
    assert_eq!(back.next_fire, Some(Ms(FIRST + HOUR)));
}

#[test]
fn an_unknown_version_is_not_guessed_at() {
    let text = String::from_utf8(armed(&hourly()).encode()).unwrap();
    let newer = text.replacen("\"v\":1", "\"v\":2", 1);
    assert!(Schedule::decode(newer.as_bytes()).is_err());
    assert!(Schedule::decode(b"{}").is_err());
}

#[derive(Clone, Debug)]
enum Step {
    Wait(i64),
    Sync,
    Due,
    Decide(bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (1..40 * MINUTE).prop_map(Step::Wait),
        (1..30 * HOUR).prop_map(Step::Wait),
        Just(Step::Sync),
        Just(Step::Due),
        any::<bool>().prop_map(Step::Decide),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #[test]
    fn whatever_happens_each_instant_is_decided_at_most_once(
        steps in steps(),
        catch_up in prop_oneof![Just(CatchUp::None), Just(CatchUp::One), Just(CatchUp::All)],
        cron in any::<bool>(),
    ) {
        let rule = if cron {
            let policy = super::super::calendar::DstPolicy::default();
            Rule::parse_cron("*/20 1,2 * * *", "Europe/Berlin", policy).unwrap()
        } else {
            hourly()
        };
        let terms = terms(&rule, catch_up);
        let (mut schedule, mut now) = (armed(&rule), Ms(FIRST - MINUTE));
        let (mut decided, mut held) = (Vec::new(), Vec::new());
        for step in steps {
            let event = match step {
                Step::Wait(ms) => {
                    now = now.plus(ms);
                    continue;
                }
                Step::Sync => Event::Synced,
                Step::Due => Event::Due,
                Step::Decide(started) => {
                    let (Some(instant), Some(hold_until)) =
                        (held.first().copied(), schedule.hold_until) else { continue };
                    let outcome = if started {
                        Outcome::Started { run: run_id(0) }
                    } else {
                        Outcome::Skipped { live: run_id(1) }
                    };
                    Event::Fired { instant, hold_until, outcome }
                }
            };
            let Ok(change) = apply(Some(&schedule), &event, terms, now) else { continue };
            match &event {
                Event::Due => held.clone_from(&change.fire),
                Event::Fired { instant, .. } => {
                    prop_assert!(!decided.contains(instant), "{instant} was decided twice");
                    decided.push(*instant);
                    held.retain(|pending| pending != instant);
                }
                Event::Synced => {}
            }
            schedule = change.next;
            let sorted = schedule.pending.is_sorted();
            prop_assert!(sorted && schedule.pending.len() <= PENDING_MAX);
            for instant in &schedule.pending {
                prop_assert!(*instant <= now, "nothing fires early");
                let own = rule.next_after(instant.0 - 1).unwrap() == Some(instant.0);
                prop_assert!(own, "{instant} is no instant of the rule");
                prop_assert!(!decided.contains(instant));
            }
            prop_assert!(schedule.next_deadline().is_some(), "an endless rule is never spent");
            if event == Event::Due {
                prop_assert!(schedule.next_fire.is_some_and(|at| now < at));
            }
        }
    }

    #[test]
    fn the_newest_instants_are_those_that_counting_finds(
        period in 1_i64..200, first in 0_i64..50, count in 0_i64..400,
    ) {
        let rule = Rule::every(period * 1_000, FIRST).unwrap();
        let start = Ms(FIRST + first * period * 1_000);
        let now = start.plus(count * 777);
        let mut counted = vec![];
        let mut at = start.minus(1);
        while let Some(next) = next_after(&rule, at).unwrap().filter(|next| *next <= now) {
            counted.push(next);
            at = next;
        }
        let newest = counted.split_off(counted.len().saturating_sub(PENDING_MAX));
        prop_assert_eq!(latest(&rule, start, now).unwrap(), newest);
    }
}
