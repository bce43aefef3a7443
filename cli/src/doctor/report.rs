//! How does a diagnosis look, to people and to programs?
//!
//! Authority: `docs/schema/doctor.schema.json`, which is printed from what stands here.
//! Invariant: the shape only grows. Programs branch on `check` and `severity`; texts are for people
//! and change.

use portcullis_engine::finding::{Finding, Severity};
use schemars::JsonSchema;
use serde::Serialize;

use crate::config::Profile;
use crate::output::{Output, Tone, printable};

/// What `portcullis doctor --json` prints, on one line.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "portcullis doctor --json")]
struct Report {
    /// The version of this shape. A reader of version 1 can read every report that says 1.
    version: u8,
    /// What a start does about fatal findings: `standard` or `strict`.
    profile: String,
    /// Whether any finding is fatal; the exit code is 1 then, and 0 otherwise.
    fatal: bool,
    /// How many findings are warnings.
    warnings: usize,
    /// Everything that was looked at, in order.
    findings: Vec<Told>,
}

/// One thing that was looked at. A check may come several times, once per thing.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Finding")]
struct Told {
    /// The check's stable name, in kebab-case; see `docs/operations.md`.
    check: String,
    severity: Grade,
    /// What was found.
    found: String,
    /// What it leads to; empty when all is well.
    why: String,
    /// What to do about it; empty when there is nothing to do.
    mend: String,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Grade {
    /// As it should be.
    Fine,
    /// It works and promises less than it could, or it could not be looked at.
    Warning,
    /// It would not start, or would promise what it cannot keep.
    Fatal,
}

impl Report {
    fn of(profile: Profile, findings: &[Finding]) -> Self {
        let warnings = findings.iter().filter(|f| f.severity == Severity::Warning).count();
        Self {
            version: 1,
            profile: profile.as_str().to_owned(),
            fatal: findings.iter().any(Finding::is_fatal),
            warnings,
            findings: findings.iter().map(Told::of).collect(),
        }
    }
}

impl Told {
    fn of(finding: &Finding) -> Self {
        let Finding { check, severity, found, why, mend } = finding.clone();
        let severity = match severity {
            Severity::Fine => Grade::Fine,
            Severity::Warning => Grade::Warning,
            Severity::Fatal => Grade::Fatal,
        };
        Self { check: check.to_owned(), severity, found, why, mend }
    }
}

/// The JSON Schema of a report, as it is shipped.
pub(crate) fn schema_text() -> String {
    let schema = schemars::schema_for!(Report).to_value();
    let schema = serde_json::to_string_pretty(&schema).expect("a schema is plain JSON");
    format!("{schema}\n")
}

/// Prints what was found: for people a paragraph each, the worst last.
pub(super) fn tell(profile: Profile, findings: &[Finding], output: Output) {
    if output.json {
        let report = serde_json::to_value(Report::of(profile, findings));
        return output.value(&report.expect("a report is plain JSON"));
    }
    let mut sorted: Vec<&Finding> = findings.iter().collect();
    sorted.sort_by_key(|finding| finding.severity);
    sorted.into_iter().for_each(|finding| paragraph(finding, output));
}

fn paragraph(finding: &Finding, output: Output) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_the_documented_shape() {
        let findings = [Finding::fine("a", "b"), Finding::warning("c", "d", "e", "f")];
        let report = serde_json::to_value(Report::of(Profile::Strict, &findings)).unwrap();
        let told = serde_json::json!({
            "version": 1, "profile": "strict", "fatal": false, "warnings": 1,
            "findings": [
                { "check": "a", "severity": "fine", "found": "b", "why": "", "mend": "" },
                { "check": "c", "severity": "warning", "found": "d", "why": "e", "mend": "f" },
            ],
        });
        assert_eq!(report, told);
        let fatal = [Finding::fatal("a", "b", "c", "d")];
        assert!(Report::of(Profile::Standard, &fatal).fatal);
    }
}
