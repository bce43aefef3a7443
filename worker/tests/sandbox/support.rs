//! A shell tool with folders of its own, and ways to wait for what a tool does.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use portcullis_worker::sandbox::{Mode, SandboxPolicy};
use portcullis_worker::tools::shell::{Shell, ShellSettings};
use portcullis_worker::tools::{Invocation, NotRun, Outcome, Tool as _};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// For what takes milliseconds, on a machine that is busy with other tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) const HELPER: &str = env!("CARGO_BIN_EXE_portcullis-sandbox-helper");

/// Folders of one test: `work` for the tool, `data` with a key that it must not see.
pub(crate) struct Place {
    pub(crate) root: PathBuf,
}

impl Place {
    pub(crate) fn new(test: &str) -> Self {
        Self::at(Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("sandbox-{test}")))
    }

    pub(crate) fn at(root: PathBuf) -> Self {
        std::fs::remove_dir_all(&root).ok();
        for folder in ["work", "data"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        std::fs::write(root.join("data/key"), "sesame").unwrap();
        Self { root: root.canonicalize().unwrap() }
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.root.join("work")
    }

    pub(crate) fn key(&self) -> PathBuf {
        self.root.join("data/key")
    }

    pub(crate) fn policy(&self) -> SandboxPolicy {
        let mut policy = SandboxPolicy::new(Mode::Enforce, self.work());
        policy.denied.push(self.root.join("data"));
        policy
    }

    pub(crate) fn shell(&self) -> Shell {
        shell(self.policy())
    }

    /// A pipe in the work folder that tools write to. See [`Pipe`].
    pub(crate) fn pipe(&self, name: &str) -> Pipe {
        let path = self.work().join(name);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        Pipe::read(path)
    }
}

pub(crate) fn settings() -> ShellSettings {
    ShellSettings::new(vec![HELPER.into(), "sandbox-exec".into()])
}

pub(crate) fn shell(policy: SandboxPolicy) -> Shell {
    Shell::new(settings(), policy).unwrap()
}

pub(crate) fn call(args: Value) -> Invocation {
    Invocation {
        args,
        idempotency_key: "run-1/2".to_owned(),
        claim_id: "claim-3".to_owned(),
        not_after_ms: 1_234,
        timeout: PATIENCE,
        cancel: CancellationToken::new(),
    }
}

pub(crate) async fn run(shell: &Shell, argv: &[&str]) -> Outcome {
    shell.run(call(json!({ "argv": argv }))).await
}

pub(crate) async fn bash(shell: &Shell, script: &str) -> Value {
    result(run(shell, &["bash", "-c", script]).await)
}

pub(crate) async fn perl(shell: &Shell, script: &str) -> Value {
    result(run(shell, &["perl", "-e", script]).await)
}

/// The result of a tool that was started.
#[track_caller]
pub(crate) fn result(outcome: Outcome) -> Value {
    match outcome {
        Outcome::Succeeded(result) | Outcome::Failed(result) => result,
        Outcome::NotRun(why) => panic!("not run: {why}"),
    }
}

#[track_caller]
pub(crate) fn not_run(outcome: Outcome) -> NotRun {
    match outcome {
        Outcome::NotRun(why) => why,
        Outcome::Succeeded(result) | Outcome::Failed(result) => panic!("it ran: {result}"),
    }
}

/// What the tool wrote, with the rest of its result for when that is not what the test wants.
#[track_caller]
pub(crate) fn assert_says(result: &Value, expected: &str) {
    assert_eq!(result["stdout"].as_str().map(str::trim_end), Some(expected), "{result}");
}

/// Reads a pipe on a thread, so that both its first line and its end are signals.
pub(crate) struct Pipe {
    first_line: Receiver<String>,
    rest: Receiver<String>,
}

impl Pipe {
    fn read(path: PathBuf) -> Self {
        let (line_out, first_line) = channel();
        let (rest_out, rest) = channel();
        std::thread::spawn(move || {
            // Opens once a tool has opened it too, and ends when the last process with it is gone.
            let mut pipe = BufReader::new(File::open(path).unwrap());
            let mut line = String::new();
            pipe.read_line(&mut line).unwrap();
            line_out.send(line.trim_end().to_owned()).ok();
            let mut text = String::new();
            pipe.read_to_string(&mut text).unwrap();
            rest_out.send(text).ok();
        });
        Self { first_line, rest }
    }

    /// Waits until a tool has written its first line.
    pub(crate) fn first_line(&self) -> String {
        self.first_line.recv_timeout(PATIENCE).expect("no tool has written to the pipe")
    }

    /// Waits until every process that held the pipe is gone.
    pub(crate) fn end(&self) -> String {
        self.rest.recv_timeout(PATIENCE).expect("a process of the tool is still alive")
    }
}

/// A server that counts who connects.
pub(crate) struct Listener {
    socket: TcpListener,
    pub(crate) port: u16,
}

impl Listener {
    pub(crate) fn new() -> Self {
        let socket = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        socket.set_nonblocking(true).unwrap();
        Self { port: socket.local_addr().unwrap().port(), socket }
    }

    /// Connections since the last count. The kernel completes them without us, so none is missed.
    pub(crate) fn connections(&self) -> usize {
        std::iter::from_fn(|| self.socket.accept().ok()).count()
    }
}
