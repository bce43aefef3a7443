//! Is there a connection, and did a command reach Redis?
//!
//! One multiplexed connection, set up again when it is needed and gone. Setting it up is tried by
//! one caller at a time, with jittered pauses; meanwhile the others are told at once that nothing
//! was sent.
//!
//! Authority: this process, for what it has sent; Redis, for everything else.
//! Invariant: a failure says whether the command may have run. After a timeout the connection is
//! given up, so that no later command queues behind an answer that does not come.
//! If we crash here: what was sent may have run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, Pipeline, PushInfo, PushKind, RedisError, Value};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::reply;
use super::script::{Call, Script};
use crate::ports::StoreError;

const RECONNECT_MS_MIN: u64 = 20;
const RECONNECT_MS_MAX: u64 = 1_000;
/// How much is written at once, in bytes: a batch of commits must not become many small packets.
const WRITE_BYTES: usize = 256 * 1024;
/// How many commands may wait to be written.
const COMMANDS_MAX: usize = 1_024;

/// Why there is no answer, and what that says about the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// There is no connection: it was not sent.
    NotSent(String),
    /// The server would not run it.
    Refused(String),
    /// It began to run and broke off.
    Failed(String),
    /// The connection broke: it may have run.
    Dropped(String),
    /// No answer in time: it may have run, or run later.
    TimedOut,
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::NotSent(why) | Failure::Refused(why) | Failure::Dropped(why) => {
                Self::Unavailable(why)
            }
            Failure::Failed(why) => Self::Corrupt(why),
            Failure::TimedOut => Self::Unavailable("Redis did not answer in time".into()),
        }
    }
}

/// Error codes with which a server turns a command away before it has any effect.
const REFUSALS: [&str; 14] = [
    "NOSCRIPT",
    "OOM",
    "READONLY",
    "MISCONF",
    "NOREPLICAS",
    "LOADING",
    "BUSY",
    "MASTERDOWN",
    "CLUSTERDOWN",
    "MOVED",
    "ASK",
    "TRYAGAIN",
    "NOAUTH",
    "NOPERM",
];
/// Those that another connection may not get, such as after a failover.
const ELSEWHERE: [&str; 4] = ["READONLY", "MASTERDOWN", "MOVED", "NOAUTH"];

#[derive(Clone)]
struct Live {
    connection: MultiplexedConnection,
    usable: Arc<AtomicBool>,
}

impl Live {
    fn give_up(&self) {
        self.usable.store(false, Ordering::Release);
    }
}

struct State {
    live: Option<Live>,
    pauses: ExponentialBackoff,
    retry_at: Instant,
    why: String,
}

/// A connection that heals.
pub(super) struct Link {
    client: redis::Client,
    config: AsyncConnectionConfig,
    state: Mutex<State>,
}

