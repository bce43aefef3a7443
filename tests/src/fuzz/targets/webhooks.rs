//! Webhooks: who sent it, and what it says.

use std::sync::LazyLock;

use axum::http::{HeaderMap, HeaderValue};
use data_encoding::{BASE64, HEXLOWER};
use hmac::{Hmac, KeyInit as _, Mac as _};
use portcullis_proto::digest::{CanonicalError, canonical};
use portcullis_scheduler::webhooks::body::{self, DEPTH_MAX};
use portcullis_scheduler::webhooks::verify::{Identity, Peer, Scheme, TOLERANCE_MS, verify};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::super::{Target, hold, told};
use super::request;
use super::{LARGE, SMALL};

const NOW_S: i64 = 1_767_225_600;
const SECRETS: [&str; 2] = ["0123456789abcdef", "another secret of mine"];

pub(super) const GITHUB: Target = Target {
    name: "webhook_github",
    promise: "no body verifies but one that was signed, and its digest tells it apart; what the \
              scheme does not sign changes nothing",
    seeds: || {
        let mut seeds = Vec::new();
        for (body, secret) in BODIES.iter().zip(SECRETS.iter().cycle()) {
            let signature = format!("sha256={}", HEXLOWER.encode(&mac(secret.as_bytes(), &[body])));
            let named = [("X-Hub-Signature-256", signature.as_str()), ("X-GitHub-Delivery", "d-1")];
            seeds.push(request::write("", &named, body));
        }
        seeds
    },
    check: check_github,
    memory_bytes: SMALL,
    slice: 3_000,
};

pub(super) const STANDARD: Target = Target {
    name: "webhook_standard",
    promise: "nothing verifies but an id, a time and a body that were signed together, near \
              enough to now",
    seeds: || {
        let mut seeds = Vec::new();
        for ((id, sent, body), secret) in SENT.iter().zip(SECRETS.iter().cycle()) {
            let parts = [id.as_bytes(), b".", sent.as_bytes(), b".", body];
            let signature = BASE64.encode(&mac(secret.as_bytes(), &parts));
            let signature = format!("v1,{signature} v2,x");
            let named = [
                ("webhook-id", *id),
                ("webhook-timestamp", sent),
                ("webhook-signature", &signature),
            ];
            seeds.push(request::write("", &named, body));
        }
        seeds
    },
    check: check_standard,
    memory_bytes: SMALL,
    slice: 3_000,
};

pub(super) const UNSIGNED: Target = Target {
    name: "webhook_unsigned",
    promise: "nothing from beyond this machine, or through anything, is taken unsigned",
    seeds: || {
        let via = [("Forwarded", "for=1.2.3.4"), ("Origin", "http://evil.example")];
        let plain = [("Host", "localhost"), ("Content-Type", "application/json")];
        vec![
            request::write("", &plain, BODIES[0]),
            request::write("", &via[..1], BODIES[1]),
            request::write("", &via[1..], BODIES[2]),
            request::write("", &[("X-Forwarded-For", "::1"), ("Via", "1.1 x")], BODIES[3]),
        ]
    },
    check: check_unsigned,
    memory_bytes: SMALL,
    slice: 3_000,
};

pub(super) const BODY: Target = Target {
    name: "webhook_body",
    promise: "a body is read in exactly one way or refused: no key twice, no more than 64 levels, \
              and what is read is written and read again the same",
    seeds: || {
        let json = [("Content-Type", "application/json; charset=utf-8")];
        let form = [("Content-Type", "application/x-www-form-urlencoded")];
        let mut seeds: Vec<_> = BODIES.iter().map(|body| request::write("", &json, body)).collect();
        seeds.push(request::write("", &form, b"payload=%7B%22a%22%3A+1%7D"));
        seeds.push(request::write("", &form, b"a=b&c=d%20e"));
        seeds.push(request::write("", &[("Content-Type", "text/plain")], "wörds".as_bytes()));
        seeds.push(request::write("", &[("Content-Type", "application/x+json")], BODIES[0]));
        seeds
    },
    check: check_body,
    memory_bytes: LARGE,
    slice: 2_000,
};

const BODIES: [&[u8]; 4] = [
    br#"{"action":"opened","number":7,"pull_request":{"title":"a","labels":[{"id":1.5}]}}"#,
    br#"{"zen":"Keep it logically awesome.","hook":{"events":["push","ping"]},"ok":true}"#,
    b"{}",
    br#"[[{"deep":[[[null]]]}],1e3,"\u00e4\n"]"#,
];

/// What was signed, ever: id, time and body.
static SENT: LazyLock<[(&str, String, &[u8]); 4]> = LazyLock::new(|| {
    [
        ("msg_1", NOW_S.to_string(), BODIES[0]),
        ("msg_2", (NOW_S + 299).to_string(), BODIES[1]),
        ("msg_3", (NOW_S - 299).to_string(), BODIES[2]),
        ("msg_4", (NOW_S - 301).to_string(), BODIES[3]),
    ]
});

