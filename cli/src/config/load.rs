//! How do the texts become the checked configuration, section by section?
//!
//! Invariant: one broken thing hides no other: everything that is wrong is told in one go.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use portcullis_proto::ids::{AgentName, BadId, ReminderName, RouteName};
use portcullis_scheduler::settings::{Reminder, Webhook};
use portcullis_worker::sandbox::User;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::agents::{self, AgentPlan, Surround};
use super::duration::Span;
use super::environment::{self, Environment};
use super::file::{
    AgentFile, ApprovalsSection, DeploymentText, HttpSection, LogSection, ReminderFile,
    SandboxSection, TelemetrySection, WebhookFile, WorkerSection,
};
use super::home::{self, Home, StorePlace};
use super::problem::{Flaw, KeyPath, Kind, Problem, Scope};
use super::profile::Profile;
use super::source::Sources;
use super::{Config, Secrets, people, read, triggers};

const DATA_DIR: &str = "portcullis-data";
/// How many runs a worker may work on at once.
const SLOTS_MAX: usize = 4_096;

/// The texts as they are worked off, and what was found wrong so far.
pub(super) struct Loader<'a> {
    pub(super) sources: Sources,
    /// What is not read yet.
    pub(super) table: Map<String, Value>,
    pub(super) problems: Vec<Problem>,
    pub(super) environment: &'a Environment,
    pub(super) secrets: Secrets,
}

