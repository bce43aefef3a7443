//! When are two values the same? Canonical JSON (RFC 8785) and SHA-256 over it.
//!
//! Authority: RFC 8785 for the bytes, FIPS 180-4 for the hash.
//! Invariant: two values with the same digest mean the same to every reader. Integers that an
//! IEEE double cannot hold exactly are refused, for two of them would canonicalise alike.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The largest integer that every JSON reader agrees on: 2^53 - 1 (RFC 8259, section 6).
pub const SAFE_INTEGER_MAX: u64 = (1 << 53) - 1;

/// How deeply a value may nest before it is refused.
pub const NESTING_MAX: usize = 64;

/// Why a value has no canonical form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CanonicalError {
    #[error("the number {0} cannot be held exactly by every JSON reader; send it as a string")]
    UnsafeNumber(String),
    #[error("the value nests deeper than {NESTING_MAX} levels")]
    TooDeep,
    #[error("the value cannot be written as JSON: {0}")]
    Unwritable(String),
}

/// SHA-256 of something, written as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Hashes bytes as they are.
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Hashes several fields, each prefixed with its length, so that no two lists run together.
    #[must_use]
    pub fn of_fields(fields: &[&[u8]]) -> Self {
        let mut hasher = Sha256::new();
        for field in fields {
            hasher.update((field.len() as u64).to_be_bytes());
            hasher.update(field);
        }
        Self(hasher.finalize().into())
    }

    /// Hashes the canonical form of a value.
    ///
    /// # Errors
    /// When the value has no canonical form.
    pub fn of_json(value: &Value) -> Result<Self, CanonicalError> {
        Ok(Self::of_bytes(&canonical(value)?))
    }
}

/// The RFC 8785 bytes of a value.
///
/// # Errors
/// Numbers outside the safe range, and nesting over [`NESTING_MAX`].
pub fn canonical(value: &Value) -> Result<Vec<u8>, CanonicalError> {
    refuse_ambiguous(value, 0)?;
    serde_json_canonicalizer::to_vec(value)
        .map_err(|why| CanonicalError::Unwritable(why.to_string()))
}

fn refuse_ambiguous(value: &Value, depth: usize) -> Result<(), CanonicalError> {
    if NESTING_MAX < depth {
        return Err(CanonicalError::TooDeep);
    }
    match value {
        Value::Null | Value::Bool(_) | Value::String(_) => Ok(()),
        Value::Number(number) => {
            let safe = match (number.as_u64(), number.as_i64()) {
                (Some(n), _) => n <= SAFE_INTEGER_MAX,
                (None, Some(n)) => n.unsigned_abs() <= SAFE_INTEGER_MAX,
                // A fraction or an exponent: the double itself is what was meant.
                (None, None) => number.as_f64().is_some_and(f64::is_finite),
            };
            if safe { Ok(()) } else { Err(CanonicalError::UnsafeNumber(number.to_string())) }
        }
        Value::Array(items) => items.iter().try_for_each(|v| refuse_ambiguous(v, depth + 1)),
        Value::Object(map) => map.values().try_for_each(|v| refuse_ambiguous(v, depth + 1)),
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&data_encoding::HEXLOWER.encode(&self.0))
    }
}

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// A digest must be 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a digest is 64 lower-case hexadecimal digits")]
pub struct NotADigest;

impl std::str::FromStr for Digest {
    type Err = NotADigest;

    fn from_str(text: &str) -> Result<Self, NotADigest> {
        let bytes = data_encoding::HEXLOWER.decode(text.as_bytes()).map_err(|_| NotADigest)?;
        Ok(Self(bytes.try_into().map_err(|_| NotADigest)?))
    }
}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl schemars::JsonSchema for Digest {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Digest".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^[0-9a-f]{64}$" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_rfc_8785_example_has_the_published_bytes() {
        let value: Value = serde_json::from_str(
            r#"{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],
                "string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
                "literals":[null,true,false]}"#,
        )
        .unwrap();
        let bytes = canonical(&value).unwrap();
        assert_eq!(
            String::from_utf8(bytes).unwrap(),
            "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],\
             \"string\":\"€$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}"
        );
    }

    #[test]
    fn order_of_keys_does_not_matter_but_type_does() {
        let of = |v: Value| Digest::of_json(&v).unwrap();
        assert_eq!(of(json!({"a": 1, "b": 2})), of(json!({"b": 2, "a": 1})));
        assert_eq!(of(json!({"a": 1})), of(json!({"a": 1.0})));
        assert_ne!(of(json!({"a": 1})), of(json!({"a": "1"})));
        assert_ne!(of(json!({"a": true})), of(json!({"a": 1})));
    }

    #[test]
    fn integers_that_would_collide_are_refused() {
        let big = json!({"id": 9_007_199_254_740_993_u64});
        assert!(matches!(Digest::of_json(&big), Err(CanonicalError::UnsafeNumber(_))));
        assert!(Digest::of_json(&json!(9_007_199_254_740_991_u64)).is_ok());
        assert!(Digest::of_json(&json!(-9_007_199_254_740_992_i64)).is_err());
    }

    #[test]
    fn nesting_is_bounded() {
        let deep = (0..=NESTING_MAX).fold(json!(1), |inner, _| json!([inner]));
        assert_eq!(Digest::of_json(&deep), Err(CanonicalError::TooDeep));
    }

    #[test]
    fn fields_do_not_run_together() {
        assert_ne!(Digest::of_fields(&[b"ab", b"c"]), Digest::of_fields(&[b"a", b"bc"]));
    }
}
