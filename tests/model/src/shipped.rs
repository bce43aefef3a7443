//! Searches over the rules as they ship.

pub use portcullis_proto as proto;

#[path = "checked/mod.rs"]
pub mod checked;
