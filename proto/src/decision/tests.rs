use super::*;
use crate::ids::{JobKey, RunId, ShardCount, Tenant};
use ring::signature::{Ed25519KeyPair, KeyPair as _};

fn pair(seed: u8) -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap()
}

fn public(seed: u8) -> [u8; 32] {
    pair(seed).public_key().as_ref().try_into().unwrap()
}

fn decision() -> Decision {
    let key = JobKey::api(&Tenant::new("t").unwrap(), b"x");
    let run = RunId::of(&key, ShardCount::new(1).unwrap());
    Decision {
        v: 1,
        approval_id: ApprovalId::of(&run, 0, 1),
        nonce: Nonce([7; 16]),
        args_hash: Digest::of_bytes(b"args"),
        verdict: Verdict::Approve,
        approver: Subject::new("alice").unwrap(),
        channel: Channel::Amqp,
        issued_at: Ms(5),
        reason: None,
    }
}

fn sign(decision: Decision, seed: u8, key_id: &str) -> SignedDecision {
    let sig = pair(seed).sign(&decision.signed_bytes());
    let sig = Signature(sig.as_ref().try_into().unwrap());
    SignedDecision { decision, key_id: key_id.into(), sig }
}

fn ring() -> KeyRing {
    let mut ring = KeyRing::default();
    assert!(ring.add("alice-1", Speaker::Approver(Subject::new("alice").unwrap()), public(1)));
    assert!(ring.add("notary", Speaker::Notary, public(2)));
    assert!(!ring.add("notary", Speaker::Notary, public(3)), "an id stands for one key");
    ring
}

#[test]
fn a_genuine_decision_verifies_whoever_wrote_its_json() {
    let signed = sign(decision(), 1, "alice-1");
    assert_eq!(ring().verify(&signed), Ok(()));
    let wire = serde_json::to_vec(&signed).unwrap();
    assert_eq!(SignedDecision::decode(&wire).unwrap(), signed);
    assert_eq!(ring().verify(&sign(decision(), 2, "notary")), Ok(()));
}

#[test]
fn any_changed_field_breaks_the_signature() {
    let genuine = sign(decision(), 1, "alice-1");
    let changes: [fn(&mut Decision); 6] = [
        |d| d.verdict = Verdict::Deny,
        |d| d.nonce = Nonce([8; 16]),
        |d| d.args_hash = Digest::of_bytes(b"other"),
        |d| d.issued_at = Ms(6),
        |d| d.reason = Some("because".into()),
        |d| d.channel = Channel::Http,
    ];
    for change in changes {
        let mut forged = genuine.clone();
        change(&mut forged.decision);
        assert_eq!(ring().verify(&forged), Err(Forged::BadSignature));
    }
}

#[test]
fn a_decision_without_canonical_bytes_verifies_under_no_signature() {
    let mut decision = decision();
    decision.issued_at = Ms(1 << 53);
    assert_eq!(ring().verify(&sign(decision, 1, "alice-1")), Err(Forged::BadSignature));
}

#[test]
fn a_key_speaks_only_for_its_owner() {
    let mut other = decision();
    other.approver = Subject::new("bob").unwrap();
    assert_eq!(ring().verify(&sign(other, 1, "alice-1")), Err(Forged::WrongSpeaker));
    assert_eq!(ring().verify(&sign(decision(), 1, "nobody")), Err(Forged::UnknownKey));
    assert_eq!(ring().verify(&sign(decision(), 3, "alice-1")), Err(Forged::BadSignature));
}

#[test]
fn what_is_no_decision_is_refused() {
    let good = serde_json::to_value(sign(decision(), 1, "alice-1")).unwrap();
    let mut unsigned_extra = good.clone();
    unsigned_extra["decision"]["also"] = "yes".into();
    let mut newer = good.clone();
    newer["decision"]["v"] = 2.into();
    let mut long = good.clone();
    long["decision"]["reason"] = "x".repeat(REASON_BYTES_MAX + 1).into();
    for value in [unsigned_extra, newer, long, serde_json::json!({}), serde_json::json!(1)] {
        let bytes = serde_json::to_vec(&value).unwrap();
        assert!(SignedDecision::decode(&bytes).is_err(), "{value}");
    }
    assert!(SignedDecision::decode(&vec![b' '; DECISION_BYTES_MAX + 1]).is_err());
}

/// What signers in other languages are tested against.
#[derive(serde::Deserialize)]
struct Signing {
    seed_base64: String,
    public_key_base64: String,
    signed_text: String,
}

fn base64(text: &str) -> [u8; 32] {
    data_encoding::BASE64.decode(text.as_bytes()).unwrap().try_into().unwrap()
}

#[test]
fn the_first_version_is_still_read_and_verified() {
    let wire = include_bytes!("../../fixtures/decision/v1.json");
    let signing: Signing =
        serde_json::from_slice(include_bytes!("../../fixtures/decision/v1.signing.json")).unwrap();
    let signed = SignedDecision::decode(wire).unwrap();
    let mut ring = KeyRing::default();
    let alice = Speaker::Approver(signed.decision.approver.clone());
    assert!(ring.add(&signed.key_id, alice, base64(&signing.public_key_base64)));
    assert_eq!(ring.verify(&signed), Ok(()));
    assert_eq!(signed.decision.signed_bytes(), signing.signed_text.as_bytes());
    let value: serde_json::Value = serde_json::from_slice(wire).unwrap();
    assert_eq!(serde_json::to_value(&signed).unwrap(), value, "and written as it was");
    let pair = Ed25519KeyPair::from_seed_unchecked(&base64(&signing.seed_base64)).unwrap();
    assert_eq!(pair.sign(signing.signed_text.as_bytes()).as_ref(), signed.sig.0);
}

