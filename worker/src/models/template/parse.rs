//! Reads a template once, when the agent is loaded, so that a typing error never meets a run.

use serde_json::Value;

use super::{
    DEPTH_MAX, Lookup, Node, PLACEHOLDER_BYTES_MAX, Piece, ROOTS, Segment, TEXT_BYTES_MAX,
    TemplateError, TemplateProblem,
    place::{Place, shorten},
};

const OPEN: &str = "{{";
const CLOSE: &str = "}}";

pub(super) fn node(source: &Value, place: &Place<'_>, level: usize) -> Result<Node, TemplateError> {
    let fail = |problem| TemplateError { place: place.to_string(), problem };
    match source {
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(Node::Fixed(source.clone())),
        Value::String(text) => string(text).map_err(fail),
        Value::Array(_) | Value::Object(_) if level == DEPTH_MAX => {
            Err(fail(TemplateProblem::TooDeep))
        }
        Value::Array(items) => {
            let mut nodes = Vec::with_capacity(items.len());
            for (index, item) in items.iter().enumerate() {
                nodes.push(node(item, &Place::Index(place, index), level + 1)?);
            }
            Ok(Node::List(nodes))
        }
        Value::Object(entries) => {
            let mut nodes = Vec::with_capacity(entries.len());
            for (key, value) in entries {
                if key.contains(OPEN) {
                    return Err(fail(TemplateProblem::Key { key: shorten(key) }));
                }
                let filled = node(value, &Place::Key(place, key), level + 1)?;
                nodes.push((key.clone(), filled));
            }
            Ok(Node::Object(nodes))
        }
    }
}

fn string(text: &str) -> Result<Node, TemplateProblem> {
    if TEXT_BYTES_MAX < text.len() {
        return Err(TemplateProblem::TextTooLong { bytes: text.len() });
    }
    let mut pieces = pieces(text)?;
    match (pieces.pop(), pieces.is_empty()) {
        (None, _) => Ok(Node::Fixed(Value::String(String::new()))),
        (Some(Piece::Literal(literal)), true) => Ok(Node::Fixed(Value::String(literal))),
        (Some(Piece::Lookup(lookup)), true) => Ok(Node::Whole(lookup)),
        (Some(last @ (Piece::Literal(_) | Piece::Lookup(_))), false) => {
            pieces.push(last);
            Ok(Node::Text(pieces))
        }
    }
}

/// Splits a string at its placeholders. Literals next to each other are one piece.
fn pieces(text: &str) -> Result<Vec<Piece>, TemplateProblem> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(at) = next_brace(rest) {
        literal.push_str(&rest[..at]);
        let here = &rest[at..];
        let at_byte = text.len() - here.len();
        if let Some(after) = here.strip_prefix("{{{{") {
            literal.push_str(OPEN);
            rest = after;
        } else if let Some(after) = here.strip_prefix("}}}}") {
            literal.push_str(CLOSE);
            rest = after;
        } else if let Some(inside) = here.strip_prefix(OPEN) {
            let Some((placeholder, after)) = inside.split_once(CLOSE) else {
                return Err(TemplateProblem::Unclosed { at_byte });
            };
            if !literal.is_empty() {
                pieces.push(Piece::Literal(std::mem::take(&mut literal)));
            }
            pieces.push(Piece::Lookup(lookup(placeholder)?));
            rest = after;
        } else {
            return Err(TemplateProblem::StrayClose { at_byte });
        }
    }
    literal.push_str(rest);
    if !literal.is_empty() {
        pieces.push(Piece::Literal(literal));
    }
    Ok(pieces)
}

/// Where the next `{{` or `}}` is.
fn next_brace(text: &str) -> Option<usize> {
    match (text.find(OPEN), text.find(CLOSE)) {
        (Some(open), Some(close)) => Some(open.min(close)),
        (open, close) => open.or(close),
    }
}

fn lookup(placeholder: &str) -> Result<Lookup, TemplateProblem> {
    if PLACEHOLDER_BYTES_MAX < placeholder.len() {
        return Err(TemplateProblem::PlaceholderTooLong { bytes: placeholder.len() });
    }
    let path = placeholder.trim_matches(' ');
    let fail = |why| TemplateProblem::NotAPath { text: shorten(path), why };
    let (root, mut rest) = word(path).ok_or_else(|| fail("it begins with no name"))?;
    if !ROOTS.contains(&root) {
        return Err(TemplateProblem::UnknownRoot { root: shorten(root) });
    }
    let mut segments = Vec::new();
    while !rest.is_empty() {
        let (segment, after) = segment(rest).map_err(fail)?;
        segments.push(segment);
        rest = after;
    }
    Ok(Lookup { root: root.to_owned(), segments })
}

/// Takes one `.name` or `[number]` off the front.
fn segment(rest: &str) -> Result<(Segment, &str), &'static str> {
    if let Some(after) = rest.strip_prefix('.') {
        let (name, after) = word(after).ok_or("a name must follow the full stop")?;
        return Ok((Segment::Key(name.to_owned()), after));
    }
    let Some(inside) = rest.strip_prefix('[') else {
        return Err("only `.name` and `[number]` can follow a name");
    };
    let (digits, after) = inside.split_once(']').ok_or("`[` is not closed")?;
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    match digits.parse() {
        Ok(index) if plain => Ok((Segment::Index(index), after)),
        Ok(_) | Err(_) => Err("an index is a number from 0 on"),
    }
}

/// Takes a name off the front: a letter or `_`, then letters, digits, `_` and `-`.
fn word(text: &str) -> Option<(&str, &str)> {
    let first = text.chars().next()?;
    if !first.is_ascii_alphabetic() && first != '_' {
        return None;
    }
    let inside = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let end = text.find(|c| !inside(c)).unwrap_or(text.len());
    Some(text.split_at(end))
}
