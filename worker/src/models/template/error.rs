//! Why a template cannot be loaded or filled, in words its author can act on.

use super::{DEPTH_MAX, FILLED_BYTES_MAX, PLACEHOLDER_BYTES_MAX, TEXT_BYTES_MAX};

/// A template that cannot be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("template at {place}: {problem}")]
pub struct TemplateError {
    /// Where, from `$` on.
    pub place: String,
    /// What is wrong.
    pub problem: TemplateProblem,
}

/// What is wrong with a template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateProblem {
    /// `{{` without `}}`.
    #[error("`{{{{` at byte {at_byte} is not closed; a literal `{{{{` is written `{{{{{{{{`")]
    Unclosed {
        /// Where in the string, from 0.
        at_byte: usize,
    },
    /// `}}` without `{{`.
    #[error("`}}}}` at byte {at_byte} closes nothing; a literal `}}}}` is written `}}}}}}}}`")]
    StrayClose {
        /// Where in the string, from 0.
        at_byte: usize,
    },
    /// Not a path. There are no expressions.
    #[error("`{text}` is not a path such as input.items[0].name: {why}")]
    NotAPath {
        /// What stands between the braces, cut.
        text: String,
        /// The first thing wrong with it.
        why: &'static str,
    },
    /// A path that begins with an unknown word.
    #[error("`{root}` is unknown: a path begins with `input` or `run`")]
    UnknownRoot {
        /// The word.
        root: String,
    },
    /// A placeholder longer than any path.
    #[error("the placeholder has {bytes} bytes, the limit is {PLACEHOLDER_BYTES_MAX}")]
    PlaceholderTooLong {
        /// Its length.
        bytes: usize,
    },
    /// A placeholder in a key.
    #[error("key `{key}` holds `{{{{`: keys are not templates")]
    Key {
        /// The key, cut.
        key: String,
    },
    /// A literal text beyond the bound.
    #[error("the text has {bytes} bytes, the limit is {TEXT_BYTES_MAX}")]
    TextTooLong {
        /// Its length.
        bytes: usize,
    },
    /// Nested too deep.
    #[error("nested deeper than {DEPTH_MAX} levels")]
    TooDeep,
}

/// A template that cannot be filled from this scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("template at {place}: {problem}")]
pub struct FillError {
    /// Where in the template, from `$` on.
    pub place: String,
    /// What does not fit.
    pub problem: FillProblem,
}

/// What does not fit. Values are never quoted: they are the sender's, and errors are logged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FillProblem {
    /// Nothing is there.
    #[error("`{path}` is missing: {found}")]
    Missing {
        /// As far as it exists, and the first part that does not.
        path: String,
        /// What is there instead.
        found: String,
    },
    /// Something is there, and it is `null`.
    #[error("`{path}` is null")]
    Null {
        /// The path.
        path: String,
    },
    /// A list or an object in the middle of text.
    #[error("`{path}` is {found}, and only a string, a number or a boolean can stand inside text")]
    NotScalar {
        /// The path.
        path: String,
        /// What it is.
        found: String,
    },
    /// A text beyond the bound.
    #[error("the text would have more than {TEXT_BYTES_MAX} bytes")]
    TextTooLong,
    /// Nested too deep.
    #[error("the value would be nested deeper than {DEPTH_MAX} levels")]
    TooDeep,
    /// All together beyond the bound.
    #[error("the filled template would have more than {FILLED_BYTES_MAX} bytes")]
    TooLarge,
}
