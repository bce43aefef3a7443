//! What does a written agent come to: steps, policy, tools, limits?
//!
//! Invariant: nothing is created or started here; a plan becomes an agent when a worker starts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use portcullis_proto::call::{OnDenied, Traits};
use portcullis_proto::ids::{AgentName, PoolName, ToolName};
use portcullis_proto::job::{CAP_MS_CEILING, Limits};
use portcullis_proto::policy::{Asking, Policy, Rule, ToolPolicy};
use portcullis_scheduler::settings::START_BY_MS_MAX;
use portcullis_worker::models::playbook::{Playbook, PlaybookError, StepSource};
use portcullis_worker::sandbox::{self, SandboxPolicy, User};
use portcullis_worker::settings::STEP_RESERVE_MS;
use portcullis_worker::tools::http::Reach;
use portcullis_worker::tools::shell::{Shell, ShellSettings};
use serde_json::Value;

use super::file::{AgentFile, HttpTool, LimitsSection, SandboxMode, ShellTool, ToolCommon};
use super::problem::{Flaw, KeyPath};
use super::steps;
use crate::words::one_sentence;

/// The hidden subcommand that becomes a tool.
pub(crate) const SANDBOX_EXEC: &str = "sandbox-exec";
/// The running binary, also when its file was replaced.
const SELF: &str = "/proc/self/exe";

/// An agent that could be made.
pub(crate) struct AgentPlan {
    pub(crate) name: AgentName,
    pub(crate) description: String,
    pub(crate) playbook: Arc<Playbook>,
    pub(crate) policy: Policy,
    pub(crate) tools: BTreeMap<ToolName, ToolPlan>,
    pub(crate) limits: Limits,
    pub(crate) start_by_ms: i64,
    /// The agents that its steps start by name.
    pub(crate) children: BTreeSet<String>,
}

/// A tool that could be made.
pub(crate) struct ToolPlan {
    pub(crate) traits: Traits,
    pub(crate) kind: ToolPlanKind,
}

pub(crate) enum ToolPlanKind {
    Shell(Box<(ShellSettings, SandboxPolicy)>),
    Http { allow_private: Vec<String>, guarded_ports: Vec<u16> },
    Child,
}

/// What all agents share.
pub(crate) struct Surround {
    pub(crate) folder: PathBuf,
    pub(crate) data_dir: PathBuf,
    pub(crate) mode: SandboxMode,
    pub(crate) user: Option<User>,
    /// Hidden from every tool.
    pub(crate) denied: Vec<PathBuf>,
    /// Closed to every tool.
    pub(crate) guarded_ports: Vec<u16>,
    pub(crate) approval_ms: i64,
}

/// Checks an agent; `None` when `flaws` grew.
pub(crate) fn of(
    name: &str,
    file: AgentFile,
    around: &Surround,
    at: &KeyPath,
    flaws: &mut Vec<Flaw>,
) -> Option<AgentPlan> {
    let before = flaws.len();
    let name = match AgentName::new(name) {
        Ok(name) => name,
        Err(why) => {
            flaws.push(Flaw::new(at.clone(), why.to_string(), "rename the agent"));
            return None;
        }
    };
    let (limits, start_by_ms) = limits(&file.limits, around, &at.key("limits"), flaws);
    let common = file.tools.common();
    let steps = steps::of(&file.playbook, &at.key("playbook"), flaws);
    check_tools_named(&steps, &common, &at.key("playbook"), flaws);
    check_rules(&file.rules, &common, &at.key("rules"), flaws);
    let policy = policy(&common, file.rules, &at.key("tools"), flaws);
    check_timeouts(&common, limits.step_ms, &at.key("tools"), flaws);
    let mut tools = BTreeMap::new();
    let mut add = |name: &str, common: &ToolCommon, kind| {
        tools.insert(tool_name(name), ToolPlan { traits: traits(common), kind });
    };
    if let (Some(tool), Some(common)) = (&file.tools.shell, common.get("shell")) {
        let at = at.key("tools").key("shell");
        let (settings, policy) = shell(&name, tool, around);
        if let Err(why) = Shell::check(&settings, as_if_made(&policy, around)) {
            flaws.push(Flaw::told(at, one_sentence(&why)));
        }
        add("shell", common, ToolPlanKind::Shell(Box::new((settings, policy))));
    }
    if let (Some(tool), Some(common)) = (&file.tools.http, common.get("http"))
        && let Some(kind) = http(tool, around, &at.key("tools").key("http"), flaws)
    {
        add("http", common, kind);
    }
    if let Some(common) = common.get("agent") {
        add("agent", common, ToolPlanKind::Child);
    }
    // A step that could not be read is told already.
    let steps = steps.into_iter().collect::<Option<Vec<StepSource>>>()?;
    let children = children(&steps);
    let playbook = playbook(&steps, &at.key("playbook"), flaws)?;
    (flaws.len() == before).then(|| AgentPlan {
        name,
        description: file.description,
        playbook: Arc::new(playbook),
        policy,
        tools,
        limits,
        start_by_ms,
        children,
    })
}

