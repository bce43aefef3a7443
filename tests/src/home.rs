//! A whole installation inside one test: store, bus, sweeper, workers with scripted tools.
//!
//! Authority: the same engine and worker that ship; only the tools and the folder are the test's.
//! Invariant: an effect is a line that a tool's own process appended to a file, counted outside
//! our store.

mod agents;
mod effects;

use std::sync::Arc;
use std::time::Duration;

use portcullis_engine::inprocess::{InProcessBus, InProcessSettings};
use portcullis_engine::ports::{Bus, Storage};
use portcullis_engine::rabbitmq::{Declare, RabbitBus, RabbitSettings};
use portcullis_engine::redis::{RedisSettings, RedisSite};
use portcullis_engine::sqlite::{SqliteSettings, SqliteStore};
use portcullis_engine::surroundings::System;
use portcullis_engine::sweep::{RunsOnly, Sweeper};
use portcullis_engine::{Engine, Held, StepError};
use portcullis_proto::decision::Verdict as Says;
use portcullis_proto::decision::{Channel, Decision, KeyRing, Signature, SignedDecision, Speaker};
use portcullis_proto::ids::{JobKey, RunId, Subject, Tenant};
use portcullis_proto::job::{Attendance, Job, Limits, Origin, Payload};
use portcullis_proto::policy::{Roster, Unattended};
use portcullis_proto::run::{Event, Run, Standing, effective};
use portcullis_worker::gate::PolicyJudge;
use portcullis_worker::{Settings, Worker};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use agents::{AgentBuilder, roster};
pub use effects::Effects;

use crate::servers::{RedisOptions, RedisServer, TempFolder, Vhost, shared_rabbit};

/// How long a test waits for anything at most.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// One installation and its processes' worth of tasks.
pub struct Home {
    pub engine: Arc<Engine>,
    pub effects: Effects,
    pub keys: Arc<KeyRing>,
    pair: Ed25519KeyPair,
    pub roster: Roster,
    stop: CancellationToken,
    tasks: TaskTracker,
    folder: TempFolder,
    /// What the distributed home stands on.
    pub servers: Option<Servers>,
}

/// The private servers of one distributed home.
pub struct Servers {
    pub redis: RedisServer,
    pub vhost: Vhost,
    pub rabbit: Arc<RabbitBus>,
}

/// What a home's processes left behind when they ended.
pub struct Closed {
    servers: Option<Servers>,
    folder: TempFolder,
}

impl Closed {
    /// Opens the same store, as a new process would.
    ///
    /// # Panics
    /// When it cannot be opened.
    pub async fn open(self) -> Reopened {
        let store: Arc<dyn Storage> = match &self.servers {
            Some(servers) => {
                let settings = RedisSettings::new(servers.redis.url());
                let site = RedisSite::connect(settings).await.unwrap();
                let opened = portcullis_engine::epoch::open(site, &servers.rabbit, &System);
                Arc::new(opened.await.unwrap())
            }
            None => {
                let path = self.folder.path().join("store.db");
                SqliteStore::open(SqliteSettings::new(path)).unwrap()
            }
        };
        Reopened { store, _servers: self.servers, _folder: self.folder }
    }
}

/// A store that was opened again, and what it stands on.
pub struct Reopened {
    store: Arc<dyn Storage>,
    _servers: Option<Servers>,
    _folder: TempFolder,
}

impl std::ops::Deref for Reopened {
    type Target = dyn Storage;

    fn deref(&self) -> &Self::Target {
        &*self.store
    }
}

/// On which store and bus a test runs.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Embedded,
    Distributed,
}

/// What a test says about its installation.
pub struct Plan {
    pub agents: Vec<AgentBuilder>,
    pub roster: Roster,
    pub unattended: Unattended,
    pub slots: usize,
}

impl Plan {
    /// One agent; `alice` and `bob` in pool `ops`, both with an inbox; questions are asked.
    #[must_use]
    pub fn of(agents: Vec<AgentBuilder>) -> Self {
        Self {
            agents,
            roster: roster(&["alice", "bob"], &["alice", "bob"]),
            unattended: Unattended::Ask,
            slots: 4,
        }
    }
}

impl Home {
    /// An installation of either kind.
    ///
    /// # Panics
    /// When it cannot be built.
    pub async fn of(kind: Kind, plan: Plan) -> Self {
        match kind {
            Kind::Embedded => Self::embedded(plan),
            Kind::Distributed => Self::distributed(plan).await,
        }
    }

