//! Does the work: receive → claim → gate → call → settle.
//!
//! Authority: the store's record of a run; this crate asks it before every act.
//! Invariant: no call runs without a [`portcullis_engine::release::Released`], which only a
//! committed start gives out.

pub mod gate;
pub mod life;
pub mod models;
pub mod sandbox;
pub mod settings;
#[cfg(test)]
mod testing;
pub mod tools;
pub mod watchdog;

pub use life::Worker;
pub use settings::Settings;