impl Loader<'_> {
    /// Reads everything. What is broken is told and stands as its default, so that the next thing
    /// that is broken is told as well.
    pub(super) fn config(&mut self, path: &Path) -> Config {
        let file = absolute(path);
        let folder = file.parent().unwrap_or(Path::new("/")).to_owned();
        let profile: Option<Profile> = self.value("profile");
        let data_dir: Option<PathBuf> = self.value("data_dir");
        let data_dir = folder.join(data_dir.unwrap_or_else(|| PathBuf::from(DATA_DIR)));
        let deployment: Option<DeploymentText> = self.value("deployment");
        let (store, bus) = (self.section("store"), self.section("bus"));
        let (http, approvals): (HttpSection, ApprovalsSection) =
            (self.section("http"), self.section("approvals"));
        let approvers = self.section("approvers");
        let (worker, sandbox): (WorkerSection, SandboxSection) =
            (self.section("worker"), self.section("sandbox"));
        let (log, telemetry): (LogSection, TelemetrySection) =
            (self.section("log"), self.section("telemetry"));
        let [agents, reminders, webhooks] = Kind::ALL.map(|kind| self.list(kind));
        self.strangers();
        let webhooks = self.parse::<WebhookFile>(Kind::Webhook, webhooks);
        self.stray_variables(&webhooks);

        let mut flaws = Vec::new();
        let home = home::of(&store, &bus, &folder, &data_dir, &mut flaws);
        let people = people::of(&approvers, &approvals, &mut flaws);
        let at = KeyPath::of(&["http", "api_token_sha256"]);
        let api_tokens = people::hashes(&http.api_token_sha256, &at, &mut flaws);
        check_worker(&worker, &mut flaws);
        check_telemetry(&telemetry, &mut flaws);
        let notary_key_file = approvals.notary_key_file.as_ref().map(|file| folder.join(file));
        let secret_files: Vec<PathBuf> = webhooks
            .iter()
            .flat_map(|(_, webhook)| triggers::secret_files(&webhook.verify, &folder))
            .collect();
        let mut denied = secret_files.clone();
        denied.extend(notary_key_file.clone());
        denied.extend(hidden(&file, &folder, &data_dir, &home, &sandbox));
        let around = Surround {
            guarded_ports: guarded_ports(&home, &http, &worker, &sandbox),
            folder: folder.clone(),
            data_dir: data_dir.clone(),
            mode: sandbox.mode,
            user: user(&sandbox, &mut flaws),
            denied,
            approval_ms: approval_ms(&approvals, &mut flaws),
        };
        self.tell(flaws, &Scope::Everything);
        let agents = self.agents(agents, &around);
        let reminders = self.reminders(reminders, &agents);
        let webhooks = self.webhooks(webhooks, &folder, &agents);
        Config {
            file,
            profile: profile.unwrap_or_default(),
            data_dir,
            deployment: deployment.map(Into::into),
            home,
            http,
            api_tokens,
            unattended: approvals.unattended,
            notary_key_file,
            people,
            worker,
            sandbox: sandbox.mode,
            log,
            telemetry,
            agents,
            reminders,
            webhooks,
            secret_files,
            unloaded: Vec::new(),
        }
    }

    fn tell(&mut self, flaws: Vec<Flaw>, scope: &Scope) {
        for Flaw { key, what, mend } in flaws {
            let place = self.sources.place(&key);
            self.problems.push(Problem { place, scope: scope.clone(), key, what, mend });
        }
    }

    fn section<T: DeserializeOwned + Default>(&mut self, name: &str) -> T {
        let value = self.table.remove(name).unwrap_or_else(|| Value::Object(Map::new()));
        self.read(name, value)
    }

    /// A setting that stands in no section.
    fn value<T: DeserializeOwned + Default>(&mut self, name: &str) -> T {
        let value = self.table.remove(name).unwrap_or(Value::Null);
        self.read(name, value)
    }

    fn read<T: DeserializeOwned + Default>(&mut self, name: &str, value: Value) -> T {
        read::read(value, &KeyPath::of(&[name])).unwrap_or_else(|flaw| {
            self.tell(vec![flaw], &Scope::Everything);
            T::default()
        })
    }

    /// The named things of one kind, unread.
    fn list(&mut self, kind: Kind) -> Vec<(String, Value)> {
        match self.table.remove(kind.list()) {
            None => Vec::new(),
            Some(Value::Object(list)) => list.into_iter().collect(),
            Some(_) => {
                let list = kind.list();
                let mend = format!("write [{list}.<name>]");
                let flaw = Flaw::new(KeyPath::of(&[list]), "it is a table of names", mend);
                self.tell(vec![flaw], &Scope::Everything);
                Vec::new()
            }
        }
    }

    /// What is left of the file has no meaning.
    fn strangers(&mut self) {
        let names: Vec<String> = self.table.keys().cloned().collect();
        let flaws = names.into_iter().map(|name| {
            let known = "profile, data_dir, deployment, store, bus, http, approvals, approvers, \
                         worker, sandbox, log, telemetry, agents, reminders, webhooks";
            let mend = format!("known here: {known}");
            Flaw::new(KeyPath::of(&[&name]), "there is no such setting", mend)
        });
        let flaws = flaws.collect();
        self.tell(flaws, &Scope::Everything);
    }

    fn stray_variables(&mut self, webhooks: &[(String, WebhookFile)]) {
        let secrets: Vec<String> = webhooks
            .iter()
            .flat_map(|(_, webhook)| triggers::secret_variables(&webhook.verify))
            .collect();
        self.problems.extend(environment::unknown(self.environment, &secrets));
    }

    fn parse<T: DeserializeOwned>(
        &mut self,
        kind: Kind,
        list: Vec<(String, Value)>,
    ) -> Vec<(String, T)> {
        let mut parsed = Vec::new();
        for (name, value) in list {
            match read::read(value, &KeyPath::of(&[kind.list(), &name])) {
                Ok(thing) => parsed.push((name, thing)),
                Err(flaw) => self.tell(vec![flaw], &Scope::One(kind, name)),
            }
        }
        parsed
    }

    fn agents(
        &mut self,
        list: Vec<(String, Value)>,
        around: &Surround,
    ) -> BTreeMap<AgentName, AgentPlan> {
        let mut plans = BTreeMap::new();
        for (name, file) in self.parse::<AgentFile>(Kind::Agent, list) {
            let mut flaws = Vec::new();
            let at = KeyPath::of(&[Kind::Agent.list(), &name]);
            let plan = agents::of(&name, file, around, &at, &mut flaws);
            self.tell(flaws, &Scope::One(Kind::Agent, name));
            if let Some(plan) = plan {
                plans.insert(plan.name.clone(), plan);
            }
        }
        self.orphans(&mut plans);
        plans
    }

    /// Leaves out agents whose children are not there, and whoever starts those.
    fn orphans(&mut self, plans: &mut BTreeMap<AgentName, AgentPlan>) {
        loop {
            let names: BTreeSet<String> = plans.keys().map(ToString::to_string).collect();
            let orphan = plans.values().find_map(|plan| {
                let missing = plan.children.difference(&names).next()?;
                Some((plan.name.clone(), missing.clone()))
            });
            let Some((name, missing)) = orphan else { return };
            plans.remove(&name);
            let key = KeyPath::of(&[Kind::Agent.list(), name.as_str(), "playbook"]);
            let what = format!("it starts the agent `{missing}`, which is not loaded");
            let flaw = Flaw::new(key, what, "define it, or mend it");
            self.tell(vec![flaw], &Scope::One(Kind::Agent, name.to_string()));
        }
    }

    fn reminders(
        &mut self,
        list: Vec<(String, Value)>,
        agents: &BTreeMap<AgentName, AgentPlan>,
    ) -> BTreeMap<ReminderName, Reminder> {
        let mut reminders = BTreeMap::new();
        for (name, file) in self.parse::<ReminderFile>(Kind::Reminder, list) {
            let at = KeyPath::of(&[Kind::Reminder.list(), &name]);
            let reminder = triggers::reminder(file, &at).and_then(|reminder| {
                known_agent(&reminder.agent, agents, &at)?;
                Ok((named(ReminderName::new(&name), &at)?, reminder))
            });
            match reminder {
                Ok((name, reminder)) => drop(reminders.insert(name, reminder)),
                Err(flaw) => self.tell(vec![flaw], &Scope::One(Kind::Reminder, name)),
            }
        }
        reminders
    }

    fn webhooks(
        &mut self,
        list: Vec<(String, WebhookFile)>,
        folder: &Path,
        agents: &BTreeMap<AgentName, AgentPlan>,
    ) -> BTreeMap<RouteName, Webhook> {
        let mut webhooks = BTreeMap::new();
        let environment = (self.secrets == Secrets::Read).then_some(self.environment);
        for (name, file) in list {
            let at = KeyPath::of(&[Kind::Webhook.list(), &name]);
            let agent = file.agent.clone();
            let webhook = named(RouteName::new(&name), &at).and_then(|route| {
                let webhook = triggers::webhook(file, folder, environment, &at)?;
                let agent = named(AgentName::new(agent), &at.key("agent"))?;
                known_agent(&agent, agents, &at)?;
                Ok(webhook.map(|webhook| (route, webhook)))
            });
            match webhook {
                Ok(webhook) => webhooks.extend(webhook),
                Err(flaw) => self.tell(vec![flaw], &Scope::One(Kind::Webhook, name)),
            }
        }
        webhooks
    }
}

