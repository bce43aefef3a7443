//! What time is it, near enough, without asking the store for every request?
//!
//! Authority: the store's clock; this is a guess that is at most a second of local time old, for
//! bounds of minutes and hours. What must be exact is checked again at the commit.
//! Invariant: only while the store cannot be asked is an older answer carried on.

use std::sync::Mutex;

use portcullis_engine::Engine;
use portcullis_engine::ports::StoreError;
use portcullis_proto::time::Ms;

/// A younger answer is carried on instead of asking again, in milliseconds.
const FRESH_MS_MAX: i64 = 1_000;

/// The last answer of the store, and when this process got it.
#[derive(Debug, Default)]
pub(crate) struct StoreClock {
    last: Mutex<Option<(Ms, i64)>>,
}

impl StoreClock {
    /// The store's time, give or take a second.
    pub(crate) async fn now(&self, engine: &Engine) -> Result<Ms, StoreError> {
        if let Some((now, age_ms)) = self.carried(engine)
            && age_ms < FRESH_MS_MAX
        {
            return Ok(now);
        }
        let now = engine.store.now().await?;
        let boot_ms = engine.surroundings.boot_ms();
        *self.last.lock().expect("no panic while held") = Some((now, boot_ms));
        Ok(now)
    }

    /// The store's time carried on from its last answer; `None` when it never gave one.
    pub(crate) fn guess(&self, engine: &Engine) -> Option<Ms> {
        self.carried(engine).map(|(now, _)| now)
    }

    fn carried(&self, engine: &Engine) -> Option<(Ms, i64)> {
        let (then, boot_ms) = (*self.last.lock().expect("no panic while held"))?;
        let age_ms = engine.surroundings.boot_ms().saturating_sub(boot_ms).max(0);
        Some((then.plus(age_ms), age_ms))
    }
}
