//! A service that decides by itself, and writes down what it says before it says it.
//!
//! Invariant: a yes that is not in its file was never sent, wherever it was killed.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use portcullis_proto::digest::Digest;
use serde_json::Value;

use super::storm::wall_ms;
use crate::processes::{Api, Approver, Listening, Signing};

/// What it says to one request: six in ten are approved, two denied, and two left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says {
    Approve,
    Deny,
    Nothing,
}

impl Says {
    /// Always the same to the same request.
    #[must_use]
    pub fn to(approval: &str) -> Self {
        match Digest::of_bytes(approval.as_bytes()).0[0] % 10 {
            0..=5 => Self::Approve,
            6 | 7 => Self::Deny,
            8.. => Self::Nothing,
        }
    }

    /// As it is written and sent; `None`: it is not.
    #[must_use]
    pub const fn word(self) -> Option<&'static str> {
        match self {
            Self::Approve => Some("approve"),
            Self::Deny => Some("deny"),
            Self::Nothing => None,
        }
    }
}

fn open(ledger: &Path) -> File {
    OpenOptions::new().create(true).append(true).open(ledger).unwrap()
}

/// `<verdict> <approval> <run> <deadline> <now>`: one write a line.
fn write_down(ledger: &mut File, verdict: &str, request: &Value) {
    let text = |key: &str| request[key].as_str().unwrap().to_owned();
    let (approval, run) = (text("approval_id"), text("run_id"));
    let line = format!("{verdict} {approval} {run} {} {}\n", request["deadline"], wall_ms());
    ledger.write_all(line.as_bytes()).unwrap();
}

/// Decides what is published, as `carol`, until its connection breaks.
///
/// # Panics
/// When it breaks: whoever started it starts it again.
pub async fn approve_over_amqp(url: &str, ledger: &Path) {
    let mut ledger = open(ledger);
    let mut listening = Listening::at(url).await;
    let carol = Approver::carol();
    loop {
        let request = listening.next().await;
        let Some(verdict) = Says::to(request["approval_id"].as_str().unwrap()).word() else {
            continue;
        };
        write_down(&mut ledger, verdict, &request);
        let decision = carol.sign(&request, &Signing::of(&request, verdict));
        listening.send(&request, &decision).await;
    }
}

/// Decides what is in the inbox, as `alice`, for ever.
///
/// # Panics
/// When its file cannot be written.
pub async fn approve_over_http(port: u16, ledger: &Path) {
    let mut ledger = open(ledger);
    let api = Api::at(port);
    loop {
        for request in api.open_requests().await {
            let Some(verdict) = Says::to(request["approval_id"].as_str().unwrap()).word() else {
                continue;
            };
            write_down(&mut ledger, verdict, &request);
            // Asked again at the next look if it was not heard.
            api.try_decide(&request, "alice", verdict).await;
        }
        // sleep: an inbox is looked into, now and then
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}
