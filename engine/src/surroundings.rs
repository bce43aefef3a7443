//! What the engine takes from its process: a clock for short durations, and randomness.
//!
//! Authority: this process, for nothing but its own measurements. What time it is, the store says.
//! Invariant: the only place outside the adapters that reads a clock or draws a random number, so
//! that a simulation can stand in for both.

use portcullis_proto::ids::{ClaimId, Nonce, OpId};

/// A steady clock and a source of randomness.
pub trait Surroundings: Send + Sync {
    /// Milliseconds since some fixed point, counting time spent suspended (`CLOCK_BOOTTIME`).
    fn boot_ms(&self) -> i64;

    /// Fills `bytes` with unpredictable ones.
    fn fill(&self, bytes: &mut [u8]);
}

/// The operating system's.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

impl Surroundings for System {
    fn boot_ms(&self) -> i64 {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        time.tv_sec * 1_000 + time.tv_nsec / 1_000_000
    }

    fn fill(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("the operating system gives random bytes");
    }
}

/// The random ids, each drawn whole.
pub trait Draw {
    fn claim_id(&self) -> ClaimId;
    fn nonce(&self) -> Nonce;
    fn op_id(&self) -> OpId;
    /// A duration between zero and `ms_max`, to keep processes from moving in step.
    fn jitter(&self, ms_max: u64) -> std::time::Duration;
}

impl<T: Surroundings + ?Sized> Draw for T {
    fn claim_id(&self) -> ClaimId {
        let mut bytes = [0; 16];
        self.fill(&mut bytes);
        ClaimId(bytes)
    }

    fn nonce(&self) -> Nonce {
        let mut bytes = [0; 16];
        self.fill(&mut bytes);
        Nonce(bytes)
    }

    fn op_id(&self) -> OpId {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        OpId(bytes)
    }

    fn jitter(&self, ms_max: u64) -> std::time::Duration {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        std::time::Duration::from_millis(u64::from_be_bytes(bytes) % (ms_max + 1))
    }
}
