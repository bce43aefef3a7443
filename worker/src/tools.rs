//! What can a call do to the world, and what came of it?
//!
//! Authority: the run's record decides *whether* a tool runs; a tool only reports what happened.
//! Invariant: [`Outcome::NotRun`] is said only when provably nothing was started or sent. Whatever
//! is in doubt is [`Outcome::Failed`] with `outcome_unknown`, `tool_timed_out` or `cancelled`,
//! because such a call must not be repeated by itself.
//! If we crash here: the record says *started*, and the call ends as «outcome unknown».

pub mod http;
pub mod shell;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use portcullis_proto::quote::told;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// One call that the gate has let through.
#[derive(Debug, Clone)]
pub struct Invocation {
    /// As [`Tool::check`] returned them.
    pub args: Value,
    /// The same over all retries of this call. Given to the tool.
    pub idempotency_key: String,
    /// The claim under which the call runs; a fencing token. Given to the tool.
    pub claim_id: String,
    /// Milliseconds since 1970 after which nothing should happen any more. Given to the tool,
    /// which has a clock to compare it with; the worker enforces [`timeout`](Self::timeout).
    pub not_after_ms: i64,
    /// How long the tool may take, from its start.
    pub timeout: Duration,
    /// Fires when the claim is lost, the run is cancelled or the worker gives up.
    pub cancel: CancellationToken,
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It ran and says that it succeeded.
    Succeeded(Value),
    /// It was started, or may have been, and did not succeed.
    Failed(Value),
    /// Provably nothing was started or sent.
    NotRun(NotRun),
}

/// Why nothing was started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", code.as_str())]
pub struct NotRun {
    pub code: NotRunCode,
    /// For the operator and the agent; names the thing and, where there is one, the mend.
    pub message: String,
}

impl NotRun {
    pub(crate) fn new(code: NotRunCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl From<NotRun> for Outcome {
    fn from(why: NotRun) -> Self {
        Self::NotRun(why)
    }
}

/// The kinds of [`NotRun`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotRunCode {
    /// The arguments are not those that [`Tool::check`] returns.
    ArgsRefused,
    /// Cancelled before the start.
    Cancelled,
    /// The kernel lacks a layer of the sandbox.
    SandboxUnavailable,
    /// The sandbox could not be set up.
    SandboxFailed,
    /// There is no such program.
    ProgramNotFound,
    /// The program may not be executed.
    ProgramRefused,
    /// The folder to start in is missing or outside of the sandbox.
    CwdRefused,
    /// The helper process could not be started.
    SpawnFailed,
    /// The address is private, or the port is one of our own.
    AddressRefused,
    /// The host's name could not be resolved.
    ResolveFailed,
    /// No connection came about.
    ConnectFailed,
}

impl NotRunCode {
    /// The stable name, for records, logs and agents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ArgsRefused => "args_refused",
            Self::Cancelled => "cancelled",
            Self::SandboxUnavailable => "sandbox_unavailable",
            Self::SandboxFailed => "sandbox_failed",
            Self::ProgramNotFound => "program_not_found",
            Self::ProgramRefused => "program_refused",
            Self::CwdRefused => "cwd_refused",
            Self::SpawnFailed => "spawn_failed",
            Self::AddressRefused => "address_refused",
            Self::ResolveFailed => "resolve_failed",
            Self::ConnectFailed => "connect_failed",
        }
    }
}

/// Something that acts.
#[async_trait::async_trait]
pub trait Tool: Send + Sync {
    /// The name that agents and settings use.
    fn name(&self) -> &str;

    /// Reads the arguments strictly and returns them complete: defaults written out, one spelling.
    /// What it returns is what is digested, shown to the approver and run, and checks to itself.
    /// Touches nothing outside.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place and the mend.
    fn check(&self, args: &Value) -> Result<Value, ArgsError>;

