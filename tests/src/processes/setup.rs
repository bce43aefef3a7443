//! What is in a test's `portcullis.toml`, and in the files beside it?
//!
//! Invariant: keys and tokens lie in the data folder, as `init` puts them, so that a tool that
//! looks for them looks in the right place.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use data_encoding::{BASE64, HEXLOWER};
use hmac::{Hmac, KeyInit as _, Mac as _};
use portcullis_proto::digest::Digest;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use sha2::Sha256;

use super::agents::{Agent, POOL};
use super::approver::Approver;

/// Who may decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum People {
    /// `alice` and `bob` hold tokens; `carol` is a service that signs for herself.
    Inboxes,
    /// `carol` alone: whoever is asked is asked over AMQP.
    ServiceOnly,
    /// Nobody.
    Nobody,
}

/// What a test says about its installation; the rest is as shipped.
#[derive(Clone, Debug)]
pub struct Setup {
    pub agents: Vec<Agent>,
    pub people: People,
    pub approval_seconds: f64,
    /// `ask` or `deny`.
    pub unattended: &'static str,
    pub slots: usize,
    /// `enforce` or `off`.
    pub sandbox: &'static str,
    /// Reminders and webhooks.
    pub triggers: String,
}

impl Setup {
    /// These agents; everybody has an inbox, and a request waits for 20 s.
    #[must_use]
    pub fn of(agents: Vec<Agent>) -> Self {
        Self {
            agents,
            people: People::Inboxes,
            approval_seconds: 20.0,
            unattended: "ask",
            slots: 4,
            sandbox: "enforce",
            triggers: String::new(),
        }
    }

    /// Writes configuration, keys and tokens.
    pub(super) fn write(&self, folder: &Path, ports: &[u16], urls: Option<&(String, String)>) {
        let data = folder.join("data");
        fs::create_dir(&data).unwrap();
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let notary = Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap();
        secret(&data.join("notary.key"), pkcs8.as_ref());
        secret(&data.join("alice.token"), token_of("alice").as_bytes());
        secret(&data.join("hook.secret"), hook_secret().as_bytes());
        let home = urls.map_or_else(String::new, |(store, bus)| {
            let bus = format!("[bus]\nurl = \"{bus}\"\ndeclare = \"arguments\"\n");
            format!("[store]\nurl = \"{store}\"\n{bus}")
        });
        let Self { unattended, approval_seconds, slots, sandbox, triggers, .. } = self;
        let notary_public = BASE64.encode(notary.public_key().as_ref());
        let agents: Vec<String> = self.agents.iter().map(Agent::toml).collect();
        let text = format!(
            "data_dir = \"data\"\n{home}\
             [http]\nlisten = \"127.0.0.1:{}\"\n\
             [approvals]\ntimeout_seconds = {approval_seconds:?}\nunattended = \"{unattended}\"\n\
             notary_key_file = \"data/notary.key\"\n\
             [approvals.notary_public_keys]\nnotary-1 = \"{notary_public}\"\n\
             {}[worker]\nslots = {slots}\ndrain = \"10s\"\n\
             [sandbox]\nmode = \"{sandbox}\"\nguarded_ports = {ports:?}\n\
             {triggers}\n{}",
            ports[0],
            self.approvers(),
            agents.concat(),
        );
        fs::write(folder.join("portcullis.toml"), text).unwrap();
    }

    fn approvers(&self) -> String {
        let inbox = |name: &str| {
            let hash = HEXLOWER.encode(&Digest::of_bytes(token_of(name).as_bytes()).0);
            format!("[approvers.{name}]\npools = [\"{POOL}\"]\ntoken_sha256 = [\"{hash}\"]\n")
        };
        let carol = Approver::carol();
        let service = format!(
            "[approvers.carol]\npools = [\"{POOL}\"]\n[approvers.carol.public_keys]\n{} = \"{}\"\n",
            carol.key_id(),
            carol.public_key(),
        );
        match self.people {
            People::Inboxes => inbox("alice") + &inbox("bob") + &service,
            People::ServiceOnly => service,
            People::Nobody => String::new(),
        }
    }
}

/// The bearer token of an approver with an inbox.
#[must_use]
pub fn token_of(name: &str) -> String {
    format!("the-token-of-{name}")
}

/// What the webhook's sender and we know.
const HOOK_KEY: [u8; 32] = [9; 32];

fn hook_secret() -> String {
    format!("whsec_{}", BASE64.encode(&HOOK_KEY))
}

/// The headers of a delivery as Standard Webhooks sign it.
///
/// # Panics
/// Never: any length is a key.
#[must_use]
pub fn signed_hook(id: &str, at: SystemTime, body: &str) -> Vec<(&'static str, String)> {
    let at = at.duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let mut mac = Hmac::<Sha256>::new_from_slice(&HOOK_KEY).unwrap();
    mac.update(format!("{id}.{at}.{body}").as_bytes());
    let signature = BASE64.encode(&mac.finalize().into_bytes());
    vec![
        ("webhook-id", id.to_owned()),
        ("webhook-timestamp", at.to_string()),
        ("webhook-signature", format!("v1,{signature}")),
    ]
}

fn secret(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}
