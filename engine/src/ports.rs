//! What the engine needs from the outside: a store, blobs, a bus.
//!
//! Authority: the store's answer is the truth, a message is only a doorbell.
//! Invariant: nothing here knows what a run is. A store keeps bytes under a version; the meaning
//! of the bytes, and every rule about them, stays in the pure function that made them.

mod bus;
mod store;

pub use bus::*;
pub use store::*;
