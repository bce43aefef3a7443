//! The processes of an installation: started, stopped, killed and started again.
//!
//! Authority: the engine, sweeper, worker and scheduler that ship; only their ports are ours.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use portcullis_engine::Engine;
use portcullis_engine::sweep::{RunsOnly, Sweeper};
use portcullis_scheduler::Scheduler;
use portcullis_worker::Worker;
use portcullis_worker::gate::PolicyJudge;
use tokio_util::sync::CancellationToken;

use super::agents::Plan;
use super::bus_port::BusPort;
use super::chance::Around;
use super::life::Life;
use super::store_port::StorePort;
use super::world::World;

/// Two schedulers, then two workers.
const SCHEDULERS: usize = 2;
const PROCESSES: usize = 4;

/// One process as others find it.
#[derive(Clone)]
pub struct Process {
    pub life: Arc<Life>,
    /// A scheduler's HTTP interface.
    pub app: Option<Router>,
}

/// All processes of an installation.
pub struct Processes {
    world: Arc<World>,
    plan: Plan,
    now: Mutex<Vec<Option<Process>>>,
}

impl Processes {
    /// Starts them all, and keeps starting them again.
    #[must_use]
    pub fn start(world: &Arc<World>, plan: Plan) -> Arc<Self> {
        let now = Mutex::new(vec![None; PROCESSES]);
        let all = Arc::new(Self { world: Arc::clone(world), plan, now });
        for slot in 0..PROCESSES {
            tokio::spawn(Arc::clone(&all).keep(slot));
        }
        all
    }

    /// Any process that runs now.
    #[must_use]
    pub fn any(&self) -> Option<Process> {
        let now = self.now.lock().unwrap();
        let running: Vec<_> = now.iter().flatten().collect();
        let count = u64::try_from(running.len()).expect("few");
        (0 < count).then(|| {
            let at = self.world.draw(|chance| chance.below(count));
            running[usize::try_from(at).expect("few")].clone()
        })
    }

    /// The HTTP interface of any scheduler that runs now.
    #[must_use]
    pub fn app(&self) -> Option<Router> {
        let at = usize::try_from(self.world.draw(|chance| chance.below(2))).expect("few");
        let now = self.now.lock().unwrap();
        let apps: Vec<_> = now.iter().flatten().filter_map(|p| p.app.clone()).collect();
        apps.get(at % apps.len().max(1)).cloned()
    }

    async fn keep(self: Arc<Self>, slot: usize) {
        let world = Arc::clone(&self.world);
        for times in 0.. {
            let life = Life::new(&world, format!("p{slot}.{times}"));
            world.note("starts", || life.name.clone());
            let stop = CancellationToken::new();
            let app = if slot < SCHEDULERS {
                Some(self.start_scheduler(&life, &stop))
            } else {
                self.start_worker(&life, &stop);
                None
            };
            self.now.lock().unwrap()[slot] = Some(Process { life: Arc::clone(&life), app });
            let lifetime = world.draw(|chance| chance.between(20_000, 300_000));
            tokio::select! {
                biased;
                () = life.dead.cancelled() => {}
                // sleep: in virtual time, which passes at once
                () = tokio::time::sleep(Duration::from_millis(lifetime)) => {
                    world.note("stops", || life.name.clone());
                    stop.cancel();
                    // sleep: in virtual time, which passes at once
                    let drain = tokio::time::sleep(Duration::from_millis(16_000));
                    tokio::select! { biased; () = life.dead.cancelled() => {}, () = drain => {} }
                    life.dead.cancel();
                }
            }
            self.now.lock().unwrap()[slot] = None;
            let away = world.draw(|chance| chance.between(100, 15_000));
            // sleep: in virtual time, which passes at once
            tokio::time::sleep(Duration::from_millis(away)).await;
        }
    }

    fn engine(&self, life: &Arc<Life>) -> Arc<Engine> {
        let store = Arc::new(StorePort(Arc::clone(life)));
        let bus = Arc::new(BusPort(Arc::clone(life)));
        Engine::new(store, bus, Arc::new(Around::new(&self.world)))
    }

    fn start_scheduler(&self, life: &Arc<Life>, stop: &CancellationToken) -> Router {
        let engine = self.engine(life);
        let settings = self.plan.scheduler(self.world.is_stormy());
        let scheduler = Scheduler::new(Arc::clone(&engine), settings);
        tokio::spawn(Sweeper::new(engine, scheduler.clone()).run(stop.clone()));
        let app = portcullis_scheduler::app(&scheduler);
        let stop = stop.clone();
        tokio::spawn(async move { scheduler.run(stop).await.expect("the broker takes readers") });
        app
    }

    fn start_worker(&self, life: &Arc<Life>, stop: &CancellationToken) {
        let engine = self.engine(life);
        tokio::spawn(Sweeper::new(Arc::clone(&engine), Arc::new(RunsOnly)).run(stop.clone()));
        let settings = self.plan.worker(life);
        let (roster, unattended) = (settings.roster.clone(), settings.unattended);
        let worker = Worker::new(engine, settings, Arc::new(PolicyJudge { roster, unattended }));
        let stop = stop.clone();
        tokio::spawn(async move {
            let worked = portcullis_worker::life::receive::run(worker, stop).await;
            worked.expect("the broker takes readers");
        });
    }
}
