//! Is anything left unfinished, asleep, undecided or tied to one machine?

use super::source::{Finding, Source, has_word};

// In pieces, so that this file does not find itself.
const MARKS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
const MACROS: [&str; 2] = [concat!("to", "do!("), concat!("unimple", "mented!(")];
const IGNORED: &str = concat!("#[ign", "ore");
const SLEEPS: [&str; 3] =
    [concat!("sle", "ep("), concat!("sle", "ep_until("), concat!("sle", "ep_ms(")];
const ALLOWED_SLEEP: &str = concat!("// sle", "ep: ");
const MACHINE: &str = concat!("/wo", "rk/");
const CASES: &str = concat!("../sha", "red/cases");
const BESIDE: [&str; 3] = [
    concat!("../sha", "red/design"),
    concat!("../sha", "red/bench"),
    concat!("../sha", "red/hooks"),
];

/// No mark of work to come, no ignored test.
pub(crate) fn unfinished(files: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        for (number, line) in file.lines() {
            for mark in MARKS.iter().filter(|mark| has_word(line, mark)) {
                findings.push(file.finding(number, format!("{mark}: do it, or open an issue")));
            }
            if !file.is_rust() {
                continue;
            }
            for mark in MACROS.iter().filter(|mark| line.contains(*mark)) {
                findings.push(file.finding(number, format!("{mark}…): write it")));
            }
            if line.contains(IGNORED) {
                findings.push(file.finding(number, "an ignored test: make it pass or delete it"));
            }
        }
    }
    findings
}

/// Tests wait on a signal with a timeout. A sleep needs its reason in a comment on the line above.
pub(crate) fn sleeps_in_tests(files: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let begin = if file.is_test() { 0 } else { file.tests_begin() };
        let mut above = "";
        for ((number, code), (_, line)) in file.code().zip(file.lines()) {
            let sleeps = SLEEPS.iter().any(|sleep| is_call(code, sleep));
            let allowed = above.trim_start().starts_with(ALLOWED_SLEEP);
            if begin <= number && sleeps && !allowed {
                let what = format!(
                    "a sleep in a test: wait on a signal with a timeout, or give the reason above \
                     it: `{ALLOWED_SLEEP}…`"
                );
                findings.push(file.finding(number, what));
            }
            above = line;
        }
    }
    findings
}

fn is_call(code: &str, call: &str) -> bool {
    code.match_indices(call).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        !before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_')
    })
}

/// The run's state machine names every case, so that a new one is a compile error.
pub(crate) fn wildcards_in_the_run(files: &[Source]) -> Vec<Finding> {
    let machine = files.iter().filter(|file| {
        let in_run = file.path == "proto/src/run.rs" || file.is_in_any(&["proto/src/run/"]);
        file.is_rust() && in_run && !file.is_test()
    });
    machine
        .flat_map(|file| {
            let end = file.tests_begin();
            let rules = file.code().take_while(move |(number, _)| *number < end);
            rules.filter(|(_, line)| is_wildcard_arm(line)).map(|(number, _)| {
                file.finding(number, "a wildcard arm in the state machine: name the variants")
            })
        })
        .collect()
}

/// An arm whose pattern names nothing: `_ =>`, `(_, _) =>`, `_ if …`, `Named | _ =>`.
fn is_wildcard_arm(line: &str) -> bool {
    let Some((pattern, _)) = line.split_once(" =>").or_else(|| line.split_once(" if ")) else {
        return false;
    };
    let pattern = pattern.split_once(" if ").map_or(pattern, |(pattern, _)| pattern);
    pattern.trim().split('|').any(|part| {
        let part = part.trim();
        part.contains('_') && part.chars().all(|letter| "_(), ".contains(letter))
    })
}

/// Nothing refers to the machine or the folder it was written in.
pub(crate) fn machine_paths(files: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        for (number, line) in file.lines() {
            let beside = BESIDE.iter().any(|folder| line.contains(folder));
            let cases = line.contains(CASES) && !file.is_test();
            if line.contains(MACHINE) || beside || cases {
                let what = "a path of one machine: use a path inside the repository";
                findings.push(file.finding(number, what));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::source::tests::{file, places};
    use super::*;

    #[test]
    fn unfinished_work_is_refused() {
        for mark in MARKS.iter().chain(&MACROS) {
            let findings = unfinished(&file("a.rs", &format!("\n// {mark} later")));
            assert_eq!(places(&findings), ["a.rs:2"], "{mark}");
        }
        assert_eq!(unfinished(&file("a.md", MARKS[0])).len(), 1);
        assert_eq!(unfinished(&file("a.rs", &format!("{IGNORED}]"))).len(), 1);
    }

    #[test]
    fn a_sleep_in_a_test_is_refused_unless_it_says_why() {
        for call in SLEEPS {
            let line = format!("tokio::time::{call}x).await;");
            assert_eq!(
                places(&sleeps_in_tests(&file("tests/it/a.rs", &line))),
                ["tests/it/a.rs:1"]
            );
            assert!(sleeps_in_tests(&file("worker/src/a.rs", &line)).is_empty());
            let unit = format!("#[cfg(test)]\nmod tests {{\n{line}");
            let findings = sleeps_in_tests(&file("worker/src/a.rs", &unit));
            assert_eq!(places(&findings), ["worker/src/a.rs:3"]);
            let why = format!("{ALLOWED_SLEEP}nothing signals this\n{line}");
            assert!(sleeps_in_tests(&file("tests/it/a.rs", &why)).is_empty());
        }
    }

    #[test]
    fn a_wildcard_in_the_state_machine_is_refused() {
        for line in
            ["_ => no(),", "(_, _) => no(),", "_ if late => no(),", "Requested | _ => no(),"]
        {
            let findings = wildcards_in_the_run(&file("proto/src/run/apply.rs", line));
            assert_eq!(places(&findings), ["proto/src/run/apply.rs:1"], "{line}");
            assert!(wildcards_in_the_run(&file("proto/src/ids.rs", line)).is_empty());
        }
        let named = "(Used | Refused(_), Decided { .. }) => final_(),";
        assert!(wildcards_in_the_run(&file("proto/src/run.rs", named)).is_empty());
    }

    #[test]
    fn a_path_of_one_machine_is_refused() {
        assert_eq!(machine_paths(&file("a.md", &format!("see {MACHINE}x"))).len(), 1);
        assert_eq!(machine_paths(&file("a.md", &format!("see {CASES}"))).len(), 1);
        assert_eq!(machine_paths(&file("tests/it/a.rs", BESIDE[0])).len(), 1);
        assert!(machine_paths(&file("tests/it/a.rs", CASES)).is_empty());
    }
}
