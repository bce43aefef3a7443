//! What every test of the workspace stands on: private servers, and the suites that run on them.

pub mod conformance;
pub mod servers;
