//! What does a server on the network answer?
//!
//! Authority: [`Reach`], for the addresses; the server, for what it did. The connection goes to
//! the very addresses that were checked, as the check sits in the connector's resolver: there is
//! no second look-up that could answer differently.
//! Invariant: no request leaves for a private address that the settings do not list, nor for a
//! port of our own on this machine whatever they list; redirects are followed by hand, so that
//! each hop is checked. Before the first connection stands, a failure is «not run». After that it
//! is `outcome_unknown`, unless the server answered.
//! If we crash here: a request that was sent stays sent; its `Idempotency-Key` tells the server of
//! a repeat.

mod address;
mod args;
mod exchange;
mod reach;

use std::time::Duration;

use serde_json::Value;

use crate::tools::{
    ArgsError, Invocation, NotRun, NotRunCode, Outcome, Tool, cancelled, timed_out,
};

use args::Args;
use exchange::Exchange;
pub use reach::{Reach, ReachError};

/// To a connection that stands, the name's resolution included.
const CONNECT_WAIT: Duration = Duration::from_secs(10);

/// The tool `http`.
pub struct Http {
    exchange: Exchange,
}

/// Why the tool can't be set up.
#[derive(Debug, thiserror::Error)]
#[error("cannot set up the HTTP client")]
pub struct HttpError(#[from] reqwest::Error);

impl Http {
    /// The process must have installed its TLS provider.
    ///
    /// # Errors
    /// The client can't be built, for example because there are no root certificates.
    pub fn new(reach: Reach) -> Result<Self, HttpError> {
        Ok(Self { exchange: Exchange::new(reach, CONNECT_WAIT)? })
    }
}

#[async_trait::async_trait]
impl Tool for Http {
    fn name(&self) -> &str {
        "http"
    }

    fn check(&self, args: &Value) -> Result<Value, ArgsError> {
        Args::read(args).map(Args::into_value)
    }

    async fn run(&self, call: Invocation) -> Outcome {
        let args = match Args::read(&call.args) {
            Ok(args) => args,
            Err(error) => return NotRun::new(NotRunCode::ArgsRefused, error.to_string()).into(),
        };
        if call.cancel.is_cancelled() {
            return NotRun::new(NotRunCode::Cancelled, "cancelled before the start").into();
        }
        // Dropping the exchange closes the connection. What was sent stays sent: «failed», not
        // «not run».
        tokio::select! {
            biased;
            outcome = self.exchange.run(args, &call.idempotency_key, &call.claim_id) => outcome,
            () = call.cancel.cancelled() => Outcome::Failed(cancelled()),
            () = tokio::time::sleep(call.timeout) => Outcome::Failed(timed_out(call.timeout)),
        }
    }
}
