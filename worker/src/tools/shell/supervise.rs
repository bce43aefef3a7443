//! How long does a tool live, and what does it leave behind?
//!
//! Authority: the kernel says when the leader has ended. Invariant: on return no process of the
//! group is alive, and everything that it wrote was read; every wait in here is bounded.

use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;
use tokio::net::unix::pipe;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::capture::Capture;
use super::launcher::Running;
use crate::sandbox::{REFUSED_EXIT_CODE, Refusal};
use crate::tools::{Invocation, Outcome, cancelled, timed_out, whole_ms};

/// From `SIGTERM` to `SIGKILL`.
const GRACE: Duration = Duration::from_secs(2);
/// From `SIGKILL` to giving up on a process that the kernel can't end.
const KILL_WAIT: Duration = Duration::from_secs(5);
/// For the last output after the group's end. More only comes from a process that left the group.
const DRAIN_WAIT: Duration = Duration::from_secs(1);

/// Why we stopped waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Exited,
    TimedOut,
    Cancelled,
}

/// A call whose group is dead.
pub(super) struct End {
    ending: Ending,
    stdout: Capture,
    stderr: Capture,
    /// A process that left the group still holds the output open.
    held_open: bool,
}

impl End {
    /// Whether the helper, and nobody else, says that it did not start the tool.
    pub(super) fn refusal(&self, status: Option<ExitStatus>, nonce: &str) -> Option<Refusal> {
        let refused = status.and_then(|status| status.code()) == Some(REFUSED_EXIT_CODE);
        if refused { Refusal::read(&self.stderr.bytes(), nonce) } else { None }
    }

    pub(super) fn outcome(
        self,
        status: Option<ExitStatus>,
        took: Duration,
        call: &Invocation,
    ) -> Outcome {
        use std::os::unix::process::ExitStatusExt as _;

        let mut result = match self.ending {
            Ending::Exited => json!({}),
            Ending::TimedOut => timed_out(call.timeout),
            Ending::Cancelled => cancelled(),
        };
        match status.map(|status| (status.code(), status.signal())) {
            Some((Some(code), _)) => result["exit_code"] = json!(code),
            Some((None, signal)) => result["signal"] = json!(signal),
            // Killed, and still there: stuck in the kernel.
            None => result["unkillable"] = json!(true),
        }
        result["duration_ms"] = json!(whole_ms(took));
        self.stdout.write_to(&mut result, "stdout");
        self.stderr.write_to(&mut result, "stderr");
        if self.held_open {
            result["output_held_open"] = json!(true);
        }
        let succeeded = self.ending == Ending::Exited && status.is_some_and(|s| s.success());
        if succeeded { Outcome::Succeeded(result) } else { Outcome::Failed(result) }
    }
}

/// Feeds, drains and waits, until the group is dead and its output read.
pub(super) async fn watch_over(
    running: &mut Running,
    stdin: Option<String>,
    output_bytes_max: usize,
    call: &Invocation,
) -> End {
    let mut stdout = Capture::new(output_bytes_max);
    let mut stderr = Capture::new(output_bytes_max);
    let streams = running.take_streams();
    let (ending, held_open) = {
        let talk = async {
            tokio::join!(
                stdout.drain(streams.stdout),
                stderr.drain(streams.stderr),
                feed(streams.stdin, stdin),
            )
        };
        tokio::pin!(talk);
        let life = live_and_die(running, call.timeout, &call.cancel);
        tokio::pin!(life);
        let mut silent = false;
        let ending = loop {
            tokio::select! {
                ending = &mut life => break ending,
                _ = &mut talk, if !silent => silent = true,
            }
        };
        let drained = silent || timeout(DRAIN_WAIT, &mut talk).await.is_ok();
        (ending, !drained)
    };
    End { ending, stdout, stderr, held_open }
}

/// Waits for the leader, as long as it may take, and leaves nothing of its group alive.
async fn live_and_die(running: &Running, may_take: Duration, cancel: &CancellationToken) -> Ending {
    let ending = tokio::select! {
        biased;
        () = running.exited() => Ending::Exited,
        () = cancel.cancelled() => Ending::Cancelled,
        () = tokio::time::sleep(may_take) => Ending::TimedOut,
    };
    if ending != Ending::Exited {
        running.signal(Signal::TERM);
        // Either way, what is left is killed next.
        timeout(GRACE, running.exited()).await.ok();
    }
    running.signal(Signal::KILL);
    timeout(KILL_WAIT, running.exited()).await.ok();
    ending
}

/// Writes all of stdin and closes it. A tool that does not read it is not an error.
async fn feed(pipe: Option<pipe::Sender>, stdin: Option<String>) {
    use tokio::io::AsyncWriteExt as _;

    if let (Some(mut pipe), Some(stdin)) = (pipe, stdin) {
        pipe.write_all(stdin.as_bytes()).await.ok();
    }
}