    /// Acts, once. Returns within the timeout and a bounded time to stop what was started; dropped
    /// early, it stops it as well.
    async fn run(&self, call: Invocation) -> Outcome;
}

/// Why arguments are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{at}`: {problem}; {mend}")]
pub struct ArgsError {
    /// The path of the field, such as `argv[2]`.
    pub at: String,
    pub problem: String,
    pub mend: String,
}

impl ArgsError {
    pub(crate) fn new(at: impl fmt::Display, problem: &str, mend: &str) -> Self {
        Self { at: told(&at), problem: told(&problem), mend: mend.to_owned() }
    }
}

/// Reads arguments into a tool's own struct, which denies unknown fields.
pub(crate) fn read_args<T: DeserializeOwned>(args: &Value, form: &str) -> Result<T, ArgsError> {
    serde_path_to_error::deserialize(args).map_err(|error| {
        let at = match error.path().to_string() {
            root if root == "." => "args".to_owned(),
            path => told(&path),
        };
        ArgsError { at, problem: told(error.inner()), mend: format!("write {form}") }
    })
}

/// The tools of one worker, by name.
#[derive(Clone, Default)]
pub struct Toolbox {
    tools: BTreeMap<String, Arc<dyn Tool>>,
}

impl Toolbox {
    /// An empty box: every name is unknown.
    pub fn new() -> Self {
        Self::default()
    }

    /// # Errors
    /// A tool of this name is there already; the box stays as it was.
    pub fn add(&mut self, tool: Arc<dyn Tool>) -> Result<(), DuplicateTool> {
        let name = tool.name().to_owned();
        if self.tools.contains_key(&name) {
            return Err(DuplicateTool { name });
        }
        self.tools.insert(name, tool);
        Ok(())
    }

    /// # Errors
    /// No tool has this name.
    pub fn get(&self, name: &str) -> Result<&Arc<dyn Tool>, UnknownTool> {
        self.tools.get(name).ok_or_else(|| UnknownTool {
            name: name.to_owned(),
            known: self.names().collect::<Vec<_>>().join(", "),
        })
    }

    /// In alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.keys().map(String::as_str)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no tool is called `{name}`; there are: {known}")]
pub struct UnknownTool {
    pub name: String,
    pub known: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("two tools are called `{name}`; rename one")]
pub struct DuplicateTool {
    pub name: String,
}

/// The failure of a call that ran out of time after its start.
pub(crate) fn timed_out(timeout: Duration) -> Value {
    json!({ "error": "tool_timed_out", "timeout_ms": whole_ms(timeout) })
}

/// The failure of a call that was cancelled after its start.
pub(crate) fn cancelled() -> Value {
    json!({ "error": "cancelled" })
}

pub(crate) fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Named(&'static str);

    #[async_trait::async_trait]
    impl Tool for Named {
        fn name(&self) -> &str {
            self.0
        }
        fn check(&self, args: &Value) -> Result<Value, ArgsError> {
            Ok(args.clone())
        }
        async fn run(&self, _: Invocation) -> Outcome {
            Outcome::Succeeded(Value::Null)
        }
    }

    #[test]
    fn an_unknown_tool_is_an_error_that_names_the_known_ones() {
        let mut toolbox = Toolbox::new();
        toolbox.add(Arc::new(Named("shell"))).unwrap();
        toolbox.add(Arc::new(Named("http"))).unwrap();

        let error = toolbox.get("shel").err().unwrap();

        assert_eq!(error.to_string(), "no tool is called `shel`; there are: http, shell");
        assert_eq!(toolbox.get("shell").unwrap().name(), "shell");
    }

    #[test]
    fn a_second_tool_of_the_same_name_is_refused() {
        let mut toolbox = Toolbox::new();
        toolbox.add(Arc::new(Named("shell"))).unwrap();
        let error = toolbox.add(Arc::new(Named("shell"))).unwrap_err();
        assert_eq!(error, DuplicateTool { name: "shell".to_owned() });
    }
}
