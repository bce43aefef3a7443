//! How does a checked plan become an agent that can act?
//!
//! Invariant: an agent whose tools cannot be made is taken out of the configuration, with every
//! reminder and webhook that starts it, and that is told.

use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;

use portcullis_proto::ids::{AgentName, ToolName};
use portcullis_worker::settings::{Agent, AgentTool, Brain, ToolKind};
use portcullis_worker::tools::http::{Http, Reach};
use portcullis_worker::tools::shell::Shell;
use tracing::error;

use crate::config::{AgentPlan, Config, ToolPlanKind};
use crate::words::one_sentence;

/// Makes every agent that can be made.
pub(super) fn make(config: &mut Config) -> BTreeMap<AgentName, Arc<Agent>> {
    let mut agents = BTreeMap::new();
    for (name, plan) in &config.agents {
        match agent(plan, &config.data_dir) {
            Ok(agent) => drop(agents.insert(name.clone(), Arc::new(agent))),
            Err(why) => error!(agent = %name, %why, "W050 not loaded: its tools cannot be made"),
        }
    }
    config.agents.retain(|name, _| agents.contains_key(name));
    let is_known = |agent: &AgentName| agents.contains_key(agent);
    config.reminders.retain(|_, reminder| is_known(&reminder.agent));
    config.webhooks.retain(|_, webhook| is_known(&webhook.agent));
    agents
}

fn agent(plan: &AgentPlan, data_dir: &Path) -> Result<Agent, String> {
    let mut tools: BTreeMap<ToolName, AgentTool> = BTreeMap::new();
    for (name, tool) in &plan.tools {
        let kind = match &tool.kind {
            ToolPlanKind::Shell(shell) => {
                let (settings, policy) = (**shell).clone();
                if policy.work_dir.starts_with(data_dir) {
                    make_folder(&policy.work_dir)?;
                }
                let shell = Shell::new(settings, policy).map_err(|why| one_sentence(&why))?;
                ToolKind::Local(Arc::new(shell))
            }
            ToolPlanKind::Http { allow_private, guarded_ports } => {
                let reach = Reach::new(allow_private, guarded_ports.clone());
                let reach = reach.map_err(|why| one_sentence(&why))?;
                let http = Http::new(reach).map_err(|why| one_sentence(&why))?;
                ToolKind::Local(Arc::new(http))
            }
            ToolPlanKind::Child => ToolKind::Child,
        };
        tools.insert(name.clone(), AgentTool { traits: tool.traits, kind });
    }
    Ok(Agent {
        name: plan.name.clone(),
        brain: Brain::Playbook(Arc::clone(&plan.playbook)),
        policy: plan.policy.clone(),
        tools,
        limits: plan.limits,
        start_by_ms: plan.start_by_ms,
    })
}

/// A folder in our own data folder; one that the user names must be there.
fn make_folder(path: &Path) -> Result<(), String> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|why| format!("cannot make the work folder {}: {why}", path.display()))
}
