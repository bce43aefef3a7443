//! What a point in time is.
//!
//! Authority: the store. Only its clock decides (Redis `TIME`, or the SQLite writer's wall clock
//! made monotone); this type merely carries what it said.

use serde::{Deserialize, Serialize};

/// Milliseconds since the Unix epoch, by the store's clock. Never negative in practice.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(transparent)]
pub struct Ms(pub i64);

impl Ms {
    /// This instant moved later by `ms` milliseconds; stops at the end of time instead of wrapping.
    #[must_use]
    pub const fn plus(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// This instant moved earlier by `ms` milliseconds.
    #[must_use]
    pub const fn minus(self, ms: i64) -> Self {
        Self(self.0.saturating_sub(ms))
    }

    /// Milliseconds from `earlier` to this instant; negative when it lies before.
    #[must_use]
    pub const fn since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl std::fmt::Display for Ms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}ms", self.0)
    }
}
