//! Is a server we started ready, and is it gone?
//!
//! Authority: the kernel; readiness is a line the server prints, death is the end of its output.
//! Invariant: a process started here does not outlive ours, even when ours is killed with -9.
//! If we crash here: the parent death signal, set by `setpriv` before the server starts, kills it.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, PipeReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::descendants::{descendants, is_alive};
use super::programs::{self, Program};

const LOG_LINES_MAX: usize = 400;
const GONE_MS_MAX: u64 = 10_000;
const STOP_MS_MAX: u64 = 15_000;
const POLL_PAUSE_MS: u64 = 5;

/// A running server process, with the last lines it printed.
pub(crate) struct Process {
    name: &'static str,
    child: Child,
    log: Arc<Log>,
}

impl Process {
    /// Starts `program` with a scrubbed environment; `prepare` adds arguments and variables.
    pub(super) fn start(
        name: &'static str,
        program: &Program,
        prepare: impl FnOnce(&mut Command),
    ) -> anyhow::Result<Self> {
        Self::start_file(name, &program.find()?, prepare)
    }

    /// Starts the program in `file`, in the same way.
    pub(crate) fn start_file(
        name: &'static str,
        file: &Path,
        prepare: impl FnOnce(&mut Command),
    ) -> anyhow::Result<Self> {
        let mut command = Command::new(programs::SETPRIV.find()?);
        command.args(["--pdeathsig", "KILL", "--"]).arg(file);
        command.env_clear().env("PATH", programs::search_path()).env("LANG", "C.UTF-8");
        prepare(&mut command);
        let (reader, writer) = std::io::pipe()?;
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
        let child = spawn_for_life(command).with_context(|| format!("cannot start {name}"))?;
        let log = Arc::new(Log::default());
        let reader_log = Arc::clone(&log);
        std::thread::spawn(move || reader_log.follow(reader));
        Ok(Self { name, child, log })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the server has printed `line`; an early end is an error with its last lines.
    pub(crate) fn wait_for_line(&self, line: &str, wait_ms_max: u64) -> anyhow::Result<()> {
        let (seen, closed) = self.log.wait(wait_ms_max, |text| text.contains(line));
        if seen {
            return Ok(());
        }
        let how = if closed { "ended at its start" } else { "is not ready in time" };
        bail!("{} {how}; its last lines:\n{}", self.name, self.log.text())
    }

    /// The last lines it printed.
    pub(crate) fn log_text(&self) -> String {
        self.log.text()
    }

    /// Kills with -9 and waits until the process and its helpers are gone.
    pub(crate) fn kill9(&mut self) -> anyhow::Result<()> {
        // Once it is reaped, its number may be another process's.
        let reaped = self.child.try_wait()?.is_some();
        let helpers = if reaped { Vec::new() } else { descendants(self.pid()) };
        self.child.kill().with_context(|| format!("cannot kill {}", self.name))?;
        self.child.wait()?;
        self.await_gone(&helpers)
    }

    /// Asks the server to end, waits for it, and kills it when it does not.
    pub(super) fn stop(&mut self) -> anyhow::Result<()> {
        if self.child.try_wait()?.is_some() {
            return Ok(());
        }
        let helpers = descendants(self.pid());
        self.signal(Signal::CONT)?;
        self.signal(Signal::TERM)?;
        let (_, closed) = self.log.wait(STOP_MS_MAX, |_| false);
        if closed {
            self.child.wait()?;
            return self.await_gone(&helpers);
        }
        self.kill9()
    }

    /// Waits for its end: the exit code, `None` when a signal ended it.
    pub(crate) fn await_exit(&mut self, wait_ms_max: u64) -> anyhow::Result<Option<i32>> {
        let (_, closed) = self.log.wait(wait_ms_max, |_| false);
        ensure!(closed, "{} does not end; its last lines:\n{}", self.name, self.log.text());
        Ok(self.child.wait()?.code())
    }

    /// Whether its output has ended, and it with it.
    pub(crate) fn has_ended(&self) -> bool {
        self.log.lock().closed
    }

    /// The processes below it that run now.
    pub(crate) fn helpers(&self) -> Vec<u32> {
        descendants(self.pid()).into_iter().filter(|pid| is_alive(*pid)).collect()
    }

    /// Helpers end by themselves once their server's pipes are closed, a moment later.
    fn await_gone(&self, helpers: &[u32]) -> anyhow::Result<()> {
        let gone = poll_until(GONE_MS_MAX, || !helpers.iter().any(|pid| is_alive(*pid)));
        let (_, closed) = self.log.wait(GONE_MS_MAX, |_| false);
        ensure!(gone && closed, "a helper process of {} outlives it: {helpers:?}", self.name);
        Ok(())
    }

    pub(crate) fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        kill_process(Pid::from_child(&self.child), signal)
            .with_context(|| format!("cannot signal {}", self.name))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Err(why) = self.kill9() {
            eprintln!("{} may still run: {why:#}", self.name);
        }
    }
}

/// Asks `probe` again and again until it says yes, for at most `wait_ms_max`.
pub(crate) fn poll_until(wait_ms_max: u64, probe: impl Fn() -> bool) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(wait_ms_max) {
        if probe() {
            return true;
        }
        std::thread::park_timeout(Duration::from_millis(POLL_PAUSE_MS));
    }
    false
}

type SpawnRequest = (Command, mpsc::Sender<std::io::Result<Child>>);

/// Spawns from a thread that lives as long as this process.
///
/// The death signal fires when the *thread* that spawned ends, so a test's or a runtime's own
/// thread would take the server with it.
fn spawn_for_life(command: Command) -> anyhow::Result<Child> {
    static KEEPER: OnceLock<mpsc::Sender<SpawnRequest>> = OnceLock::new();
    let keeper = KEEPER.get_or_init(|| {
        let (requests, inbox) = mpsc::channel::<SpawnRequest>();
        std::thread::spawn(move || {
            for (mut command, answer) in inbox {
                // The asker waits for the answer; if it is gone, so is the need for the child.
                if let Err(mpsc::SendError(Ok(mut child))) = answer.send(command.spawn()) {
                    drop(child.kill());
                }
            }
        });
        requests
    });
    let (answer, inbox) = mpsc::channel();
    keeper.send((command, answer)).context("the spawning thread is gone")?;
    Ok(inbox.recv().context("the spawning thread is gone")??)
}

#[derive(Default)]
struct LogState {
    lines: VecDeque<String>,
    closed: bool,
}

/// The last lines of a process's output, and whether it has ended.
#[derive(Default)]
struct Log {
    state: Mutex<LogState>,
    changed: Condvar,
}

impl Log {
    fn follow(&self, output: PipeReader) {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            let mut state = self.lock();
            if state.lines.len() == LOG_LINES_MAX {
                state.lines.pop_front();
            }
            state.lines.push_back(String::from_utf8_lossy(&line).into_owned());
            self.changed.notify_all();
        }
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Waits until a line matches or the output ends: whether one matched, whether it ended.
    fn wait(&self, wait_ms_max: u64, matches: impl Fn(&str) -> bool) -> (bool, bool) {
        let found = |state: &LogState| state.lines.iter().any(|line| matches(line));
        let limit = Duration::from_millis(wait_ms_max);
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), limit, |state| !state.closed && !found(state));
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (found(&state), state.closed)
    }

    fn text(&self) -> String {
        self.lock().lines.iter().map(|line| format!("  {line}\n")).collect()
    }

    fn lock(&self) -> MutexGuard<'_, LogState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
