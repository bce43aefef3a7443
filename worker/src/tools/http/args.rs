//! Which arguments does `http` take?
//!
//! Authority: none outside; this is form only. Where a request may go is [`Reach`](super::Reach)'s.
//! Invariant: headers that frame the request, or that say who asks, are the worker's to set.

use std::collections::BTreeMap;

use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Method, Url};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::tools::{ArgsError, read_args};

const FORM: &str = "an object with `method`, `url` and, if needed, `headers` (an object of \
                    strings) and one of `body` (a string) or `json`";
const URL_BYTES_MAX: usize = 8 * 1024;
const HEADERS_MAX: usize = 64;
const HEADER_BYTES_MAX: usize = 16 * 1024;
const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Framing, routing, and our own.
const RESERVED: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "host",
    "idempotency-key",
    "keep-alive",
    "portcullis-claim",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    method: String,
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    body: Option<String>,
    /// `null` is a value here.
    #[serde(default, deserialize_with = "present")]
    json: Option<Value>,
}

fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(value).map(Some)
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Body {
    Empty,
    Text(String),
    Json(Value),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Args {
    pub(super) method: Method,
    pub(super) url: Url,
    /// Names in lower case.
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: Body,
}

impl Args {
    pub(super) fn read(args: &Value) -> Result<Self, ArgsError> {
        let written: Written = read_args(args, FORM)?;
        let method = read_method(&written.method)?;
        let body = match (written.body, written.json) {
            (Some(_), Some(_)) => {
                return Err(ArgsError::new("json", "there is a `body` as well", "keep one"));
            }
            (Some(text), None) => Body::Text(text),
            (None, Some(value)) => Body::Json(value),
            (None, None) => Body::Empty,
        };
        check_body(&method, &body)?;
        Ok(Self {
            method,
            url: read_url(&written.url)?,
            headers: read_headers(written.headers)?,
            body,
        })
    }

    /// The one spelling: the URL normalised, header names in lower case.
    pub(super) fn into_value(self) -> Value {
        let mut value = json!({
            "method": self.method.as_str(),
            "url": self.url.as_str(),
            "headers": self.headers,
        });
        match self.body {
            Body::Empty => {}
            Body::Text(text) => value["body"] = text.into(),
            Body::Json(json) => value["json"] = json,
        }
        value
    }
}

fn read_method(method: &str) -> Result<Method, ArgsError> {
    match method {
        "GET" => Ok(Method::GET),
        "HEAD" => Ok(Method::HEAD),
        "POST" => Ok(Method::POST),
        "PUT" => Ok(Method::PUT),
        "PATCH" => Ok(Method::PATCH),
        "DELETE" => Ok(Method::DELETE),
        _ => {
            let mend = "use GET, HEAD, POST, PUT, PATCH or DELETE";
            Err(ArgsError::new("method", &format!("`{method}` is not known"), mend))
        }
    }
}

fn read_url(text: &str) -> Result<Url, ArgsError> {
    let refused = |problem: &str, mend: &str| Err(ArgsError::new("url", problem, mend));
    if URL_BYTES_MAX < text.len() {
        return refused("longer than 8192 bytes", "shorten it, or use a body");
    }
    let mut url: Url = match text.parse() {
        Ok(url) => url,
        Err(error) => {
            let problem = format!("not a URL ({error})");
            return refused(&problem, "write it from `https://` on");
        }
    };
    if !is_web(&url) {
        return refused("neither http nor https", "use `https://`");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return refused("contains a user or password", "use a header");
    }
    if url.port_or_known_default() == Some(0) {
        return refused("port 0 is no port", "leave it out");
    }
    // A server never sees it, so an approver should not either.
    url.set_fragment(None);
    Ok(url)
}

pub(super) fn is_web(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https") && url.host_str().is_some_and(|host| !host.is_empty())
}

fn read_headers(written: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, ArgsError> {
    let bytes: usize = written.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
    if HEADERS_MAX < written.len() || HEADER_BYTES_MAX < bytes {
        let problem = format!("{} headers of {bytes} bytes", written.len());
        return Err(ArgsError::new("headers", &problem, "keep to 64 of 16384 bytes"));
    }
    let mut headers = BTreeMap::new();
    for (name, value) in written {
        let at = format!("headers.{name}");
        let refused = |problem: &str, mend: &str| Err(ArgsError::new(&at, problem, mend));
        let Ok(known) = name.parse::<HeaderName>() else {
            return refused("no name of a header", "use letters, digits and `-`");
        };
        if RESERVED.contains(&known.as_str()) {
            return refused("set by the worker", "take it out");
        }
        if value.parse::<HeaderValue>().is_err() {
            return refused("contains a character that no header may", "keep to printable text");
        }
        if headers.insert(known.as_str().to_owned(), value).is_some() {
            return refused("given twice, in other letters", "keep one");
        }
    }
    Ok(headers)
}

fn check_body(method: &Method, body: &Body) -> Result<(), ArgsError> {
    let (at, bytes) = match body {
        Body::Empty => return Ok(()),
        Body::Text(text) => ("body", text.len()),
        Body::Json(value) => ("json", value.to_string().len()),
    };
    if *method == Method::GET || *method == Method::HEAD {
        return Err(ArgsError::new(at, &format!("a {method} has no body"), "use POST, or the URL"));
    }
    if BODY_BYTES_MAX < bytes {
        return Err(ArgsError::new(at, &format!("{bytes} bytes"), "keep to 1048576"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(args: &Value) -> Result<Value, String> {
        Args::read(args).map(Args::into_value).map_err(|error| error.to_string())
    }

    #[test]
    fn checked_arguments_have_one_spelling_and_check_to_themselves() {
        let url = "HTTP://2130706433:80/a?b#c";
        let checked = check(
            &json!({ "method": "POST", "url": url, "headers": { "Accept": "x" }, "json": null }),
        );
        let expected = json!({
            "method": "POST",
            "url": "http://127.0.0.1/a?b",
            "headers": { "accept": "x" },
            "json": null,
        });
        assert_eq!(checked, Ok(expected.clone()));
        assert_eq!(check(&expected), Ok(expected));
    }

    #[test]
    fn what_cannot_be_sent_is_refused_with_its_place() {
        let url = "https://example.org/";
        let header = |name: &str, value: &str| {
            let headers = json!({ name: value });
            json!({ "method": "GET", "url": url, "headers": headers })
        };
        let cases = [
            (json!({ "url": url }), "`args`: missing field `method`"),
            (json!({ "method": "get", "url": url }), "`method`: `get` is not known"),
            (json!({ "method": "CONNECT", "url": url }), "`method`: `CONNECT` is not known"),
            (
                json!({ "method": "GET", "url": url, "proxy": "x" }),
                "`proxy`: unknown field `proxy`",
            ),
            (json!({ "method": "GET", "url": "/x" }), "`url`: not a URL"),
            (json!({ "method": "GET", "url": "file:///etc/passwd" }), "`url`: neither http"),
            (json!({ "method": "GET", "url": "https://a:b@c/" }), "`url`: contains a user"),
            (json!({ "method": "GET", "url": "https://c:0/" }), "`url`: port 0"),
            (
                json!({ "method": "GET", "url": format!("https://c/{}", "x".repeat(8200)) }),
                "`url`: longer",
            ),
            (json!({ "method": "GET", "url": url, "body": "x" }), "`body`: a GET has no body"),
            (
                json!({ "method": "PUT", "url": url, "body": "x", "json": 1 }),
                "`json`: there is a `body`",
            ),
            (
                json!({ "method": "PUT", "url": url, "body": "x".repeat(1_048_577) }),
                "`body`: 1048577",
            ),
            (header("Host", "x"), "`headers.Host`: set by the worker"),
            (header("Portcullis-Claim", "x"), "`headers.Portcullis-Claim`: set by the worker"),
            (header("Idempotency-Key", "x"), "`headers.Idempotency-Key`: set by the worker"),
            (header("a b", "x"), "`headers.a b`: no name"),
            (header("accept", "x\r\ny: z"), "`headers.accept`: contains a character"),
        ];
        for (args, expected) in cases {
            let error = check(&args).unwrap_err();
            assert!(error.starts_with(expected), "{expected:?} is not what was said: {error}");
            assert!(error.contains("; "), "no mend: {error}");
        }
    }
}