static GITHUB_SCHEME: LazyLock<Scheme> =
    LazyLock::new(|| Scheme::github(&SECRETS).expect("two secrets"));
static STANDARD_SCHEME: LazyLock<Scheme> = LazyLock::new(|| {
    let secrets = SECRETS.map(|secret| format!("whsec_{}", BASE64.encode(secret.as_bytes())));
    Scheme::standard_webhooks(&secrets).expect("two secrets")
});

fn mac(secret: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("a key of any length");
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().to_vec()
}

fn check_github(bytes: &[u8]) -> Result<String, String> {
    let (_, mut headers, body) = request::read(bytes);
    let proved =
        |headers: &HeaderMap| verify(&GITHUB_SCHEME, headers, body, NOW_S * 1_000, Peer::Remote);
    match proved(&headers) {
        Ok(verified) => {
            let signed = BODIES.contains(&body);
            hold(signed, || format!("nobody signed {}", String::from_utf8_lossy(body)))?;
            let digest = Identity::Digest(Sha256::digest(body).into());
            hold(verified.identity == digest, || format!("{:?}", verified.identity))?;
            headers.insert("x-github-event", HeaderValue::from_static("other"));
            headers.insert("x-github-delivery", HeaderValue::from_static("other"));
            let other = proved(&headers).map(|verified| verified.identity);
            hold(other == Ok(digest), || format!("unsigned headers count: {other:?}"))?;
            Ok(format!("verified, label {}", verified.label.is_some()))
        }
        Err(why) => told(&why, &[]),
    }
}

fn check_standard(bytes: &[u8]) -> Result<String, String> {
    let (_, headers, body) = request::read(bytes);
    match verify(&STANDARD_SCHEME, &headers, body, NOW_S * 1_000, Peer::Remote) {
        Ok(verified) => {
            let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
            let (id, sent) = (text("webhook-id"), text("webhook-timestamp"));
            let signed = SENT
                .iter()
                .any(|(one, at, what)| (id, sent, body) == (Some(*one), Some(at.as_str()), *what));
            hold(signed, || format!("nobody signed {id:?} {sent:?}"))?;
            let sent_s: i64 = sent.and_then(|text| text.parse().ok()).unwrap_or_default();
            let near = (sent_s - NOW_S).abs() * 1_000 <= TOLERANCE_MS;
            hold(near, || format!("{sent_s} is not near {NOW_S}"))?;
            let known = Identity::SignedId(id.unwrap_or_default().to_owned());
            hold(verified.identity == known, || format!("{:?}", verified.identity))?;
            Ok("verified".to_owned())
        }
        Err(why) => told(&why, &[]),
    }
}

fn check_unsigned(bytes: &[u8]) -> Result<String, String> {
    let (_, headers, body) = request::read(bytes);
    let at = |peer| verify(&Scheme::None, &headers, body, NOW_S * 1_000, peer);
    let remote = at(Peer::Remote);
    hold(remote.is_err(), || format!("from anywhere: {remote:?}"))?;
    match at(Peer::Loopback) {
        Ok(verified) => {
            let traces = ["forwarded", "x-forwarded-for", "via", "origin", "sec-fetch-site"];
            let indirect = traces.iter().find(|name| headers.contains_key(**name));
            hold(indirect.is_none(), || format!("through {indirect:?}"))?;
            let digest = Identity::Digest(Sha256::digest(body).into());
            hold(verified.identity == digest, || format!("{:?}", verified.identity))?;
            Ok("taken".to_owned())
        }
        Err(why) => told(&why, &[]),
    }
}

fn check_body(bytes: &[u8]) -> Result<String, String> {
    let (_, headers, body) = request::read(bytes);
    let value = match body::parse(&headers, body) {
        Ok(value) => value,
        Err(why) => return told(&why, &[]),
    };
    hold(depth(&value) <= DEPTH_MAX, || format!("{} levels", depth(&value)))?;
    let stated = headers.get("content-type").and_then(|value| value.to_str().ok());
    if stated.is_some_and(|stated| stated.split(';').next() == Some("application/json")) {
        let lenient: Value = serde_json::from_slice(body).map_err(|why| format!("taken: {why}"))?;
        hold(lenient == value, || format!("{value} or {lenient}"))?;
    }
    let text = value.to_string();
    let again = body::parse_json(text.as_bytes()).map_err(|why| format!("not again: {why}"))?;
    hold(again == value, || format!("{again} was {value}"))?;
    match canonical(&value) {
        Ok(_) | Err(CanonicalError::UnsafeNumber(_)) => Ok(format!("{}", depth(&value).min(9))),
        Err(why) => Err(format!("taken, and without a digest: {why}")),
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
    }
}
