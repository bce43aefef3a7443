//! The shipped rules break no promise; without any of their guards the search notices.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use portcullis_model::mutation::mutants;
use portcullis_model::shipped::checked::{SCENARIOS, search};
use portcullis_model::verdicts::{EXEMPT, VERDICTS};
use portcullis_model::{hunt, mutated};

/// What a guard looks like in the source of the rules.
const LOOKS: [&str; 6] = [
    "Err(Reject::",
    ".firm();",
    ".not_after(",
    ".require(",
    "need_steady_clock = true",
    "policy_epoch = Some(",
];

/// Every second scenario, so that two tests share them.
fn every_second_scenario_is_clean(from: usize) {
    for scenario in SCENARIOS.iter().skip(from).step_by(2).filter(|scenario| !scenario.long) {
        let found = search(scenario, scenario.steps, 1);
        let (states, steps) = (found.states, scenario.steps);
        println!("{states:>9} states within {steps} steps: {}", scenario.name);
        assert!(50 < states, "{}: hardly anything was searched", scenario.name);
        if let Some((promise, trace)) = found.broken {
            panic!("{}: {promise}\n{}", scenario.name, trace.join("\n"));
        }
    }
}

#[test]
fn the_shipped_rules_break_no_promise() {
    every_second_scenario_is_clean(0);
}

#[test]
fn the_shipped_rules_break_no_promise_in_the_others() {
    every_second_scenario_is_clean(1);
}

#[test]
fn a_guard_that_is_out_is_noticed_by_the_promise_it_keeps() {
    let mut missed = Vec::new();
    for verdict in VERDICTS.iter().filter(|v| !mutated::checked::scenario(v.scenario).long) {
        let found = hunt(verdict);
        let promise = found.broken.as_ref().map_or("nothing", |(promise, _)| promise);
        if !promise.starts_with(&format!("{} ", verdict.breaks)) {
            missed.push(format!("{verdict:?}: found {promise}"));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn every_switch_has_a_verdict() {
    let judged: BTreeSet<_> = VERDICTS.iter().flat_map(|verdict| verdict.out).copied().collect();
    let switches: BTreeSet<_> = mutants().map(|mutant| mutant.name).collect();
    assert_eq!(switches.len(), mutants().count(), "two guards have one name");
    assert_eq!(judged, switches);
}

fn rules() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto/src")
}

/// The files whose guards are searched, as `proto/src` names them.
fn guarded_files() -> Vec<String> {
    let apply = fs::read_dir(rules().join("run/apply")).expect("the rules");
    let names =
        apply.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"));
    let rules = names.filter(|name| name.ends_with(".rs") && name != "tests.rs");
    let mut files: Vec<String> = rules.map(|name| format!("run/apply/{name}")).collect();
    files.extend(["run/apply.rs".to_owned(), "run/effective.rs".to_owned()]);
    files
}

/// The lines of a file that belong to a guard with a switch: its text, and the two lines that
/// follow a condition.
fn switched_lines(file: &str, text: &str) -> BTreeSet<usize> {
    let here = mutants().filter(|mutant| mutant.file == file);
    here.flat_map(|mutant| {
        let at = text.find(mutant.guard()).unwrap_or_else(|| panic!("{} is gone", mutant.name));
        let first = text[..at].matches('\n').count();
        let more = if mutant.guard().trim_end().ends_with('}') { 0 } else { 2 };
        first..=first + mutant.guard().matches('\n').count() + more
    })
    .collect()
}

#[test]
fn every_guard_has_a_switch_or_a_reason() {
    let mut open = Vec::new();
    let mut used = BTreeSet::new();
    for file in guarded_files() {
        let text = fs::read_to_string(rules().join(&file)).expect("a file of the rules");
        let text = text.split("#[cfg(test)]").next().expect("at least one part");
        let switched = switched_lines(&file, text);
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            let guards = LOOKS.iter().any(|looks| line.contains(looks));
            if !guards || line.starts_with("//") || line.contains("fn ") {
                continue;
            }
            let reason = EXEMPT.iter().position(|e| e.file == file && e.line == line);
            used.extend(reason);
            if !switched.contains(&number) && reason.is_none() {
                open.push(format!("proto/src/{file}:{}: {line}", number + 1));
            }
        }
    }
    assert!(open.is_empty(), "neither switch nor reason:\n{}", open.join("\n"));
    let idle: Vec<_> = EXEMPT.iter().enumerate().filter(|(at, _)| !used.contains(at)).collect();
    assert!(idle.is_empty(), "reasons for nothing: {idle:?}");
    assert!(EXEMPT.iter().all(|exempt| !exempt.why.is_empty()));
}
