//! How much has to be right before a process starts?

use schemars::JsonSchema;
use serde::Deserialize;

/// What a start does about what `portcullis doctor` calls fatal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Profile {
    /// It is told in the log, and the process starts.
    #[default]
    Standard,
    /// The process does not start.
    Strict,
}

impl Profile {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Strict => "strict",
        }
    }
}
