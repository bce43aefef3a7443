//! What does the worker tell its helper, and how does the helper answer?
//!
//! Authority: the worker writes the plan; the helper believes it. Nothing in it is secret.
//! Invariant: a refusal is believed only with the call's own nonce, which the tool never sees: the
//! plan is gone from memory and from the command line once `execve` has happened. So a tool can't
//! claim afterwards that it never ran.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::policy::Limits;

/// How the helper exits when it did not start the tool. A tool may use the same code; only the
/// refusal on stderr tells.
pub(crate) const REFUSED_EXIT_CODE: i32 = 119;
/// Bytes of a refusal's message.
const MESSAGE_BYTES_MAX: usize = 1024;

/// What the helper is for, as its first argument; the tool's argv follows.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Plan {
    /// Narrow yourself and become the tool.
    Exec {
        nonce: String,
        /// The worker; another parent means that it died while we started.
        parent_pid: u32,
        enforce: bool,
        paths: PathRules,
        network: Network,
        detach: bool,
        limits: PlanLimits,
    },
    /// Kill the process groups named on stdin once it ends. See [`super::watch`].
    Watch {},
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PathRules {
    pub(crate) read_only: Vec<PathBuf>,
    pub(crate) read_write: Vec<PathBuf>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Network {
    pub(crate) connect_ports: Vec<u16>,
    pub(crate) dns: bool,
    pub(crate) unix_sockets: bool,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlanLimits {
    pub(crate) open_files_max: Option<u64>,
    pub(crate) address_space_bytes_max: Option<u64>,
    pub(crate) cpu_seconds_max: Option<u64>,
    pub(crate) processes_max: Option<u64>,
    pub(crate) file_bytes_max: Option<u64>,
}

impl From<Limits> for PlanLimits {
    fn from(limits: Limits) -> Self {
        let Limits {
            open_files_max,
            address_space_bytes_max,
            cpu_seconds_max,
            processes_max,
            file_bytes_max,
        } = limits;
        Self {
            open_files_max,
            address_space_bytes_max,
            cpu_seconds_max,
            processes_max,
            file_bytes_max,
        }
    }
}

/// Why the tool was not started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RefusalCode {
    /// This kernel lacks a required layer.
    SandboxUnavailable,
    /// A layer is there but could not be put on.
    SandboxFailed,
    /// There is no such program.
    ProgramNotFound,
    /// The program is there, but may not be executed.
    ProgramRefused,
}

/// The helper's answer when it did not start the tool: one line of JSON on stderr.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Refusal {
    nonce: String,
    pub(crate) code: RefusalCode,
    pub(crate) message: String,
}

impl Refusal {
    pub(crate) fn new(code: RefusalCode, message: impl Into<String>) -> Self {
        let mut message: String = message.into();
        message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
        Self { nonce: String::new(), code, message }
    }

    pub(crate) fn signed(self, nonce: &str) -> Self {
        Self { nonce: nonce.to_owned(), ..self }
    }

    /// Reads the refusal off a helper's stderr; `None` if this was written by anybody else.
    pub(crate) fn read(stderr: &[u8], nonce: &str) -> Option<Self> {
        let refusal: Self = serde_json::from_slice(stderr.trim_ascii_end()).ok()?;
        (refusal.nonce == nonce).then_some(refusal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_believed_only_with_the_calls_nonce() {
        let refusal = Refusal::new(RefusalCode::ProgramNotFound, "no such program").signed("right");
        let line = serde_json::to_vec(&refusal).unwrap();

        assert_eq!(Refusal::read(&line, "right"), Some(refusal));
        assert_eq!(Refusal::read(&line, "wrong"), None);
        assert_eq!(Refusal::read(b"", "right"), None);
        let mut noisy = b"tool output\n".to_vec();
        noisy.extend(&line);
        assert_eq!(Refusal::read(&noisy, "right"), None, "the helper writes nothing else");
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let refusal = Refusal::new(RefusalCode::SandboxFailed, "ß".repeat(MESSAGE_BYTES_MAX));
        assert_eq!(refusal.message.len(), MESSAGE_BYTES_MAX);
    }
}
