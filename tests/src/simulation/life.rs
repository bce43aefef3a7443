//! Does a process still live, and does it move? Asked at every await on a port.
//!
//! Invariant: a dead process's calls never return, and nothing it was about to do happens.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::world::World;

/// How likely an await is to be a process's last.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Read,
    Write,
}

/// One process's life.
pub struct Life {
    pub name: String,
    pub world: Arc<World>,
    pub dead: CancellationToken,
    thaw: Mutex<Instant>,
}

impl Life {
    #[must_use]
    pub fn new(world: &Arc<World>, name: String) -> Arc<Self> {
        let (dead, thaw) = (CancellationToken::new(), Mutex::new(Instant::now()));
        Arc::new(Self { name, world: Arc::clone(world), dead, thaw })
    }

    pub fn die(&self) {
        if !self.dead.is_cancelled() {
            self.world.note("crashes", || self.name.clone());
            self.dead.cancel();
        }
    }

    pub fn freeze(&self, ms: u64) {
        self.world.note("freezes", || format!("{} for {ms} ms", self.name));
        *self.thaw.lock().unwrap() = Instant::now() + Duration::from_millis(ms);
    }

    /// Goes past one await on a port, if the process gets that far.
    pub async fn pass(&self, step: Step) {
        let (crash, freeze) = match step {
            Step::Read => (6_000, 6_000),
            Step::Write => (150, 120),
        };
        if !self.dead.is_cancelled() {
            if self.world.strikes(crash) {
                self.die();
            } else if self.world.strikes(freeze) {
                self.freeze(self.world.draw(|chance| chance.between(1, 60_000)));
            }
        }
        self.alive().await;
    }

    /// Waits out a freeze; never returns to a dead process.
    pub async fn alive(&self) {
        loop {
            let thaw = *self.thaw.lock().unwrap();
            if self.dead.is_cancelled() {
                std::future::pending::<()>().await;
            }
            if thaw <= Instant::now() || !self.world.is_stormy() {
                return;
            }
            // sleep: in virtual time, which passes at once
            tokio::time::sleep_until(thaw).await;
        }
    }

    /// The time a message takes on the network.
    pub async fn travel(&self) {
        let ms = self.world.draw(|chance| match chance.below(100) {
            0..60 => 0,
            60..96 => chance.between(1, 5),
            _ => chance.between(5, 1_500),
        });
        if 0 < ms && self.world.is_stormy() {
            // sleep: in virtual time, which passes at once
            tokio::time::sleep(Duration::from_millis(ms)).await;
        } else {
            tokio::task::yield_now().await;
        }
    }
}
