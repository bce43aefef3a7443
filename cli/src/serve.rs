//! What runs in a process, in which order does it start, and how does it end?
//!
//! Authority: the signals. The first SIGTERM or SIGINT drains, the second one ends at once.
//! Invariant: the home is open before anything listens; the worker drains while the API still
//! answers, so that a decision made meanwhile is not lost; every step of the end has a deadline.
//! If we crash here: leases lapse, and the next process to start goes on.

mod agents;
mod banner;
mod signals;
mod told;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use portcullis_engine::Engine;
use portcullis_engine::surroundings::System;
use portcullis_engine::sweep::{OnDue, RunsOnly, Sweeper};
use portcullis_scheduler::Scheduler;
use portcullis_worker::gate::PolicyJudge;
use portcullis_worker::{Worker, life, watchdog};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::config::{self, Config, Environment, Secrets};
use crate::doctor;
use crate::exit::{Ended, Exit, Failure};
use crate::home::{self, Opened};
use crate::telemetry::{self, BusFigures, Gauges, Sources, Telemetry};
use crate::validate;

pub(crate) use banner::empty_pools;
pub(crate) use told::notary;

/// How long the last steps of the end may take together, in milliseconds.
const END_MS_MAX: u64 = 10_000;

/// What one process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Everything,
    Scheduler,
    Worker,
}

impl Role {
    const fn name(self) -> &'static str {
        match self {
            Self::Everything => "up",
            Self::Scheduler => "scheduler",
            Self::Worker => "worker",
        }
    }

    const fn schedules(self) -> bool {
        matches!(self, Self::Everything | Self::Scheduler)
    }

    const fn works(self) -> bool {
        matches!(self, Self::Everything | Self::Worker)
    }
}

/// Serves until it is told to stop.
pub(crate) fn run(path: &std::path::Path, environment: &Environment, role: Role) -> Ended {
    let secrets = if role.schedules() { Secrets::Read } else { Secrets::Skip };
    let config = config::load(path, environment, secrets)
        .map_err(|problems| validate::refused(&problems))?;
    if role != Role::Everything && !config.home.is_distributed() {
        let message = format!("`portcullis {}` shares its store with other processes", role.name());
        return Err(Failure::new(Exit::Usage, "home", message).mend(
            "set `store.url` to redis://… and `bus.url` to amqp://…, or run `portcullis up`",
        ));
    }
    let telemetry = telemetry::start(&config.log, &config.telemetry, environment, role.name())
        .map_err(|why| Failure::new(Exit::Usage, "telemetry", format!("{why:#}")))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|why| Failure::new(Exit::Failed, "runtime", why.to_string()))?;
    let ended = runtime.block_on(serve(config, role, &telemetry));
    runtime.shutdown_timeout(Duration::from_secs(1));
    telemetry.flush();
    ended
}

async fn serve(mut config: Config, role: Role, telemetry: &Telemetry) -> Ended {
    let (stop, killed) = signals::watch()?;
    let listener = listen(&config, role).await?;
    if let Some(address) = listener.as_ref().and_then(|listener| listener.local_addr().ok()) {
        // The settings may leave the port to the system.
        config.guard_port(address.port());
    }
    let agents = if role.works() { agents::make(&mut config) } else { Default::default() };
    let notary = if role.schedules() { told::notary(&config)? } else { None };
    banner::complain(&config);
    let name = format!("portcullis {} {}", role.name(), std::process::id());
    let opened = home::open(&config.home, &name).await?;
    doctor::at_start(&config, &opened, role.schedules()).await?;
    let engine = Engine::new(Arc::clone(&opened.store), Arc::clone(&opened.bus), Arc::new(System));
    if !config.home.is_distributed() {
        void_claims(&engine).await?;
    }
    telemetry::watch_bus(BusFigures {
        bus: Arc::clone(&opened.bus),
        rabbit: opened.rabbit.clone(),
    });
    banner::announce(&config, role, listener.as_ref());
    let worker = role.works().then(|| {
        let settings = told::worker(&config, agents);
        let (roster, unattended) = (settings.roster.clone(), settings.unattended);
        let judge = Arc::new(PolicyJudge { roster, unattended });
        Worker::new(Arc::clone(&engine), settings, judge)
    });
    if let Some(worker) = &worker {
        telemetry::watch_worker(worker);
    }
    let scheduler = role
        .schedules()
        .then(|| Scheduler::new(Arc::clone(&engine), told::scheduler(config, notary)));
    let gauges = scheduler.clone().map(|scheduler| (scheduler, Arc::new(Gauges::new())));
    let registry = telemetry.registry.clone();
    let metrics = telemetry::router(Sources { registry, scheduler: gauges });
    watchdog::start();
    tokio::select! {
        ended = run_parts(engine, scheduler, worker, listener, metrics, stop) => ended?,
        () = killed.cancelled() => {
            warn!("stopped at once: what was running counts as interrupted");
            return Ok(Exit::Failed);
        }
    }
    close(opened).await;
    info!("stopped");
    Ok(Exit::Done)
}