    /// The distributed home, on a private Redis and an own virtual host of RabbitMQ.
    ///
    /// # Panics
    /// When it cannot be built.
    pub async fn distributed(plan: Plan) -> Self {
        let redis = RedisServer::start(RedisOptions::default()).unwrap();
        let vhost = shared_rabbit().unwrap();
        let mut settings = RabbitSettings::new(vhost.url(), "test");
        settings.declare = Declare::Arguments;
        let rabbit = RabbitBus::connect(settings).unwrap();
        rabbit.ready(10_000).await.unwrap();
        let site = RedisSite::connect(RedisSettings::new(redis.url())).await.unwrap();
        let store = portcullis_engine::epoch::open(site, &rabbit, &System).await.unwrap();
        let folder = TempFolder::new("home").unwrap();
        let bus: Arc<dyn Bus> = Arc::clone(&rabbit) as Arc<dyn Bus>;
        let mut home = Self::on(Arc::new(store), bus, folder, plan);
        home.servers = Some(Servers { redis, vhost, rabbit });
        home
    }

    /// The embedded home: SQLite and the in-process bus.
    ///
    /// # Panics
    /// When it cannot be built.
    #[must_use]
    pub fn embedded(plan: Plan) -> Self {
        let folder = TempFolder::new("home").unwrap();
        let store = SqliteStore::open(SqliteSettings::new(folder.path().join("store.db"))).unwrap();
        let bus = InProcessBus::new(InProcessSettings::default());
        Self::on(store, bus, folder, plan)
    }

    /// Any store and bus.
    ///
    /// # Panics
    /// When the test's keys cannot be made.
    #[must_use]
    pub fn on(store: Arc<dyn Storage>, bus: Arc<dyn Bus>, folder: TempFolder, plan: Plan) -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
        let mut keys = KeyRing::default();
        let public = pair.public_key().as_ref().try_into().unwrap();
        assert!(keys.add("notary", Speaker::Notary, public));
        let home = Self {
            engine: Engine::new(store, bus, Arc::new(System)),
            effects: Effects::in_folder(folder.path()),
            keys: Arc::new(keys),
            pair,
            roster: plan.roster.clone(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            folder,
            servers: None,
        };
        home.sweep();
        home.work(plan);
        home
    }

    fn sweep(&self) {
        let sweeper = Sweeper::new(Arc::clone(&self.engine), Arc::new(RunsOnly));
        self.tasks.spawn(sweeper.run(self.stop.clone()));
    }

