//! JSON as text that may be wrong: keys twice, numbers no double holds, nesting without end.
//!
//! Invariant: a valid document that nothing changed is written as an equal document.

use serde_json::Value;

use crate::simulation::chance::Chance;

/// A document, or something that looks like one.
#[derive(Clone, Debug)]
pub(super) enum Tree {
    /// Text as it stands, right or not.
    Raw(String),
    List(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

/// What readers of JSON have stumbled over, each a value or nearly one.
const ODD: [&str; 38] = [
    "null",
    "true",
    "false",
    "0",
    "-0",
    "-0.0",
    "1",
    "-1",
    "0.1",
    "1e0",
    "1E30",
    "1e-7",
    "1e21",
    "1e400",
    "-1e400",
    "5e-324",
    "1e-400",
    "9007199254740991",
    "9007199254740992",
    "9007199254740993",
    "-9007199254740993",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "123456789012345678901234567890",
    "01",
    "NaN",
    "\"\"",
    "\"\\u0000\"",
    "\"\\ud83d\\ude00\"",
    "\"\\ud800\"",
    "\"\\udc00\\ud800\"",
    "{}",
    "[]",
    "[[],{}]",
];

/// Texts, put where there was one, or into it.
const TEXTS: [&str; 24] = [
    "",
    " ",
    "\n",
    "line\nline",
    "\u{1b}[31m",
    "\u{0}",
    "\u{7f}",
    "\u{85}",
    "\u{2028}",
    "\u{202e}",
    "\u{fb33}\u{1f600}\u{e000}",
    "ſ",
    "{{ input.a }}",
    "{{{{",
    "}}",
    "{{ input.list[0].x }}{{ run.id }}",
    "../../etc/passwd",
    "s00-aaaaaaaaaaaaaaaaaaaaaaaaaa",
    "http://127.0.0.1:1/",
    "\\\"",
    "a.b.c",
    "alice",
    "approve",
    "deny",
];

const DEPTHS: [usize; 9] = [2, 60, 63, 64, 65, 100, 126, 130, 20_000];

impl Tree {
    /// Reads a document; `None` when it is none.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(bytes).ok()?;
        Some(Self::of_value(&value))
    }

    fn of_value(value: &Value) -> Self {
        match value {
            Value::Array(items) => Self::List(items.iter().map(Self::of_value).collect()),
            Value::Object(map) => Self::Map(
                map.iter().map(|(key, value)| (key.clone(), Self::of_value(value))).collect(),
            ),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                Self::Raw(value.to_string())
            }
        }
    }

    pub(super) fn write(&self, chance: &mut Chance) -> Vec<u8> {
        let mut text = String::new();
        let loose = chance.one_in(8);
        self.push_to(&mut text, loose);
        text.into_bytes()
    }

    fn push_to(&self, text: &mut String, loose: bool) {
        let comma = if loose { " ,\n\t" } else { "," };
        match self {
            Self::Raw(raw) => text.push_str(raw),
            Self::List(items) => {
                text.push('[');
                for (at, item) in items.iter().enumerate() {
                    text.push_str(if at == 0 { "" } else { comma });
                    item.push_to(text, loose);
                }
                text.push(']');
            }
            Self::Map(entries) => {
                text.push('{');
                for (at, (key, value)) in entries.iter().enumerate() {
                    text.push_str(if at == 0 { "" } else { comma });
                    text.push_str(&Value::from(key.as_str()).to_string());
                    text.push_str(if loose { " : " } else { ":" });
                    value.push_to(text, loose);
                }
                text.push('}');
            }
        }
    }

    /// Any node, the outermost included: each list or object is left or entered by chance.
    fn any(&mut self, chance: &mut Chance) -> &mut Self {
        let inside = match self {
            Self::Raw(_) => 0,
            Self::List(items) => items.len(),
            Self::Map(entries) => entries.len(),
        };
        if inside == 0 || chance.one_in(5) {
            return self;
        }
        let at = pick(inside, chance);
        match self {
            Self::Raw(_) => self,
            Self::List(items) => items[at].any(chance),
            Self::Map(entries) => entries[at].1.any(chance),
        }
    }

