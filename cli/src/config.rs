//! What is this process told? Read once, checked whole.
//!
//! Authority: `portcullis.toml`, its drop-in folders, and the environment over both.
//! Invariant: what loads is usable as it is. A broken agent, reminder or webhook is left out and
//! told; anything else that is broken is the end. Nothing here creates, opens or starts anything.

mod agents;
mod duration;
mod environment;
mod file;
mod home;
mod load;
mod people;
mod problem;
mod profile;
mod read;
mod schema;
mod source;
mod steps;
#[cfg(test)]
mod tests;
mod triggers;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use portcullis_proto::ids::{AgentName, ReminderName, RouteName};
use portcullis_proto::policy::Unattended;
use portcullis_scheduler::settings::{Deployment, Reminder, Webhook};

pub(crate) use agents::{AgentPlan, SANDBOX_EXEC, ToolPlanKind};
pub(crate) use duration::Span;
pub(crate) use environment::{Environment, resolve, variables};
pub(crate) use file::{
    DeclareText, HttpSection, LogFormat, LogSection, SandboxMode, TelemetrySection, WorkerSection,
};
pub(crate) use home::{BusPlace, Home, MANAGEMENT_PORT, StorePlace, without_login};
pub(crate) use people::People;
pub(crate) use problem::{Place, Problem, Scope};
pub(crate) use profile::Profile;
pub(crate) use schema::{root as schema, text as schema_text};

use load::Loader;
use source::Sources;

/// Where the file is looked for unless told otherwise.
pub(crate) const FILE: &str = "portcullis.toml";

/// Everything, checked.
pub(crate) struct Config {
    pub(crate) file: PathBuf,
    pub(crate) profile: Profile,
    pub(crate) data_dir: PathBuf,
    pub(crate) deployment: Option<Deployment>,
    pub(crate) home: Home,
    pub(crate) http: HttpSection,
    pub(crate) api_tokens: Vec<[u8; 32]>,
    pub(crate) unattended: Unattended,
    pub(crate) notary_key_file: Option<PathBuf>,
    pub(crate) people: People,
    pub(crate) worker: WorkerSection,
    pub(crate) sandbox: SandboxMode,
    pub(crate) log: LogSection,
    pub(crate) telemetry: TelemetrySection,
    pub(crate) agents: BTreeMap<AgentName, AgentPlan>,
    pub(crate) reminders: BTreeMap<ReminderName, Reminder>,
    /// Empty where no secrets are read.
    pub(crate) webhooks: BTreeMap<RouteName, Webhook>,
    /// The files that webhooks' secrets are read from.
    pub(crate) secret_files: Vec<PathBuf>,
    /// What was left out, and why.
    pub(crate) unloaded: Vec<Problem>,
}

impl Config {
    /// Closes a port to every tool: one of ours that is known only now.
    pub(crate) fn guard_port(&mut self, port: u16) {
        let tools = self.agents.values_mut().flat_map(|plan| plan.tools.values_mut());
        for tool in tools {
            match &mut tool.kind {
                ToolPlanKind::Shell(shell) => shell.1.guarded_ports.push(port),
                ToolPlanKind::Http { guarded_ports, .. } => guarded_ports.push(port),
                ToolPlanKind::Child => {}
            }
        }
    }
}

/// Does this process check what webhooks' senders sign?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Secrets {
    Read,
    /// A worker is not given any.
    Skip,
}

/// Reads and checks everything.
///
/// # Errors
/// Every problem, as soon as one of them is more than a single thing's.
pub(crate) fn load(
    path: &Path,
    environment: &Environment,
    secrets: Secrets,
) -> Result<Config, Vec<Problem>> {
    let mut problems = Vec::new();
    let (mut sources, mut table) =
        Sources::read(path, &mut problems).map_err(|problem| vec![*problem])?;
    environment::overlay(environment, &mut table, &mut sources, &mut problems);
    let mut loader = Loader { sources, table, problems, environment, secrets };
    let config = loader.config(path);
    let fatal = loader.problems.iter().any(|problem| problem.scope == Scope::Everything);
    if fatal { Err(loader.problems) } else { Ok(Config { unloaded: loader.problems, ..config }) }
}

/// A configuration that loads whole, for the tests of others.
#[cfg(test)]
pub(crate) fn loaded_for_tests(text: &str) -> Config {
    tests::loaded(text, &[])
}
