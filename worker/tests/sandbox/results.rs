use portcullis_worker::tools::shell::Shell;
use portcullis_worker::tools::{Outcome, Tool as _};
use serde_json::json;

use crate::support::{Place, assert_says, bash, call, result, run, settings};

#[tokio::test]
async fn success_is_exit_code_0_and_nothing_else() {
    let place = Place::new("success");
    let shell = place.shell();
    let outcome = run(&shell, &["bash", "-c", "echo out; echo err >&2"]).await;
    let Outcome::Succeeded(said) = outcome else { panic!("{outcome:?}") };
    assert_eq!(said["exit_code"], 0);
    assert_eq!((&said["stdout"], &said["stderr"]), (&json!("out\n"), &json!("err\n")));
    assert_eq!((&said["stdout_bytes"], &said["stderr_bytes"]), (&json!(4), &json!(4)));
    assert!(said["duration_ms"].is_u64());

    let failed = run(&shell, &["bash", "-c", "exit 7"]).await;
    assert!(matches!(&failed, Outcome::Failed(said) if said["exit_code"] == 7), "{failed:?}");
    let killed = run(&shell, &["bash", "-c", "kill -9 $$"]).await;
    assert!(matches!(&killed, Outcome::Failed(said) if said["signal"] == 9), "{killed:?}");
}

#[tokio::test]
async fn the_argv_reaches_the_program_word_for_word() {
    let place = Place::new("argv");
    let words = ["a b", "$HOME", "`id`", "; rm -rf /", "*", "'\"", "ü", ""];
    let mut argv = vec!["printf", "<%s>\n"];
    argv.extend(words);
    let said = result(run(&place.shell(), &argv).await);
    let expected: Vec<String> = words.iter().map(|word| format!("<{word}>")).collect();
    assert_says(&said, &expected.join("\n"));
}

#[tokio::test]
async fn a_flood_is_cut_and_the_tool_is_not_held_up() {
    let place = Place::new("flood");
    let script =
        "echo first; head -c 10000000 /dev/zero | tr '\\0' x; echo; echo last; echo err >&2";
    let said = bash(&place.shell(), script).await;
    assert_eq!(said["exit_code"], 0, "it waited for somebody to read");
    assert_eq!(said["stdout_bytes"], 10_000_012);
    assert_eq!(said["stdout_truncated"], true);
    let stdout = said["stdout"].as_str().unwrap();
    assert!(stdout.len() < 70_000, "{}", stdout.len());
    assert!(stdout.starts_with("first\nxxx") && stdout.ends_with("xxx\nlast\n"));
    assert!(stdout.contains("bytes left out"));
    assert_eq!((&said["stderr"], &said["stderr_truncated"]), (&json!("err\n"), &json!(null)));
}

#[tokio::test]
async fn stdin_is_fed_and_ends() {
    let place = Place::new("stdin");
    let shell = place.shell();
    let long = "x".repeat(64 * 1024);
    let said = result(shell.run(call(json!({ "argv": ["wc", "-c"], "stdin": long }))).await);
    assert_says(&said, "65536");
    // One that does not care, and one that gets none.
    let said = result(shell.run(call(json!({ "argv": ["true"], "stdin": long }))).await);
    assert_eq!(said["exit_code"], 0);
    assert_says(&bash(&shell, "wc -c").await, "0");
}

#[tokio::test]
async fn the_environment_is_made_from_nothing() {
    let place = Place::new("env");
    let mut settings = settings();
    settings.lang = Some("C.UTF-8".to_owned());
    settings.time_zone = Some("Europe/Berlin".to_owned());
    settings.env_allowed.insert("STAGE".to_owned());
    let shell = Shell::new(settings, place.policy()).unwrap();
    let said =
        result(shell.run(call(json!({ "argv": ["env"], "env": { "STAGE": "test" } }))).await);
    let mut lines: Vec<&str> = said["stdout"].as_str().unwrap().lines().collect();
    lines.sort_unstable();
    let work = place.work();
    let expected = [
        &format!("HOME={}", work.display()),
        "LANG=C.UTF-8",
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "PORTCULLIS_CLAIM_ID=claim-3",
        "PORTCULLIS_IDEMPOTENCY_KEY=run-1/2",
        "PORTCULLIS_NOT_AFTER_MS=1234",
        "STAGE=test",
        &format!("TMPDIR={}/tmp", work.display()),
        "TZ=Europe/Berlin",
    ];
    assert_eq!(lines, expected);
}
