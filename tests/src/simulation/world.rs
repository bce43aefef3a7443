//! Everything of one seed that outlives a process: store, broker, chance, counts, the trace.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use super::bus::MemoryBus;
use super::chance::Chance;
use super::judge::Judge;
use super::store::MemoryStore;

/// How many lines of the trace are shown with a failure.
const TAIL_LINES: usize = 80;

/// What happened how often, by name.
pub type Counts = BTreeMap<&'static str, u64>;

struct Trace {
    hash: DefaultHasher,
    tail: VecDeque<String>,
}

/// One seed's world.
pub struct World {
    pub store: Arc<MemoryStore>,
    pub bus: Arc<MemoryBus>,
    pub judge: Judge,
    began: Instant,
    chance: Mutex<Chance>,
    stormy: AtomicBool,
    store_down: Mutex<Instant>,
    bus_down: Mutex<Instant>,
    counts: Mutex<Counts>,
    trace: Mutex<Trace>,
    failure: Mutex<Option<String>>,
}

impl World {
    #[must_use]
    pub fn new(seed: u64) -> Arc<Self> {
        let began = Instant::now();
        let trace = Trace { hash: DefaultHasher::new(), tail: VecDeque::new() };
        Arc::new(Self {
            store: MemoryStore::new(2),
            bus: MemoryBus::new(),
            judge: Judge::default(),
            began,
            chance: Mutex::new(Chance::new(seed)),
            stormy: AtomicBool::new(true),
            store_down: Mutex::new(began),
            bus_down: Mutex::new(began),
            counts: Mutex::default(),
            trace: Mutex::new(trace),
            failure: Mutex::default(),
        })
    }

    /// Milliseconds since the beginning, by a clock that nothing moves.
    #[must_use]
    pub fn elapsed_ms(&self) -> i64 {
        i64::try_from(self.began.elapsed().as_millis()).expect("a short life")
    }

    /// Draws from the seed.
    pub fn draw<T>(&self, draw: impl FnOnce(&mut Chance) -> T) -> T {
        draw(&mut self.chance.lock().unwrap())
    }

    /// A fault that strikes once in `n` times, as long as the storm lasts.
    pub fn strikes(&self, n: u64) -> bool {
        self.is_stormy() && self.draw(|chance| chance.one_in(n))
    }

    #[must_use]
    pub fn is_stormy(&self) -> bool {
        self.stormy.load(Ordering::Relaxed)
    }

    /// From now on nothing goes wrong any more.
    pub fn calm(&self) {
        self.stormy.store(false, Ordering::Relaxed);
        self.store_outage(0);
        self.bus_outage(0);
        self.store.swap(false);
        self.store.steady_clock();
        self.note("calm", String::new);
    }

    pub fn store_outage(&self, ms: u64) {
        *self.store_down.lock().unwrap() = Instant::now() + Duration::from_millis(ms);
    }

    pub fn bus_outage(&self, ms: u64) {
        *self.bus_down.lock().unwrap() = Instant::now() + Duration::from_millis(ms);
    }

    #[must_use]
    pub fn store_is_down(&self) -> bool {
        Instant::now() < *self.store_down.lock().unwrap()
    }

    /// When the broker is up again, if it is down.
    #[must_use]
    pub fn bus_down_until(&self) -> Option<Instant> {
        Some(*self.bus_down.lock().unwrap()).filter(|until| Instant::now() < *until)
    }

    pub fn count(&self, what: &'static str) {
        *self.counts.lock().unwrap().entry(what).or_default() += 1;
    }

    /// Counts something and writes it into the trace.
    pub fn note(&self, what: &'static str, more: impl FnOnce() -> String) {
        self.count(what);
        let line = format!("{:>7} ms  {what}  {}", self.elapsed_ms(), more());
        let mut trace = self.trace.lock().unwrap();
        line.hash(&mut trace.hash);
        if trace.tail.len() == TAIL_LINES {
            trace.tail.pop_front();
        }
        trace.tail.push_back(line);
    }

    /// A promise was broken: the first one is told, with the trace up to there.
    pub fn broken(&self, promise: &str, more: &str) {
        let mut failure = self.failure.lock().unwrap();
        if failure.is_none() {
            let trace = self.trace.lock().unwrap();
            let tail: Vec<_> = trace.tail.iter().map(String::as_str).collect();
            let at = self.elapsed_ms();
            *failure = Some(format!("{promise} (at {at} ms)\n{more}\n{}", tail.join("\n")));
        }
    }

    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap().clone()
    }

    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts.lock().unwrap().clone()
    }

    /// Of every line of the trace, in order.
    #[must_use]
    pub fn trace_hash(&self) -> u64 {
        self.trace.lock().unwrap().hash.finish()
    }
}
