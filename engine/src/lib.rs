//! Drives the rules: load → apply → commit → perform, over ports that two homes implement.
//!
//! Authority: the store behind the ports.
//! Invariant: no rule lives here. What may happen is decided in `portcullis-proto`; this crate
//! makes it durable and carries out what the durable state asks for.

pub mod ports;