fn named<T>(name: Result<T, BadId>, at: &KeyPath) -> Result<T, Flaw> {
    name.map_err(|why| Flaw::new(at.clone(), why.to_string(), "rename it"))
}

fn known_agent(
    name: &AgentName,
    agents: &BTreeMap<AgentName, AgentPlan>,
    at: &KeyPath,
) -> Result<(), Flaw> {
    if agents.contains_key(name) {
        return Ok(());
    }
    let loaded: Vec<&str> = agents.keys().map(AgentName::as_str).collect();
    let what = format!("no agent `{name}` is loaded");
    let mend = match loaded.is_empty() {
        true => "define it in [agents.<name>]".to_owned(),
        false => format!("define it, or name one of: {}", loaded.join(", ")),
    };
    Err(Flaw::new(at.key("agent"), what, mend))
}

/// Zero: no deadline of its own. What is more than zero never becomes that by rounding.
fn approval_ms(approvals: &ApprovalsSection, flaws: &mut Vec<Flaw>) -> i64 {
    let seconds = approvals.timeout_seconds;
    let at = KeyPath::of(&["approvals", "timeout_seconds"]);
    if !seconds.is_finite() {
        flaws.push(Flaw::new(at, format!("`{seconds}` is no finite number"), "write seconds"));
        return 0;
    }
    if seconds <= 0.0 {
        return 0;
    }
    match Span::of_seconds(seconds) {
        Ok(span) => span.ms(),
        Err(why) => {
            flaws.push(Flaw::new(at, why, "write seconds, such as 1800"));
            0
        }
    }
}

fn check_worker(worker: &WorkerSection, flaws: &mut Vec<Flaw>) {
    if worker.slots == 0 || SLOTS_MAX < worker.slots {
        let at = KeyPath::of(&["worker", "slots"]);
        let what = format!("{} is no number of slots", worker.slots);
        flaws.push(Flaw::new(at, what, format!("choose 1 to {SLOTS_MAX}")));
    }
}

fn check_telemetry(telemetry: &TelemetrySection, flaws: &mut Vec<Flaw>) {
    if !(0.0..=1.0).contains(&telemetry.sample_ratio) {
        let at = KeyPath::of(&["telemetry", "sample_ratio"]);
        let what = format!("{} is no share", telemetry.sample_ratio);
        flaws.push(Flaw::new(at, what, "choose 0 to 1"));
    }
}

fn user(sandbox: &SandboxSection, flaws: &mut Vec<Flaw>) -> Option<User> {
    match (sandbox.uid, sandbox.gid) {
        (Some(uid), Some(gid)) => Some(User { uid, gid }),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => {
            let at = KeyPath::of(&["sandbox"]);
            flaws.push(Flaw::new(at, "`uid` and `gid` go together", "give both, or neither"));
            None
        }
    }
}

/// What no tool may see, whatever the agents say.
fn hidden(
    file: &Path,
    folder: &Path,
    data_dir: &Path,
    home: &Home,
    sandbox: &SandboxSection,
) -> Vec<PathBuf> {
    let mut hidden: Vec<PathBuf> = sandbox.denied.iter().map(|path| folder.join(path)).collect();
    hidden.extend([data_dir.to_owned(), file.to_owned()]);
    hidden.extend(Kind::ALL.map(|kind| folder.join(format!("{}.d", kind.list()))));
    if let StorePlace::Sqlite(database) = &home.store {
        hidden.extend(["", "-wal", "-shm", ".lock"].map(|ending| with_ending(database, ending)));
    }
    hidden
}

/// Where no tool may connect to, whatever the agents say.
fn guarded_ports(
    home: &Home,
    http: &HttpSection,
    worker: &WorkerSection,
    sandbox: &SandboxSection,
) -> Vec<u16> {
    let mut ports = sandbox.guarded_ports.clone();
    ports.extend(home.ports.iter().chain([&http.listen.port()]));
    ports.extend(worker.metrics_listen.map(|address| address.port()));
    ports
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}
