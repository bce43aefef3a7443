//! Which thread is the parent of every tool?
//!
//! The parent-death signal fires when the *thread* that started a process ends, and the runtime's
//! threads come and go. So one thread of its own starts and reaps them all, and lives as long as
//! the tool `shell`. It also keeps `fork` off the runtime's threads.
//!
//! Authority: the kernel, over processes; this thread, over the [`Watch`].
//! Invariant: a leader is reaped only after its group was killed and the watch told, so its id
//! means nobody else while we signal it.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tracing::warn;

use crate::sandbox::Watch;

/// Orders waiting for the thread; more wait for room.
const ORDERS_MAX: usize = 64;

enum Order {
    Launch(Command, oneshot::Sender<Result<Launched, LaunchError>>),
    Reap(Launched, oneshot::Sender<Option<ExitStatus>>),
}

/// Why there is no running tool.
pub(super) enum LaunchError {
    /// Nothing was started.
    NotStarted(io::Error),
    /// It was started, or may have been; it is killed by now.
    Lost(io::Error),
}

/// The handle of the thread. Dropped, the thread ends, and the tools that still run die.
pub(super) struct Launcher {
    orders: mpsc::Sender<Order>,
}

impl Launcher {
    pub(super) fn start(helper: Vec<OsString>) -> io::Result<Self> {
        let (orders, mut queue) = mpsc::channel(ORDERS_MAX);
        std::thread::Builder::new().name("tool-launcher".to_owned()).spawn(move || {
            let mut watch = Watch::new(helper);
            while let Some(order) = queue.blocking_recv() {
                obey(order, &mut watch);
            }
        })?;
        Ok(Self { orders })
    }

    /// Dropped before it returns, what it started is killed.
    ///
    /// # Errors
    /// See [`LaunchError`].
    pub(super) async fn launch(&self, command: Command) -> Result<Running, LaunchError> {
        let gone = || io::Error::other("the launcher is gone");
        let (answer, launched) = oneshot::channel();
        let order = Order::Launch(command, answer);
        self.orders.send(order).await.map_err(|_| LaunchError::NotStarted(gone()))?;
        let launched = launched.await.map_err(|_| LaunchError::Lost(gone()))??;
        // Here it runs. Whatever fails now, such as a lack of file descriptors, kills it by `Drop`.
        Running::new(launched, self.orders.clone()).map_err(LaunchError::Lost)
    }
}

fn obey(order: Order, watch: &mut Watch) {
    match order {
        Order::Launch(command, answer) => {
            if let Err(Ok(unwanted)) = answer.send(launch(command, watch)) {
                unwanted.kill();
                reap(unwanted, watch);
            }
        }
        // Who dropped a running tool does not wait for the answer.
        Order::Reap(launched, answer) => drop(answer.send(reap(launched, watch))),
    }
}

fn launch(mut command: Command, watch: &mut Watch) -> Result<Launched, LaunchError> {
    watch.ready().map_err(LaunchError::NotStarted)?;
    let child = command.spawn().map_err(LaunchError::NotStarted)?;
    let group = Pid::from_child(&child);
    let launched = Launched { child: Some(child), group };
    if let Err(error) = watch.started(group) {
        // It runs already, and its leader dies with us all the same.
        warn!(%error, "nobody watches this tool's children, should this worker be killed");
    }
    Ok(launched)
}

/// `None`: the kernel can't end it. Then a thread of its own waits for it.
fn reap(mut launched: Launched, watch: &mut Watch) -> Option<ExitStatus> {
    watch.ended(launched.group);
    let mut child = launched.child.take()?;
    match child.try_wait() {
        Ok(Some(status)) => Some(status),
        Ok(None) | Err(_) => {
            wait_elsewhere(child);
            None
        }
    }
}

fn wait_elsewhere(mut child: Child) {
    let wait = move || drop(child.wait());
    // Without a thread it stays a zombie until we end: harmless.
    drop(std::thread::Builder::new().name("tool-reaper".to_owned()).spawn(wait));
}

/// A group and its leader, not reaped. Dropped, it is killed.
struct Launched {
    child: Option<Child>,
    group: Pid,
}

