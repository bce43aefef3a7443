//! Searches over the rules as they ship.

pub use portcullis_proto as proto;

#[path = "checked/search.rs"]
pub mod checked;
