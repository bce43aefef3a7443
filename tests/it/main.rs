//! One test binary; a module per promise.

#![allow(clippy::unwrap_used, reason = "a test's helper may panic: that is how it says no")]
#![allow(clippy::disallowed_methods, reason = "a test plays people and senders, who have clocks")]

mod bus_inprocess;
mod bus_rabbitmq;
mod damaged;
mod deploy;
mod flow;
mod fuzz;
mod processes;
mod scheduled;
mod servers;
mod simulation;
mod store_redis;
mod store_sqlite;
