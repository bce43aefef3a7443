//! A whole installation under a seeded storm of faults, in virtual time.
//!
//! What runs is what ships: the drive loop, the sweeper, the life of a claim, the scheduler with
//! its HTTP router. Ours are the ports, the clock, the randomness, the tools and the people.
//! Invariant: one thread, no real time, one stream of randomness: a seed is one story.

pub mod agents;
pub mod batch;
pub mod bus;
pub mod bus_port;
pub mod chance;
pub mod judge;
pub mod life;
pub mod people;
pub mod processes;
pub mod store;
pub mod store_port;
pub mod storm;
pub mod world;

use std::sync::Arc;
use std::time::Duration;

pub use world::Counts;

use judge::Witness;
use people::People;
use processes::Processes;
use world::World;

/// After the calm every run ends within this, whatever happened before, in virtual milliseconds.
const CALM_MS_MAX: i64 = 600_000;

/// What became of one seed.
#[derive(Debug)]
pub struct Report {
    pub seed: u64,
    pub counts: Counts,
    /// Of every commit, effect, answer and fault, in order.
    pub trace_hash: u64,
    /// The first broken promise, and the trace that led to it.
    pub failure: Option<String>,
}

/// The records of all runs of a seed, as they stand at its end.
///
/// # Panics
/// When the runtime cannot be built.
#[must_use]
pub fn records(seed: u64) -> Vec<bytes::Bytes> {
    let world = play_in(seed);
    world.store.runs().into_iter().map(|(_, bytes)| bytes).collect()
}

/// Plays one seed to its end.
///
/// # Panics
/// When the runtime cannot be built.
#[must_use]
pub fn play(seed: u64) -> Report {
    let world = play_in(seed);
    let (counts, trace_hash) = (world.counts(), world.trace_hash());
    Report { seed, counts, trace_hash, failure: world.failure() }
}

fn play_in(seed: u64) -> Arc<World> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let world = World::new(seed);
        live(&world).await;
        world
    })
}

async fn live(world: &Arc<World>) {
    world.store.watch(Arc::new(Witness(Arc::downgrade(world))));
    let plan = agents::Plan::of(world);
    world.note("seeds", || format!("{plan:?}"));
    let processes = Processes::start(world, plan.clone());
    let people = People { world: Arc::clone(world), processes: Arc::clone(&processes) };
    people.begin(plan.service);
    storm::rage(world, &processes).await;
    let since = world.elapsed_ms();
    let mut quiet = 0;
    // A reminder may still be about to fire, a webhook about to be sent: three looks in a row.
    while quiet < 3 && world.elapsed_ms() - since < CALM_MS_MAX && world.failure().is_none() {
        // sleep: in virtual time, which passes at once
        tokio::time::sleep(Duration::from_millis(5_000)).await;
        quiet = if world.judge.is_over(world) { quiet + 1 } else { 0 };
    }
    if world.failure().is_none() {
        world.judge.conclude(world);
    }
}
