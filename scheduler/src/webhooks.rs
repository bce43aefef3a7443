//! How does a webhook become a run: limit, verify, parse, accept?

pub mod body;
pub mod verify;
