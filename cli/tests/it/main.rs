//! The binary as a user meets it: what it says, and which exit code it gives.

#![expect(clippy::unwrap_used, reason = "what the tests share may fail like the tests themselves")]

mod configuration;
mod deciding;
mod serving;
mod site;
mod telling;
