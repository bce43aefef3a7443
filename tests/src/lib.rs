//! What every test of the workspace stands on: private servers, and the suites that run on them.

#![allow(clippy::unwrap_used, reason = "a test says no by panicking")]

pub mod conformance;
pub mod fuzz;
pub mod home;
pub mod ledger;
pub mod processes;
pub mod servers;
pub mod simulation;
pub mod soak;
