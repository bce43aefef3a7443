//! What arrives on the decisions exchange: signed decisions and extensions.

use std::sync::LazyLock;

use portcullis_proto::decision::{
    Answer, Channel, Decision, DecisionError, Extension, KeyRing, Signature, SignedDecision,
    SignedExtension, Speaker, Verdict,
};
use portcullis_proto::digest::Digest;
use portcullis_proto::ids::{ApprovalId, JobKey, Nonce, RunId, ShardCount, Subject, Tenant};
use portcullis_proto::time::Ms;
use ring::signature::{Ed25519KeyPair, KeyPair as _};

use super::super::{Target, hold, told};
use super::SMALL;

pub(super) const DECISION: Target = Target {
    name: "decision",
    promise: "nothing verifies but what was signed, field by field, by the key that may; what is \
              read is written and read again the same",
    seeds: || GENUINE.iter().chain(FORGED.iter()).map(written).collect(),
    check,
    memory_bytes: SMALL,
    slice: 1_000,
};

static RING: LazyLock<KeyRing> = LazyLock::new(|| {
    let mut ring = KeyRing::default();
    let public = |seed| pair(seed).public_key().as_ref().try_into().unwrap();
    assert!(ring.add("alice-1", Speaker::Approver(subject("alice")), public(1)));
    assert!(ring.add("bob-1", Speaker::Approver(subject("bob")), public(2)));
    assert!(ring.add("notary", Speaker::Notary, public(3)));
    ring
});

/// All that was ever signed by a key of the ring, for whom it may speak.
static GENUINE: LazyLock<Vec<Answer>> = LazyLock::new(|| {
    let reason = Some("checked the diff — go\n".to_owned());
    let noted = Decision { reason, channel: Channel::Http, ..decision("bob") };
    let denied = Decision { verdict: Verdict::Deny, ..decision("alice") };
    let answers = [
        decide(decision("alice"), 1, "alice-1"),
        decide(denied, 1, "alice-1"),
        decide(noted, 3, "notary"),
        extend(extension("alice"), 1, "alice-1"),
        extend(Extension { until: Ms(0), ..extension("bob") }, 2, "bob-1"),
    ];
    answers.to_vec()
});

/// Well-formed, and none of them counts.
static FORGED: LazyLock<Vec<Answer>> = LazyLock::new(|| {
    let wrong = Decision { nonce: Nonce([9; 16]), ..decision("alice") };
    let later = Decision { issued_at: Ms(1 << 60), ..decision("alice") };
    let answers = [
        decide(decision("alice"), 2, "alice-1"),
        decide(decision("bob"), 1, "alice-1"),
        decide(wrong, 4, "notary"),
        decide(later, 1, "alice-1"),
        decide(decision("alice"), 1, "nobody"),
        extend(extension("bob"), 1, "alice-1"),
    ];
    answers.to_vec()
});

fn pair(seed: u8) -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap()
}

fn subject(name: &str) -> Subject {
    Subject::new(name).unwrap()
}

fn approval() -> ApprovalId {
    let key = JobKey::api(&Tenant::new("acme").unwrap(), b"one");
    ApprovalId::of(&RunId::of(&key, ShardCount::new(16).unwrap()), 2, 1)
}

fn decision(who: &str) -> Decision {
    Decision {
        v: 1,
        approval_id: approval(),
        nonce: Nonce([7; 16]),
        args_hash: Digest::of_bytes(b"args"),
        verdict: Verdict::Approve,
        approver: subject(who),
        channel: Channel::Amqp,
        issued_at: Ms(1_767_225_660_000),
        reason: None,
    }
}

fn extension(who: &str) -> Extension {
    let Decision { v, approval_id, nonce, args_hash, approver, channel, issued_at, reason, .. } =
        decision(who);
    let until = Ms(1_767_229_200_000);
    Extension { v, approval_id, nonce, args_hash, until, approver, channel, issued_at, reason }
}

fn sign(bytes: &[u8], seed: u8) -> Signature {
    Signature(pair(seed).sign(bytes).as_ref().try_into().unwrap())
}

fn decide(decision: Decision, seed: u8, key_id: &str) -> Answer {
    let sig = sign(&decision.signed_bytes(), seed);
    Answer::Decision(SignedDecision { decision, key_id: key_id.to_owned(), sig })
}

fn extend(extension: Extension, seed: u8, key_id: &str) -> Answer {
    let sig = sign(&extension.signed_bytes(), seed);
    Answer::Extension(SignedExtension { extension, key_id: key_id.to_owned(), sig })
}

fn written(answer: &Answer) -> Vec<u8> {
    match answer {
        Answer::Decision(signed) => serde_json::to_vec(signed),
        Answer::Extension(signed) => serde_json::to_vec(signed),
    }
    .expect("strings and numbers")
}

fn check(bytes: &[u8]) -> Result<String, String> {
    let answer = match Answer::decode(bytes) {
        Ok(answer) => answer,
        Err(why) => {
            let either =
                SignedDecision::decode(bytes).is_ok() || SignedExtension::decode(bytes).is_ok();
            hold(!either, || "one reader takes what the other refuses".to_owned())?;
            return told(&why, &[]);
        }
    };
    // A reason of the longest may be longer once its letters are written in another way.
    match Answer::decode(&written(&answer)) {
        Ok(again) => hold(again == answer, || format!("{again:?} was {answer:?}"))?,
        Err(DecisionError::TooLarge(_)) => {}
        Err(why) => return Err(format!("not read again: {why}")),
    }
    let verified = match &answer {
        Answer::Decision(signed) => RING.verify(signed),
        Answer::Extension(signed) => RING.verify_extension(signed),
    };
    match verified {
        Ok(()) => {
            hold(GENUINE.contains(&answer), || format!("nobody signed {answer:?}"))?;
            Ok("genuine".to_owned())
        }
        Err(why) => {
            hold(!GENUINE.contains(&answer), || format!("{why}: {answer:?}"))?;
            told(&why, &[])
        }
    }
}
