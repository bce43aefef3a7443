//! The seed's randomness, and the surroundings of a simulated process.

use std::sync::{Arc, Mutex};

use portcullis_engine::surroundings::Surroundings;

use super::world::World;

/// SplitMix64: small, and the same on every machine for ever.
#[derive(Debug)]
pub struct Chance(u64);

impl Chance {
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Less than `n`, which is more than 0.
    pub const fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub const fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    pub const fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// What one process sees around it: a clock of its own beginning, randomness of the seed.
pub struct Around {
    world: Arc<World>,
    began_ms: i64,
    chance: Mutex<Chance>,
}

impl Around {
    #[must_use]
    pub fn new(world: &Arc<World>) -> Self {
        let (began, seed) = world.draw(|chance| (chance.below(1_000_000), chance.next()));
        let began_ms = i64::try_from(began).expect("less than a million");
        Self { world: Arc::clone(world), began_ms, chance: Mutex::new(Chance::new(seed)) }
    }
}

impl Surroundings for Around {
    fn boot_ms(&self) -> i64 {
        self.began_ms + self.world.elapsed_ms()
    }

    fn fill(&self, bytes: &mut [u8]) {
        let mut chance = self.chance.lock().unwrap();
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&chance.next().to_be_bytes()[..chunk.len()]);
        }
    }
}
