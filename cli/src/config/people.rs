//! Who may decide, and how do they prove it?
//!
//! Invariant: nobody is anybody by default. An approver without a token has no inbox, one without a
//! key signs nothing, and a pool that no approver names has no members.

use std::collections::BTreeMap;
use std::sync::Arc;

use portcullis_proto::decision::{KeyRing, Speaker};
use portcullis_proto::ids::{PoolName, Subject};
use portcullis_proto::policy::{Pool, Roster};
use portcullis_scheduler::settings::Approver;

use super::file::{ApprovalsSection, ApproverSection};
use super::problem::{Flaw, KeyPath};

const HASH_FORM: &str = "write the 64 hexadecimal digits of `sha256sum`, not the token itself";
const KEY_FORM: &str = "write an Ed25519 public key: 32 bytes in Base64";

/// Everybody who may decide.
#[derive(Debug, Default)]
pub(crate) struct People {
    pub(crate) roster: Roster,
    pub(crate) approvers: Vec<Approver>,
    pub(crate) keys: Arc<KeyRing>,
    /// The notary's public keys, by id.
    pub(crate) notary: BTreeMap<String, [u8; 32]>,
}

pub(crate) fn of(
    approvers: &BTreeMap<String, ApproverSection>,
    approvals: &ApprovalsSection,
    flaws: &mut Vec<Flaw>,
) -> People {
    let mut people = People::default();
    let mut ring = KeyRing::default();
    let at = KeyPath::of(&["approvals", "notary_public_keys"]);
    for (id, text) in &approvals.notary_public_keys {
        if let Some(key) = keep(public_key(text, at.key(id)), flaws) {
            add_key(&mut ring, id, Speaker::Notary, key, at.key(id), flaws);
            people.notary.insert(id.clone(), key);
        }
    }
    for (name, section) in approvers {
        let at = KeyPath::of(&["approvers", name]);
        match Subject::new(name) {
            Ok(subject) => approver(&mut people, &mut ring, &subject, section, &at, flaws),
            Err(why) => flaws.push(Flaw::new(at, why.to_string(), "rename the approver")),
        }
    }
    people.keys = Arc::new(ring);
    people
}

fn approver(
    people: &mut People,
    ring: &mut KeyRing,
    subject: &Subject,
    section: &ApproverSection,
    at: &KeyPath,
    flaws: &mut Vec<Flaw>,
) {
    let tokens: Vec<[u8; 32]> = hashes(&section.token_sha256, &at.key("token_sha256"), flaws);
    if section.token_sha256.is_empty() && section.public_keys.is_empty() {
        let mend = "give `token_sha256` for HTTP and the command line, or `public_keys`";
        flaws.push(Flaw::new(at.clone(), "this approver could not prove anything", mend));
    }
    let mut pools = Vec::new();
    for (index, name) in section.pools.iter().enumerate() {
        let at = at.key("pools").index(index);
        match PoolName::new(name) {
            Ok(pool) => pools.push(pool),
            Err(why) => flaws.push(Flaw::new(at, why.to_string(), "rename the pool")),
        }
    }
    if section.pools.is_empty() {
        let mend = "name a pool, or take the approver out";
        flaws.push(Flaw::new(at.key("pools"), "this approver belongs to no pool", mend));
    }
    for pool in &pools {
        let pool: &mut Pool = people.roster.pools.entry(pool.clone()).or_default();
        if !pool.members.contains(subject) {
            pool.members.push(subject.clone());
        }
        if !tokens.is_empty() && !pool.inbox.contains(subject) {
            pool.inbox.push(subject.clone());
        }
    }
    let at = at.key("public_keys");
    for (id, text) in &section.public_keys {
        if let Some(key) = keep(public_key(text, at.key(id)), flaws) {
            add_key(ring, id, Speaker::Approver(subject.clone()), key, at.key(id), flaws);
        }
    }
    if !tokens.is_empty() {
        let subject = subject.clone();
        people.approvers.push(Approver { subject, token_sha256: tokens, pools });
    }
}

fn add_key(
    ring: &mut KeyRing,
    id: &str,
    speaker: Speaker,
    key: [u8; 32],
    at: KeyPath,
    flaws: &mut Vec<Flaw>,
) {
    if !ring.add(id, speaker, key) {
        let what = format!("two keys are called `{id}`");
        flaws.push(Flaw::new(at, what, "give each key a name of its own"));
    }
}

/// SHA-256 hashes written in hexadecimal.
pub(crate) fn hashes(texts: &[String], at: &KeyPath, flaws: &mut Vec<Flaw>) -> Vec<[u8; 32]> {
    let mut hashes = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        let bytes = data_encoding::HEXLOWER_PERMISSIVE.decode(text.trim().as_bytes()).ok();
        match bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok()) {
            Some(hash) => hashes.push(hash),
            // The text may be the token itself, so it is not repeated.
            None => flaws.push(Flaw::new(at.index(index), "this is no SHA-256", HASH_FORM)),
        }
    }
    hashes
}

fn public_key(text: &str, at: KeyPath) -> Result<[u8; 32], Flaw> {
    let bytes = data_encoding::BASE64.decode(text.trim().as_bytes()).ok();
    let key = bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    key.ok_or_else(|| Flaw::new(at, "this is no public key", KEY_FORM))
}

fn keep<T>(result: Result<T, Flaw>, flaws: &mut Vec<Flaw>) -> Option<T> {
    result.map_err(|flaw| flaws.push(flaw)).ok()
}
