//! What are the scheduler and the worker told?

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use data_encoding::BASE64;
use portcullis_proto::ids::AgentName;
use portcullis_scheduler::settings::{Agent as StartedAgent, InFlight, Notary};
use portcullis_worker::settings::Agent;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use tracing::warn;

use crate::config::Config;
use crate::exit::{Exit, Failure};

/// Reads the key that signs what is decided over HTTP.
///
/// # Errors
/// The file cannot be read, is no key, or its public half is not configured: a decision signed
/// with it would count nowhere.
pub(crate) fn notary(config: &Config) -> Result<Option<Notary>, Failure> {
    let Some(path) = &config.notary_key_file else { return Ok(None) };
    let shown = path.display();
    let refuse = |what: String, mend: String| {
        Failure::new(Exit::Usage, "notary", format!("`approvals.notary_key_file`: {what}"))
            .mend(mend)
    };
    let bytes = std::fs::read(path)
        .map_err(|why| refuse(format!("{shown} cannot be read: {why}"), "see `init`".to_owned()))?;
    if let Ok(metadata) = std::fs::metadata(path)
        && metadata.permissions().mode() & 0o077 != 0
    {
        warn!(file = %shown, "W051 others can read the notary's key: chmod 600");
    }
    let pair = Ed25519KeyPair::from_pkcs8(&bytes).map_err(|why| {
        let mend = "write an Ed25519 key in PKCS#8, version 2, DER".to_owned();
        refuse(format!("{shown} is no usable key: {why}"), mend)
    })?;
    let public = pair.public_key().as_ref();
    let id = config.people.notary.iter().find(|(_, key)| key.as_slice() == public);
    match id {
        Some((id, _)) => Ok(Some(Notary { key_id: id.clone(), pair })),
        None => {
            let mend = format!(
                "add to [approvals.notary_public_keys]: notary-new = \"{}\"",
                BASE64.encode(public)
            );
            Err(refuse(format!("the public key of {shown} is not configured"), mend))
        }
    }
}

pub(super) fn scheduler(config: Config, notary: Option<Notary>) -> portcullis_scheduler::Settings {
    let agents = config.agents.values().map(|plan| {
        let agent = StartedAgent {
            description: plan.description.clone(),
            limits: plan.limits,
            start_by_ms: plan.start_by_ms,
        };
        (plan.name.clone(), agent)
    });
    portcullis_scheduler::Settings {
        listen: config.http.listen,
        hosts: config.http.hosts.iter().map(|host| host.to_ascii_lowercase()).collect(),
        agents: agents.collect(),
        webhooks: config.webhooks,
        reminders: config.reminders,
        roster: config.people.roster,
        approvers: config.people.approvers,
        keys: config.people.keys,
        notary,
        api_tokens: config.api_tokens,
        in_flight: InFlight {
            webhooks_max: config.http.webhooks_in_flight_max,
            requests_max: config.http.requests_in_flight_max,
            streams_max: config.http.streams_max,
        },
        deployment: config.deployment,
    }
}

pub(super) fn worker(
    config: &Config,
    agents: BTreeMap<AgentName, Arc<Agent>>,
) -> portcullis_worker::Settings {
    portcullis_worker::Settings {
        slots: config.worker.slots,
        agents,
        roster: config.people.roster.clone(),
        unattended: config.unattended,
        keys: Arc::clone(&config.people.keys),
        drain_ms: u64::try_from(config.worker.drain.ms()).unwrap_or(u64::MAX),
    }
}
