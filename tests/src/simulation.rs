//! A whole installation under a seeded storm of faults, in virtual time.

pub mod bus;
pub mod store;
