//! What the tool `http` promises, against servers that say exactly what a test needs.

#![expect(clippy::unwrap_used, reason = "what the tests share may fail like the tests themselves")]

mod answers;
mod outcomes;
mod redirects;
mod refusals;
mod support;
