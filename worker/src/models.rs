//! Who plans an agent's turns.
//!
//! Invariant: a model is pure: what it plans follows from what it is shown, and nothing acts in
//! here.

pub mod playbook;
pub mod template;