impl Launched {
    fn kill(&self) {
        kill_process_group(self.group, Signal::KILL).ok();
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            self.kill();
            wait_elsewhere(child);
        }
    }
}

/// Our ends of the tool's pipes.
pub(super) struct Streams {
    pub(super) stdin: Option<pipe::Sender>,
    pub(super) stdout: Option<pipe::Receiver>,
    pub(super) stderr: Option<pipe::Receiver>,
}

/// A tool that was started. Dropped before [`reap`](Running::reap), its group is killed.
pub(super) struct Running {
    group: Pid,
    exit: AsyncFd<OwnedFd>,
    streams: Option<Streams>,
    launched: Option<Launched>,
    orders: mpsc::Sender<Order>,
}

impl Running {
    fn new(mut launched: Launched, orders: mpsc::Sender<Order>) -> io::Result<Self> {
        let group = launched.group;
        let pidfd = pidfd_open(group, PidfdFlags::NONBLOCK)?;
        #[expect(
            deprecated,
            reason = "the successor is unsafe, for types that may close their fd early"
        )]
        let exit = AsyncFd::with_interest(pidfd, Interest::READABLE)?;
        let streams = match &mut launched.child {
            Some(child) => Some(Streams {
                stdin: owned(child.stdin.take()).map(pipe::Sender::from_owned_fd).transpose()?,
                stdout: owned(child.stdout.take())
                    .map(pipe::Receiver::from_owned_fd)
                    .transpose()?,
                stderr: owned(child.stderr.take())
                    .map(pipe::Receiver::from_owned_fd)
                    .transpose()?,
            }),
            None => None,
        };
        Ok(Self { group, exit, streams, launched: Some(launched), orders })
    }

    pub(super) fn take_streams(&mut self) -> Streams {
        self.streams.take().unwrap_or(Streams { stdin: None, stdout: None, stderr: None })
    }

    /// Returns when the leader has ended. It is not reaped: its id stays taken.
    pub(super) async fn exited(&self) {
        // A pidfd stays readable for good. An error means that the runtime is ending.
        drop(self.exit.readable().await);
    }

    /// To the whole group; a group that is gone is no error.
    pub(super) fn signal(&self, signal: Signal) {
        kill_process_group(self.group, signal).ok();
    }

    /// How the leader ended; call it when the group is dead. `None`: it can't be ended.
    pub(super) async fn reap(mut self) -> Option<ExitStatus> {
        let launched = self.launched.take()?;
        let (answer, status) = oneshot::channel();
        self.orders.send(Order::Reap(launched, answer)).await.ok()?;
        status.await.ok()?
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(launched) = self.launched.take() else { return };
        launched.kill();
        let (answer, _) = oneshot::channel();
        if let Err(TrySendError::Full(order)) = self.orders.try_send(Order::Reap(launched, answer))
        {
            // The watch must hear of it, or it would remember an id that is somebody else's later.
            let orders = self.orders.clone();
            let send = move || drop(orders.blocking_send(order));
            drop(std::thread::Builder::new().name("tool-reaper".to_owned()).spawn(send));
        }
    }
}

fn owned(stream: Option<impl Into<OwnedFd>>) -> Option<OwnedFd> {
    stream.map(Into::into)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::process::CommandExt as _;
    use std::time::Duration;

    use super::*;

    /// The call was given up while its tool was being started.
    #[test]
    fn a_tool_that_nobody_waits_for_is_killed() {
        let (mut held_by_tool, output) = std::io::pipe().unwrap();
        let mut command = Command::new("sleep");
        command.arg("1000").process_group(0).stdout(output);
        let (answer, nobody) = oneshot::channel();
        drop(nobody);
        // Reads what it is told, as a watch does.
        let mut watch = Watch::new(["sh", "-c", "cat"].map(OsString::from).to_vec());

        obey(Order::Launch(command, answer), &mut watch);

        let (ended, end) = std::sync::mpsc::channel();
        std::thread::spawn(move || ended.send(held_by_tool.read_to_end(&mut Vec::new()).is_ok()));
        assert_eq!(end.recv_timeout(Duration::from_secs(30)), Ok(true), "it is still alive");
    }
}
