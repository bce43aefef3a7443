use std::process::{Child, Command, Stdio};
use std::time::Duration;

use portcullis_worker::tools::{Outcome, Tool as _};
use serde_json::json;

use crate::support::{HELPER, Place, assert_says, bash, call, result, run, shell};

/// A leader and a child of its own, both with the pipe open, which ignore `SIGTERM`.
const STUBBORN: &str = "trap '' TERM; exec 3> pipe; (trap '' TERM; sleep 1000) & echo up >&3; wait";

#[tokio::test]
async fn a_child_does_not_outlive_its_leader() {
    let place = Place::new("outlive");
    let pipe = place.pipe("pipe");
    let said = bash(&place.shell(), "exec 3> pipe; echo up >&3; sleep 1000 & echo left").await;
    assert_says(&said, "left");
    assert_eq!(said["exit_code"], 0, "{said}");
    assert_eq!(pipe.first_line(), "up");
    pipe.end();
}

#[tokio::test]
async fn a_timeout_kills_the_whole_group() {
    let place = Place::new("timeout");
    let pipe = place.pipe("pipe");
    let mut call = call(json!({ "argv": ["bash", "-c", format!("echo begun; {STUBBORN}")] }));
    call.timeout = Duration::from_millis(500);

    let outcome = place.shell().run(call).await;

    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    let said = result(outcome);
    assert_eq!((&said["error"], &said["timeout_ms"]), (&json!("tool_timed_out"), &json!(500)));
    assert_eq!(said["signal"], 9, "SIGTERM was ignored: {said}");
    assert_says(&said, "begun");
    pipe.end();
}

#[tokio::test]
async fn a_tool_that_heeds_sigterm_may_say_goodbye() {
    let place = Place::new("goodbye");
    let script = "trap 'echo bye; exit 3' TERM; sleep 1000 & wait";
    let mut call = call(json!({ "argv": ["bash", "-c", script] }));
    call.timeout = Duration::from_millis(500);
    let said = result(place.shell().run(call).await);
    assert_eq!(
        (&said["error"], &said["exit_code"]),
        (&json!("tool_timed_out"), &json!(3)),
        "{said}"
    );
    assert_says(&said, "bye");
}

#[tokio::test]
async fn a_cancelled_call_kills_the_whole_group() {
    let place = Place::new("cancel");
    let pipe = place.pipe("pipe");
    let call = call(json!({ "argv": ["bash", "-c", STUBBORN] }));
    let cancel = call.cancel.clone();
    let shell = place.shell();
    let running = tokio::spawn(async move { shell.run(call).await });
    tokio::task::spawn_blocking(move || {
        pipe.first_line();
        cancel.cancel();
        pipe.end();
    })
    .await
    .unwrap();

    let outcome = running.await.unwrap();

    assert!(
        matches!(&outcome, Outcome::Failed(said) if said["error"] == "cancelled"),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn a_dropped_call_kills_the_whole_group() {
    let place = Place::new("drop");
    let pipe = place.pipe("pipe");
    let shell = place.shell();
    let call = call(json!({ "argv": ["bash", "-c", STUBBORN] }));
    let running = tokio::spawn(async move { shell.run(call).await });
    tokio::task::spawn_blocking(move || {
        pipe.first_line();
        running.abort();
        pipe.end();
    })
    .await
    .unwrap();
}

/// A worker with one call, to be killed without a chance to do anything about it.
fn worker(place: &Place, script: &str) -> Child {
    Command::new(HELPER)
        .arg("worker")
        .arg(place.work())
        .args(["bash", "-c", script])
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_killed_worker_takes_its_tools_with_it() {
    let place = Place::new("worker");
    let pipe = place.pipe("pipe");
    let mut worker = worker(&place, STUBBORN);
    pipe.first_line();

    worker.kill().unwrap();

    pipe.end();
    worker.wait().unwrap();
}

#[test]
fn a_killed_worker_takes_the_leader_with_it_though_nobody_watches() {
    let place = Place::new("unwatched");
    let pipe = place.pipe("pipe");
    let mut worker = worker(&place, "exec 3> pipe; echo up >&3; exec sleep 1000");
    pipe.first_line();
    let watch = children(worker.id()).find(|(_, command)| command.contains("watch")).unwrap().0;
    assert!(Command::new("kill").args(["-9", &watch]).status().unwrap().success());

    worker.kill().unwrap();

    pipe.end();
    worker.wait().unwrap();
}

/// Ids and command lines of a process's children, whichever of its threads started them.
fn children(parent: u32) -> impl Iterator<Item = (String, String)> {
    let threads = std::fs::read_dir(format!("/proc/{parent}/task")).unwrap();
    threads
        .map(|thread| std::fs::read_to_string(thread.unwrap().path().join("children")).unwrap())
        .flat_map(|ids| ids.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .map(|id| (id.clone(), std::fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap()))
}

/// It died between the start of the helper and the helper's asking for its death signal.
#[test]
fn a_helper_whose_worker_is_gone_starts_nothing() {
    let place = Place::new("orphan");
    let plan = json!({ "exec": {
        "nonce": "n",
        "parent_pid": std::process::id() + 1,
        "enforce": true,
        "paths": { "read_only": ["/usr"], "read_write": [place.work()] },
        "network": { "connect_ports": [], "dns": false, "unix_sockets": false },
        "detach": false,
        "limits": {
            "open_files_max": null,
            "address_space_bytes_max": null,
            "cpu_seconds_max": null,
            "processes_max": null,
            "file_bytes_max": null,
        },
    } });
    let touched = place.work().join("ran");
    let said = Command::new(HELPER)
        .args(["sandbox-exec", &plan.to_string(), "touch"])
        .arg(&touched)
        .output()
        .unwrap();
    assert_eq!(said.status.code(), Some(119));
    assert!(String::from_utf8_lossy(&said.stderr).contains("the worker is gone"), "{said:?}");
    assert!(!touched.exists());
}

/// Nobody but the policy lets a process leave the group. Then it is not killed, but not waited for
/// either.
#[tokio::test]
async fn a_process_that_left_the_group_does_not_hold_up_the_call() {
    let place = Place::new("detach");
    let daemon = "use POSIX; exit if fork; POSIX::setsid() > 0 or die $!; \
                  open R, '>', 'ready'; print R \"left\\n\"; close R; open F, '<', 'stop'; <F>";
    let script = "mkfifo ready stop; perl -e \"$0\"; read said < ready; echo $said";
    let argv = ["bash", "-c", script, daemon];

    let mut policy = place.policy();
    policy.detach = true;
    let said = result(run(&shell(policy), &argv).await);
    assert_says(&said, "left");
    assert_eq!(said["output_held_open"], true, "{said}");
    // Lets the daemon go.
    std::fs::write(place.work().join("stop"), "\n").unwrap();
}
