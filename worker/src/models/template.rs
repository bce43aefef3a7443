//! What are the arguments of a declared step, given what started the run?
//!
//! A template is a JSON value whose strings may hold placeholders: `{{ input.a.b }}`,
//! `{{ input.items[0].name }}`, `{{ run.id }}`. There are lookups and nothing else: no logic, no
//! filters, no defaults.
//!
//! - A string that is exactly one placeholder becomes the value itself, with its JSON type.
//! - Elsewhere a placeholder becomes text, and only a string, a number or a boolean can.
//! - `null`, a missing value, and a list or object inside text are errors.
//! - A literal `{{` is written `{{{{`, a literal `}}` is `}}}}`; single braces are themselves.
//! - Keys are never templates.
//!
//! Authority: the agent's definition for the shape, the run's origin for the values.
//! Invariant: values fill places and change no shape: a list element stays one element and a value
//! that looks like a placeholder is text. Nothing here builds a command line.
//! If we crash here: nothing; filling is a pure function and is done again.

mod error;
mod fill;
mod parse;
mod place;

use std::borrow::Cow;

use serde_json::Value;

pub use error::{FillError, FillProblem, TemplateError, TemplateProblem};

/// Longest text, literal or filled, in bytes.
pub const TEXT_BYTES_MAX: usize = 64 * 1024;
/// Deepest nesting of lists and objects, in the template and in what is filled.
pub const DEPTH_MAX: usize = 64;
/// Most bytes of texts and keys in one filled value.
pub const FILLED_BYTES_MAX: usize = 1024 * 1024;
/// Longest placeholder, braces not counted, in bytes.
pub const PLACEHOLDER_BYTES_MAX: usize = 256;
/// What a placeholder may begin with.
pub const ROOTS: [&str; 2] = ["input", "run"];

/// A checked template.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    root: Node,
}

#[derive(Debug, Clone, PartialEq)]
enum Node {
    /// Without placeholders.
    Fixed(Value),
    /// Exactly one placeholder: the value itself.
    Whole(Lookup),
    /// Text around at least one placeholder.
    Text(Vec<Piece>),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
}

#[derive(Debug, Clone, PartialEq)]
enum Piece {
    Literal(String),
    Lookup(Lookup),
}

/// A path into the scope.
#[derive(Debug, Clone, PartialEq)]
struct Lookup {
    root: String,
    segments: Vec<Segment>,
}

#[derive(Debug, Clone, PartialEq)]
enum Segment {
    Key(String),
    Index(usize),
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// Unbalanced braces, a placeholder that is no path, a placeholder in a key, or a bound
    /// exceeded; each names the place.
    pub fn parse(source: &Value) -> Result<Self, TemplateError> {
        Ok(Self { root: parse::node(source, &place::Place::Root, 0)? })
    }

    /// Fills the template from `scope`, an object with [`ROOTS`] as keys.
    ///
    /// # Errors
    /// A value is missing or does not fit its place, or a bound is exceeded. Each names the place
    /// in the template, the path, and what was found there; never the value.
    pub fn fill(&self, scope: &Value) -> Result<Value, FillError> {
        fill::Filler::new(scope).node(&self.root, &place::Place::Root, 0)
    }
}

/// The text of a string, number or boolean, as it appears inside text; `None` for anything else.
#[must_use]
pub fn scalar_text(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) => Some(Cow::Borrowed(text)),
        Value::Number(number) => Some(Cow::Owned(number.to_string())),
        Value::Bool(true) => Some(Cow::Borrowed("true")),
        Value::Bool(false) => Some(Cow::Borrowed("false")),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests;
