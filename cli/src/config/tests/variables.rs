//! Settings from the environment.

use super::*;

#[test]
fn a_variable_goes_before_the_file() {
    let file = "[store]\nurl = \"sqlite:a.db\"\n[worker]\nslots = 3";
    let variables = [
        ("PORTCULLIS_STORE_URL", "redis://u:p@r:7/0"),
        ("PORTCULLIS_BUS_URL", "amqp://u:p@b/v"),
        ("PORTCULLIS_WORKER_SLOTS", "5"),
        ("PORTCULLIS_WORKER_DRAIN", "90"),
        ("PORTCULLIS_SANDBOX_GUARDED_PORTS", "9090, 9091"),
        ("PORTCULLIS_LOG_FORMAT", "json"),
        ("PORTCULLIS_TOKEN", "not a setting"),
    ];
    let config = loaded(file, &variables);
    assert!(config.home.is_distributed());
    assert_eq!(config.home.ports, [7, 5672]);
    assert_eq!((config.worker.slots, config.worker.drain.ms()), (5, 90_000));
    assert_eq!(config.log.format, LogFormat::Json);
}

#[test]
fn a_variable_that_is_wrong_is_named() {
    check(
        "",
        &[("PORTCULLIS_WORKR_SLOTS", "1")],
        &["variable PORTCULLIS_WORKR_SLOTS: no setting has this name; did you mean \
           PORTCULLIS_WORKER_SLOTS? Else unset it"],
    );
    check(
        "",
        &[("PORTCULLIS_WORKER_SLOTS", "many")],
        &["variable PORTCULLIS_WORKER_SLOTS: `worker.slots`: `many` is not a whole number; \
           correct it, or unset the variable"],
    );
    check(
        "",
        &[("PORTCULLIS_WORKER_SLOTS", "0")],
        &["variable PORTCULLIS_WORKER_SLOTS: `worker.slots`: 0 is no number of slots; choose 1 \
           to 4096"],
    );
}

fn approval_ms(file: &str, variables: &[(&str, &str)]) -> i64 {
    let config = loaded(&format!("{AGENT}{file}"), variables);
    config.agents[&AgentName::new("a").unwrap()].limits.approval_ms
}

#[test]
fn the_approval_timeout_is_read_from_every_place() {
    const ALIAS: &str = "AGENTIC_APPROVAL_TIMEOUT_SECONDS";
    const OURS: &str = "PORTCULLIS_APPROVALS_TIMEOUT_SECONDS";
    let file = |text| format!("[approvals]\ntimeout_seconds = {text}");
    assert_eq!(approval_ms("", &[]), 1_800_000);
    assert_eq!(approval_ms(&file("2.5"), &[]), 2_500);
    assert_eq!(approval_ms(&file("9"), &[(ALIAS, "0.25")]), 250);
    assert_eq!(approval_ms(&file("9"), &[(ALIAS, "30"), (OURS, "30.0")]), 30_000);
    assert_eq!(approval_ms(&file("0"), &[]), 0, "bounded by the cap only");
    assert_eq!(approval_ms(&file("-1"), &[]), 0, "bounded by the cap only");
    assert_eq!(approval_ms(&file("0.0001"), &[]), 1, "never rounded to «no deadline»");
    check(
        "",
        &[(ALIAS, "30"), (OURS, "31")],
        &["variable AGENTIC_APPROVAL_TIMEOUT_SECONDS: `approvals.timeout_seconds`: it says \
           `30`, and PORTCULLIS_APPROVALS_TIMEOUT_SECONDS says `31`; unset one of the two"],
    );
    for bad in ["nan", "inf", "-inf", "soon"] {
        let wanted = format!(
            "variable AGENTIC_APPROVAL_TIMEOUT_SECONDS: `approvals.timeout_seconds`: `{bad}` is \
             not a number; correct it, or unset the variable"
        );
        check("", &[(ALIAS, bad)], &[&wanted]);
    }
}

#[test]
fn every_variable_has_one_name() {
    let mut names: Vec<String> = variables().into_iter().map(|variable| variable.name).collect();
    assert!(names.contains(&"PORTCULLIS_STORE_URL".to_owned()));
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count);
}
