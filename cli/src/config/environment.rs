//! Which settings come from environment variables?
//!
//! Authority: the process's environment, read once by `main`. The names follow from the schema:
//! `PORTCULLIS_` and the path of the setting, so none can be forgotten.
//! Invariant: a variable with our prefix that means nothing is an error: it is a typing mistake,
//! and what it was meant to set would silently stay as it was.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::problem::{KeyPath, Place, Problem, Scope};
use super::source::Sources;

/// What all our variables begin with.
pub(crate) const PREFIX: &str = "PORTCULLIS_";
/// Other programs' name for `approvals.timeout_seconds`.
pub(crate) const TIMEOUT_ALIAS: &str = "AGENTIC_APPROVAL_TIMEOUT_SECONDS";
/// Variables with our prefix that are no settings: of the command line, and those that the worker
/// gives to tools.
pub(crate) const OTHERS: [&str; 6] = [
    "PORTCULLIS_CONFIG",
    "PORTCULLIS_API_URL",
    "PORTCULLIS_TOKEN",
    "PORTCULLIS_IDEMPOTENCY_KEY",
    "PORTCULLIS_NOT_AFTER_MS",
    "PORTCULLIS_CLAIM_ID",
];

/// The process's environment as far as it is text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment(pub(crate) BTreeMap<String, String>);

impl Environment {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

/// How the text of a variable becomes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Text,
    Whole,
    Number,
    YesNo,
    /// Texts with commas between them.
    Texts,
    /// Whole numbers with commas between them.
    Wholes,
}

impl Form {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "a text",
            Self::Whole => "a whole number",
            Self::Number => "a number",
            Self::YesNo => "`true` or `false`",
            Self::Texts => "texts with commas between them",
            Self::Wholes => "whole numbers with commas between them",
        }
    }

    fn read(self, text: &str) -> Option<Value> {
        let text = text.trim();
        match self {
            Self::Text => Some(Value::String(text.to_owned())),
            Self::Whole => text.parse::<i64>().ok().map(Value::from),
            Self::Number => {
                let number = text.parse::<f64>().ok().and_then(serde_json::Number::from_f64);
                number.map(Value::Number)
            }
            Self::YesNo => text.parse::<bool>().ok().map(Value::Bool),
            Self::Texts => Some(parts(text).map(Value::from).collect()),
            Self::Wholes => {
                let numbers = parts(text).map(|part| part.parse::<i64>().map(Value::from));
                numbers.collect::<Result<Vec<_>, _>>().ok().map(Value::Array)
            }
        }
    }
}

fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty())
}

/// A setting that a variable can set.
#[derive(Debug)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) keys: Vec<String>,
    pub(crate) form: Form,
}

/// Every variable there is, read from the schema of the file.
pub(crate) fn variables() -> Vec<Variable> {
    let schema = super::schema::root();
    let mut found = Vec::new();
    collect(&schema, &schema, &mut Vec::new(), &mut found);
    found
}

fn collect(root: &Value, node: &Value, path: &mut Vec<String>, found: &mut Vec<Variable>) {
    let node = resolve(root, node);
    let Some(properties) = node.get("properties").and_then(Value::as_object) else { return };
    for (key, property) in properties {
        path.push(key.clone());
        let property = resolve(root, property);
        match form(root, property) {
            Some(form) => found.push(Variable {
                name: format!("{PREFIX}{}", path.join("_").to_ascii_uppercase()),
                keys: path.clone(),
                form,
            }),
            None => collect(root, property, path, found),
        }
        path.pop();
    }
}

/// Follows `$ref`, and takes what is left of an optional thing.
pub(crate) fn resolve<'a>(root: &'a Value, node: &'a Value) -> &'a Value {
    if let Some(pointer) = node.get("$ref").and_then(Value::as_str) {
        let target = root.pointer(pointer.trim_start_matches('#'));
        return target.map_or(node, |target| resolve(root, target));
    }
    let choices = node.get("anyOf").and_then(Value::as_array);
    let real = |choice: &&Value| choice.get("type").is_none_or(|kind| kind != "null");
    match choices.map(|choices| choices.iter().filter(real).collect::<Vec<_>>()).as_deref() {
        Some([only]) => resolve(root, only),
        Some(_) | None => node,
    }
}

