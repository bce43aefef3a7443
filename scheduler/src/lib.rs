//! Decides when: reminders and webhooks start runs, people look at them and decide over HTTP.
//!
//! Authority: the store, for everything that outlives a request. This crate keeps no state of its
//! own: any number of schedulers serve the same store.

pub mod reminders;
pub mod settings;
pub mod webhooks;
