//! What is a user told at the start: what was left out, what is served, what will never be
//! answered?

use std::collections::BTreeSet;

use portcullis_proto::approval::NOTICE_MS_MIN;
use portcullis_proto::ids::PoolName;
use portcullis_proto::policy::{Demand, Unattended};
use tokio::net::TcpListener;
use tracing::{error, info, warn};

use super::Role;
use crate::config::{BusPlace, Config, Place, SandboxMode, Scope, StorePlace, without_login};

/// Names everything that was not loaded.
pub(super) fn complain(config: &Config) {
    for problem in &config.unloaded {
        let (Scope::One(kind, name), place) = (&problem.scope, &problem.place) else { continue };
        let place = match place {
            Place::File { path, line } => format!("{path}:{line}"),
            Place::Variable(name) => name.clone(),
        };
        error!(kind = kind.noun(), name, place, "W043 not loaded: {problem}");
    }
}

/// Says what is served, and warns of what would only ever be denied.
pub(super) fn announce(config: &Config, role: Role, listener: Option<&TcpListener>) {
    let store = match &config.home.store {
        StorePlace::Sqlite(path) => format!("sqlite:{}", path.display()),
        StorePlace::Redis(settings) => without_login(&settings.url),
    };
    let bus = match &config.home.bus {
        BusPlace::Embedded => "embedded".to_owned(),
        BusPlace::Rabbit { url, .. } => without_login(url),
    };
    info!(config = %config.file.display(), %store, %bus, "home");
    if let Some(address) = listener.and_then(|listener| listener.local_addr().ok()) {
        let paths: &[&str] =
            if role == Role::Worker { &["/metrics"] } else { &["/v1", "/metrics"] };
        info!("serving http://{address} {}", paths.join(" "));
    }
    if role.schedules() {
        let hooks = config.webhooks.keys().map(|name| format!("/hooks/{name}"));
        info!(webhooks = names(hooks), reminders = names(config.reminders.keys()), "triggers");
        warn_of_silence(config);
    }
    if role.works() {
        info!(slots = config.worker.slots, agents = names(config.agents.keys()), "worker");
        if role == Role::Worker && config.http.listen.port() == 0 {
            warn!("W049 `http.listen` has port 0: the API's port is not closed to tools here");
        }
        if config.sandbox == SandboxMode::Off {
            warn!("W044 the sandbox is off: a tool can read the keys here and approve itself");
        }
    }
    let hasty = config
        .agents
        .values()
        .filter(|plan| (1..=NOTICE_MS_MIN).contains(&plan.limits.approval_ms));
    for plan in hasty {
        warn!(agent = %plan.name, "W048 its requests wait so short that they are denied: no_time");
    }
    for (pool, agents) in empty_pools(config) {
        warn!(
            %pool, agents = names(agents),
            "W045 nobody belongs to this pool: what is asked of it is denied at once, no_approver"
        );
    }
}

fn warn_of_silence(config: &Config) {
    let inbox = config.people.roster.pools.values().any(|pool| !pool.inbox.is_empty());
    if inbox && config.notary_key_file.is_none() {
        warn!("W046 no `approvals.notary_key_file`: nobody can decide over HTTP");
    }
    let open = !config.http.listen.ip().to_canonical().is_loopback();
    if open && config.api_tokens.is_empty() && config.people.approvers.is_empty() {
        warn!("W047 not on loopback, and no token is configured: nobody can read or start runs");
    }
}

/// Pools that some agent asks and nobody belongs to, with those agents.
pub(crate) fn empty_pools(config: &Config) -> Vec<(PoolName, BTreeSet<String>)> {
    let mut empty: Vec<(PoolName, BTreeSet<String>)> = Vec::new();
    if config.unattended == Unattended::Deny {
        // Nothing is asked of anybody while nobody attends.
        return empty;
    }
    for plan in config.agents.values() {
        let by_rule = plan.policy.rules.iter().any(|rule| rule.then == Demand::Ask);
        for tool in plan.policy.tools.values() {
            let members = config.people.roster.pools.get(&tool.asking.pool);
            let asks = tool.gate == Demand::Ask || by_rule;
            if !asks || members.is_some_and(|pool| !pool.members.is_empty()) {
                continue;
            }
            let agent = plan.name.to_string();
            match empty.iter_mut().find(|(pool, _)| *pool == tool.asking.pool) {
                Some((_, agents)) => drop(agents.insert(agent)),
                None => empty.push((tool.asking.pool.clone(), BTreeSet::from([agent]))),
            }
        }
    }
    empty
}

fn names(names: impl IntoIterator<Item = impl std::fmt::Display>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| name.to_string()).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(" ") }
}
