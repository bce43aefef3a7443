use super::super::people::Manner;
use super::*;
use crate::args::Torture;
use crate::config::{BusPlace, Home, StorePlace};

fn plan(faults: &[Fault]) -> Plan {
    let api = crate::args::Api { api: "http://127.0.0.1:1".into(), token_file: None };
    let asked = Torture {
        api,
        run: true,
        print_config: false,
        runs: 1,
        workers: 0,
        faults: faults.to_vec(),
        ledger: "ledger".into(),
        approver: None,
        key: None,
        key_id: None,
        force_production: false,
    };
    let store = StorePlace::Sqlite("portcullis.db".into());
    Plan::of(&asked, &Home { store, bus: BusPlace::Embedded, ports: Vec::new() }).unwrap()
}

const RUN: &str = "s00-aaaaaaaaaaaaaaaaaaaaaaaaaa";

/// A run that was approved in time and acted, as the API shows it.
fn view() -> Value {
    json!({
        "outcome": "succeeded", "ended": 900, "hard_cap": 1_000,
        "calls": [{ "seq": 0, "approval": {
            "deadline": 500, "votes": [{ "by": "alice", "verdict": "approve", "at": 499 }],
        } }],
    })
}

fn story(manner: Manner, view: Option<Value>) -> Story {
    let injected = BTreeMap::from([(Fault::Late, 1)]);
    Story { manner, run: Some(RUN.parse().unwrap()), view, taken: 0, injected }
}

fn effects(times: u64) -> Effects {
    let mut effects = Effects::default();
    if 0 < times {
        effects.by_call.insert((RUN.to_owned(), 0), times);
        effects.by_key.insert("key".to_owned(), times);
    }
    effects
}

#[track_caller]
fn broken(stories: &[Story], effects: &Effects, wanted: &[&str]) {
    let report = Report::of(stories, effects, &plan(&[Fault::Late]), &[]);
    let broken: Vec<String> =
        report.promises().into_iter().filter(|row| !row.3).map(|row| row.0).collect();
    assert_eq!(broken, wanted, "{report:?}");
    assert_eq!(report.holds(), wanted.is_empty());
}

#[test]
fn a_run_that_was_approved_in_time_and_acted_once_holds() {
    broken(&[story(Manner::Approve, Some(view()))], &effects(1), &[]);
}

#[test]
fn an_effect_needs_a_yes_that_came_in_time_and_was_really_said() {
    let mut late = view();
    late["calls"][0]["approval"]["votes"][0]["at"] = json!(500);
    let unapproved = "effects without a valid yes in time";
    broken(&[story(Manner::Approve, Some(late))], &effects(1), &[unapproved]);
    let mut silent = view();
    silent["calls"][0]["approval"]["votes"] = json!([]);
    broken(&[story(Manner::Approve, Some(silent))], &effects(1), &[unapproved]);
    let forged = "forged or late decisions that counted";
    broken(&[story(Manner::Forge, Some(view()))], &effects(1), &[unapproved, forged]);
    broken(&[story(Manner::Deny, Some(view()))], &effects(1), &[unapproved, forged]);
}

#[test]
fn an_effect_counts_once_and_belongs_to_a_run() {
    let good = || [story(Manner::Approve, Some(view()))];
    broken(&good(), &effects(2), &["effects of one approval, at most"]);
    let mut other = effects(1);
    other.by_call.insert((RUN.to_owned(), 1), 1);
    broken(&good(), &other, &["effects without a valid yes in time"]);
    let mut strange = effects(1);
    strange.by_call.insert(("s01-aaaaaaaaaaaaaaaaaaaaaaaaaa".to_owned(), 0), 1);
    broken(&good(), &strange, &["effects without a valid yes in time"]);
    let mut unreadable = effects(1);
    unreadable.unreadable = 1;
    broken(&good(), &unreadable, &["effects without a valid yes in time"]);
    let mut same_key = effects(1);
    same_key.by_key.insert("key".to_owned(), 2);
    broken(&good(), &same_key, &["effects of one approval, at most"]);
}

#[test]
fn a_run_must_be_there_and_end_by_its_cap() {
    let mut late = view();
    late["ended"] = json!(1_000 + BOUND_MS + 1);
    broken(&[story(Manner::Approve, Some(late))], &effects(1), &["runs not ended by their cap"]);
    let mut live = view();
    live["ended"] = Value::Null;
    broken(&[story(Manner::Approve, Some(live))], &effects(1), &["runs not ended by their cap"]);
    let both = [story(Manner::Approve, Some(view())), story(Manner::Deny, None)];
    broken(&both, &effects(1), &["accepted runs lost"]);
    let refused = Story { run: None, ..story(Manner::Approve, None) };
    let both = [story(Manner::Approve, Some(view())), refused];
    broken(&both, &effects(1), &["starts that were never accepted"]);
}

#[test]
fn a_decision_that_must_not_count_and_was_taken_is_told() {
    let taken = Story { taken: 1, ..story(Manner::Opposite, Some(view())) };
    broken(&[taken], &effects(1), &["forged or late decisions that counted"]);
}

#[test]
fn a_fault_that_was_chosen_and_never_happened_proves_nothing() {
    let idle = Story { injected: BTreeMap::new(), ..story(Manner::Approve, Some(view())) };
    broken(&[idle], &effects(1), &["injected: late"]);
    broken(&[], &Effects::default(), &["runs", "effects", "injected: late"]);
}

#[test]
fn what_cannot_be_done_in_this_home_is_left_out_or_refused() {
    let all = plan(&[]);
    for fault in [Fault::Kill, Fault::Cut, Fault::Wakes] {
        assert!(!all.has(fault), "{}", name(fault));
    }
    for fault in [Fault::Replay, Fault::Forge, Fault::Late, Fault::Opposite] {
        assert!(all.has(fault), "{}", name(fault));
    }
}
