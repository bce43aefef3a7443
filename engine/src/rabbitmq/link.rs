//! Is there a live connection to the broker, and which one?
//!
//! One supervisor a link: connect, declare the topology, announce the session, watch over it, and
//! at the first fault end it and begin again, with growing, jittered pauses.
//!
//! Authority: the broker, told by the library; a session that is marked as ended stays ended.
//! States: none ──connected, declared──▶ session ──any fault──▶ none …  shutdown ends it.
//! Invariant: the library's own recovery is off. It repairs channels silently, leaves consumers
//! hanging after a channel error and hides that deliveries came twice. Here, whoever holds
//! something of a session sees it end.
//! If we crash here: the broker sees the socket close and gives our unsettled deliveries to others.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBuilder};
use futures_util::StreamExt as _;
use lapin::{Channel, Connection, Event};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::address::Address;
use super::channel::{AmqpError, answer};
use super::counters::Counters;
use super::declare::{self, Declare};
use crate::ports::Condition;

mod socket;

/// How long connecting and declaring may take together, in milliseconds.
const OPEN_MS_MAX: u64 = 20_000;
/// How long a goodbye may take before the socket is cut, in milliseconds.
const CLOSE_MS_MAX: u64 = 1_000;
const PAUSE_MS_MIN: u64 = 100;
const PAUSE_MS_MAX: u64 = 10_000;
/// A session that held this long was a good one: the pauses begin small again.
const STEADY_MS: u64 = 30_000;
/// The library does not tell of every way to end, so we also look, in milliseconds.
const LOOK_MS: u64 = 500;

#[derive(Clone)]
pub(super) struct LinkSettings {
    pub(super) address: Address,
    pub(super) name: String,
    pub(super) heartbeat_s: u16,
    pub(super) buckets: u8,
    pub(super) declare: Declare,
}

/// One connection's life: everything opened on it ends with it.
#[derive(Clone)]
pub(super) struct Session(Arc<SessionInner>);

struct SessionInner {
    connection: Connection,
    socket: socket::Socket,
    ended: CancellationToken,
    why: OnceLock<String>,
}

impl Session {
    pub(super) fn connection(&self) -> &Connection {
        &self.0.connection
    }

    pub(super) async fn channel(&self) -> Result<Channel, AmqpError> {
        answer(self.0.connection.create_channel()).await
    }

    /// Ends it for everybody; the link then builds a new one. The first reason is kept.
    pub(super) fn fail(&self, why: impl Into<String>) {
        let _is_first = self.0.why.set(why.into()).is_ok();
        self.0.ended.cancel();
    }

    pub(super) fn ended(&self) -> &CancellationToken {
        &self.0.ended
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn why(&self) -> String {
        self.0.why.get().cloned().unwrap_or_else(|| "it was shut down".to_owned())
    }
}

/// Hands out the session of the moment.
#[derive(Clone)]
pub(super) struct Link {
    sessions: watch::Receiver<Option<Session>>,
    condition: watch::Receiver<Condition>,
    trouble: Arc<Mutex<Option<String>>>,
    settings: Arc<LinkSettings>,
}

impl Link {
    pub(super) fn start(
        settings: LinkSettings,
        stop: &CancellationToken,
        tasks: &TaskTracker,
        counters: Arc<Counters>,
    ) -> Self {
        let (sessions_in, sessions) = watch::channel(None);
        let (condition_in, condition) = watch::channel(Condition::Down);
        let trouble = Arc::new(Mutex::new(Some("it has not connected yet".to_owned())));
        let settings = Arc::new(settings);
        let supervisor = Supervisor {
            settings: Arc::clone(&settings),
            sessions: sessions_in,
            condition: condition_in,
            trouble: Arc::clone(&trouble),
            stop: stop.clone(),
            counters,
        };
        tasks.spawn(supervisor.run());
        Self { sessions, condition, trouble, settings }
    }

    pub(super) fn condition(&self) -> watch::Receiver<Condition> {
        self.condition.clone()
    }

    /// The live session, if there is one now.
    pub(super) fn current(&self) -> Option<Session> {
        self.sessions.borrow().clone().filter(|session| !session.ended().is_cancelled())
    }

