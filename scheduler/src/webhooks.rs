//! How does a webhook become a run: limit, verify, parse, accept?

pub mod verify;
