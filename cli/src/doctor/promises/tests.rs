use std::collections::BTreeMap;

use portcullis_engine::finding::Severity;

use super::*;
use crate::config::loaded_for_tests as loaded;

const SHELL: &str = "[agents.a]\nplaybook = [{ tool = \"shell\", argv = [\"true\"] }]\n";
const ALICE: &str = "[approvers.alice]\npools = [\"default\"]\ntoken_sha256 = [\"";

/// What is not fine, by check.
fn warnings(config: &Config) -> BTreeMap<&'static str, Vec<String>> {
    let mut told: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    for finding in look(config).into_iter().filter(|f| f.severity != Severity::Fine) {
        told.entry(finding.check).or_default().push(finding.found);
    }
    told
}

fn alice() -> String {
    format!("{ALICE}{}\"]\n", "a".repeat(64))
}

/// `key = …` lines of the top and sections, then the agent's own.
#[track_caller]
fn check(text: &str, tool: &str, wanted: &[(&'static str, &str)]) {
    let config = loaded(&format!("{text}\n{SHELL}{tool}\n"));
    let told = warnings(&config);
    let names: Vec<_> = told.keys().copied().collect();
    let wanted_names: Vec<_> = wanted.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, wanted_names, "{told:?}");
    for (name, part) in wanted {
        assert!(told[name].iter().any(|found| found.contains(part)), "{part}: {told:?}");
    }
}

#[test]
fn a_pool_with_people_who_have_tokens_is_fine() {
    check(&alice(), "tools.shell.gate = \"ask\"", &[]);
}

#[test]
fn nobody_to_ask_is_told() {
    check("", "tools.shell.gate = \"ask\"", &[("config-approvers", "which a asks")]);
    check("[approvals]\nunattended = \"deny\"", "tools.shell.gate = \"ask\"", &[]);
}

#[test]
fn who_signs_for_himself_cannot_answer_in_one_process() {
    let carol = format!(
        "[approvers.carol]\npools = [\"default\"]\npublic_keys.k = \"{}=\"",
        "A".repeat(43)
    );
    check(&carol, "tools.shell.gate = \"ask\"", &[("config-inbox", "`default`")]);
}

#[test]
fn more_yes_than_people_is_told() {
    let need = "tools.shell = { gate = \"ask\", need = 2 }";
    check(&alice(), need, &[("config-quorum", "needs 2 approvers, and 1")]);
    let bob = alice() + &alice().replace("alice", "bob").replace("aaaa", "bbbb");
    check(&bob, need, &[]);
}

#[test]
fn what_may_not_be_repeated_and_is_not_asked_about_is_told() {
    let allowed = "tools.shell = { gate = \"allow\" }";
    check("", allowed, &[("config-ungated", "`shell` of `a`")]);
    check("", "tools.shell = { gate = \"allow\", effect = \"read_only\" }", &[]);
}

#[test]
fn a_wait_that_cannot_end_well_is_told() {
    let limits = |text: &str| format!("tools.shell.gate = \"ask\"\nlimits = {{ {text} }}");
    let long = limits("step = \"6m\", hard_cap = \"10m\", approval = \"11m\"");
    check(&alice(), &long, &[("config-approval-time", "longer than its run")]);
    let short = limits("approval = \"1s\"");
    check(&alice(), &short, &[("config-approval-time", "waits 1000 ms")]);
    check(&alice(), &limits("hard_cap = \"10m\", approval = \"10m\""), &[]);
}

#[test]
fn a_reminder_that_a_stranger_attends_is_told() {
    let reminder = |who: &str| {
        let reminder = "[reminders.r]\nagent = \"a\"\nevery = \"1h\"\nattended_by = ";
        format!("{}{reminder}\"{who}\"", alice())
    };
    let tool = "tools.shell.gate = \"ask\"";
    check(&reminder("alice"), tool, &[]);
    check(&reminder("mallory"), tool, &[("config-attended-by", "`mallory`")]);
}

#[test]
fn an_unsigned_route_and_an_open_api_are_told() {
    let hook = format!("{}[webhooks.h]\nagent = \"a\"\nverify = {{ scheme = \"none\" }}", alice());
    let tool = "tools.shell.gate = \"ask\"";
    check(&hook, tool, &[("config-webhook-unsigned", "/hooks/h")]);
    let open = format!("[http]\nlisten = \"0.0.0.0:8080\"\n{}", alice());
    check(&open, tool, &[("config-api-exposed", "plain HTTP")]);
    let silent = "[http]\nlisten = \"0.0.0.0:8080\"\n[approvals]\nunattended = \"deny\"";
    check(silent, tool, &[("config-api-exposed", "no token")]);
}

#[test]
fn only_those_without_an_inbox_need_a_service() {
    let distributed = "[store]\nurl = \"redis://127.0.0.1:1/0\"\n\
                       [bus]\nurl = \"amqp://u:p@127.0.0.1:1/x\"\n";
    let pools = |people: &str| {
        let text = format!("{distributed}{people}\n{SHELL}tools.shell.gate = \"ask\"\n");
        asked_of_services(&loaded(&text)).len()
    };
    assert_eq!((pools(""), pools(&alice())), (1, 0));
}
