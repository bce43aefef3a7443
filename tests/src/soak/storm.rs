//! How many are killed, when does it end, and when was nobody there who could have acted?

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio_util::sync::CancellationToken;

use super::Plan;
use crate::simulation::chance::Chance;

/// What all the lives of one soak share.
pub(super) struct Storm {
    seed: u64,
    kills: u32,
    began: Instant,
    longest: Duration,
    over: CancellationToken,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    killed: BTreeMap<&'static str, u32>,
    /// Ended by themselves, because what they need was not there.
    gave_up: u32,
    /// How many processes serve now.
    serving: u32,
    store_is_down: bool,
    dark_since: Option<i64>,
    dark: Vec<(i64, i64)>,
}

impl State {
    /// Nobody can act without a store, nor without a process.
    fn look(&mut self) {
        let is_dark = self.store_is_down || self.serving == 0;
        match (is_dark, self.dark_since) {
            (true, None) => self.dark_since = Some(wall_ms()),
            (false, Some(since)) => {
                self.dark.push((since, wall_ms()));
                self.dark_since = None;
            }
            (true, Some(_)) | (false, None) => {}
        }
    }
}

impl Storm {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            seed: plan.seed,
            kills: plan.kills,
            began: Instant::now(),
            longest: plan.longest,
            over: CancellationToken::new(),
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// The randomness of one life.
    pub(super) const fn chance(&self, life: u64) -> Chance {
        Chance::new(self.seed.wrapping_mul(1_000_003).wrapping_add(life))
    }

    /// Waits, unless it is over: whether it goes on.
    pub(super) async fn pause(&self, pause_ms: u64) -> bool {
        // sleep: the seed says after how long somebody is killed
        let slept = tokio::time::sleep(Duration::from_millis(pause_ms));
        tokio::select! {
            () = self.over.cancelled() => false,
            () = slept => true,
        }
    }

    /// May one more be killed? Counts it.
    pub(super) fn may_kill(&self, what: &'static str) -> bool {
        let mut state = self.state();
        if self.over.is_cancelled() {
            return false;
        }
        *state.killed.entry(what).or_default() += 1;
        if self.kills <= state.killed.values().sum() {
            self.over.cancel();
        }
        true
    }

    pub(super) fn gave_up(&self) {
        self.state().gave_up += 1;
    }

    pub(super) fn serves(&self, does: bool) {
        let mut state = self.state();
        state.serving = if does { state.serving + 1 } else { state.serving - 1 };
        state.look();
    }

    pub(super) fn store_is_down(&self, is: bool) {
        let mut state = self.state();
        state.store_is_down = is;
        state.look();
    }

    /// Waits for its end: how long it took.
    pub(super) async fn over(&self) -> Duration {
        tokio::select! {
            () = self.over.cancelled() => {}
            // sleep: the operator says how long it may take
            () = tokio::time::sleep(self.longest) => self.over.cancel(),
        }
        self.began.elapsed()
    }

    pub(super) fn killed(&self) -> BTreeMap<&'static str, u32> {
        self.state().killed.clone()
    }

    pub(super) fn gave_up_count(&self) -> u32 {
        self.state().gave_up
    }

    /// From when on, at or after an instant, somebody could have acted before another one.
    pub(super) fn light_after(&self, from: i64, to: i64) -> i64 {
        let state = self.state();
        let overlapping = state.dark.iter().filter(|(begin, end)| *begin < to && from < *end);
        overlapping.map(|(_, end)| *end).fold(from, i64::max)
    }
}

/// The wall clock, which all processes of this machine share.
pub(super) fn wall_ms() -> i64 {
    #[expect(clippy::disallowed_methods, reason = "the books have a clock of their own")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(now.as_millis()).expect("in the far future")
}
