//! The same promise for `with-servers`, which holds the servers of a whole run.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use portcullis_tests::servers::TempFolder;

use super::processes_using;

const GONE_MS_MAX: u64 = 10_000;

/// `with-servers` around a shell script that lives until its input ends, which is ours.
fn hold(folder: &TempFolder, arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_with-servers"))
        .args(arguments)
        .env("TMPDIR", folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn servers_of_a_killed_holder_end_with_it() {
    let folder = TempFolder::new("holder").unwrap();
    let script = "echo $PORTCULLIS_STORE_URL $PORTCULLIS_BUS_URL; env -i cat";
    let mut holder = hold(&folder, &["--urls", "sh", "-c", script]);
    let mut urls = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut urls).unwrap();
    assert!(urls.starts_with("redis://127.0.0.1:") && urls.contains(" amqp://guest"), "{urls}");
    holder.kill().unwrap();
    drop(holder.stdin.take());
    holder.wait().unwrap();
    let begin = Instant::now();
    while !processes_using(folder.path()).is_empty() {
        let waited = begin.elapsed();
        assert!(
            waited < Duration::from_millis(GONE_MS_MAX),
            "{:?}",
            processes_using(folder.path())
        );
    }
}

#[test]
fn the_commands_exit_code_is_the_holders() {
    let folder = TempFolder::new("holder").unwrap();
    let mut holder = hold(&folder, &["sh", "-c", "test -n \"$TEST_RABBIT_PORTS\" && exit 7"]);
    assert_eq!(holder.wait().unwrap().code(), Some(7));
    assert_eq!(processes_using(folder.path()), [] as [String; 0]);
}
