//! Published vectors, tables of refusals, and what never counts as an identity.

mod github;
mod standard;

use axum::http::{HeaderName, HeaderValue};

use super::{secret::any_match, *};

// GitHub's published example.
const GITHUB_SECRET: &str = "It's a Secret to Everybody";
const GITHUB_BODY: &[u8] = b"Hello, World!";
const GITHUB_HEX: &str = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

// Standard Webhooks' published example.
const WHSEC: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
const SENT: &str = "1614265330";
const SENT_MS: i64 = 1_614_265_330_000;
const BODY: &[u8] = br#"{"test": 2432232314}"#;
const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

const OTHER: &str = "another secret of sixteen bytes";
const OTHER_WHSEC: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX";

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let value = HeaderValue::from_bytes(value.as_bytes()).expect("a header");
        headers.append(HeaderName::from_static(name), value);
    }
    headers
}

fn sha256(bytes: &[u8]) -> Identity {
    Identity::Digest(Sha256::digest(bytes).into())
}

fn code(answer: &Result<Verified, Refused>) -> &'static str {
    match answer {
        Ok(_) => "verified",
        Err(why) => why.code(),
    }
}

#[test]
fn any_secret_and_any_signature_will_do_while_keys_rotate() {
    let wrong = format!("v1,{}=", "A".repeat(43));
    let signatures = [
        format!("{SIGNATURE} {wrong}"),
        format!("{wrong} {SIGNATURE}"),
        format!("v1a,whatever {wrong} v2,x {SIGNATURE}"),
    ];
    for secrets in [vec![WHSEC, OTHER_WHSEC], vec![OTHER_WHSEC, WHSEC]] {
        let scheme = Scheme::standard_webhooks(&secrets).expect("a scheme");
        for signature in &signatures {
            let pairs = [
                ("webhook-id", ID),
                ("webhook-timestamp", SENT),
                ("webhook-signature", signature.as_str()),
            ];
            let answer = verify(&scheme, &headers(&pairs), BODY, SENT_MS, Peer::Remote);
            assert_eq!(code(&answer), "verified", "{signature}");
        }
    }
    let signature = format!("sha256={GITHUB_HEX}");
    for secrets in [[GITHUB_SECRET, OTHER], [OTHER, GITHUB_SECRET]] {
        let scheme = Scheme::github(&secrets).expect("a scheme");
        let headers = headers(&[("x-hub-signature-256", &signature)]);
        assert_eq!(code(&verify(&scheme, &headers, GITHUB_BODY, 0, Peer::Remote)), "verified");
    }
    let retired = Scheme::github(&[OTHER]).expect("a scheme");
    let headers = headers(&[("x-hub-signature-256", &signature)]);
    let answer = verify(&retired, &headers, GITHUB_BODY, 0, Peer::Remote);
    assert_eq!(code(&answer), "signature_mismatch");
}

#[test]
fn without_a_secret_nothing_matches() {
    assert!(!any_match(&[], &[b"body"], &[[0; 32]]));
    let secret = Secret::from_text(GITHUB_SECRET).expect("a secret");
    assert!(!any_match(&[secret], &[b"body"], &[]));
    let signature = format!("sha256={GITHUB_HEX}");
    let headers = headers(&[("x-hub-signature-256", &signature)]);
    let scheme = Scheme::Github { secrets: vec![] };
    let answer = verify(&scheme, &headers, GITHUB_BODY, 0, Peer::Remote);
    assert_eq!(code(&answer), "signature_mismatch");
}

#[test]
fn unsigned_requests_are_taken_from_this_machine_only() {
    let local = verify(&Scheme::None, &HeaderMap::new(), b"{}", 0, Peer::Loopback);
    assert_eq!(local, Ok(Verified { identity: sha256(b"{}"), label: None }));
    let remote = verify(&Scheme::None, &HeaderMap::new(), b"{}", 0, Peer::Remote);
    assert_eq!(code(&remote), "unsigned_remote");
    for header in ["forwarded", "x-forwarded-for", "via", "origin", "sec-fetch-site"] {
        let through = headers(&[(header, "127.0.0.1")]);
        let answer = verify(&Scheme::None, &through, b"{}", 0, Peer::Loopback);
        assert_eq!(answer, Err(Refused::UnsignedIndirect { header }));
    }
}

#[test]
fn only_a_loopback_address_is_this_machine() {
    for address in ["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1"] {
        assert_eq!(Peer::of(address.parse().expect(address)), Peer::Loopback, "{address}");
    }
    for address in ["0.0.0.0", "10.0.0.1", "192.168.1.1", "::", "fe80::1", "::ffff:10.0.0.1"] {
        assert_eq!(Peer::of(address.parse().expect(address)), Peer::Remote, "{address}");
    }
}

#[test]
fn an_unusable_secret_is_an_error_of_the_configuration() {
    let long = "x".repeat(SECRET_BYTES_MAX + 1);
    let cases = [
        ("fifteen bytes..", Err(SecretError::TooShort { bytes: 15 })),
        ("sixteen bytes...", Ok(())),
        ("", Err(SecretError::TooShort { bytes: 0 })),
        (&long, Err(SecretError::TooLong { bytes: SECRET_BYTES_MAX + 1 })),
        ("a secret from a file\n", Err(SecretError::WhiteSpace)),
        (" a secret with a blank", Err(SecretError::WhiteSpace)),
    ];
    for (text, expected) in cases {
        assert_eq!(Scheme::github(&[text]).map(drop), expected, "{text}");
    }
    let cases = [
        (WHSEC, Ok(())),
        ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", Err(SecretError::NotWhsec)),
        ("whsec_not base64 at all", Err(SecretError::NotWhsec)),
        ("whsec_AAECAwQFBgcICQoLDA0O", Err(SecretError::TooShort { bytes: 15 })),
        ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n", Err(SecretError::WhiteSpace)),
    ];
    for (text, expected) in cases {
        assert_eq!(Scheme::standard_webhooks(&[text]).map(drop), expected, "{text}");
    }
    assert_eq!(Scheme::github(&[] as &[&str]).map(drop), Err(SecretError::NoSecret));
    let many = [OTHER; SECRETS_MAX + 1];
    let expected = Err(SecretError::TooMany { found: SECRETS_MAX + 1 });
    assert_eq!(Scheme::github(&many).map(drop), expected);
}

#[test]
fn a_secret_is_never_printed() {
    let scheme = Scheme::github(&[GITHUB_SECRET]).expect("a scheme");
    let shown = format!("{scheme:?} {scheme:#?}");
    assert!(shown.contains("hidden"));
    assert!(!shown.contains("Everybody") && !shown.contains("69") && !shown.contains("bytes"));
    let error = Secret::from_text("hunter2").expect_err("too short");
    assert!(!format!("{error} {error:?}").contains("hunter"));
}
