//! The reference of the configuration, as Markdown, made from its schema.
//!
//! Invariant: what the code reads is what the page says; `make check` compares the two.

use std::fmt::Write as _;

use serde_json::Value;

use crate::config;

/// What goes before the tables.
const OPENING: &str = "\
# Configuration

One file, `portcullis.toml`, and drop-in folders beside it: `agents.d/<name>.toml`,
`reminders.d/<name>.toml` and `webhooks.d/<name>.toml` each hold one thing, without its heading.
`portcullis validate` names everything that is wrong, with file, line, setting and mend.

- An unknown setting is an error. A broken agent, reminder or webhook is not loaded, and told; the
  others are.
- Relative paths are seen from the folder of `portcullis.toml`.
- A length of time is a number of seconds, or a text such as `250ms`, `5m`, `1h30m`, `2d`.
- Every setting that is no named thing can be set by an environment variable, which goes before the
  file: `portcullis help environment` lists them.
- An editor completes the file with the [JSON Schema](../schema/portcullis.schema.json).

This page is printed by `portcullis help configuration`.
";

/// The page.
pub(super) fn page() -> String {
    let root = config::schema();
    let mut page = OPENING.to_owned();
    let top: Vec<(String, &Value)> = properties(&root, &root);
    let plain = top.iter().filter(|(_, node)| !is_table(&root, node));
    section(&mut page, &root, "Top of the file", "", plain.cloned().collect());
    for (name, node) in top.iter().filter(|(_, node)| is_table(&root, node)) {
        table(&mut page, &root, name, node);
    }
    page.trim_end().to_owned()
}

/// A table of settings, and the tables in it.
fn table(page: &mut String, root: &Value, path: &str, node: &Value) {
    let about = text(node).or_else(|| text(resolve(root, node))).unwrap_or_default();
    let inner = resolve(root, node);
    let (path, inner) = match inner.get("additionalProperties").filter(|more| more.is_object()) {
        Some(named) => (format!("{path}.<name>"), resolve(root, named)),
        None => (path.to_owned(), inner),
    };
    let about = match text(inner) {
        Some(more) if more != about => format!("{more} {about}"),
        Some(_) | None => about,
    };
    let all = properties(root, inner);
    let plain = all.iter().filter(|(_, node)| !is_table(root, node)).cloned().collect();
    section(page, root, &format!("`[{path}]`"), &about, plain);
    for (name, node) in all.iter().filter(|(_, node)| is_table(root, node)) {
        table(page, root, &format!("{path}.{name}"), node);
    }
    for (name, node) in &all {
        if let Some(item) = item_table(root, node) {
            let about = text(item).unwrap_or_default();
            let title = format!("`[[{path}.{name}]]`");
            section(page, root, &title, &about, properties(root, item));
        }
    }
    for choice in choices(inner) {
        let name = choice["properties"]["scheme"]["const"].as_str().unwrap_or_default();
        let title = format!("`[{path}]` with `scheme = \"{name}\"`");
        let about = text(choice).unwrap_or_default();
        let all = properties(root, choice);
        let plain = all.into_iter().filter(|(key, _)| key != "scheme").collect();
        section(page, root, &title, &about, plain);
    }
}

fn section(
    page: &mut String,
    root: &Value,
    title: &str,
    about: &str,
    settings: Vec<(String, &Value)>,
) {
    let _infallible = write!(page, "\n## {title}\n");
    if !about.is_empty() {
        let _infallible = write!(page, "\n{about}\n");
    }
    if settings.is_empty() {
        return;
    }
    page.push_str("\n| setting | kind | meaning |\n|---|---|---|\n");
    for (name, node) in settings {
        let meaning = text(node).or_else(|| text(resolve(root, node))).unwrap_or_default();
        let _infallible =
            writeln!(page, "| `{name}` | {} | {} |", kind(root, node), meaning.replace('|', "\\|"));
    }
}

fn properties<'a>(root: &'a Value, node: &'a Value) -> Vec<(String, &'a Value)> {
    let properties = resolve(root, node).get("properties").and_then(Value::as_object);
    properties.into_iter().flatten().map(|(name, node)| (name.clone(), node)).collect()
}

/// Whether it is written as a table of its own.
fn is_table(root: &Value, node: &Value) -> bool {
    let node = resolve(root, node);
    let named = node.get("additionalProperties").is_some_and(|more| {
        let more = resolve(root, more);
        more.get("properties").is_some()
    });
    node.get("properties").is_some() || named || !choices(node).is_empty()
}

/// What a list of tables holds.
fn item_table<'a>(root: &'a Value, node: &'a Value) -> Option<&'a Value> {
    let item = resolve(root, resolve(root, node).get("items")?);
    item.get("properties").is_some().then_some(item)
}

/// The variants of a table that differ by `scheme`.
fn choices(node: &Value) -> Vec<&Value> {
    let all = node.get("oneOf").and_then(Value::as_array).into_iter().flatten();
    all.filter(|choice| choice["properties"]["scheme"]["const"].is_string()).collect()
}

/// Follows `$ref`, and takes what is left of an optional thing.
fn resolve<'a>(root: &'a Value, node: &'a Value) -> &'a Value {
    config::resolve(root, node)
}

fn text(node: &Value) -> Option<String> {
    let text = node.get("description")?.as_str()?;
    Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// What is written for it, in a word or two.
fn kind(root: &Value, node: &Value) -> String {
    let node = resolve(root, node);
    if let Some(values) = node.get("enum").and_then(Value::as_array) {
        return one_of(values.iter());
    }
    if let Some(all) = node.get("oneOf").and_then(Value::as_array) {
        let listed = |choice: &'_ Value| match choice.get("enum").and_then(Value::as_array) {
            Some(several) => several.clone(),
            None => choice.get("const").cloned().into_iter().collect(),
        };
        let values: Vec<Value> = all.iter().flat_map(listed).collect();
        return one_of(values.iter());
    }
    if let Some(all) = node.get("anyOf").and_then(Value::as_array) {
        let has = |wanted: &str| all.iter().any(|choice| choice["type"] == wanted);
        let word = match (has("object"), has("array")) {
            (true, _) => "table",
            (false, true) => "text or list of texts",
            (false, false) => "length of time",
        };
        return word.to_owned();
    }
    let first = node.get("type").map(|kind| match kind.as_array() {
        Some(kinds) => kinds.first().and_then(Value::as_str).unwrap_or_default(),
        None => kind.as_str().unwrap_or_default(),
    });
    match first {
        Some("string") => "text".to_owned(),
        Some("integer") => "whole number".to_owned(),
        Some("number") => "number".to_owned(),
        Some("boolean") => "true or false".to_owned(),
        Some("array") => format!("list: {}", kind(root, &node["items"])),
        Some("object") => "table".to_owned(),
        Some(_) | None => "any value".to_owned(),
    }
}

fn one_of<'a>(values: impl Iterator<Item = &'a Value>) -> String {
    let words = values.filter_map(Value::as_str).map(|word| format!("`{word}`"));
    words.collect::<Vec<_>>().join(", ")
}