fn tool_name(name: &str) -> ToolName {
    ToolName::new(name).expect("our own tools have valid names")
}

fn limits(
    section: &LimitsSection,
    around: &Surround,
    at: &KeyPath,
    flaws: &mut Vec<Flaw>,
) -> (Limits, i64) {
    let mut at_most = |key: &str, ms: i64, max: i64| {
        if max < ms {
            let what = "it is longer than seven days".to_owned();
            flaws.push(Flaw::new(at.key(key), what, "choose at most 7d"));
        }
    };
    at_most("hard_cap", section.hard_cap.ms(), CAP_MS_CEILING);
    at_most("start_by", section.start_by.ms(), START_BY_MS_MAX);
    if section.hard_cap < section.step {
        let what =
            format!("a step of {} outlives its run's cap of {}", section.step, section.hard_cap);
        flaws.push(Flaw::new(at.key("step"), what, "shorten it, or raise `hard_cap`"));
    }
    let approval_ms = section.approval.map_or(around.approval_ms, |span| span.ms());
    let limits = Limits { cap_ms: section.hard_cap.ms(), step_ms: section.step.ms(), approval_ms };
    (limits, section.start_by.ms())
}

fn check_tools_named(
    steps: &[Option<StepSource>],
    tools: &BTreeMap<&'static str, ToolCommon>,
    at: &KeyPath,
    flaws: &mut Vec<Flaw>,
) {
    for (index, step) in steps.iter().enumerate() {
        for call in step.iter().flat_map(|step| &step.calls) {
            if !tools.contains_key(call.tool.as_str()) {
                let what = format!("the agent has no tool `{}`", call.tool);
                let mend = format!("add its table: [agents.<name>.tools.{}]", call.tool);
                flaws.push(Flaw::new(at.index(index), what, mend));
            }
        }
    }
}

/// A rule that can never match would be a deny that never denies.
fn check_rules(
    rules: &[Rule],
    tools: &BTreeMap<&'static str, ToolCommon>,
    at: &KeyPath,
    flaws: &mut Vec<Flaw>,
) {
    for (index, rule) in rules.iter().enumerate() {
        let at = at.index(index);
        if let Some(tool) = rule.tool.as_ref().filter(|tool| !tools.contains_key(tool.as_str())) {
            let what = format!("the agent has no tool `{tool}`, so the rule never matches");
            flaws.push(Flaw::new(at.key("tool"), what, "name one of its tools"));
        }
        let origins = ["reminder", "webhook", "api"];
        if let Some(origin) = rule.origin.as_ref().filter(|o| !origins.contains(&o.as_str())) {
            let what = format!("no run comes from `{origin}`, so the rule never matches");
            flaws.push(Flaw::new(at.key("origin"), what, "write reminder, webhook or api"));
        }
        for pointer in rule.args.keys().filter(|p| !p.is_empty() && !p.starts_with('/')) {
            let what = "it is no JSON pointer, so the rule never matches";
            let mend = format!("write \"/{pointer}\", or \"/argv/0\" for the first element");
            flaws.push(Flaw::new(at.key("args").key(pointer), what, mend));
        }
    }
}

fn policy(
    tools: &BTreeMap<&'static str, ToolCommon>,
    rules: Vec<Rule>,
    at: &KeyPath,
    flaws: &mut Vec<Flaw>,
) -> Policy {
    let mut policy = Policy { tools: BTreeMap::new(), rules };
    for (name, common) in tools {
        let at = at.key(name);
        if common.need == 0 {
            let what = "nobody would have to agree";
            flaws.push(Flaw::new(at.key("need"), what, "choose at least 1, or gate = \"allow\""));
        }
        match PoolName::new(&common.pool) {
            Ok(pool) => {
                let asking =
                    Asking { pool, risk: common.risk, need: common.need, levels: Vec::new() };
                policy.tools.insert(tool_name(name), ToolPolicy { gate: common.gate, asking });
            }
            Err(why) => flaws.push(Flaw::new(at.key("pool"), why.to_string(), "rename the pool")),
        }
    }
    policy
}

fn check_timeouts(
    tools: &BTreeMap<&'static str, ToolCommon>,
    step_ms: i64,
    at: &KeyPath,
    flaws: &mut Vec<Flaw>,
) {
    for (name, common) in tools {
        // A child run waits parked, outside of any step.
        if *name != "agent" && step_ms - STEP_RESERVE_MS < common.timeout.ms() {
            let what = format!("{} does not fit into a step with 3 s to spare", common.timeout);
            let mend = "shorten it, or raise `limits.step`";
            flaws.push(Flaw::new(at.key(name).key("timeout"), what, mend));
        }
    }
}

