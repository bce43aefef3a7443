//! Would it work here? Looks at everything a start rests on, and says what to mend.
//!
//! Authority: the things themselves, asked now.
//! Invariant: looking changes nothing: no store is made, nothing is installed.

mod bus;
mod store;
mod surroundings;

use std::path::Path;

use serde::Serialize;
use serde_json::json;

use crate::config::{self, Config, Environment, Place, Problem, Scope, Secrets};
use crate::exit::{Ended, Exit};
use crate::output::{Output, Tone, printable};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Severity {
    Fine,
    Warning,
    /// It would not start, or would promise what it cannot keep.
    Fatal,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Finding {
    check: String,
    severity: Severity,
    found: String,
    /// What it leads to; empty when all is well.
    why: String,
    mend: String,
}

impl Finding {
    fn fine(check: &str, found: impl Into<String>) -> Self {
        Self::new(check, Severity::Fine, found, "", "")
    }

    fn warning(check: &str, found: impl Into<String>, why: &str, mend: impl Into<String>) -> Self {
        Self::new(check, Severity::Warning, found, why, mend)
    }

    fn fatal(check: &str, found: impl Into<String>, why: &str, mend: impl Into<String>) -> Self {
        Self::new(check, Severity::Fatal, found, why, mend)
    }

    fn new(
        check: &str,
        severity: Severity,
        found: impl Into<String>,
        why: &str,
        mend: impl Into<String>,
    ) -> Self {
        let (found, mend) = (found.into(), mend.into());
        Self { check: check.to_owned(), severity, found, why: why.to_owned(), mend }
    }
}

/// Looks and tells.
pub(crate) async fn run(path: &Path, environment: &Environment, output: Output) -> Ended {
    let findings = match config::load(path, environment, Secrets::Read) {
        Ok(config) => of_config(path, &config).await,
        Err(problems) => problems.iter().map(of_problem).collect(),
    };
    let fatal = findings.iter().any(|finding| finding.severity == Severity::Fatal);
    if output.json {
        output.value(&json!({ "fatal": fatal, "findings": findings }));
    } else {
        findings.iter().for_each(|finding| tell(finding, output));
    }
    Ok(if fatal { Exit::Failed } else { Exit::Done })
}

async fn of_config(path: &Path, config: &Config) -> Vec<Finding> {
    let shown = path.display();
    let mut findings = vec![Finding::fine("configuration", format!("{shown} is readable"))];
    findings.extend(config.unloaded.iter().map(of_problem));
    findings.extend(store::look(config).await);
    findings.extend(bus::look(config).await);
    findings.extend(surroundings::look(config));
    findings
}

fn of_problem(problem: &Problem) -> Finding {
    let place = match &problem.place {
        Place::File { path, line } => format!("{path}:{line}"),
        Place::Variable(name) => name.clone(),
    };
    let found = format!("{place}: `{}`: {}", problem.key, problem.what);
    match &problem.scope {
        Scope::Everything => {
            Finding::fatal("configuration", found, "nothing can start", problem.mend.clone())
        }
        Scope::One(kind, name) => {
            let why = format!("the {} `{name}` is not loaded", kind.noun());
            Finding::warning("configuration", found, &why, problem.mend.clone())
        }
    }
}

fn tell(finding: &Finding, output: Output) {
    let (tone, word) = match finding.severity {
        Severity::Fine => (Tone::Good, "fine   "),
        Severity::Warning => (Tone::Waiting, "warning"),
        Severity::Fatal => (Tone::Bad, "fatal  "),
    };
    let word = output.tint(tone, word);
    output.line(&format!("{word}  {}: {}", finding.check, printable(&finding.found)));
    if !finding.why.is_empty() {
        output.line(&format!("         {}", printable(&finding.why)));
    }
    if !finding.mend.is_empty() {
        output.line(&format!("         mend: {}", printable(&finding.mend)));
    }
}