    /// Waits for a live session; `None` once `cancel` is.
    pub(super) async fn session(&self, cancel: &CancellationToken) -> Option<Session> {
        let mut sessions = self.sessions.clone();
        let is_live = |session: &Option<Session>| {
            session.as_ref().is_some_and(|session| !session.ended().is_cancelled())
        };
        let found = cancel.run_until_cancelled(sessions.wait_for(is_live)).await?;
        // An error: the supervisor is gone, which is a shutdown too.
        found.ok()?.clone()
    }

    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Declares the topology once more, for a queue that went missing under a live session.
    pub(super) async fn declare_again(&self, session: &Session) -> Result<(), AmqpError> {
        declare::declare(session.connection(), self.settings.buckets, self.settings.declare).await
    }
}

struct Supervisor {
    settings: Arc<LinkSettings>,
    sessions: watch::Sender<Option<Session>>,
    condition: watch::Sender<Condition>,
    trouble: Arc<Mutex<Option<String>>>,
    stop: CancellationToken,
    counters: Arc<Counters>,
}

impl Supervisor {
    async fn run(self) {
        let mut pauses = pauses();
        while !self.stop.is_cancelled() {
            let opened = self.stop.run_until_cancelled(self.open()).await;
            let begin = Instant::now();
            match opened {
                None => break,
                Some(Ok(session)) => {
                    self.serve(&session).await;
                    if Duration::from_millis(STEADY_MS) <= begin.elapsed() {
                        pauses = self::pauses();
                    }
                }
                Some(Err(why)) => self.say_trouble(&why.to_string()),
            }
            let pause = pauses.next().unwrap_or(Duration::from_millis(PAUSE_MS_MAX));
            let _stopped = self.stop.run_until_cancelled(tokio::time::sleep(pause)).await;
        }
    }

    /// Connects and declares. What is half made when the time is over is cut off.
    async fn open(&self) -> Result<Session, AmqpError> {
        let settings = &self.settings;
        let socket = socket::Socket::default();
        let opening = async {
            let connection = socket.connect(settings).await?;
            let declared = declare::declare(&connection, settings.buckets, settings.declare).await;
            declared.map(|()| connection)
        };
        let limit = Duration::from_millis(OPEN_MS_MAX);
        match tokio::time::timeout(limit, opening).await {
            Ok(Ok(connection)) => Ok(Session(Arc::new(SessionInner {
                connection,
                socket,
                ended: CancellationToken::new(),
                why: OnceLock::new(),
            }))),
            failed => {
                socket.cut();
                let why = failed.map_or(AmqpError::Silent, |failed| match failed {
                    Ok(_) => AmqpError::Down,
                    Err(why) => why,
                });
                Err(why)
            }
        }
    }

    /// Announces a session, waits for its end, and takes it down.
    async fn serve(&self, session: &Session) {
        tracing::info!(link = %self.settings.name, "connected to the broker");
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = None;
        // In this order: whoever sees «up» finds a session.
        self.sessions.send_replace(Some(session.clone()));
        self.condition.send_replace(Condition::Up);
        tokio::select! {
            () = self.watch_over(session) => {}
            () = session.ended().cancelled() => {}
            () = self.stop.cancelled() => {}
        }
        session.ended().cancel();
        self.condition.send_replace(Condition::Down);
        self.sessions.send_replace(None);
        if !self.stop.is_cancelled() {
            self.counters.count_lost_connection();
            self.say_trouble(&session.why());
        }
        let goodbye = session.connection().close(200, "done".into());
        // A blocked or dead connection never says goodbye: its frames are not written.
        let limit = Duration::from_millis(CLOSE_MS_MAX);
        let _closed = tokio::time::timeout(limit, goodbye).await;
        session.0.socket.cut();
    }

    /// Returns once the library says, or shows, that the connection is gone.
    async fn watch_over(&self, session: &Session) {
        // The only listener: the library gives each event to one of them.
        let mut events = Box::pin(session.connection().events_listener());
        let mut look = tokio::time::interval(Duration::from_millis(LOOK_MS));
        let mut last_error = None;
        loop {
            tokio::select! {
                event = events.next() => match event {
                    Some(Event::ConnectionBlocked(why)) => {
                        tracing::warn!(link = %self.settings.name, %why, "the broker blocks us");
                        self.condition.send_replace(Condition::Blocked);
                    }
                    Some(Event::ConnectionUnblocked) => {
                        self.condition.send_replace(Condition::Up);
                    }
                    // A channel's error is its user's matter, and says nothing about us.
                    Some(Event::Error(why)) if !why.is_amqp_soft_error() => {
                        last_error = Some(why.to_string());
                    }
                    Some(_) => {}
                    None => return session.fail("the library gave the connection up"),
                },
                _ = look.tick() => {}
            }
            if !session.connection().status().connected() {
                let why = last_error.unwrap_or_else(|| "the broker closed it".to_owned());
                return session.fail(format!("the connection was lost: {why}"));
            }
        }
    }

    fn say_trouble(&self, why: &str) {
        let place = self.settings.address.place();
        tracing::warn!(link = %self.settings.name, %place, %why, "no connection to the broker");
        let said = format!("RabbitMQ at {place}: {why}");
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(said);
    }
}

fn pauses() -> impl Iterator<Item = Duration> {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(PAUSE_MS_MIN))
        .with_max_delay(Duration::from_millis(PAUSE_MS_MAX))
        .with_jitter()
        .without_max_times()
        .build()
        // The jitter is added on top of the largest pause.
        .map(|pause| pause.min(Duration::from_millis(PAUSE_MS_MAX)))
}