/// No other process can have the store open: whoever held a claim in it is gone.
async fn void_claims(engine: &Arc<Engine>) -> Result<(), Failure> {
    let voided = engine.workers_gone().await;
    let voided = voided.map_err(|why| Failure::new(Exit::Failed, "store", why.to_string()))?;
    if 0 < voided {
        warn!(claims = voided, "W019 the last process ended with runs in hand");
    }
    Ok(())
}

async fn listen(config: &Config, role: Role) -> Result<Option<TcpListener>, Failure> {
    let address = match role {
        Role::Everything | Role::Scheduler => Some(config.http.listen),
        Role::Worker => config.worker.metrics_listen,
    };
    let Some(address) = address else { return Ok(None) };
    let bound = TcpListener::bind(address).await.map_err(|why| {
        let setting = if role == Role::Worker { "worker.metrics_listen" } else { "http.listen" };
        Failure::new(Exit::Failed, "listen", format!("cannot listen on {address}: {why}"))
            .mend(format!("stop what listens there, or change `{setting}`"))
    })?;
    Ok(Some(bound))
}

/// One of the things that run side by side.
struct Part {
    name: &'static str,
    running: JoinHandle<Result<(), String>>,
}

impl Part {
    /// Starts it. When it fails, the process begins to stop.
    fn start<E: std::fmt::Display>(
        name: &'static str,
        stop: &CancellationToken,
        work: impl Future<Output = Result<(), E>> + Send + 'static,
    ) -> Self {
        let stop = stop.clone();
        let running = tokio::spawn(async move {
            let result = work.await.map_err(|why| why.to_string());
            if let Err(why) = &result {
                error!(part = name, %why, "W040 stopping: a part of the process failed");
                stop.cancel();
            }
            result
        });
        Self { name, running }
    }

    /// Waits for its end.
    async fn end(self, limit: Duration) -> Result<(), Failure> {
        let failed = |why: String| {
            Failure::new(Exit::Failed, "part_failed", format!("the {} failed: {why}", self.name))
        };
        match tokio::time::timeout(limit, self.running).await {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(why))) => Err(failed(why)),
            Ok(Err(why)) => Err(failed(why.to_string())),
            Err(_) => {
                warn!(part = self.name, "it did not end in time");
                Ok(())
            }
        }
    }
}

/// Runs until `stop`: then the worker drains, and only after it the rest.
async fn run_parts(
    engine: Arc<Engine>,
    scheduler: Option<Arc<Scheduler>>,
    worker: Option<Arc<Worker>>,
    listener: Option<TcpListener>,
    metrics: Router,
    stop: CancellationToken,
) -> Result<(), Failure> {
    let rest = CancellationToken::new();
    let others: Arc<dyn OnDue> = match &scheduler {
        Some(scheduler) => Arc::clone(scheduler) as Arc<dyn OnDue>,
        None => Arc::new(RunsOnly),
    };
    let sweeping = Sweeper::new(engine, others).run(rest.clone());
    let mut parts = vec![Part::start("sweeper", &stop, async {
        sweeping.await;
        Ok::<(), String>(())
    })];
    if let Some(listener) = listener {
        let serving = serve_http(scheduler.clone(), listener, metrics, rest.clone());
        parts.push(Part::start("server", &stop, serving));
    }
    if let Some(scheduler) = scheduler {
        parts.push(Part::start("scheduler", &stop, scheduler.run(rest.clone())));
    }
    let drain_ms = worker.as_ref().map_or(0, |worker| worker.settings.drain_ms);
    let working = worker
        .map(|worker| Part::start("worker", &stop, life::receive::run(worker, stop.child_token())));
    stop.cancelled().await;
    let limit = Duration::from_millis(END_MS_MAX);
    let mut results = Vec::new();
    if let Some(working) = working {
        // It stops running tools itself; this is for a worker that cannot even do that.
        results.push(working.end(Duration::from_millis(drain_ms) + 2 * limit).await);
    }
    rest.cancel();
    for part in parts {
        results.push(part.end(limit + limit / 2).await);
    }
    results.into_iter().collect()
}

async fn serve_http(
    scheduler: Option<Arc<Scheduler>>,
    listener: TcpListener,
    metrics: Router,
    stop: CancellationToken,
) -> std::io::Result<()> {
    match scheduler {
        Some(scheduler) => scheduler.serve(listener, metrics, stop).await,
        None => {
            let alive = metrics.route("/healthz", get(async || "ok"));
            let stopped = async move { stop.cancelled().await };
            axum::serve(listener, alive).with_graceful_shutdown(stopped).await
        }
    }
}

/// Says goodbye to the broker, and lets the store write what waits.
async fn close(opened: Opened) {
    if let Some(rabbit) = opened.rabbit {
        rabbit.shutdown().await;
    }
}
