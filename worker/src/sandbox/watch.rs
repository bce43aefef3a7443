//! Who kills what a tool has started, when the worker is killed?
//!
//! The parent-death signal reaches the leader of a tool only; its children are not ours. So one
//! small process per worker, the *watch*, reads the ids of the running process groups from a
//! socket. When the socket ends, the worker is gone, and the watch kills every group it knows.
//!
//! Authority: the worker, through the socket: `+id` when a group starts, `-id` before its leader is
//! reaped (until then the id can't be given to anybody else).
//! Invariant: the watch kills only groups that the worker named and has not taken back.
//! If we crash here: a killed watch is started again before the next tool, and told everything.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, BufRead, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use super::plan::Plan;

/// A watch that does not read for this long counts as dead.
const WRITE_WAIT: Duration = Duration::from_secs(1);
/// Groups that a watch remembers.
const GROUPS_MAX: usize = 65_536;

/// The watch's whole life, on the other side: read until the end, then kill.
pub(super) fn kill_when_stdin_ends(stdin: impl BufRead) {
    let mut groups = BTreeSet::new();
    for line in stdin.lines().map_while(Result::ok) {
        match (line.get(..1), line.get(1..).and_then(|id| id.parse().ok())) {
            (Some("+"), Some(id)) if groups.len() < GROUPS_MAX => {
                groups.insert(id);
            }
            (Some("-"), Some(id)) => {
                groups.remove(&id);
            }
            _ => {} // a ping
        }
    }
    for group in groups.into_iter().filter_map(Pid::from_raw) {
        // Gone already: what we want.
        kill_process_group(group, Signal::KILL).ok();
    }
}

/// The worker's end of its watch.
pub(crate) struct Watch {
    helper: Vec<OsString>,
    groups: BTreeSet<i32>,
    running: Option<(Child, UnixStream)>,
}

impl Watch {
    /// `helper`: the program and arguments that lead to [`run_helper`](super::run_helper).
    pub(crate) fn new(helper: Vec<OsString>) -> Self {
        Self { helper, groups: BTreeSet::new(), running: None }
    }

    /// Makes sure that somebody watches, before a tool starts.
    ///
    /// # Errors
    /// The helper can't be started. Then no tool should be.
    pub(crate) fn ready(&mut self) -> io::Result<()> {
        if self.tell("\n").is_ok() {
            return Ok(());
        }
        self.restart()
    }

    /// # Errors
    /// Nobody watches this group; its leader still dies with the worker.
    pub(crate) fn started(&mut self, group: Pid) -> io::Result<()> {
        let id = group.as_raw_pid();
        self.groups.insert(id);
        match self.tell(&format!("+{id}\n")) {
            Ok(()) => Ok(()),
            Err(_) => self.restart(),
        }
    }

    /// The group is dead and its leader about to be reaped.
    pub(crate) fn ended(&mut self, group: Pid) {
        let id = group.as_raw_pid();
        self.groups.remove(&id);
        if self.tell(&format!("-{id}\n")).is_err() {
            // It is dead or stuck; a stuck one must not keep an id that is about to be free.
            self.stop();
        }
    }

    fn tell(&mut self, line: &str) -> io::Result<()> {
        match &mut self.running {
            Some((_, socket)) => socket.write_all(line.as_bytes()),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn restart(&mut self) -> io::Result<()> {
        self.stop();
        let [program, args @ ..] = self.helper.as_slice() else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no helper is configured"));
        };
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_write_timeout(Some(WRITE_WAIT))?;
        let child = Command::new(program)
            .args(args)
            .arg(serde_json::to_string(&Plan::Watch {})?)
            .env_clear()
            .current_dir("/")
            // A signal to the worker's group (Ctrl-C) must not take the watch first.
            .process_group(0)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let groups: String = self.groups.iter().map(|id| format!("+{id}\n")).collect();
        let (_, socket) = self.running.insert((child, ours));
        socket.write_all(groups.as_bytes())
    }

    fn stop(&mut self) {
        if let Some((mut child, socket)) = self.running.take() {
            // Killed before the socket closes: an orderly end kills no group that still runs.
            child.kill().ok();
            child.wait().ok();
            drop(socket);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop();
    }
}
