//! Does every promise hold here? Looks at all that a start rests on, and says what to mend.
//!
//! Authority: the things themselves, asked now.
//! Invariant: looking changes nothing: no store is made, nothing is installed or declared. What may
//! not be looked at is said so, and never counts as fine.

mod broker;
mod bus;
mod files;
mod host;
mod promises;
mod report;
mod start;
mod store;

use std::path::Path;

use portcullis_engine::finding::Finding;

use crate::config::{self, Config, Environment, Place, Problem, Profile, Scope, Secrets};
use crate::exit::{Ended, Exit};
use crate::output::Output;

pub(crate) use report::schema_text;
pub(crate) use start::at_start;

/// Looks and tells.
pub(crate) async fn run(path: &Path, environment: &Environment, output: Output) -> Ended {
    let (profile, findings) = match config::load(path, environment, Secrets::Read) {
        Ok(config) => (config.profile, of_config(path, &config).await),
        Err(problems) => (Profile::default(), problems.iter().map(of_problem).collect()),
    };
    report::tell(profile, &findings, output);
    let fatal = findings.iter().any(Finding::is_fatal);
    Ok(if fatal { Exit::Failed } else { Exit::Done })
}

async fn of_config(path: &Path, config: &Config) -> Vec<Finding> {
    let shown = path.display();
    let mut findings = vec![Finding::fine("configuration", format!("{shown} is readable"))];
    findings.extend(config.unloaded.iter().map(of_problem));
    let (store, site) = store::look(config).await;
    findings.extend(store);
    findings.extend(bus::look(config, site.as_ref()).await);
    findings.extend(promises::look(config));
    findings.extend(files::look(config));
    findings.extend(host::look(config));
    findings
}

fn of_problem(problem: &Problem) -> Finding {
    const CHECK: &str = "configuration";
    let place = match &problem.place {
        Place::File { path, line } => format!("{path}:{line}"),
        Place::Variable(name) => name.clone(),
    };
    let found = format!("{place}: `{}`: {}", problem.key, problem.what);
    match &problem.scope {
        Scope::Everything => {
            Finding::fatal(CHECK, found, "nothing can start", problem.mend.clone())
        }
        Scope::One(kind, name) => {
            let why = format!("the {} `{name}` is not loaded", kind.noun());
            Finding::warning(CHECK, found, why, problem.mend.clone())
        }
    }
}
