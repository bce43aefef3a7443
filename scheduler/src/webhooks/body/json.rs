//! Reads JSON with bounded nesting and without duplicate keys.
//!
//! `serde_json` alone keeps the last of two equal keys, other readers the first: a signature or a
//! policy could be checked on one body and the agent be given the other.

use std::{cell::RefCell, fmt};

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::{BodyError, DEPTH_MAX, shorten};

/// Longest path an error shows, in characters.
const PATH_CHARS_MAX: usize = 200;

/// Reads one JSON value and nothing else.
///
/// # Errors
/// Not JSON, text after the value, a duplicate key, or nesting deeper than [`DEPTH_MAX`].
pub fn parse(bytes: &[u8]) -> Result<Value, BodyError> {
    let fault = RefCell::new(None);
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let strict = Strict { level: 0, path: &Path::Root, fault: &fault };
    let parsed = strict.deserialize(&mut deserializer).and_then(|value| {
        deserializer.end()?;
        Ok(value)
    });
    parsed.map_err(|why| match fault.take() {
        Some(fault) => fault,
        None => BodyError::NotJson { why: why.to_string() },
    })
}

/// The place being read: a list on the stack, so that only an error costs memory.
enum Path<'p> {
    Root,
    Key(&'p Path<'p>, &'p str),
    Index(&'p Path<'p>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => f.write_str("$"),
            Self::Key(parent, key) => write!(f, "{parent}[{:?}]", shorten(key)),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

impl Path<'_> {
    /// The path's end, which is the part that tells the place.
    fn shown(&self) -> String {
        let full = self.to_string();
        let cut = full.chars().count().saturating_sub(PATH_CHARS_MAX);
        if cut == 0 { full } else { format!("…{}", full.chars().skip(cut).collect::<String>()) }
    }
}

/// Reads a value at some level of nesting.
struct Strict<'p> {
    level: usize,
    path: &'p Path<'p>,
    /// The reason in our words; serde's own errors carry text only.
    fault: &'p RefCell<Option<BodyError>>,
}

impl Strict<'_> {
    fn refuse<E: de::Error>(&self, fault: BodyError) -> E {
        let text = fault.to_string();
        self.fault.replace(Some(fault));
        E::custom(text)
    }

    /// The level of what is inside the list or object that begins here.
    fn enter<E: de::Error>(&self) -> Result<usize, E> {
        if self.level == DEPTH_MAX {
            return Err(self.refuse(BodyError::TooDeep { path: self.path.shown() }));
        }
        Ok(self.level + 1)
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        let number = Number::from_f64(value).ok_or_else(|| E::custom("number out of range"))?;
        Ok(Value::Number(number))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E: de::Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let level = self.enter()?;
        let mut list = Vec::new();
        loop {
            let path = Path::Index(self.path, list.len());
            let item = Strict { level, path: &path, fault: self.fault };
            match items.next_element_seed(item)? {
                Some(value) => list.push(value),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let level = self.enter()?;
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if object.contains_key(&key) {
                let (path, key) = (self.path.shown(), shorten(&key));
                return Err(self.refuse(BodyError::DuplicateKey { path, key }));
            }
            let path = Path::Key(self.path, &key);
            let value =
                entries.next_value_seed(Strict { level, path: &path, fault: self.fault })?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}
