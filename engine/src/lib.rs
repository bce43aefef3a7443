//! Drives the rules: load → apply → commit → perform, over ports that two homes implement.
//!
//! Authority: the store behind the ports.
//! Invariant: no rule lives here. What may happen is decided in `portcullis-proto`; this crate
//! makes it durable and carries out what the durable state asks for.

mod bury;
mod commit;
pub mod drive;
mod effects;
pub mod epoch;
pub mod finding;
pub mod inprocess;
pub mod meters;
mod narrate;
pub mod payload;
pub mod ports;
pub mod rabbitmq;
pub mod record;
pub mod redis;
pub mod release;
pub mod resume;
pub mod sqlite;
pub mod surroundings;
pub mod sweep;
pub mod trace;

pub use commit::FeedLine;
pub use drive::{Engine, Held, StepError};
pub use effects::Accepted;
