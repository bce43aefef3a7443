//! What did a look at something find, how bad is that, and what mends it?
//!
//! One shape for the store, the broker, the host and the configuration, used by `doctor` and by a
//! start alike, so that the two cannot judge the same thing differently.
//!
//! Invariant: a severity is a fact about the thing that was looked at. What is done about it (told,
//! or refused) is the configuration's choice, and not made here.

use std::fmt;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Fine,
    /// It works, and promises less than it could; or it could not be looked at.
    Warning,
    /// It would not start, or would promise what it cannot keep.
    Fatal,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// What was looked at: a stable name in kebab-case, explained in `docs/operations.md`.
    pub check: &'static str,
    pub severity: Severity,
    /// What was found.
    pub found: String,
    /// What it leads to; empty when all is well.
    pub why: String,
    /// What to do about it; empty when there is nothing to do.
    pub mend: String,
}

impl Finding {
    #[must_use]
    pub fn fine(check: &'static str, found: impl Into<String>) -> Self {
        Self::new(check, Severity::Fine, found, "", "")
    }

    #[must_use]
    pub fn warning(
        check: &'static str,
        found: impl Into<String>,
        why: impl Into<String>,
        mend: impl Into<String>,
    ) -> Self {
        Self::new(check, Severity::Warning, found, why, mend)
    }

    #[must_use]
    pub fn fatal(
        check: &'static str,
        found: impl Into<String>,
        why: impl Into<String>,
        mend: impl Into<String>,
    ) -> Self {
        Self::new(check, Severity::Fatal, found, why, mend)
    }

    /// It could not be looked at: nobody may take it for fine.
    #[must_use]
    pub fn unseen(check: &'static str, why: impl fmt::Display, mend: impl Into<String>) -> Self {
        let found = format!("it could not be looked at: {why}");
        Self::new(check, Severity::Warning, found, "a fault here would stay unseen", mend)
    }

    #[must_use]
    pub fn new(
        check: &'static str,
        severity: Severity,
        found: impl Into<String>,
        why: impl Into<String>,
        mend: impl Into<String>,
    ) -> Self {
        let (found, why, mend) = (found.into(), why.into(), mend.into());
        Self { check, severity, found, why, mend }
    }

    /// Judges who else may read a file or a folder: fatal when it is everybody, a warning when it
    /// is a group. `wanted`: the mode that mends it.
    #[must_use]
    pub fn of_mode(check: &'static str, path: &str, mode: u32, why: &str, wanted: &str) -> Self {
        let mend = format!("chmod {wanted} {path}");
        let found = |who: &str| format!("{path} is open to {who} (mode {:03o})", mode & 0o777);
        if mode & 0o007 != 0 {
            return Self::fatal(check, found("everybody on this host"), why, mend);
        }
        if mode & 0o070 != 0 {
            return Self::warning(check, found("its group"), why, mend);
        }
        Self::fine(check, format!("{path} is ours alone"))
    }

    #[must_use]
    pub fn is_fatal(&self) -> bool {
        self.severity == Severity::Fatal
    }
}

/// On one line: what, why, mend.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.check, self.found)?;
        for part in [&self.why, &self.mend] {
            if !part.is_empty() {
                write!(f, "; {part}")?;
            }
        }
        Ok(())
    }
}

/// Whether a host, as a URL names it, is this machine and nothing else.
#[must_use]
pub fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let address = bare.parse::<std::net::IpAddr>();
    bare == "localhost" || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_looked_at_is_not_fine() {
        let finding = Finding::unseen("x", "no permission", "permit it");
        assert_eq!(finding.severity, Severity::Warning);
        assert!(finding.found.contains("no permission") && !finding.mend.is_empty());
    }

    #[test]
    fn a_finding_reads_as_one_line_without_empty_parts() {
        assert_eq!(Finding::fine("a", "b").to_string(), "a: b");
        assert_eq!(Finding::fatal("a", "b", "c", "d").to_string(), "a: b; c; d");
        assert_eq!(Finding::warning("a", "b", "", "d").to_string(), "a: b; d");
    }

    #[test]
    fn what_everybody_can_read_is_worse_than_what_a_group_can() {
        let of = |mode| Finding::of_mode("a", "/f", mode, "why", "600").severity;
        assert_eq!([of(0o600), of(0o40700)], [Severity::Fine; 2]);
        assert_eq!([of(0o640), of(0o610)], [Severity::Warning; 2]);
        assert_eq!([of(0o604), of(0o755), of(0o601)], [Severity::Fatal; 3]);
    }

    #[test]
    fn only_this_machine_is_near() {
        for near in ["localhost", "127.0.0.1", "127.9.9.9", "::1", "[::1]", "::ffff:127.0.0.1"] {
            assert!(is_loopback(near), "{near}");
        }
        for far in ["redis", "10.0.0.1", "0.0.0.0", "::", "127.0.0.1.example.org", ""] {
            assert!(!is_loopback(far), "{far}");
        }
    }

    #[test]
    fn worse_is_more() {
        assert!(Severity::Fine < Severity::Warning && Severity::Warning < Severity::Fatal);
    }
}
