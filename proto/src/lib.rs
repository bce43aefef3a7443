//! The words and the rules of Portcullis: wire types, the run's state machine, policy, digests.
//!
//! Authority: none. Everything here is values in, values out; whoever calls it owns the truth.
//! Invariant: this crate reads no clock, opens no file, draws no random number and knows no
//! runtime. Time, randomness, keys and policy verdicts come in as arguments.

pub mod approval;
pub mod call;
pub mod decision;
pub mod denial;
pub mod digest;
pub mod envelope;
pub mod ids;
pub mod job;
pub mod journal;
pub mod policy;
pub mod quote;
pub mod request;
pub mod run;
pub mod time;
pub mod topology;
pub mod wake;
