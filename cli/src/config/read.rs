//! How does a JSON value become a struct, and a reader's complaint a sentence?

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::environment::distance;
use super::problem::{Flaw, KeyPath};

/// Reads a value; a complaint names the setting.
pub(crate) fn read<T: DeserializeOwned>(value: Value, at: &KeyPath) -> Result<T, Flaw> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let key = at.join(error.path());
        let message = error.into_inner().to_string();
        let (key, what, mend) = explain(key, &message);
        Flaw { key, what, mend }
    })
}

fn explain(key: KeyPath, message: &str) -> (KeyPath, String, String) {
    if let Some((name, known)) = split(message, "unknown field `", "`, expected ") {
        let here = if key.0.last() == Some(&super::problem::Segment::Key(name.to_owned())) {
            key
        } else {
            key.key(name)
        };
        return (here, "there is no such setting".to_owned(), known_names(name, known));
    }
    if let Some((name, "")) = split(message, "missing field `", "`") {
        return (key, format!("`{name}` is missing"), format!("add `{name} = …`"));
    }
    if let Some((name, known)) = split(message, "unknown variant `", "`, expected ") {
        return (key, format!("`{name}` is none of the choices"), known_names(name, known));
    }
    if let Some((found, wanted)) = split(message, "invalid type: ", ", expected ") {
        return (
            key,
            format!("{} is of the wrong kind", found),
            format!("write {}", plain(wanted)),
        );
    }
    if let Some((found, wanted)) = split(message, "invalid value: ", ", expected ") {
        return (key, format!("{found} does not fit"), format!("write {}", plain(wanted)));
    }
    let mend = match message {
        "invalid socket address syntax" => "write an address and a port, such as 127.0.0.1:8080",
        _ => "correct it",
    };
    (key, message.to_owned(), mend.to_owned())
}

fn split<'a>(message: &'a str, before: &str, between: &str) -> Option<(&'a str, &'a str)> {
    message.strip_prefix(before)?.split_once(between)
}

/// «did you mean», if something near is known, and all there is.
fn known_names(name: &str, known: &str) -> String {
    let names: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
    let nearest = names.iter().min_by_key(|known| distance(known, name));
    let near = nearest.filter(|known| distance(known, name) <= 1 + name.len() / 3);
    let hint = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
    match names.is_empty() {
        true => "nothing may stand here".to_owned(),
        false => format!("{hint}known here: {}", names.join(", ")),
    }
}

/// Rust's names of types, as a writer of TOML knows them.
fn plain(wanted: &str) -> String {
    match wanted {
        "u8" => "a whole number from 0 to 255".to_owned(),
        "u16" => "a whole number from 0 to 65535".to_owned(),
        "u32" | "u64" | "usize" => "a whole number".to_owned(),
        "f64" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a string" | "path string" => "a text in quotes".to_owned(),
        "a sequence" => "a list, such as [ … ]".to_owned(),
        "a map" => "a table, such as { … }".to_owned(),
        other if other.starts_with("struct ") || other.starts_with("internally tagged") => {
            "a table, such as { … }".to_owned()
        }
        other => other.to_owned(),
    }
}