impl Link {
    pub(super) fn new(client: redis::Client, connect_ms: u64, response_ms: u64) -> Self {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(Duration::from_millis(connect_ms)))
            .set_response_timeout(Some(Duration::from_millis(response_ms)))
            .set_pipeline_buffer_size(COMMANDS_MAX)
            .set_write_backpressure_boundary(WRITE_BYTES);
        let state =
            State { live: None, pauses: pauses(), retry_at: Instant::now(), why: String::new() };
        Self { client, config, state: Mutex::new(state) }
    }

    /// Runs a script, loading it first where it is not known.
    pub(super) async fn run(&self, call: &Call) -> Result<Value, Failure> {
        let mut live = self.live().await?;
        let answer = live.send(&call.command).await;
        if !is_unknown_script(&answer) {
            return live.judge(answer);
        }
        live.load(call.script).await?;
        let answer = live.send(&call.command).await;
        live.judge(answer)
    }

    /// Runs a script that may run twice; once more on a new connection when the first one broke.
    pub(super) async fn repeat(&self, call: &Call) -> Result<Value, Failure> {
        match self.run(call).await {
            Err(Failure::Dropped(_)) => self.run(call).await,
            answer => answer,
        }
    }

    /// Runs a script, then waits on the same connection until `replicas` have its writes, at most
    /// `wait_ms`. The second value: how many have them.
    pub(super) async fn run_and_wait(
        &self,
        call: &Call,
        replicas: u32,
        wait_ms: u64,
    ) -> Result<(Value, u64), Failure> {
        let mut wait = redis::cmd("WAIT");
        wait.arg(replicas).arg(wait_ms);
        let mut both = Pipeline::with_capacity(2);
        both.add_command(call.command.clone()).add_command(wait);

        let mut live = self.live().await?;
        let mut answers = live.send_both(&both).await;
        if answers.as_ref().is_ok_and(|(first, _)| is_unknown_script(&Ok(first.clone()))) {
            live.load(call.script).await?;
            answers = live.send_both(&both).await;
        }
        let (answer, confirmed) = live.judge_both(answers)?;
        let confirmed = reply::int(&confirmed).ok().and_then(|n| u64::try_from(n).ok());
        let nonsense = || Failure::Failed("WAIT answered no number of replicas".into());
        Ok((answer, confirmed.ok_or_else(nonsense)?))
    }

    /// Runs one command.
    pub(super) async fn query(&self, command: &Cmd) -> Result<Value, Failure> {
        let mut live = self.live().await?;
        let answer = live.send(command).await;
        live.judge(answer)
    }

    /// Sets up a new connection for the next command.
    pub(super) async fn forget(&self) {
        self.state.lock().await.live = None;
    }

    async fn live(&self) -> Result<Live, Failure> {
        let mut state = self.state.lock().await;
        if let Some(live) = &state.live {
            if live.usable.load(Ordering::Acquire) {
                return Ok(live.clone());
            }
            state.live = None;
        }
        if Instant::now() < state.retry_at {
            return Err(Failure::NotSent(state.why.clone()));
        }
        match self.connect().await {
            Ok(live) => {
                state.pauses = pauses();
                state.live = Some(live.clone());
                Ok(live)
            }
            Err(why) => {
                let pause = state.pauses.next().unwrap_or(Duration::from_millis(RECONNECT_MS_MAX));
                state.retry_at = Instant::now() + pause;
                state.why = format!("cannot connect to Redis: {why}");
                Err(Failure::NotSent(state.why.clone()))
            }
        }
    }

    async fn connect(&self) -> Result<Live, RedisError> {
        let usable = Arc::new(AtomicBool::new(true));
        let seen = usable.clone();
        let config = self.config.clone().set_push_sender(move |push: PushInfo| {
            if push.kind == PushKind::Disconnection {
                seen.store(false, Ordering::Release);
            }
            Ok::<_, std::convert::Infallible>(())
        });
        let connection = self.client.get_multiplexed_async_connection_with_config(&config).await?;
        Ok(Live { connection, usable })
    }
}

impl Live {
    async fn send(&mut self, command: &Cmd) -> Result<Value, RedisError> {
        self.connection.send_packed_command(command).await
    }

    async fn send_both(&mut self, both: &Pipeline) -> Result<(Value, Value), RedisError> {
        let mut answers = self.connection.send_packed_commands(both, 0, 2).await?.into_iter();
        Ok((answers.next().unwrap_or(Value::Nil), answers.next().unwrap_or(Value::Nil)))
    }

    async fn load(&mut self, script: &Script) -> Result<(), Failure> {
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(script.source);
        let answer = self.send(&load).await;
        match self.judge(answer) {
            Ok(_) => Ok(()),
            // Only the script was sent, and loading it has no effect on any record.
            Err(Failure::Dropped(why) | Failure::Failed(why)) => Err(Failure::NotSent(why)),
            Err(Failure::TimedOut) => Err(Failure::NotSent("Redis did not answer in time".into())),
            Err(failure) => Err(failure),
        }
    }

    fn judge(&self, answer: Result<Value, RedisError>) -> Result<Value, Failure> {
        match answer.and_then(Value::extract_error) {
            Ok(value) => Ok(value),
            Err(error) => Err(self.failure(&error)),
        }
    }

    /// The first answer decides; a `WAIT` that is refused has confirmed nothing.
    fn judge_both(
        &self,
        answers: Result<(Value, Value), RedisError>,
    ) -> Result<(Value, Value), Failure> {
        let (first, second) = answers.map_err(|error| self.failure(&error))?;
        let first = self.judge(Ok(first))?;
        Ok((first, second.extract_error().unwrap_or(Value::Int(0))))
    }

    fn failure(&self, error: &RedisError) -> Failure {
        if error.is_timeout() {
            self.give_up();
            return Failure::TimedOut;
        }
        match error.code() {
            Some(code) => {
                if ELSEWHERE.contains(&code) {
                    self.give_up();
                }
                let why = error.to_string();
                if REFUSALS.contains(&code) { Failure::Refused(why) } else { Failure::Failed(why) }
            }
            None => {
                self.give_up();
                Failure::Dropped(error.to_string())
            }
        }
    }
}

fn is_unknown_script(answer: &Result<Value, RedisError>) -> bool {
    matches!(answer, Ok(Value::ServerError(error)) if error.code() == "NOSCRIPT")
}

fn pauses() -> ExponentialBackoff {
    ExponentialBuilder::new()
        .with_min_delay(Duration::from_millis(RECONNECT_MS_MIN))
        .with_max_delay(Duration::from_millis(RECONNECT_MS_MAX))
        .without_max_times()
        .with_jitter()
        .build()
}