#[test]
fn a_decision_repeats_what_its_request_says() {
    let request: crate::request::ApprovalRequest =
        serde_json::from_slice(include_bytes!("../../fixtures/request/v1.json")).unwrap();
    let wire = include_bytes!("../../fixtures/decision/v1.json");
    let decision = SignedDecision::decode(wire).unwrap().decision;
    assert_eq!(decision.approval_id, request.approval_id);
    assert_eq!(decision.nonce, request.nonce);
    assert_eq!(decision.args_hash, request.args_hash);
}

fn extension() -> Extension {
    let Decision { v, approval_id, nonce, args_hash, approver, channel, issued_at, reason, .. } =
        decision();
    let until = Ms(9);
    Extension { v, approval_id, nonce, args_hash, until, approver, channel, issued_at, reason }
}

fn sign_extension(extension: Extension, seed: u8, key_id: &str) -> SignedExtension {
    let sig = pair(seed).sign(&extension.signed_bytes());
    let sig = Signature(sig.as_ref().try_into().unwrap());
    SignedExtension { extension, key_id: key_id.into(), sig }
}

#[test]
fn a_genuine_extension_verifies_and_any_changed_field_breaks_it() {
    let genuine = sign_extension(extension(), 1, "alice-1");
    assert_eq!(ring().verify_extension(&genuine), Ok(()));
    let changes: [fn(&mut Extension); 4] = [
        |e| e.until = Ms(10),
        |e| e.nonce = Nonce([8; 16]),
        |e| e.args_hash = Digest::of_bytes(b"other"),
        |e| e.reason = Some("because".into()),
    ];
    for change in changes {
        let mut forged = genuine.clone();
        change(&mut forged.extension);
        assert_eq!(ring().verify_extension(&forged), Err(Forged::BadSignature));
    }
    let by_bob = sign_extension(extension(), 2, "alice-1");
    assert_eq!(ring().verify_extension(&by_bob), Err(Forged::BadSignature));
}

#[test]
fn a_signature_on_an_extension_is_none_on_a_decision() {
    let yes = sign(decision(), 1, "alice-1");
    let more = sign_extension(extension(), 1, "alice-1");
    let swapped = SignedDecision { sig: more.sig, ..yes.clone() };
    assert_eq!(ring().verify(&swapped), Err(Forged::BadSignature));
    let swapped = SignedExtension { sig: yes.sig, ..more };
    assert_eq!(ring().verify_extension(&swapped), Err(Forged::BadSignature));
}

#[test]
fn an_answer_is_a_decision_or_an_extension() {
    let yes = sign(decision(), 1, "alice-1");
    let more = sign_extension(extension(), 1, "alice-1");
    let bytes = |value: &serde_json::Value| serde_json::to_vec(value).unwrap();
    let (yes_json, more_json) = (serde_json::json!(yes), serde_json::json!(more));
    assert_eq!(Answer::decode(&bytes(&yes_json)), Ok(Answer::Decision(yes)));
    assert_eq!(Answer::decode(&bytes(&more_json)), Ok(Answer::Extension(more)));
    let mut both = yes_json.clone();
    both["extension"] = more_json["extension"].clone();
    let mut none = yes_json;
    none["extension"] = serde_json::Value::Null;
    let mut newer = more_json.clone();
    newer["extension"]["v"] = 2.into();
    let mut long = more_json.clone();
    long["extension"]["reason"] = "x".repeat(REASON_BYTES_MAX + 1).into();
    let mut unsigned_extra = more_json;
    unsigned_extra["extension"]["also"] = "yes".into();
    for value in [both, none, newer, long, unsigned_extra, serde_json::json!({})] {
        assert!(Answer::decode(&bytes(&value)).is_err(), "{value}");
    }
    let mut padded = serde_json::to_vec(&sign_extension(extension(), 1, "alice-1")).unwrap();
    padded.resize(DECISION_BYTES_MAX + 1, b' ');
    let large = DecisionError::TooLarge(padded.len());
    assert_eq!(Answer::decode(&padded), Err(large.clone()));
    assert_eq!(SignedExtension::decode(&padded), Err(large));
}

#[test]
fn the_first_version_of_an_extension_is_still_read_and_verified() {
    let wire = include_bytes!("../../fixtures/extension/v1.json");
    let signing: Signing =
        serde_json::from_slice(include_bytes!("../../fixtures/decision/v1.signing.json")).unwrap();
    let signed = SignedExtension::decode(wire).unwrap();
    let mut ring = KeyRing::default();
    let alice = Speaker::Approver(signed.extension.approver.clone());
    assert!(ring.add(&signed.key_id, alice, base64(&signing.public_key_base64)));
    assert_eq!(ring.verify_extension(&signed), Ok(()));
    let value: serde_json::Value = serde_json::from_slice(wire).unwrap();
    assert_eq!(serde_json::to_value(&signed).unwrap(), value, "and written as it was");
}
