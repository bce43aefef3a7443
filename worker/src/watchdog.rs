//! Ends a process whose runtime no longer turns, so that somebody else can take its runs.
//!
//! Authority: an operating system thread of its own, which no wedged task can hold up.
//! Invariant: a worker that cannot renew a lease does not go on for longer than a minute.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Without a heartbeat of the runtime for so many seconds the process is aborted.
pub const WEDGED_SECONDS_MAX: u64 = 60;

/// Starts the heartbeat and the thread that watches it.
///
/// # Panics
/// When the operating system gives no thread.
pub fn start() {
    let beats = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&beats);
    tokio::spawn(async move {
        let mut second = tokio::time::interval(Duration::from_secs(1));
        loop {
            second.tick().await;
            beats.fetch_add(1, Ordering::Relaxed);
        }
    });
    std::thread::Builder::new()
        .name("watchdog".to_owned())
        .spawn(move || watch(&seen))
        .expect("a thread at start-up");
}

fn watch(beats: &AtomicU64) {
    let (mut last, mut silent) = (0, 0);
    loop {
        std::thread::park_timeout(Duration::from_secs(1));
        let now = beats.load(Ordering::Relaxed);
        silent = if now == last { silent + 1 } else { 0 };
        last = now;
        if WEDGED_SECONDS_MAX <= silent {
            tracing::error!(silent, "W017 the runtime is wedged: aborting");
            std::process::abort();
        }
    }
}
