//! GitHub's published example, and everything near it.

use super::*;

fn github(pairs: &[(&'static str, &str)], body: &[u8]) -> Result<Verified, Refused> {
    let scheme = Scheme::github(&[GITHUB_SECRET]).expect("a scheme");
    verify(&scheme, &headers(pairs), body, 0, Peer::Remote)
}

#[test]
fn githubs_example_is_verified_and_known_by_its_bytes() {
    let signature = format!("sha256={GITHUB_HEX}");
    let answer = github(&[("x-hub-signature-256", &signature)], GITHUB_BODY);
    let identity = sha256(GITHUB_BODY);
    assert_eq!(answer, Ok(Verified { identity, label: None }));
    // The case of the digits is not part of the signature.
    let upper = format!("sha256={}", GITHUB_HEX.to_uppercase());
    assert_eq!(code(&github(&[("x-hub-signature-256", &upper)], GITHUB_BODY)), "verified");
}

#[test]
fn everything_but_a_matching_github_signature_is_refused() {
    let right = format!("sha256={GITHUB_HEX}");
    let other = format!("sha256={}", "0".repeat(64));
    let bare = GITHUB_HEX.to_owned();
    let sha1 = format!("sha1={GITHUB_HEX}");
    let short = format!("sha256={}", &GITHUB_HEX[2..]);
    let long = format!("sha256={GITHUB_HEX}00");
    let odd = format!("sha256={}", &GITHUB_HEX[1..]);
    let no_hex = format!("sha256={}", "g".repeat(64));
    let padded = format!("sha256={GITHUB_HEX} ");
    let two = format!("sha256={GITHUB_HEX},sha256={GITHUB_HEX}");
    let cases: [(&[(&str, &str)], &str); 14] = [
        (&[], "signature_missing"),
        (&[("x-hub-signature", &right)], "signature_missing"),
        (&[("x-hub-signature-256", &other)], "signature_mismatch"),
        (&[("x-hub-signature-256", "")], "signature_malformed"),
        (&[("x-hub-signature-256", "sha256=")], "signature_malformed"),
        (&[("x-hub-signature-256", "sha256=\u{e4}")], "signature_malformed"),
        (&[("x-hub-signature-256", &bare)], "signature_malformed"),
        (&[("x-hub-signature-256", &sha1)], "signature_malformed"),
        (&[("x-hub-signature-256", &short)], "signature_malformed"),
        (&[("x-hub-signature-256", &long)], "signature_malformed"),
        (&[("x-hub-signature-256", &odd)], "signature_malformed"),
        (&[("x-hub-signature-256", &no_hex)], "signature_malformed"),
        (&[("x-hub-signature-256", &padded)], "signature_malformed"),
        (&[("x-hub-signature-256", &two)], "signature_malformed"),
    ];
    for (pairs, expected) in cases {
        assert_eq!(code(&github(pairs, GITHUB_BODY)), expected, "{pairs:?}");
    }
    let answer = github(&[("x-hub-signature-256", &right)], b"Hello, World?");
    assert_eq!(code(&answer), "signature_mismatch", "another body");
    let twice = [("x-hub-signature-256", right.as_str()), ("x-hub-signature-256", &right)];
    assert_eq!(code(&github(&twice, GITHUB_BODY)), "header_duplicated");
}

#[test]
fn an_unsigned_delivery_id_is_only_a_label() {
    let signature = format!("sha256={GITHUB_HEX}");
    let with = |delivery: &str| {
        let pairs = [("x-hub-signature-256", signature.as_str()), ("x-github-delivery", delivery)];
        github(&pairs, GITHUB_BODY).expect("verified")
    };
    let (first, replayed) = (with("72d3162e-cc78"), with("a-new-id"));
    assert_eq!(first.label.as_deref(), Some("72d3162e-cc78"));
    assert_eq!(first.identity, replayed.identity, "a new id makes no new delivery");
    for unusable in ["", "\u{fc}", &"x".repeat(LABEL_BYTES_MAX + 1)] {
        assert_eq!(with(unusable).label, None, "{unusable}");
    }
}
