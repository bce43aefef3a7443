//! Standard Webhooks' published example, and everything near it.

use std::time::Duration;

use super::*;

fn standard(pairs: &[(&'static str, &str)], now_ms: i64) -> Result<Verified, Refused> {
    let scheme = Scheme::standard_webhooks(&[WHSEC]).expect("a scheme");
    verify(&scheme, &headers(pairs), BODY, now_ms, Peer::Remote)
}

fn signed(id: &str, sent: &str, signature: &str) -> Result<Verified, Refused> {
    let pairs = [("webhook-id", id), ("webhook-timestamp", sent), ("webhook-signature", signature)];
    standard(&pairs, SENT_MS)
}

#[test]
fn the_standard_example_is_verified_and_known_by_its_signed_id() {
    let identity = Identity::SignedId(ID.to_owned());
    assert_eq!(signed(ID, SENT, SIGNATURE), Ok(Verified { identity, label: None }));
}

#[test]
fn everything_but_a_matching_standard_signature_is_refused() {
    let short = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1A==";
    let url_safe = SIGNATURE.replace('+', "-").replace('/', "_");
    let long_id = "m".repeat(ID_BYTES_MAX + 1);
    let (zero, trailing) = (format!("0{SENT}"), format!("{SIGNATURE} "));
    let mixed = format!("{SIGNATURE} v1,?");
    let other_version = SIGNATURE.replace("v1,", "v1a,");
    let cases = [
        ("msg_other", SENT, SIGNATURE, "signature_mismatch"),
        (ID, "1614265331", SIGNATURE, "signature_mismatch"),
        // The same number, but not the text that was signed.
        (ID, zero.as_str(), SIGNATURE, "signature_mismatch"),
        ("", SENT, SIGNATURE, "id_malformed"),
        ("msg\u{e4}", SENT, SIGNATURE, "id_malformed"),
        (&long_id, SENT, SIGNATURE, "id_malformed"),
        ("msg.p5j", SENT, SIGNATURE, "id_malformed"),
        (ID, "", SIGNATURE, "timestamp_malformed"),
        (ID, "soon", SIGNATURE, "timestamp_malformed"),
        (ID, "+1614265330", SIGNATURE, "timestamp_malformed"),
        (ID, "-1614265330", SIGNATURE, "timestamp_malformed"),
        (ID, "1614265330.5", SIGNATURE, "timestamp_malformed"),
        (ID, "1614265330 ", SIGNATURE, "timestamp_malformed"),
        (ID, "99999999999999999999", SIGNATURE, "timestamp_malformed"),
        (ID, SENT, "", "signature_malformed"),
        (ID, SENT, "v1", "signature_malformed"),
        (ID, SENT, "v1,", "signature_malformed"),
        (ID, SENT, "v1,?", "signature_malformed"),
        (ID, SENT, short, "signature_malformed"),
        (ID, SENT, &url_safe, "signature_malformed"),
        (ID, SENT, &trailing, "signature_malformed"),
        (ID, SENT, &mixed, "signature_malformed"),
        (ID, SENT, &other_version, "signature_unsupported"),
    ];
    for (id, sent, signature, expected) in cases {
        assert_eq!(code(&signed(id, sent, signature)), expected, "{id} {sent} {signature}");
    }
}

#[test]
fn each_standard_header_is_needed_exactly_once() {
    let all = [("webhook-id", ID), ("webhook-timestamp", SENT), ("webhook-signature", SIGNATURE)];
    for left_out in 0..all.len() {
        let mut pairs = all.to_vec();
        pairs.remove(left_out);
        let answer = standard(&pairs, SENT_MS);
        assert_eq!(answer, Err(Refused::HeaderMissing { header: all[left_out].0 }));
        let mut pairs = all.to_vec();
        pairs.push(all[left_out]);
        let answer = standard(&pairs, SENT_MS);
        assert_eq!(answer, Err(Refused::HeaderDuplicated { header: all[left_out].0 }));
    }
}

#[test]
fn a_timestamp_five_minutes_off_is_taken_and_one_millisecond_more_is_not() {
    let all = [("webhook-id", ID), ("webhook-timestamp", SENT), ("webhook-signature", SIGNATURE)];
    let cases = [
        (SENT_MS - TOLERANCE_MS, "verified"),
        (SENT_MS + TOLERANCE_MS, "verified"),
        (SENT_MS - TOLERANCE_MS - 1, "timestamp_out_of_range"),
        (SENT_MS + TOLERANCE_MS + 1, "timestamp_out_of_range"),
        (i64::MIN, "timestamp_out_of_range"),
        (i64::MAX, "timestamp_out_of_range"),
    ];
    for (now_ms, expected) in cases {
        assert_eq!(code(&standard(&all, now_ms)), expected, "{now_ms}");
    }
    let year_of_doom = signed(ID, "9999999999999999999", SIGNATURE);
    assert_eq!(code(&year_of_doom), "timestamp_out_of_range");
}

#[test]
fn an_old_signature_cannot_be_moved_to_another_id() {
    // Signed: id `a`, body `1614265330.{}`. Presented: id `a.1614265330`, body `{}`.
    let scheme = Scheme::standard_webhooks(&[WHSEC]).expect("a scheme");
    let pairs = [
        ("webhook-id", "a"),
        ("webhook-timestamp", SENT),
        ("webhook-signature", "v1,xMIaOyZCvHhyA/yCzOvgEpaRjBMyeNO0bLDRCPrRWlg="),
    ];
    let body = b"1614265330.{}";
    let genuine = verify(&scheme, &headers(&pairs), body, SENT_MS, Peer::Remote);
    assert_eq!(code(&genuine), "verified");
    let mut moved = pairs;
    moved[0].1 = "a.1614265330";
    let answer = verify(&scheme, &headers(&moved), b"{}", SENT_MS, Peer::Remote);
    assert_eq!(code(&answer), "id_malformed");
}

#[test]
fn sixteen_signatures_are_read_and_one_more_is_not() {
    let wrong = format!("v1,{}=", "A".repeat(43));
    let with = |wrong_ones: usize| {
        let signature = [vec![wrong.as_str(); wrong_ones], vec![SIGNATURE]].concat().join(" ");
        code(&signed(ID, SENT, &signature))
    };
    assert_eq!(with(SIGNATURES_MAX - 1), "verified");
    assert_eq!(with(SIGNATURES_MAX), "signatures_too_many");
    let unknown = vec!["v9,x"; SIGNATURES_MAX + 1].join(" ");
    assert_eq!(code(&signed(ID, SENT, &unknown)), "signatures_too_many");
}

#[test]
fn the_tolerance_is_five_minutes_unless_it_is_set() {
    assert_eq!(Duration::from_mins(5).as_millis(), u128::from(TOLERANCE_MS.unsigned_abs()));
    let Scheme::StandardWebhooks { secrets, tolerance_ms } =
        Scheme::standard_webhooks(&[WHSEC]).expect("a scheme")
    else {
        panic!("another scheme");
    };
    assert_eq!(tolerance_ms, TOLERANCE_MS);
    let narrow = Scheme::StandardWebhooks { secrets, tolerance_ms: 1_000 };
    let all = headers(&[
        ("webhook-id", ID),
        ("webhook-timestamp", SENT),
        ("webhook-signature", SIGNATURE),
    ]);
    let at = |now_ms| code(&verify(&narrow, &all, BODY, now_ms, Peer::Remote));
    assert_eq!((at(SENT_MS + 1_000), at(SENT_MS + 1_001)), ("verified", "timestamp_out_of_range"));
}
