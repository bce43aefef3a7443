//! One process of the real binary, and what can befall it.

use std::path::{Path, PathBuf};

use rustix::process::Signal;

use super::api::Api;
use super::{PATIENCE, until};
use crate::servers::{Process, poll_until};

/// How long a line of the log may take, in milliseconds.
const LINE_MS_MAX: u64 = 40_000;
/// How long an orderly end may take, in milliseconds.
const END_MS_MAX: u64 = 40_000;

/// A running `portcullis up`, `scheduler` or `worker`, with what it serves.
pub struct Running {
    process: Process,
    api: Api,
}

impl Running {
    pub(super) fn start(
        role: &'static str,
        folder: &Path,
        port: u16,
        more: &[(&str, String)],
    ) -> Self {
        let listen = format!("127.0.0.1:{port}");
        let variable = match role {
            "worker" => "PORTCULLIS_WORKER_METRICS_LISTEN",
            _ => "PORTCULLIS_HTTP_LISTEN",
        };
        let process = Process::start_file(role, &program(), |command| {
            command.current_dir(folder).arg(role).env(variable, listen).env("NO_COLOR", "1");
            command.envs(more.iter().map(|(name, value)| (name, value)));
        });
        Self { process: process.unwrap(), api: Api::at(port) }
    }

    /// Waits until it answers 200.
    pub(super) async fn await_answer(&self, path: &str) {
        let answers = until(path, async || self.api.is_ok(path).await);
        let died = async {
            let pause = std::time::Duration::from_millis(50);
            while self.is_alive() {
                // sleep: a poll for an early end, whose log says more than a time-out would
                tokio::time::sleep(pause).await;
            }
        };
        tokio::select! {
            () = answers => {}
            () = died => panic!("it ended at its start:\n{}", self.log()),
        }
    }

    /// Waits until the store can be reached.
    pub async fn await_ready(&self) {
        self.await_answer("/readyz").await;
    }

    /// Whether it has not ended.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        !self.process.has_ended()
    }

    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Its last lines, for a failed test's message.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.log_text()
    }

    /// The tools that run now: what it started, but for processes of the same program.
    #[must_use]
    pub fn tools(&self) -> Vec<u32> {
        let ours = std::fs::canonicalize(program()).unwrap();
        let program = |pid: &u32| std::fs::read_link(format!("/proc/{pid}/exe")).ok();
        let started = self.process.helpers().into_iter();
        started.filter(|pid| program(pid).is_some_and(|program| program != ours)).collect()
    }

    /// Kills it with -9, and waits until it and its tools are gone.
    ///
    /// # Panics
    /// When one of them is not within ten seconds.
    pub fn kill9(&mut self) {
        self.process.kill9().unwrap();
    }

    /// Freezes it: connections stay open and nothing moves.
    ///
    /// # Panics
    /// When it is gone.
    pub fn pause(&self) {
        self.process.signal(Signal::STOP).unwrap();
    }

    /// Ends [`pause`](Self::pause).
    ///
    /// # Panics
    /// When it is gone.
    pub fn resume(&self) {
        self.process.signal(Signal::CONT).unwrap();
    }

    /// Asks it to stop.
    ///
    /// # Panics
    /// When it is gone.
    pub fn terminate(&self) {
        self.process.signal(Signal::TERM).unwrap();
    }

    /// Waits for its end: the exit code, `None` after a signal.
    ///
    /// # Panics
    /// When it does not end in time.
    pub fn exit_code(&mut self) -> Option<i32> {
        self.process.await_exit(END_MS_MAX).unwrap()
    }

    /// Waits until a line of its log contains a text.
    ///
    /// # Panics
    /// When none does in time.
    pub fn await_line(&self, text: &str) {
        self.process.wait_for_line(text, LINE_MS_MAX).unwrap();
    }

    /// Waits until it works on so many runs.
    ///
    /// # Panics
    /// When it does not in time.
    pub async fn until_busy(&self, runs: u32) {
        let busy = async || self.api.metric("portcullis_worker_busy").await == f64::from(runs);
        until(&format!("it works on {runs} runs"), busy).await;
    }

    /// Waits until none of its tools runs.
    ///
    /// # Panics
    /// When one still does after [`PATIENCE`].
    pub fn await_tools_gone(&self) {
        let limit = u64::try_from(PATIENCE.as_millis()).expect("a few seconds");
        assert!(poll_until(limit, || self.tools().is_empty()), "tools run: {:?}", self.tools());
    }
}

impl std::ops::Deref for Running {
    type Target = Api;

    fn deref(&self) -> &Api {
        &self.api
    }
}

/// Runs a command to its end: its exit code, and what it printed.
pub(super) fn run(folder: &Path, arguments: &[&str]) -> (i32, String) {
    let mut command = std::process::Command::new(program());
    let output = command.current_dir(folder).env_clear().args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let code = output.status.code().unwrap_or_else(|| panic!("{arguments:?}: {errors}"));
    (code, String::from_utf8(output.stdout).unwrap() + &errors)
}

/// The real binary, beside the folder of the test's own program.
///
/// # Panics
/// When it is missing.
#[must_use]
pub fn program() -> PathBuf {
    beside("portcullis")
}

/// A program of the workspace: beside ours, or, when ours is a test, one folder up.
pub(crate) fn beside(name: &str) -> PathBuf {
    let ours = std::env::current_exe().unwrap();
    let folders = ours.ancestors().skip(1).take(2);
    let found = folders.map(|folder| folder.join(name)).find(|program| program.is_file());
    found.unwrap_or_else(|| {
        panic!(
            "{name} is missing near {}: run `cargo build --bins`, or `make test`",
            ours.display()
        )
    })
}
