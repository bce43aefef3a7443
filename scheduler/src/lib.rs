//! Decides when: reminders and webhooks start runs, people look at them and decide over HTTP.
//!
//! Authority: the store, for everything that outlives a request. This crate keeps no state of its
//! own: any number of schedulers serve the same store.
//! Invariant: nothing here says yes. A decision is witnessed and sent to its run, which decides
//! whether it counts.

mod api;
mod approvals;
mod clock;
mod credentials;
mod decisions;
mod deliveries;
mod gauges;
mod intake;
mod lists;
mod meters;
mod offer;
mod read;
pub mod reminders;
mod runs;
mod serve;
pub mod settings;
mod view;
pub mod webhooks;

use std::sync::Arc;
use std::time::Duration;

use portcullis_engine::Engine;
use portcullis_engine::ports::BusError;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::warn;

pub use api::{app, app_with};
pub use gauges::Readings;
pub use settings::Settings;

use clock::StoreClock;
use meters::Meters;

/// How long to wait before the reminders are read again from a store that did not answer, in
/// milliseconds.
const SYNC_RETRY_MS: u64 = 2_000;

/// One process's scheduler.
///
/// It implements [`portcullis_engine::sweep::OnDue`]: give it to the sweeper, and reminders fire.
pub struct Scheduler {
    engine: Arc<Engine>,
    settings: Settings,
    clock: StoreClock,
    meters: Meters,
    /// Places for webhooks, requests and event streams under way.
    webhooks: Semaphore,
    requests: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    /// Cancelled when the server begins to drain.
    ending: CancellationToken,
}

impl Scheduler {
    #[must_use]
    pub fn new(engine: Arc<Engine>, settings: Settings) -> Arc<Self> {
        let places = settings.in_flight;
        Arc::new(Self {
            engine,
            settings,
            clock: StoreClock::default(),
            meters: Meters::default(),
            webhooks: Semaphore::new(places.webhooks_max),
            requests: Arc::new(Semaphore::new(places.requests_max)),
            streams: Arc::new(Semaphore::new(places.streams_max)),
            ending: CancellationToken::new(),
        })
    }

    /// Arms the reminders, and takes decisions and whole jobs from the bus, until `stop`. Serving
    /// and sweeping are separate: see [`Self::serve`] and [`portcullis_engine::sweep::Sweeper`].
    ///
    /// # Errors
    /// When the bus refuses a subscription.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) -> Result<(), BusError> {
        let ((), decisions, intake) = tokio::join!(
            self.arm(&stop),
            self.take_decisions(stop.clone()),
            self.take_intake(stop.clone()),
        );
        decisions.and(intake)
    }

    async fn arm(&self, stop: &CancellationToken) {
        while let Err(why) = self.sync_reminders().await {
            warn!(%why, "reminders not armed yet");
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(Duration::from_millis(SYNC_RETRY_MS)) => {}
            }
        }
    }
}

#[cfg(test)]
mod fake;
