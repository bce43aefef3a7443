//! Fills a template. Values are copied, never read as templates again.

use serde_json::{Map, Value};

use super::{
    DEPTH_MAX, FILLED_BYTES_MAX, FillError, FillProblem, Lookup, Node, Piece, Segment,
    TEXT_BYTES_MAX, place::Place, scalar_text,
};

/// One filling, with what is left of its bounds.
pub(super) struct Filler<'s> {
    scope: &'s Value,
    left_bytes: usize,
}

impl<'s> Filler<'s> {
    pub(super) fn new(scope: &'s Value) -> Self {
        Self { scope, left_bytes: FILLED_BYTES_MAX }
    }

    pub(super) fn node(
        &mut self,
        node: &Node,
        place: &Place<'_>,
        level: usize,
    ) -> Result<Value, FillError> {
        let fail = |problem| FillError { place: place.to_string(), problem };
        match node {
            Node::Fixed(value) => self.copy(value, level).map_err(fail),
            Node::Whole(lookup) => {
                let value = find(self.scope, lookup).map_err(fail)?;
                self.copy(value, level).map_err(fail)
            }
            Node::Text(pieces) => self.text(pieces).map(Value::String).map_err(fail),
            Node::List(nodes) => {
                let mut list = Vec::with_capacity(nodes.len());
                for (index, node) in nodes.iter().enumerate() {
                    list.push(self.node(node, &Place::Index(place, index), level + 1)?);
                }
                Ok(Value::Array(list))
            }
            Node::Object(nodes) => {
                let mut object = Map::new();
                for (key, node) in nodes {
                    self.spend(key.len()).map_err(fail)?;
                    let value = self.node(node, &Place::Key(place, key), level + 1)?;
                    object.insert(key.clone(), value);
                }
                Ok(Value::Object(object))
            }
        }
    }

    fn text(&mut self, pieces: &[Piece]) -> Result<String, FillProblem> {
        let mut text = String::new();
        for piece in pieces {
            match piece {
                Piece::Literal(literal) => push(&mut text, literal)?,
                Piece::Lookup(lookup) => {
                    let value = find(self.scope, lookup)?;
                    let scalar = scalar_text(value).ok_or_else(|| FillProblem::NotScalar {
                        path: lookup.shown(lookup.segments.len()),
                        found: kind(value),
                    })?;
                    push(&mut text, &scalar)?;
                }
            }
        }
        self.spend(text.len())?;
        Ok(text)
    }

    /// Copies a value within the bounds. It recurses no deeper than they allow.
    fn copy(&mut self, value: &Value, level: usize) -> Result<Value, FillProblem> {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => {
                self.spend(size_of::<Value>())?;
                Ok(value.clone())
            }
            Value::String(text) => {
                if TEXT_BYTES_MAX < text.len() {
                    return Err(FillProblem::TextTooLong);
                }
                self.spend(size_of::<Value>() + text.len())?;
                Ok(value.clone())
            }
            Value::Array(_) | Value::Object(_) if level == DEPTH_MAX => Err(FillProblem::TooDeep),
            Value::Array(items) => {
                self.spend(size_of::<Value>())?;
                items.iter().map(|item| self.copy(item, level + 1)).collect()
            }
            Value::Object(entries) => {
                self.spend(size_of::<Value>())?;
                let mut object = Map::new();
                for (key, value) in entries {
                    self.spend(key.len())?;
                    object.insert(key.clone(), self.copy(value, level + 1)?);
                }
                Ok(Value::Object(object))
            }
        }
    }

    fn spend(&mut self, bytes: usize) -> Result<(), FillProblem> {
        self.left_bytes = self.left_bytes.checked_sub(bytes).ok_or(FillProblem::TooLarge)?;
        Ok(())
    }
}

fn push(text: &mut String, part: &str) -> Result<(), FillProblem> {
    if TEXT_BYTES_MAX < text.len() + part.len() {
        return Err(FillProblem::TextTooLong);
    }
    text.push_str(part);
    Ok(())
}

/// Follows a path. `null` is nothing that could be filled in: the author meant a value.
fn find<'s>(scope: &'s Value, lookup: &Lookup) -> Result<&'s Value, FillProblem> {
    let mut value = scope.get(&lookup.root).ok_or_else(|| FillProblem::Missing {
        path: lookup.root.clone(),
        found: format!("this run has no `{}`", lookup.root),
    })?;
    for (index, segment) in lookup.segments.iter().enumerate() {
        let inner = match segment {
            Segment::Key(key) => value.as_object().and_then(|object| object.get(key)),
            Segment::Index(at) => value.as_array().and_then(|list| list.get(*at)),
        };
        value = inner.ok_or_else(|| FillProblem::Missing {
            path: lookup.shown(index + 1),
            found: format!("`{}` is {}", lookup.shown(index), kind(value)),
        })?;
    }
    if value.is_null() {
        return Err(FillProblem::Null { path: lookup.shown(lookup.segments.len()) });
    }
    Ok(value)
}

impl Lookup {
    /// The path with its first `count` segments.
    fn shown(&self, count: usize) -> String {
        let mut shown = self.root.clone();
        for segment in self.segments.iter().take(count) {
            match segment {
                Segment::Key(key) => shown.push_str(&format!(".{key}")),
                Segment::Index(index) => shown.push_str(&format!("[{index}]")),
            }
        }
        shown
    }
}

/// What a value is, without quoting it.
fn kind(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "a boolean".to_owned(),
        Value::Number(_) => "a number".to_owned(),
        Value::String(_) => "a string".to_owned(),
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Object(entries) => format!("an object with {} keys", entries.len()),
    }
}
