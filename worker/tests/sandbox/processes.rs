use std::fs::File;
use std::os::fd::AsFd as _;
use std::process::{Command, Stdio};

use crate::support::{HELPER, Place, assert_says, bash, perl, shell};

const PERMISSION: &str = "Operation not permitted";

#[tokio::test]
async fn the_worker_cannot_be_signalled_or_looked_into() {
    let place = Place::new("parent");
    let shell = place.shell();
    let worker = std::process::id();
    assert_says(&bash(&shell, &format!("kill -0 {worker}; echo $?")).await, "1");
    let calls = [
        ("ptrace attach", format!("101, 16, {worker}, 0, 0")),
        ("process_vm_readv", format!("310, {worker}, 0, 0, 0, 0, 0")),
        ("process_vm_writev", format!("311, {worker}, 0, 0, 0, 0, 0")),
        ("pidfd_getfd", "438, 3, 0, 0".to_owned()),
        ("prlimit64", format!("302, {worker}, 7, 0, 0")),
    ];
    for (name, arguments) in calls {
        let said = perl(&shell, &format!("syscall({arguments}) == -1 and print $!")).await;
        assert_eq!(said["stdout"], PERMISSION, "{name}: {said}");
    }
}

/// Numbers as on x86-64, where these tests run; the list itself is the kernel's own constants.
#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn the_doors_around_landlock_are_shut() {
    let place = Place::new("doors");
    let shell = place.shell();
    let doors = [
        ("bpf", "321, 0, 0, 0"),
        ("io_uring_setup", "425, 1, 0"),
        ("mount", "165, 0, 0, 0, 0, 0"),
        ("open_tree", "428, -100, 0, 0"),
        ("chroot", "161, 0"),
        ("unshare", "272, 0x10000000"),
        ("setns", "308, 0, 0"),
        ("clone into a user namespace", "56, 0x10000011, 0, 0, 0, 0"),
        ("open_by_handle_at", "304, 0, 0, 0"),
        ("keyctl", "250, 0, -3, 0"),
        ("add_key", "248, 0, 0, 0, 0, -3"),
        ("request_key", "249, 0, 0, 0, 0"),
        ("kexec_load", "246, 0, 0, 0, 0"),
        ("finit_module", "313, 0, 0, 0"),
        ("perf_event_open", "298, 0, 0, 0, 0, 0"),
        ("userfaultfd", "323, 0"),
        ("clock_settime", "227, 0, 0"),
        ("reboot", "169, 0, 0, 0, 0"),
        ("setsid", "112"),
        ("setpgid", "109, 0, 0"),
        ("socket by its x32 number", "0x40000029, 1, 1, 0"),
        ("ptrace by its x32 number", "0x40000209, 0, 0, 0, 0"),
    ];
    for (name, arguments) in doors {
        let said = perl(&shell, &format!("syscall({arguments}) == -1 and print $!")).await;
        assert_eq!(said["stdout"], PERMISSION, "{name}: {said}");
    }
    let said = perl(&shell, "syscall(435, 0, 0) == -1 and print $!").await;
    assert_eq!(said["stdout"], "Function not implemented", "clone3: {said}");
}

#[tokio::test]
async fn ordinary_limits_and_threads_still_work() {
    let place = Place::new("threads");
    let said =
        bash(&place.shell(), "ulimit -n; ulimit -c; (echo child) | cat; sleep 0 & wait; echo ok")
            .await;
    assert_says(&said, "1024\n0\nchild\nok");
}

#[tokio::test]
async fn limits_of_the_policy_hold() {
    let place = Place::new("limits");
    let mut policy = place.policy();
    policy.limits.file_bytes_max = Some(1024);
    policy.limits.cpu_seconds_max = Some(1);
    let shell = shell(policy);
    bash(&shell, "head -c 5000 /dev/zero > big").await;
    assert_eq!(std::fs::metadata(place.work().join("big")).unwrap().len(), 1024);
    let said = bash(&shell, "while :; do :; done").await;
    assert!(said["signal"].is_number() || said["exit_code"] != 0, "{said}");
}

/// A worker with a token in its environment and a file open without close-on-exec, as some
/// launchers leave them behind.
#[test]
fn neither_the_environment_nor_open_files_of_the_worker_reach_the_tool() {
    let place = Place::new("inherited");
    let key = File::open(place.key()).unwrap();
    let script =
        "env; echo core $(ulimit -c); for fd in /proc/$$/fd/*; do echo fd ${fd##*/}; done; cat <&9";
    // The file goes to descriptor 9 by way of bash, whose redirections are inherited.
    let said = Command::new("bash")
        .args(["-c", "ulimit -c hard; exec \"$@\" 9<&0", "bash", HELPER, "worker"])
        .arg(place.work())
        .args(["bash", "-c", script])
        .env("PORTCULLIS_TOKEN", "sesame")
        .stdin(Stdio::from(key.as_fd().try_clone_to_owned().unwrap()))
        .output()
        .unwrap();
    let said: serde_json::Value = serde_json::from_slice(&said.stdout).expect("a result");

    let stdout = said["stdout"].as_str().unwrap();
    assert!(!stdout.contains("sesame"), "{said}");
    let mut names: Vec<&str> =
        stdout.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    names.sort_unstable();
    let expected = [
        "HOME",
        "PATH",
        "PORTCULLIS_CLAIM_ID",
        "PORTCULLIS_IDEMPOTENCY_KEY",
        "PORTCULLIS_NOT_AFTER_MS",
        "PWD",
        "SHLVL",
        "TMPDIR",
        "_",
    ];
    assert_eq!(names, expected, "{said}");
    assert!(stdout.contains("core 0\n"), "{said}");
    let fds: Vec<&str> = stdout.lines().filter_map(|line| line.strip_prefix("fd ")).collect();
    assert!(fds.starts_with(&["0", "1", "2"]) && !fds.contains(&"9"), "{said}");
    assert!(said["stderr"].as_str().unwrap().contains("Bad file descriptor"), "{said}");
}

/// Root can become somebody else, and nobody else can: then the tool does not run as the worker
/// instead.
#[test]
fn tools_run_as_the_user_of_the_policy_or_not_at_all() {
    // Somewhere that everybody can get to.
    let root = std::env::temp_dir().join(format!("portcullis-nobody-{}", std::process::id()));
    let place = Place::at(root);
    let said = Command::new(HELPER)
        .arg("worker-for-nobody")
        .arg(place.work())
        .args(["bash", "-c", "id -u; id -g; id -G; touch $TMPDIR/x || echo no; cat /etc/shadow"])
        .output()
        .unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    std::fs::remove_dir_all(&place.root).unwrap();
    if rustix::process::geteuid().is_root() {
        let said: serde_json::Value = serde_json::from_str(&said).expect("a result");
        assert_says(&said, "65534\n65534\n65534");
    } else {
        assert!(!said.contains("exit_code"), "it ran as somebody else: {said}");
    }
}
