//! What every home must do alike: one suite per port, run against every adapter.
//!
//! Authority: the documentation of the ports. An adapter that fails a claim here is wrong, also
//! when nothing else notices.
//! Invariant: no claim names an adapter. What only one of them can do is behind a bench.

pub mod bus;
pub mod store;
