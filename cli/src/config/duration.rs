//! How long is «1h30m»?
//!
//! Invariant: a span is finite, whole milliseconds, and at least one of them: nothing is rounded
//! to zero, which would mean something else in many places.

use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// The longest span that can be written, in milliseconds: ten years.
pub(crate) const SPAN_MS_MAX: i64 = 3_660 * 24 * 3_600_000;
const FORM: &str = "write seconds such as 90, or \"250ms\", \"5m\", \"1h30m\", \"2d\"";

/// A length of time: a number of seconds, or a text such as `5m`, `1h30m`, `250ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span {
    ms: i64,
}

impl Span {
    pub(crate) const fn of_ms(ms: i64) -> Self {
        Self { ms }
    }

    pub(crate) const fn ms(self) -> i64 {
        self.ms
    }

    /// Reads a text: numbers with the units `d h m s ms`, largest first, or seconds without unit.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no length of time: {FORM}");
        let trimmed = text.trim();
        if let Ok(seconds) = trimmed.parse::<f64>() {
            return Self::of_seconds(seconds);
        }
        let (mut total, mut rest, mut last) = (0_f64, trimmed, f64::INFINITY);
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
            let (number, tail) = rest.split_at(digits);
            let letters = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
            let (unit, tail) = tail.split_at(letters);
            let unit_ms = unit_ms(unit).filter(|ms| *ms < last).ok_or_else(wrong)?;
            total += number.parse::<f64>().map_err(|_| wrong())? * unit_ms;
            (rest, last) = (tail.trim_start(), unit_ms);
        }
        if last.is_infinite() {
            return Err(wrong());
        }
        Self::of_float_ms(total)
    }

    pub(crate) fn of_seconds(seconds: f64) -> Result<Self, String> {
        Self::of_float_ms(seconds * 1_000.0)
    }

    fn of_float_ms(ms: f64) -> Result<Self, String> {
        if !ms.is_finite() || ms <= 0.0 {
            return Err(format!("a length of time is finite and more than zero: {FORM}"));
        }
        #[expect(clippy::cast_precision_loss, reason = "a limit of ten years")]
        if SPAN_MS_MAX as f64 <= ms {
            return Err("a length of time is less than ten years".to_owned());
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "checked to be between 0 and ten years"
        )]
        Ok(Self { ms: ms.ceil() as i64 })
    }
}

fn unit_ms(unit: &str) -> Option<f64> {
    match unit {
        "d" => Some(86_400_000.0),
        "h" => Some(3_600_000.0),
        "m" => Some(60_000.0),
        "s" => Some(1_000.0),
        "ms" => Some(1.0),
        _ => None,
    }
}

impl std::fmt::Display for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut left = self.ms;
        for (unit, ms) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)] {
            if ms <= left {
                write!(f, "{}{unit}", left / ms)?;
                left %= ms;
            }
        }
        if left != 0 || self.ms == 0 { write!(f, "{left}ms") } else { Ok(()) }
    }
}

/// As a user would write it: the schema's defaults are written so.
impl Serialize for Span {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Span;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a length of time such as 90 (seconds), \"5m\" or \"1h30m\"")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Span, E> {
                Span::parse(text).map_err(E::custom)
            }
            fn visit_f64<E: Error>(self, seconds: f64) -> Result<Span, E> {
                Span::of_seconds(seconds).map_err(E::custom)
            }
            #[expect(clippy::cast_precision_loss, reason = "too long long before it matters")]
            fn visit_i64<E: Error>(self, seconds: i64) -> Result<Span, E> {
                self.visit_f64(seconds as f64)
            }
            #[expect(clippy::cast_precision_loss, reason = "too long long before it matters")]
            fn visit_u64<E: Error>(self, seconds: u64) -> Result<Span, E> {
                self.visit_f64(seconds as f64)
            }
        }
        from.deserialize_any(Reader)
    }
}

impl schemars::JsonSchema for Span {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Span".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A length of time: seconds, or a text such as `250ms`, `5m`, `1h30m`.",
            "anyOf": [
                { "type": "number", "exclusiveMinimum": 0 },
                { "type": "string", "pattern": r"^\s*[0-9.]+\s*(ms|[dhms])?([0-9. dhms])*$" },
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_read_in_every_form() {
        let cases = [
            ("90", 90_000),
            ("0.25", 250),
            ("250ms", 250),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("1h 30m", 5_400_000),
            ("1.5s", 1_500),
            ("2d", 172_800_000),
            ("0.0001ms", 1),
        ];
        for (text, ms) in cases {
            assert_eq!(Span::parse(text), Ok(Span::of_ms(ms)), "{text}");
        }
    }

    #[test]
    fn what_is_no_span_is_refused() {
        for text in ["", " ", "5x", "m", "5m1h", "1h1h", "-5", "0", "nan", "inf", "1e300", "5 m x"]
        {
            assert!(Span::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_span_is_written_shortest() {
        for (ms, text) in [(5_400_000, "1h30m"), (250, "250ms"), (90_000, "1m30s"), (0, "0ms")] {
            assert_eq!(Span::of_ms(ms).to_string(), text);
            assert_eq!(serde_json::json!(Span::of_ms(ms)), text);
        }
    }
}