    fn work(&self, plan: Plan) {
        let agents = plan
            .agents
            .into_iter()
            .map(|agent| agent.build(&self.effects))
            .map(|agent| (agent.name.clone(), Arc::new(agent)));
        let settings = Settings {
            slots: plan.slots,
            agents: agents.collect(),
            roster: plan.roster.clone(),
            unattended: plan.unattended,
            keys: Arc::clone(&self.keys),
            drain_ms: 5_000,
        };
        let judge = PolicyJudge { roster: plan.roster, unattended: plan.unattended };
        let worker = Worker::new(Arc::clone(&self.engine), settings, Arc::new(judge));
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            portcullis_worker::life::receive::run(worker, stop).await.unwrap();
        });
    }

    /// Stops everything this home started, and waits for it.
    pub async fn stop(self) -> TempFolder {
        self.stop.cancel();
        self.tasks.close();
        tokio::time::timeout(PATIENCE, self.tasks.wait()).await.expect("everything stops");
        self.folder
    }

    /// The size of the embedded home's store, in bytes, its log included.
    #[must_use]
    pub fn store_bytes(&self) -> u64 {
        let sizes = ["store.db", "store.db-wal"].map(|name| {
            std::fs::metadata(self.folder.path().join(name)).map_or(0, |found| found.len())
        });
        sizes.iter().sum()
    }

    /// How SQLite keeps its log; `None` in the distributed home.
    #[must_use]
    pub fn journal_mode(&self) -> Option<String> {
        let connection = rusqlite::Connection::open(self.folder.path().join("store.db")).ok()?;
        connection.pragma_query_value(None, "journal_mode", |row| row.get(0)).ok()
    }

    /// Stops the processes; their store stays as it is.
    pub async fn close(self) -> Closed {
        self.stop.cancel();
        self.tasks.close();
        tokio::time::timeout(PATIENCE, self.tasks.wait()).await.expect("everything stops");
        drop(self.engine);
        Closed { servers: self.servers, folder: self.folder }
    }

    /// Starts a run of an agent.
    ///
    /// # Panics
    /// When it is not accepted.
    pub async fn start(&self, agent: &str, input: Value) -> RunId {
        self.start_with(agent, input, Limits::default(), Attendance::Unattended).await
    }

    /// Starts a run under given limits.
    ///
    /// # Panics
    /// When it is not accepted.
    pub async fn start_with(
        &self,
        agent: &str,
        input: Value,
        limits: Limits,
        attendance: Attendance,
    ) -> RunId {
        let tenant = Tenant::new("default").unwrap();
        let mut unique = [0; 16];
        getrandom::fill(&mut unique).unwrap();
        let now = self.engine.store.now().await.unwrap();
        let job = Job {
            key: JobKey::api(&tenant, &unique),
            tenant,
            agent: agent.parse().unwrap(),
            input_hash: portcullis_proto::digest::Digest::of_json(&input).unwrap(),
            input: Payload::Inline(input),
            origin: Origin::Api,
            attendance,
            limits,
            start_by: now.plus(60_000),
            parent: None,
            trace: None,
        };
        self.engine.accept(job).await.unwrap().id
    }

    /// The run as time has decided it now.
    ///
    /// # Panics
    /// When the store has no such run.
    pub async fn run(&self, id: &RunId) -> Run {
        let (held, now) = self.engine.load(id).await.unwrap();
        effective(held.expect("the run exists").run(), now)
    }

    /// Waits until the committed record of a run satisfies `wanted`.
    ///
    /// # Panics
    /// When it does not within [`PATIENCE`]; says how the run stood.
    pub async fn until(&self, id: &RunId, what: &str, wanted: impl Fn(&Run) -> bool) -> Run {
        let mut last = None;
        let looked = tokio::time::timeout(PATIENCE, async {
            loop {
                let (held, _) = self.engine.load(id).await.unwrap();
                let run: Option<Run> = held.map(|held: Held| held.run().clone());
                if let Some(run) = run.clone().filter(|run| wanted(run)) {
                    return run;
                }
                last = run;
                // sleep: a poll of what other tasks commit, bounded by PATIENCE
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
        match looked.await {
            Ok(run) => run,
            Err(_) => panic!("{what}: not within {PATIENCE:?}; the run is {last:#?}"),
        }
    }

    /// Waits for a run to end.
    pub async fn ended(&self, id: &RunId) -> Run {
        self.until(id, "the run ends", |run| !run.is_live()).await
    }

    /// Waits for the first open request of a run.
    pub async fn asked(&self, id: &RunId) -> portcullis_proto::approval::Approval {
        let is_open = |run: &Run| run.calls.iter().any(portcullis_proto::call::Call::is_waiting);
        let run = self.until(id, "a request is open", is_open).await;
        let mut open = run.calls.iter().filter_map(portcullis_proto::call::Call::approval);
        open.find(|a| a.is_open()).expect("one is open").clone()
    }

    /// A genuine decision by way of the notary.
    #[must_use]
    pub fn signed(
        &self,
        approval: &portcullis_proto::approval::Approval,
        who: &str,
        verdict: Says,
    ) -> SignedDecision {
        let decision = Decision {
            v: 1,
            approval_id: approval.id.clone(),
            nonce: approval.nonce,
            args_hash: approval.args_hash,
            verdict,
            approver: Subject::new(who).unwrap(),
            channel: Channel::Http,
            issued_at: approval.asked_at,
            reason: None,
        };
        let sig = self.pair.sign(&decision.signed_bytes());
        let sig = Signature(sig.as_ref().try_into().unwrap());
        SignedDecision { decision, key_id: "notary".to_owned(), sig }
    }

    /// Sends a decision as a decider would.
    ///
    /// # Errors
    /// As the engine answers.
    pub async fn decide(&self, signed: SignedDecision) -> Result<Held, StepError> {
        let id = signed.decision.approval_id.run();
        let event = Event::Decide {
            signed: Box::new(signed),
            standing: Standing::Member,
            keys: Arc::clone(&self.keys),
        };
        match self.engine.load(&id).await? {
            (Some(held), _) => self.engine.decide(&id, held, event).await,
            (None, _) => self.engine.send(&id, &[event]).await,
        }
    }
}

/// Limits with a short wait for approvals, in milliseconds.
#[must_use]
pub fn asking_for(approval_ms: i64) -> Limits {
    Limits { approval_ms, ..Limits::default() }
}
