//! A run that asks: approved, denied, forgotten; and what the exit codes say of it.

use crate::site::{NAME, Site};

#[test]
fn an_approved_call_runs_and_its_run_succeeds() {
    let site = Site::init("30");
    let _up = site.up();
    let (run, request) = site.ask();
    let approved = site.run(&["approvals", "approve", &request, "--reason", "fine"]);
    assert_eq!(approved.code, 0, "{}", approved.err);
    let followed = site.run(&["runs", "follow", &run]);
    assert_eq!(followed.code, 0, "{}", followed.out);
    let shown = site.run(&["runs", "show", &run, "--json"]).json();
    assert_eq!(shown["outcome"], "succeeded");
    assert_eq!(shown["calls"][0]["result"]["inline"]["stdout"], "Hello, world!\n");
    let why = site.run(&["runs", "why", &run]).out;
    assert!(why.contains("`local` approved call 0, by the command line."), "{why}");
}

#[test]
fn silence_is_a_denial_that_names_the_pool_and_the_wait() {
    let site = Site::init("2");
    let up = site.up();
    let done = site.run(&["runs", "start", "greeter", "--input", NAME, "--wait"]);
    assert_eq!(done.code, 5, "{}", done.out);
    assert!(
        done.out.contains("denied: nobody in pool `default` answered within 2 s"),
        "{}",
        done.out
    );
    let said = up.wait_for("approval_timed_out").pop().unwrap();
    for part in ["WARN", "pool=\"default\"", "waited_ms=2000"] {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn a_denied_call_never_runs_and_stays_denied() {
    let site = Site::init("30");
    let _up = site.up();
    let (run, request) = site.ask();
    let denied = site.run(&["approvals", "deny", &request, "--reason", "not today"]);
    assert_eq!(denied.code, 0, "{}", denied.err);
    assert_eq!(site.run(&["runs", "follow", &run]).code, 5);
    assert_eq!(site.run(&["approvals", "deny", &request]).code, 0, "it was so before");
    assert_eq!(site.run(&["approvals", "approve", &request]).code, 6);
    let why = site.run(&["runs", "why", &run]).out;
    assert!(why.contains("denied: `local` said no: not today"), "{why}");
}

#[test]
fn a_decision_needs_a_token_on_this_machine_too() {
    let site = Site::init("30");
    let _up = site.up();
    let (_, request) = site.ask();
    let elsewhere = Site::empty();
    let api = site.command(&[]).get_envs().find_map(|(_, value)| value.map(|v| v.to_owned()));
    let api = api.unwrap().into_string().unwrap();
    let approve = |extra: &[&str]| {
        elsewhere.run(&[&["approvals", "approve", &request, "--api", &api], extra].concat())
    };
    assert_eq!(approve(&[]).code, 2, "there is no token");
    std::fs::write(elsewhere.folder.join("token"), "guessed").unwrap();
    let guessed = approve(&["--token-file", "token"]);
    assert_ne!(guessed.code, 0);
    assert!(guessed.err.contains("the token is not known"), "{}", guessed.err);
    assert_eq!(site.run(&["approvals", "show", &request, "--json"]).json()["state"], "requested");
}

#[test]
fn a_decision_on_another_call_than_the_one_looked_at_is_refused() {
    let site = Site::init("30");
    let _up = site.up();
    let (_, request) = site.ask();
    let other = "0".repeat(64);
    let done = site.run(&["approvals", "approve", &request, "--args-hash", &other]);
    assert_eq!(done.code, 6, "{}", done.err);
    assert_eq!(site.run(&["approvals", "show", &request, "--json"]).json()["state"], "requested");
}

#[test]
fn a_cancelled_run_did_not_succeed() {
    let site = Site::init("30");
    let _up = site.up();
    let (run, request) = site.ask();
    assert_eq!(site.run(&["runs", "cancel", &run, "--reason", "enough"]).code, 0);
    assert_eq!(site.run(&["runs", "follow", &run]).code, 4);
    assert_eq!(site.run(&["approvals", "approve", &request]).code, 6);
}

#[test]
fn what_is_not_there_and_what_does_not_answer_have_their_own_codes() {
    let site = Site::init("30");
    let unreachable = site.run(&["runs", "list"]);
    assert_eq!(unreachable.code, 7, "{}", unreachable.err);
    let _up = site.up();
    let nowhere = "s00-aaaaaaaaaaaaaaaaaaaaaaaaaa";
    assert_eq!(site.run(&["runs", "show", nowhere]).code, 3);
    assert_eq!(site.run(&["runs", "show", "../../metrics"]).code, 2, "no id, and no other path");
    assert_eq!(site.run(&["runs", "start", "nobody"]).code, 3);
    assert_eq!(site.run(&["runs", "start", "greeter", "--input", "{"]).code, 2);
    assert_eq!(site.run(&["approvals", "approve", &format!("{nowhere}.0.1")]).code, 3);
}

#[test]
fn the_same_key_starts_one_run() {
    let site = Site::init("30");
    let _up = site.up();
    let start =
        || site.run(&["runs", "start", "greeter", "--input", NAME, "--key", "k", "--json"]).json();
    let (first, second) = (start(), start());
    assert_eq!(first["run_id"], second["run_id"]);
    assert_eq!((&first["duplicate"], &second["duplicate"]), (&false.into(), &true.into()));
}

#[test]
fn what_stands_ready_and_what_waits_is_listed() {
    let site = Site::init("30");
    let _up = site.up();
    site.ask();
    let waits = site.run(&["waits"]).out;
    assert!(waits.contains("pool default: 1 of local"), "{waits}");
    assert!(site.run(&["reminders", "list"]).out.contains("30 9 * * 1-5 UTC"));
    assert!(site.run(&["webhooks", "list"]).out.contains("/hooks/greet"));
    assert!(site.run(&["runs", "list", "--phase", "waiting"]).out.contains("greeter"));
}
