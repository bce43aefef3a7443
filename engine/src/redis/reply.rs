//! What did Redis answer? Anything but the expected shape is an error, never a guess.

use redis::Value;

use crate::ports::StoreError;

fn odd(wanted: &str, value: &Value) -> StoreError {
    let text: String = format!("{value:?}").chars().take(80).collect();
    StoreError::Corrupt(format!("an answer that is not {wanted}: {text}"))
}

/// A number, whole or with a fraction of zero, as sorted sets print their scores.
pub(super) fn int(value: &Value) -> Result<i64, StoreError> {
    let wrong = || odd("a number", value);
    if let Value::Int(number) = value {
        return Ok(*number);
    }
    let Value::BulkString(bytes) = value else { return Err(wrong()) };
    let text = std::str::from_utf8(bytes).map_err(|_| wrong())?;
    text.parse().or_else(|_| score(text).ok_or_else(wrong))
}

/// A score beyond 2^53 is printed with an exponent.
fn score(text: &str) -> Option<i64> {
    let number: f64 = text.parse().ok()?;
    number.is_finite().then_some(number as i64)
}

pub(super) fn bytes(value: Value) -> Result<Vec<u8>, StoreError> {
    if let Value::BulkString(bytes) = value { Ok(bytes) } else { Err(odd("a string", &value)) }
}

pub(super) fn text(value: Value) -> Result<String, StoreError> {
    let text = String::from_utf8(bytes(value)?);
    text.map_err(|_| StoreError::Corrupt("a text that is not UTF-8".into()))
}

pub(super) fn maybe_bytes(value: Value) -> Result<Option<Vec<u8>>, StoreError> {
    if value == Value::Nil { Ok(None) } else { bytes(value).map(Some) }
}

pub(super) fn array(value: Value) -> Result<Vec<Value>, StoreError> {
    if let Value::Array(values) = value { Ok(values) } else { Err(odd("an array", &value)) }
}

/// The members of a sorted set with their scores.
pub(super) fn scored(value: Value) -> Result<Vec<(String, i64)>, StoreError> {
    let mut values = array(value)?.into_iter();
    let mut pairs = Vec::with_capacity(values.len() / 2);
    while let (Some(member), Some(score)) = (values.next(), values.next()) {
        pairs.push((text(member)?, int(&score)?));
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_redis_prints_them() {
        let of = |text: &str| int(&Value::BulkString(text.into()));
        assert_eq!(of("1760000000000"), Ok(1_760_000_000_000));
        assert_eq!(of("-3"), Ok(-3));
        assert_eq!(of("9.2233720368547758e+18"), Ok(i64::MAX));
        assert_eq!(int(&Value::Int(7)), Ok(7));
        for bad in ["", "inf", "nan", "x"] {
            assert!(matches!(of(bad), Err(StoreError::Corrupt(_))), "{bad}");
        }
        assert!(matches!(int(&Value::Nil), Err(StoreError::Corrupt(_))));
    }
}
