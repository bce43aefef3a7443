//! What the sandbox promises, tried from inside: each test is an escape, run as a tool. The
//! programs that try are bash and perl, which every Debian has, so nothing of ours needs to be in
//! the sandbox.

#![expect(clippy::unwrap_used, reason = "what the tests share may fail like the tests themselves")]

mod files;
mod lifetime;
mod network;
mod processes;
mod refusals;
mod results;
mod support;