fn form(root: &Value, node: &Value) -> Option<Form> {
    // A span is a number or a text; both are written as a text.
    if node.get("anyOf").is_some() || node.get("oneOf").is_some() || node.get("enum").is_some() {
        return Some(Form::Text);
    }
    let kind = node.get("type")?;
    let names: Vec<&str> = match kind.as_array() {
        Some(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        None => kind.as_str().into_iter().collect(),
    };
    match names.into_iter().find(|name| *name != "null")? {
        "string" => Some(Form::Text),
        "integer" => Some(Form::Whole),
        "number" => Some(Form::Number),
        "boolean" => Some(Form::YesNo),
        "array" => match form(root, resolve(root, node.get("items")?))? {
            Form::Whole => Some(Form::Wholes),
            Form::Text => Some(Form::Texts),
            Form::Number | Form::YesNo | Form::Texts | Form::Wholes => None,
        },
        _ => None,
    }
}

/// Lays the environment over the files.
pub(crate) fn overlay(
    environment: &Environment,
    table: &mut Map<String, Value>,
    sources: &mut Sources,
    problems: &mut Vec<Problem>,
) {
    let known = variables();
    let mut texts = environment.0.clone();
    if let Some(problem) = merge_alias(&mut texts) {
        problems.push(problem);
    }
    for variable in &known {
        let Some(text) = texts.get(&variable.name) else { continue };
        let keys: Vec<&str> = variable.keys.iter().map(String::as_str).collect();
        let key = KeyPath::of(&keys);
        match variable.form.read(text) {
            Some(value) => {
                set(table, &keys, value);
                sources.variables.insert(key, origin(environment, &variable.name));
            }
            None => {
                let what = format!("`{text}` is not {}", variable.form.as_str());
                let name = origin(environment, &variable.name);
                problems.push(of_variable(&name, key, what, "correct it, or unset the variable"));
            }
        }
    }
}

/// The variable that a user will look for.
fn origin(environment: &Environment, name: &str) -> String {
    let shown = if environment.get(name).is_none() { TIMEOUT_ALIAS } else { name };
    shown.to_owned()
}

/// Reads the alias as the setting's own variable. Both at once must say the same.
fn merge_alias(texts: &mut BTreeMap<String, String>) -> Option<Problem> {
    let alias = texts.get(TIMEOUT_ALIAS)?.clone();
    let name = format!("{PREFIX}APPROVALS_TIMEOUT_SECONDS");
    let number = |text: &str| text.trim().parse::<f64>().ok();
    match texts.get(&name) {
        Some(other) if number(other) != number(&alias) => Some(of_variable(
            TIMEOUT_ALIAS,
            KeyPath::of(&["approvals", "timeout_seconds"]),
            format!("it says `{alias}`, and {name} says `{other}`"),
            "unset one of the two",
        )),
        Some(_) => None,
        None => {
            texts.insert(name, alias);
            None
        }
    }
}

fn set(table: &mut Map<String, Value>, keys: &[&str], value: Value) {
    match keys {
        [] => {}
        [last] => {
            table.insert((*last).to_owned(), value);
        }
        [first, rest @ ..] => {
            let inner = table.entry(*first).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(inner) = inner {
                set(inner, rest, value);
            }
        }
    }
}

/// Variables with our prefix that mean nothing. `secrets`: names that the files themselves use.
pub(crate) fn unknown(environment: &Environment, secrets: &[String]) -> Vec<Problem> {
    let known = variables();
    let is_known = |name: &&String| {
        known.iter().any(|variable| variable.name == **name)
            || OTHERS.contains(&name.as_str())
            || secrets.contains(name)
    };
    let ours = environment.0.keys().filter(|name| name.starts_with(PREFIX));
    let strangers = ours.filter(|name| !is_known(name));
    strangers
        .map(|name| {
            let nearest = known.iter().min_by_key(|variable| distance(&variable.name, name));
            let mend = match nearest {
                Some(variable) => format!("did you mean {}? Else unset it", variable.name),
                None => "unset it".to_owned(),
            };
            of_variable(name, KeyPath::default(), "no setting has this name".to_owned(), &mend)
        })
        .collect()
}

fn of_variable(name: &str, key: KeyPath, what: String, mend: &str) -> Problem {
    Problem {
        place: Place::Variable(name.to_owned()),
        scope: Scope::Everything,
        key,
        what,
        mend: mend.to_owned(),
    }
}

/// How many letters must change to make one text of the other (Levenshtein).
pub(crate) fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, to) in b.iter().enumerate() {
            let change = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
