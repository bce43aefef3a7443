//! What may stand in `[reminders.<name>]` and `[webhooks.<name>]`?
//!
//! Invariant: a webhook without `verify` is an error; there is no default for who is believed.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// Starts runs by the calendar. Exactly one of `cron`, `every` and `at` is given.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReminderFile {
    /// The agent that is started.
    pub(crate) agent: String,
    /// Whose runs these are. Default: `default`.
    pub(crate) tenant: Option<String>,
    /// Five fields: minute, hour, day of month, month, day of week.
    pub(crate) cron: Option<String>,
    /// A period of hours, minutes and seconds, such as `15m`.
    pub(crate) every: Option<String>,
    /// Once, such as `2026-03-01T09:00:00+01:00`; without an offset it is in `timezone`.
    pub(crate) at: Option<String>,
    /// An IANA name such as `Europe/Berlin`, for `cron` and `at`. Default: UTC.
    pub(crate) timezone: Option<String>,
    /// One of the instants that `every` counts from. Default: 1970-01-01T00:00:00Z, so that `1h`
    /// fires on the hour.
    pub(crate) anchor: Option<String>,
    /// For `cron` at a time of day that the clock jumps over: `run_at_end` or `skip`. Default:
    /// `run_at_end`.
    pub(crate) gap: Option<GapText>,
    /// For `cron` at a time of day that happens twice: `first`, `last` or `both`. Default: `first`.
    pub(crate) fold: Option<FoldText>,
    /// The input of every run. Default: an empty object.
    pub(crate) input: Option<Value>,
    /// What becomes of instants missed while nothing ran: `none`, `one` (the latest, if at most an
    /// hour late) or `all` (the latest ten). Default: `one`.
    pub(crate) catch_up: Option<CatchUpText>,
    /// While an earlier run is still live: `skip` or `allow`. Default: `skip`.
    pub(crate) overlap: Option<OverlapText>,
    /// The approver who has a live session for these runs. Default: nobody, they are unattended.
    pub(crate) attended_by: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum GapText {
    RunAtEnd,
    Skip,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FoldText {
    First,
    Last,
    Both,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CatchUpText {
    None,
    One,
    All,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OverlapText {
    Skip,
    Allow,
}

/// One route, `POST /hooks/<name>`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WebhookFile {
    /// The agent that is started, with the request's body as input.
    pub(crate) agent: String,
    /// Whose runs these are. Default: `default`.
    pub(crate) tenant: Option<String>,
    /// How the sender proves itself. No default.
    pub(crate) verify: Verify,
    /// The longest body, in bytes, at most 1048576. Default: 262144.
    pub(crate) body_bytes_max: Option<usize>,
}

/// How a request proves where it comes from.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "scheme", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Verify {
    /// `X-Hub-Signature-256`, as GitHub signs.
    Github {
        /// Environment variables with the secret; several while one is replaced.
        #[serde(default)]
        secret_env: SecretNames<String>,
        /// Files with the secret; several while one is replaced.
        #[serde(default)]
        secret_file: SecretNames<PathBuf>,
    },
    /// `webhook-id`, `webhook-timestamp` and `webhook-signature`; secrets are `whsec_<base64>`.
    StandardWebhooks {
        /// Environment variables with the secret; several while one is replaced.
        #[serde(default)]
        secret_env: SecretNames<String>,
        /// Files with the secret; several while one is replaced.
        #[serde(default)]
        secret_file: SecretNames<PathBuf>,
        /// How far the sender's clock may be off, both ways, at most 1h. Default: 5m.
        tolerance: Option<crate::config::duration::Span>,
    },
    /// Nothing; only processes of this machine are heard.
    None {},
}

/// One name or a list of names.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum SecretNames<T> {
    One(T),
    Several(Vec<T>),
}

impl<T> Default for SecretNames<T> {
    fn default() -> Self {
        Self::Several(Vec::new())
    }
}

impl<T: Clone> SecretNames<T> {
    pub(crate) fn all(&self) -> Vec<T> {
        match self {
            Self::One(name) => vec![name.clone()],
            Self::Several(names) => names.clone(),
        }
    }
}
