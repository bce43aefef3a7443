//! What is wrong with the configuration, where, and how is it mended?
//!
//! Invariant: a problem is one sentence: the file and line (or the variable), the setting, what is
//! wrong with it, and what to write instead. A secret is never part of it.

use std::fmt;

use portcullis_proto::quote::within;

/// How much is shown of a place or a key, in characters.
const PLACE_CHARS_MAX: usize = 300;
/// How much is shown of what is wrong, and of the mend, in characters.
const SENTENCE_CHARS_MAX: usize = 700;

/// One step from the root of the configuration to a setting.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Segment {
    Key(String),
    Index(usize),
}

/// The path of a setting, such as `agents.deployer.playbook[0].tool`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KeyPath(pub(crate) Vec<Segment>);

impl KeyPath {
    pub(crate) fn of(keys: &[&str]) -> Self {
        Self(keys.iter().map(|key| Segment::Key((*key).to_owned())).collect())
    }

    #[must_use]
    pub(crate) fn key(&self, key: &str) -> Self {
        self.with(Segment::Key(key.to_owned()))
    }

    #[must_use]
    pub(crate) fn index(&self, index: usize) -> Self {
        self.with(Segment::Index(index))
    }

    #[must_use]
    pub(crate) fn join(&self, path: &serde_path_to_error::Path) -> Self {
        let mut joined = self.clone();
        for segment in path {
            match segment {
                serde_path_to_error::Segment::Seq { index } => {
                    joined.0.push(Segment::Index(*index));
                }
                serde_path_to_error::Segment::Map { key }
                | serde_path_to_error::Segment::Enum { variant: key } => {
                    joined.0.push(Segment::Key(key.clone()));
                }
                serde_path_to_error::Segment::Unknown => {}
            }
        }
        joined
    }

    fn with(&self, segment: Segment) -> Self {
        let mut longer = self.clone();
        longer.0.push(segment);
        longer
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Index(index) => write!(f, "[{index}]")?,
                Segment::Key(key) => {
                    let dot = if place == 0 { "" } else { "." };
                    let bare = !key.is_empty()
                        && key.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
                    if bare {
                        write!(f, "{dot}{key}")?;
                    } else {
                        write!(f, "{dot}{key:?}")?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// The lists of named things. A problem in one of them costs that one only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Agent,
    Reminder,
    Webhook,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Agent, Self::Reminder, Self::Webhook];

    /// The table they stand in; `<list>.d` is the folder of their drop-in files.
    pub(crate) const fn list(self) -> &'static str {
        match self {
            Self::Agent => "agents",
            Self::Reminder => "reminders",
            Self::Webhook => "webhooks",
        }
    }

    pub(crate) const fn noun(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Reminder => "reminder",
            Self::Webhook => "webhook",
        }
    }
}

/// What a problem keeps from working.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Nothing can start.
    Everything,
    /// This one is not loaded; everything else is.
    One(Kind, String),
}

/// Where a problem stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    File { path: String, line: usize },
    Variable(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line: 0 } => f.write_str(path),
            Self::File { path, line } => write!(f, "{path}:{line}"),
            Self::Variable(name) => write!(f, "variable {name}"),
        }
    }
}

/// What is wrong with a setting whose place is not looked up yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flaw {
    pub(crate) key: KeyPath,
    pub(crate) what: String,
    pub(crate) mend: String,
}

impl Flaw {
    pub(crate) fn new(key: KeyPath, what: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { key, what: what.into(), mend: mend.into() }
    }

    /// From an error that says its mend itself.
    pub(crate) fn told(key: KeyPath, what: impl Into<String>) -> Self {
        Self::new(key, what, "")
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) place: Place,
    pub(crate) scope: Scope,
    pub(crate) key: KeyPath,
    pub(crate) what: String,
    pub(crate) mend: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = within(&self.place.to_string(), PLACE_CHARS_MAX);
        write!(f, "{place}: ")?;
        if !self.key.0.is_empty() {
            write!(f, "`{}`: ", within(&self.key.to_string(), PLACE_CHARS_MAX))?;
        }
        f.write_str(&within(&self.what, SENTENCE_CHARS_MAX))?;
        if self.mend.is_empty() {
            return Ok(());
        }
        write!(f, "; {}", within(&self.mend, SENTENCE_CHARS_MAX))
    }
}

impl Problem {
    /// For `--json`.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        let (file, line, variable) = match &self.place {
            Place::File { path, line } => (Some(path), Some(*line), None),
            Place::Variable(name) => (None, None, Some(name)),
        };
        let unloads = match &self.scope {
            Scope::Everything => None,
            Scope::One(kind, name) => Some(format!("{} {name}", kind.noun())),
        };
        serde_json::json!({
            "file": file, "line": line, "variable": variable, "key": self.key.to_string(),
            "what": self.what, "mend": self.mend, "unloads": unloads, "text": self.to_string(),
        })
    }
}