fn traits(common: &ToolCommon) -> Traits {
    Traits {
        effect: common.effect,
        timeout_ms: common.timeout.ms(),
        // A playbook has nobody to tell: going on as if nothing had been refused would be wrong.
        on_denied: common.on_denied.unwrap_or(OnDenied::EndRun),
        on_unknown: common.on_unknown,
    }
}

fn shell(agent: &AgentName, tool: &ShellTool, around: &Surround) -> (ShellSettings, SandboxPolicy) {
    let mut settings = ShellSettings::new(vec![SELF.into(), SANDBOX_EXEC.into()]);
    if let Some(path) = &tool.path {
        settings.path.clone_from(path);
    }
    settings.lang.clone_from(&tool.lang);
    settings.time_zone.clone_from(&tool.time_zone);
    settings.env_allowed = tool.env_allowed.iter().cloned().collect();
    if let Some(bytes) = tool.output_bytes_max {
        settings.output_bytes_max = bytes;
    }
    let mode = match around.mode {
        SandboxMode::Enforce => sandbox::Mode::Enforce,
        SandboxMode::Off => sandbox::Mode::Off,
    };
    let absolute = |path: &PathBuf| around.folder.join(path);
    let work_dir = match &tool.work_dir {
        Some(path) => absolute(path),
        None => around.data_dir.join("work").join(agent.as_str()),
    };
    let mut policy = SandboxPolicy::new(mode, work_dir);
    policy.read_only.extend(tool.read_only.iter().map(absolute));
    policy.read_write.extend(tool.read_write.iter().map(absolute));
    policy.denied.clone_from(&around.denied);
    policy.connect_ports.clone_from(&tool.connect_ports);
    policy.guarded_ports.clone_from(&around.guarded_ports);
    policy.dns = tool.dns;
    policy.unix_sockets = tool.unix_sockets;
    policy.detach = tool.detach;
    policy.user = around.user;
    policy.limits = sandbox::Limits {
        open_files_max: tool.open_files_max.or(sandbox::Limits::MODEST.open_files_max),
        address_space_bytes_max: tool.address_space_bytes_max,
        cpu_seconds_max: tool.cpu_seconds_max,
        processes_max: tool.processes_max,
        file_bytes_max: tool.file_bytes_max,
    };
    (settings, policy)
}

/// A work folder of ours is made when the worker starts; until then a folder that no policy can
/// object to stands in for it.
fn as_if_made(policy: &SandboxPolicy, around: &Surround) -> SandboxPolicy {
    let mut policy = policy.clone();
    if policy.work_dir.starts_with(&around.data_dir) && !policy.work_dir.exists() {
        policy.work_dir = PathBuf::from("/usr");
    }
    policy
}

fn http(
    tool: &HttpTool,
    around: &Surround,
    at: &KeyPath,
    flaws: &mut Vec<Flaw>,
) -> Option<ToolPlanKind> {
    let (allow_private, guarded_ports) = (tool.allow_private.clone(), around.guarded_ports.clone());
    if let Err(why) = Reach::new(&allow_private, guarded_ports.clone()) {
        flaws.push(Flaw::told(at.key("allow_private"), why.to_string()));
        return None;
    }
    Some(ToolPlanKind::Http { allow_private, guarded_ports })
}

fn children(steps: &[StepSource]) -> BTreeSet<String> {
    let calls = steps.iter().flat_map(|step| &step.calls);
    let names = calls.filter(|call| call.tool.as_str() == "agent").filter_map(|call| {
        let name = call.args.get("agent").and_then(Value::as_str)?;
        // A template is filled in later.
        (!name.contains("{{")).then(|| name.to_owned())
    });
    names.collect()
}

fn playbook(steps: &[StepSource], at: &KeyPath, flaws: &mut Vec<Flaw>) -> Option<Playbook> {
    let (at, what, mend) = match Playbook::new(steps) {
        Ok(playbook) => return Some(playbook),
        Err(PlaybookError::Template { step, call, why }) => {
            let at = at.index(step);
            let at = if steps[step].calls.len() == 1 { at } else { at.key("calls").index(call) };
            (at, why.to_string(), "")
        }
        Err(why @ PlaybookError::Calls { step, .. }) => {
            (at.index(step), why.to_string(), "split it into steps")
        }
        Err(why @ (PlaybookError::Steps(_) | PlaybookError::Unreadable(_))) => {
            (at.clone(), why.to_string(), "add or merge steps")
        }
    };
    flaws.push(Flaw::new(at, what, mend));
    None
}
