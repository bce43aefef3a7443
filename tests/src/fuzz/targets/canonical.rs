//! Canonical JSON, against an implementation of its own that shares nothing with the product's.
//!
//! Both crates that there are for RFC 8785 print numbers with the same third crate, so neither
//! would find the other wrong. Here the shortest digits come from the standard library, and what
//! RFC 8785 and ECMA-262 say about them is written out.

use portcullis_proto::digest::{CanonicalError, Digest, NESTING_MAX, canonical};
use serde_json::Value;

use super::super::{Target, hold, told};
use super::LARGE;

pub(super) const CANONICAL: Target = Target {
    name: "canonical",
    promise: "the bytes are those of RFC 8785 by an independent implementation; they are read \
              again as the same value; what two readers could take for two values is refused",
    seeds: || {
        let texts = [
            r#"{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],
                "string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true]}"#,
            r#"{"\u20ac":"Euro Sign","\r":"CR","\ufb33":"Dalet","1":"One","\ud83d\ude00":"Smiley",
                "\u0080":"Control","\u00f6":"o"}"#,
            "[0,-0,-0.0,5e-324,1.7976931348623157e308,9007199254740991,-9007199254740991]",
            "[1e21,1e20,1e-6,1e-7,0.1,123456.789e3]",
            r#"{"peach":"p","péché":"q","pêche":"r","sin":{"b":[{},[],""]}}"#,
        ];
        texts.map(|text| text.as_bytes().to_vec()).to_vec()
    },
    check,
    // The canonicaliser buffers each level of nesting by itself: up to 64 times the value.
    memory_bytes: 12 * LARGE,
    slice: 1_000,
};

fn check(bytes: &[u8]) -> Result<String, String> {
    let value: Value = match serde_json::from_slice(bytes) {
        Ok(value) => value,
        Err(_) => return Ok("no JSON".to_owned()),
    };
    let deep = depth(&value);
    let ours = match canonical(&value) {
        Ok(ours) => ours,
        Err(CanonicalError::TooDeep) => {
            hold(NESTING_MAX < deep, || format!("{deep} levels are no more than allowed"))?;
            return Ok("too deep".to_owned());
        }
        Err(CanonicalError::UnsafeNumber(number)) => {
            let unsafe_one = number.parse::<f64>().is_ok_and(|n| 9_007_199_254_740_991.0 < n.abs());
            hold(unsafe_one, || format!("{number} is safe"))?;
            return told(&CanonicalError::UnsafeNumber(number), &[]);
        }
        Err(why @ CanonicalError::Unwritable(_)) => return Err(why.to_string()),
    };
    hold(deep <= NESTING_MAX, || format!("{deep} levels"))?;
    let mut theirs = String::new();
    write(&value, &mut theirs);
    hold(ours == theirs.as_bytes(), || {
        format!("ours {} theirs {theirs}", String::from_utf8_lossy(&ours))
    })?;
    let again: Value = serde_json::from_slice(&ours).map_err(|why| format!("unreadable: {why}"))?;
    match canonical(&again) {
        Ok(twice) => hold(twice == ours, || format!("not the same again: {theirs}"))?,
        // A large double is exact; RFC 8785 writes it as an integer, which others may have rounded.
        Err(CanonicalError::UnsafeNumber(number)) => {
            hold(number.len() <= 22 && theirs.contains(&number), || {
                format!("{number} is not in {theirs}")
            })?;
        }
        Err(why @ (CanonicalError::TooDeep | CanonicalError::Unwritable(_))) => {
            return Err(format!("not canonical again: {why}"));
        }
    }
    let digest = Digest::of_bytes(&ours);
    hold(Digest::of_json(&value) == Ok(digest), || "another digest".to_owned())?;
    // As a value travels: written, and read by another process.
    let travelled: Value =
        serde_json::from_str(&value.to_string()).map_err(|why| why.to_string())?;
    hold(canonical(&travelled).as_ref() == Ok(&ours), || format!("{travelled} was {value}"))?;
    Ok(format!("{} levels", deep.min(9)))
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
    }
}

/// RFC 8785, section 3.2.
fn write(value: &Value, text: &mut String) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(yes) => text.push_str(if *yes { "true" } else { "false" }),
        Value::Number(number) => text.push_str(&number_text(number.as_f64().expect("a double"))),
        Value::String(letters) => write_text(letters, text),
        Value::Array(items) => {
            text.push('[');
            for (at, item) in items.iter().enumerate() {
                text.push_str(if at == 0 { "" } else { "," });
                write(item, text);
            }
            text.push(']');
        }
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort_by_key(|key| key.encode_utf16().collect::<Vec<_>>());
            text.push('{');
            for (at, key) in keys.into_iter().enumerate() {
                text.push_str(if at == 0 { "" } else { "," });
                write_text(key, text);
                text.push(':');
                write(&map[key], text);
            }
            text.push('}');
        }
    }
}

/// Section 3.2.2.2.
fn write_text(letters: &str, text: &mut String) {
    text.push('"');
    for letter in letters.chars() {
        match letter {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\u{8}' => text.push_str("\\b"),
            '\t' => text.push_str("\\t"),
            '\n' => text.push_str("\\n"),
            '\u{c}' => text.push_str("\\f"),
            '\r' => text.push_str("\\r"),
            low if low < ' ' => text.push_str(&format!("\\u{:04x}", u32::from(low))),
            other => text.push(other),
        }
    }
    text.push('"');
}

/// Of two equally short and equally near texts the one with the even last digit is meant; the
/// standard library takes the greater one.
fn even(digits: String, number: f64) -> String {
    let last = digits.as_bytes().last().map_or(0, |digit| digit - b'0');
    // No double has more digits than that.
    let exact =
        if last % 2 == 1 { format!("{number:.770e}").replace('.', "") } else { return digits };
    let (kept, rest) = exact.split_at(digits.len());
    let half = rest.split('e').next().is_some_and(|rest| {
        rest.starts_with('5')
            && rest.trim_start_matches('5').bytes().all(|digit| digit == b'0')
            && rest.matches('5').count() == 1
    });
    let down = kept < digits.as_str();
    if half && down { format!("{}{}", &digits[..digits.len() - 1], last - 1) } else { digits }
}

/// ECMA-262, `Number::toString`, from the shortest digits that the standard library finds.
fn number_text(number: f64) -> String {
    if number == 0.0 {
        return "0".to_owned();
    }
    let sign = if number < 0.0 { "-" } else { "" };
    let scientific = format!("{:e}", number.abs());
    let (mantissa, exponent) = scientific.split_once('e').expect("it was asked for");
    let digits = even(mantissa.replace('.', ""), number.abs());
    let count = i32::try_from(digits.len()).expect("at most 17");
    let point = exponent.parse::<i32>().expect("a small number") + 1;
    let zeros = |n: i32| "0".repeat(usize::try_from(n).expect("not negative"));
    let place = usize::try_from(point).unwrap_or(0);
    let text = if count <= point && point <= 21 {
        format!("{digits}{}", zeros(point - count))
    } else if 0 < point && point <= 21 {
        format!("{}.{}", &digits[..place], &digits[place..])
    } else if -6 < point && point <= 0 {
        format!("0.{}{digits}", zeros(-point))
    } else {
        let shown = point - 1;
        let plus = if shown < 0 { '-' } else { '+' };
        let fraction = if count == 1 { String::new() } else { format!(".{}", &digits[1..]) };
        format!("{}{fraction}e{plus}{}", &digits[..1], shown.abs())
    };
    format!("{sign}{text}")
}
