//! What a body may be, and the refusals.

use axum::http::HeaderValue;
use proptest::prelude::*;

use super::*;

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";

fn typed(content_type: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_str(content_type).expect("a header"));
    headers
}

fn code(content_type: &str, body: &[u8]) -> &'static str {
    match parse(&typed(content_type), body) {
        Ok(value) => panic!("must be refused, was read as {value}"),
        Err(why) => why.code(),
    }
}

fn lists(levels: usize) -> Vec<u8> {
    [b"[".repeat(levels), b"]".repeat(levels)].concat()
}

#[test]
fn json_is_read_under_every_json_content_type() {
    let types = [
        "application/json",
        "Application/JSON",
        "application/json; charset=utf-8",
        "application/json;charset=\"UTF-8\"",
        "application/cloudevents+json",
        "application/vnd.acme.v2+json; version=1",
    ];
    for content_type in types {
        let value = parse(&typed(content_type), br#" {"a": [1, -2, 1.5, null, true, "x"]} "#);
        assert_eq!(value, Ok(json!({"a": [1, -2, 1.5, null, true, "x"]})), "{content_type}");
    }
}

#[test]
fn other_content_types_are_text() {
    for content_type in ["text/plain", "application/xml", "application/+json", "text/x+json"] {
        let value = parse(&typed(content_type), b"{\"a\":1}");
        assert_eq!(value, Ok(json!({"raw": "{\"a\":1}"})), "{content_type}");
    }
    assert_eq!(parse(&HeaderMap::new(), "grüße\n".as_bytes()), Ok(json!({"raw": "grüße\n"})));
    assert_eq!(parse(&HeaderMap::new(), b""), Ok(json!({"raw": ""})));
}

#[test]
fn what_is_not_json_is_refused_with_its_place() {
    let bodies: [&[u8]; 12] = [
        b"",
        b" ",
        b"{",
        b"{} {}",
        b"{}x",
        b"{\"a\":1,}",
        b"NaN",
        b"01",
        b"1e999",
        b"\"\xff\"",
        b"\xef\xbb\xbf{}",
        b"{'a':1}",
    ];
    for body in bodies {
        assert_eq!(code(JSON, body), "body_not_json", "{body:?}");
    }
    let why = parse(&typed(JSON), b"{\n  \"a\": ?}").expect_err("not JSON").to_string();
    assert!(why.contains("line 2 column 8"), "{why}");
}

#[test]
fn duplicate_keys_are_refused_at_every_depth() {
    let cases = [
        (r#"{"a":1,"a":2}"#, r#"key "a" is there twice, at $"#),
        (r#"{"a":1,"b":0,"a":1}"#, r#"key "a" is there twice, at $"#),
        (r#"{"x":[0,{"b":1,"b":1}]}"#, r#"key "b" is there twice, at $["x"][1]"#),
        (r#"{"a":1,"\u0061":2}"#, r#"key "a" is there twice, at $"#),
    ];
    for (body, expected) in cases {
        let why = parse(&typed(JSON), body.as_bytes()).expect_err(body);
        assert_eq!((why.code(), why.to_string().as_str()), ("body_duplicate_key", expected));
    }
    assert!(parse(&typed(JSON), br#"{"a":1,"A":2,"b":{"a":3}}"#).is_ok());
}

#[test]
fn sixty_four_levels_are_read_and_one_more_is_not() {
    assert!(parse(&typed(JSON), &lists(DEPTH_MAX)).is_ok());
    assert_eq!(code(JSON, &lists(DEPTH_MAX + 1)), "body_too_deep");
    assert_eq!(code(JSON, &lists(1_000_000)), "body_too_deep");
    let objects =
        |levels| [br#"{"k":"#.repeat(levels), b"1".to_vec(), b"}".repeat(levels)].concat();
    assert!(parse(&typed(JSON), &objects(DEPTH_MAX)).is_ok());
    assert_eq!(code(JSON, &objects(DEPTH_MAX + 1)), "body_too_deep");
    // A long list is not a deep one.
    let long = format!("[{}1]", "1,".repeat(10_000));
    assert!(parse(&typed(JSON), long.as_bytes()).is_ok());
}

#[test]
fn an_error_stays_short_whatever_the_body_is() {
    let key = "k".repeat(100_000);
    let body = format!(r#"{{"{key}":{{"{key}":1,"{key}":1}}}}"#);
    let why = parse(&typed(JSON), body.as_bytes()).expect_err("a duplicate").to_string();
    assert!(why.len() < 400, "{}", why.len());
    let deep = parse(&typed(JSON), &lists(1_000)).expect_err("too deep").to_string();
    assert!(deep.len() < 400, "{deep}");
}

#[test]
fn a_form_is_the_wrapping_of_its_payload() {
    let read = |body: &[u8]| parse(&typed(FORM), body);
    assert_eq!(read(b"payload=%7B%22a%22%3A+%22b%26%2b%22%7D"), Ok(json!({"a": "b&+"})));
    assert_eq!(read(b"p%61yload=[1]"), Ok(json!([1])));
    assert_eq!(read("payload=\"gr%C3%BC\u{df}e\"".as_bytes()), Ok(json!("grüße")));
    assert_eq!(read(b"a=1&b=2"), Ok(json!({"raw": "a=1&b=2"})));
    assert_eq!(read(b""), Ok(json!({"raw": ""})));
}

#[test]
fn an_unclear_form_is_refused() {
    let cases: [(&[u8], &str); 10] = [
        (b"payload=1&payload=1", "form_fields"),
        (b"payload=1&x=2", "form_fields"),
        (b"x=2&payload=1", "form_fields"),
        (b"payload=1&", "form_fields"),
        (b"payload=%", "form_unreadable"),
        (b"payload=%4", "form_unreadable"),
        (b"payload=%zz", "form_unreadable"),
        (b"payload=%ff", "form_unreadable"),
        (b"payload=", "body_not_json"),
        (b"payload={\"a\":1,\"a\":1}", "body_duplicate_key"),
    ];
    for (body, expected) in cases {
        assert_eq!(code(FORM, body), expected, "{}", String::from_utf8_lossy(body));
    }
}

#[test]
fn text_must_be_utf8() {
    let answer = parse(&typed("text/plain"), b"abc\xff");
    assert_eq!(answer, Err(BodyError::NotUtf8 { at_byte: 3 }));
    assert_eq!(code("text/plain; charset=latin1", b"abc"), "charset_unsupported");
    assert_eq!(code("application/json; charset=utf-16", b"{}"), "charset_unsupported");
}

#[test]
fn two_content_types_are_refused() {
    let mut headers = typed(JSON);
    headers.append(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    assert_eq!(parse(&headers, b"{}"), Err(BodyError::ContentType));
    headers.insert(CONTENT_TYPE, HeaderValue::from_bytes(b"application/\xff").expect("opaque"));
    assert_eq!(parse(&headers, b"{}"), Err(BodyError::ContentType));
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        ".*".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::hash_map(".*", inner, 0..8)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_value_comes_back_as_it_was_written(value in value()) {
        prop_assert_eq!(parse_json(value.to_string().as_bytes()), Ok(value));
    }

    #[test]
    fn no_bytes_panic(body in prop::collection::vec(any::<u8>(), 0..200), kind in 0..3_usize) {
        let content_type = [JSON, FORM, "text/plain"][kind];
        if let Ok(value) = parse(&typed(content_type), &body) {
            prop_assert!(std::str::from_utf8(&body).is_ok(), "{}", value);
        }
    }
}