    /// Changes one thing; `other` lends values to be put in.
    pub(super) fn change(&mut self, other: &Self, chance: &mut Chance) {
        let node = self.any(chance);
        match node {
            Self::Map(entries) if !entries.is_empty() && chance.below(4) != 0 => {
                change_map(entries, other, chance);
            }
            Self::List(items) if !items.is_empty() && chance.below(4) != 0 => {
                change_list(items, other, chance);
            }
            Self::Raw(raw) if raw.starts_with('"') && chance.below(3) != 0 => {
                *raw = changed_text(raw, chance);
            }
            Self::Raw(_) | Self::List(_) | Self::Map(_) => *node = value(other, chance),
        }
    }
}

fn pick(count: usize, chance: &mut Chance) -> usize {
    let count = u64::try_from(count.max(1)).expect("a length");
    usize::try_from(chance.below(count)).expect("less than a length")
}

fn change_map(entries: &mut Vec<(String, Tree)>, other: &Tree, chance: &mut Chance) {
    let (at, to) = (pick(entries.len(), chance), pick(entries.len(), chance));
    match chance.below(7) {
        0 => drop(entries.remove(at)),
        1 => {
            let again = entries[at].clone();
            entries.insert(to, again);
        }
        2 => {
            let key = entries[at].0.clone();
            entries.insert(to, (key, value(other, chance)));
        }
        3 => entries.swap(at, to),
        4 => entries[at].0 = any_text(chance),
        5 => entries.push((any_text(chance), value(other, chance))),
        _ => entries[at].1 = value(other, chance),
    }
}

fn change_list(items: &mut Vec<Tree>, other: &Tree, chance: &mut Chance) {
    let (at, to) = (pick(items.len(), chance), pick(items.len(), chance));
    match chance.below(5) {
        0 => drop(items.remove(at)),
        1 => items.swap(at, to),
        2 => items.push(value(other, chance)),
        3 => {
            let one = items[at].clone();
            let times = [1, 2, 16, 64, 65, 256, 300][pick(7, chance)];
            items.extend(std::iter::repeat_n(one, times));
        }
        _ => items[at] = value(other, chance),
    }
}

/// A value to put somewhere: an odd one, one of another document, or a very deep one.
fn value(other: &Tree, chance: &mut Chance) -> Tree {
    match chance.below(12) {
        0 => {
            let depth = DEPTHS[pick(DEPTHS.len(), chance)];
            let (open, close) = if chance.one_in(2) { ("[", "]") } else { ("{\"a\":", "}") };
            Tree::Raw(format!("{}1{}", open.repeat(depth), close.repeat(depth)))
        }
        1..=3 => {
            let mut other = other.clone();
            other.any(chance).clone()
        }
        4 => Tree::Raw(Value::from(any_text(chance)).to_string()),
        5 => {
            // A random double, as text that has to be read exactly.
            let double = f64::from_bits(chance.next());
            Tree::Raw(if double.is_finite() { format!("{double:e}") } else { "1e999".to_owned() })
        }
        6 => Tree::Raw(chance.next().to_string()),
        _ => Tree::Raw(ODD[pick(ODD.len(), chance)].to_owned()),
    }
}

fn any_text(chance: &mut Chance) -> String {
    if chance.one_in(10) {
        let times = [64, 255, 256, 1_025, 70_000][pick(5, chance)];
        return TEXTS[1 + pick(TEXTS.len() - 1, chance)].repeat(times);
    }
    TEXTS[pick(TEXTS.len(), chance)].to_owned()
}

/// The text with something put in, taken out, or in place of it.
fn changed_text(raw: &str, chance: &mut Chance) -> String {
    let Ok(text) = serde_json::from_str::<String>(raw) else { return raw.to_owned() };
    let mut letters: Vec<char> = text.chars().collect();
    let at = pick(letters.len() + 1, chance);
    match chance.below(4) {
        0 => drop(letters.splice(at..at, any_text(chance).chars())),
        1 => letters.truncate(at),
        2 if at < letters.len() => {
            letters[at] = char::from(u8::try_from(chance.below(128)).expect("ASCII"));
        }
        _ => letters = any_text(chance).chars().collect(),
    }
    Value::from(letters.into_iter().collect::<String>()).to_string()
}
