//! What does the exit code say?
//!
//! Invariant: only a success is 0. The codes are part of the interface: scripts branch on them.

use std::process::ExitCode;

use portcullis_proto::run::Outcome;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Done,
    Failed,
    Usage,
    NotFound,
    RunDidNotSucceed,
    RunHadDenials,
    DecisionRefused,
    Unreachable,
}

impl Exit {
    pub(crate) const ALL: [Self; 8] = [
        Self::Done,
        Self::Failed,
        Self::Usage,
        Self::NotFound,
        Self::RunDidNotSucceed,
        Self::RunHadDenials,
        Self::DecisionRefused,
        Self::Unreachable,
    ];

    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::RunDidNotSucceed => 4,
            Self::RunHadDenials => 5,
            Self::DecisionRefused => 6,
            Self::Unreachable => 7,
        }
    }

    pub(crate) const fn meaning(self) -> &'static str {
        match self {
            Self::Done => "done; a run that was waited for succeeded",
            Self::Failed => "failed, or `doctor` found something fatal",
            Self::Usage => "wrong usage, or a broken configuration",
            Self::NotFound => "there is no such run, request or agent",
            Self::RunDidNotSucceed => {
                "the run ended as failed, timed_out, cancelled or interrupted"
            }
            Self::RunHadDenials => "the run ended as completed_with_denials",
            Self::DecisionRefused => "the decision was refused: late, not yours, or made before",
            Self::Unreachable => "the server cannot be reached, or cannot answer just now",
        }
    }

    /// The code of a run that was waited for.
    pub(crate) const fn of_outcome(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Succeeded => Self::Done,
            Outcome::CompletedWithDenials => Self::RunHadDenials,
            Outcome::Failed | Outcome::TimedOut | Outcome::Cancelled | Outcome::Interrupted => {
                Self::RunDidNotSucceed
            }
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.number())
    }
}

/// Why a command did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// A stable word, for `--json`.
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) mend: Option<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, code: &str, message: impl Into<String>) -> Self {
        Self { exit, code: code.to_owned(), message: message.into(), mend: None }
    }

    pub(crate) fn mend(mut self, mend: impl Into<String>) -> Self {
        self.mend = Some(mend.into());
        self
    }

    pub(crate) fn to_json(&self) -> serde_json::Value {
        serde_json::json!({ "error": {
            "code": self.code, "message": self.message, "mend": self.mend,
            "exit": self.exit.number(),
        } })
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.mend {
            Some(mend) => write!(f, "{}; {mend}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// What every command returns.
pub(crate) type Ended = Result<Exit, Failure>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_success_is_zero() {
        let outcomes = [
            (Outcome::Succeeded, 0),
            (Outcome::CompletedWithDenials, 5),
            (Outcome::Failed, 4),
            (Outcome::TimedOut, 4),
            (Outcome::Cancelled, 4),
            (Outcome::Interrupted, 4),
        ];
        for (outcome, code) in outcomes {
            assert_eq!(Exit::of_outcome(outcome).number(), code, "{outcome:?}");
        }
    }

    #[test]
    fn each_code_is_its_place_in_the_list() {
        for (place, exit) in Exit::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(exit.number()), place);
        }
    }
}
