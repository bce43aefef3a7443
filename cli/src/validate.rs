//! Is the configuration right? Names everything that is not.

use std::path::Path;

use serde_json::json;

use crate::config::{self, Environment, Problem, Secrets};
use crate::exit::{Ended, Exit, Failure};
use crate::output::{Output, Tone};

/// Checks and tells.
pub(crate) fn run(path: &Path, environment: &Environment, output: Output) -> Ended {
    let (problems, summary) = match config::load(path, environment, Secrets::Read) {
        Ok(config) => {
            let summary = json!({
                "agents": config.agents.len(),
                "reminders": config.reminders.len(),
                "webhooks": config.webhooks.len(),
                "approvers": config.people.roster.pools.values()
                    .flat_map(|pool| &pool.members)
                    .collect::<std::collections::BTreeSet<_>>()
                    .len(),
            });
            (config.unloaded, Some(summary))
        }
        Err(problems) => (problems, None),
    };
    if output.json {
        let all: Vec<_> = problems.iter().map(Problem::to_json).collect();
        output.value(&json!({ "valid": all.is_empty(), "problems": all, "loaded": summary }));
    } else {
        for problem in &problems {
            output.line(&crate::output::printable(&problem.to_string()));
        }
        match summary {
            Some(summary) if problems.is_empty() => output.line(&format!(
                "{} is right: agents {}, reminders {}, webhooks {}, approvers {}",
                path.display(),
                summary["agents"],
                summary["reminders"],
                summary["webhooks"],
                summary["approvers"]
            )),
            Some(_) => output.line(
                &output.tint(Tone::Bad, &format!("{}: would not be loaded", count(problems.len()))),
            ),
            None => output.line(
                &output.tint(Tone::Bad, &format!("{}: nothing can start", count(problems.len()))),
            ),
        }
    }
    Ok(if problems.is_empty() { Exit::Done } else { Exit::Usage })
}

fn count(problems: usize) -> String {
    if problems == 1 { "1 problem".to_owned() } else { format!("{problems} problems") }
}

/// The failure of a process that cannot start with this configuration.
pub(crate) fn refused(problems: &[Problem]) -> Failure {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    Failure::new(Exit::Usage, "bad_config", lines.join("\n"))
}
