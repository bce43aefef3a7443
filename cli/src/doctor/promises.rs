//! What is written in good order, and still weakens a promise?
//!
//! Authority: the configuration as it was loaded. What is simply wrong in it, `validate` says.

use std::collections::BTreeSet;

use portcullis_engine::finding::Finding;
use portcullis_proto::approval::NOTICE_MS_MIN;
use portcullis_proto::call::SideEffect;
use portcullis_proto::ids::{PoolName, Subject};
use portcullis_proto::job::Attendance;
use portcullis_proto::policy::{Asking, Demand, Unattended};
use portcullis_scheduler::webhooks::verify::Scheme;

use crate::config::{AgentPlan, Config};
use crate::serve;

pub(super) fn look(config: &Config) -> Vec<Finding> {
    let all = [
        ("config-approvers", "every pool that is asked has somebody in it", people(config)),
        ("config-inbox", "whoever is asked can answer", inboxes(config)),
        ("config-quorum", "every request can be approved by so many as it needs", quorums(config)),
        ("config-ungated", "what may not be repeated is asked about", ungated(config)),
        ("config-approval-time", "every request waits long enough", approval_times(config)),
        ("config-attended-by", "whoever attends a reminder may decide", attended(config)),
        ("config-webhook-unsigned", "every route verifies its senders", unsigned(config)),
        ("config-api-exposed", "the API is where it should be", exposed(config)),
    ];
    let told = all.into_iter().map(|(check, fine, flaws)| match flaws.is_empty() {
        true => vec![Finding::fine(check, fine)],
        false => flaws
            .into_iter()
            .map(|flaw| Finding::warning(check, flaw.found, flaw.why, flaw.mend))
            .collect(),
    });
    told.flatten().collect()
}

struct Flaw {
    found: String,
    why: &'static str,
    mend: String,
}

fn flaw(found: String, why: &'static str, mend: impl Into<String>) -> Flaw {
    Flaw { found, why, mend: mend.into() }
}

fn people(config: &Config) -> Vec<Flaw> {
    let told = serve::empty_pools(config).into_iter().map(|(pool, agents)| {
        let agents: Vec<String> = agents.into_iter().collect();
        let found = format!("nobody belongs to pool `{pool}`, which {} asks", agents.join(", "));
        let why = "unless a service binds a queue for it, what is asked is denied: no_approver";
        let mend = format!("add an approver: [approvers.<name>] pools = [\"{pool}\"]");
        flaw(found, why, mend)
    });
    told.collect()
}

/// Every way in which an agent asks people, with the tool's name.
fn askings(plan: &AgentPlan) -> impl Iterator<Item = (String, &Asking)> {
    let by_rule = plan.policy.rules.iter().any(|rule| rule.then == Demand::Ask);
    let asks = move |gate: Demand| gate == Demand::Ask || by_rule && gate != Demand::Deny;
    let tools = plan.policy.tools.iter().filter(move |(_, tool)| asks(tool.gate));
    tools.map(|(name, tool)| (name.to_string(), &tool.asking))
}

/// Pools that are asked, and whose members see requests only through a service of theirs.
pub(super) fn asked_of_services(config: &Config) -> BTreeSet<PoolName> {
    if config.unattended == Unattended::Deny {
        return BTreeSet::new();
    }
    let asked = config.agents.values().flat_map(askings).map(|(_, asking)| asking.pool.clone());
    let has_inbox = |pool: &PoolName| {
        config.people.roster.pools.get(pool).is_some_and(|pool| !pool.inbox.is_empty())
    };
    asked.filter(|pool| !has_inbox(pool)).collect()
}

/// In one process there is no broker for those who sign for themselves.
fn inboxes(config: &Config) -> Vec<Flaw> {
    if config.home.is_distributed() {
        return Vec::new();
    }
    let pools = asked_of_services(config).into_iter().filter(|pool| {
        config.people.roster.pools.get(pool).is_some_and(|pool| !pool.members.is_empty())
    });
    let told = pools.map(|pool| {
        let found = format!("nobody in pool `{pool}` has a token");
        let why = "in one process people decide over HTTP and the command line only: what is \
                   asked of them is denied";
        flaw(found, why, "give one of them `token_sha256`")
    });
    told.collect()
}

fn quorums(config: &Config) -> Vec<Flaw> {
    let members = |asking: &Asking| -> usize {
        let levels = asking.levels.iter().map(|level| &level.pool);
        let pools = [&asking.pool].into_iter().chain(levels);
        let members = pools.filter_map(|pool| config.people.roster.pools.get(pool));
        members.flat_map(|pool| &pool.members).collect::<BTreeSet<&Subject>>().len()
    };
    let mut flaws = Vec::new();
    for plan in config.agents.values() {
        for (tool, asking) in askings(plan) {
            let (need, there) = (usize::from(asking.need), members(asking));
            if (1..need).contains(&there) {
                let found = format!(
                    "`{tool}` of `{}` needs {need} approvers, and {there} are there to ask",
                    plan.name
                );
                let why = "no request can ever be approved";
                flaws.push(flaw(found, why, "lower `need`, or add approvers to its pool"));
            }
        }
    }
    flaws
}

fn ungated(config: &Config) -> Vec<Flaw> {
    let mut flaws = Vec::new();
    for plan in config.agents.values() {
        for (name, tool) in &plan.tools {
            let gate = plan.policy.tools.get(name).map(|tool| tool.gate);
            let once = tool.traits.effect == SideEffect::AtMostOnce;
            if once && gate == Some(Demand::Allow) {
                let found =
                    format!("`{name}` of `{}` is allowed and may not be repeated", plan.name);
                let why = "what nobody can take back runs without a person's yes";
                let mend = "gate = \"ask\"; or say that repeating is harmless: `effect`";
                flaws.push(flaw(found, why, mend));
            }
        }
    }
    flaws
}

fn approval_times(config: &Config) -> Vec<Flaw> {
    let mut flaws = Vec::new();
    for plan in config.agents.values().filter(|plan| askings(plan).next().is_some()) {
        let limits = plan.limits;
        let name = &plan.name;
        if limits.cap_ms < limits.approval_ms {
            flaws.push(flaw(
                format!("a request of `{name}` waits longer than its run may last"),
                "the run's cap ends it first: the run is timed_out, and not denied",
                "shorten `limits.approval`, or raise `limits.hard_cap`",
            ));
        }
        if (1..=NOTICE_MS_MIN).contains(&limits.approval_ms) {
            let found = format!("a request of `{name}` waits {} ms", limits.approval_ms);
            let why = "nobody can answer so fast: it is denied as no_time";
            flaws.push(flaw(found, why, "raise `limits.approval` or `approvals.timeout_seconds`"));
        }
    }
    flaws
}

fn attended(config: &Config) -> Vec<Flaw> {
    let pools = &config.people.roster.pools;
    let known = |who: &Subject| pools.values().any(|pool| pool.members.contains(who));
    let told = config.reminders.iter().filter_map(|(name, reminder)| match &reminder.attendance {
        Attendance::Session { approver } if !known(approver) => {
            let found =
                format!("reminder `{name}` is attended by `{approver}`, who is no approver");
            let why = "its runs count as attended, and nobody of that name can answer";
            Some(flaw(found, why, format!("add [approvers.{approver}], or take it out")))
        }
        Attendance::Session { .. } | Attendance::Unattended => None,
    });
    told.collect()
}

fn unsigned(config: &Config) -> Vec<Flaw> {
    let unsigned = config.webhooks.iter().filter(|(_, route)| matches!(route.scheme, Scheme::None));
    let told = unsigned.map(|(name, _)| {
        let found = format!("/hooks/{name} verifies nothing");
        let why = "every program on this machine can start its runs, an agent's tools aside";
        flaw(found, why, "choose github or standard-webhooks for it")
    });
    told.collect()
}

fn exposed(config: &Config) -> Vec<Flaw> {
    let listen = config.http.listen;
    if listen.ip().to_canonical().is_loopback() {
        return Vec::new();
    }
    let mut flaws = vec![flaw(
        format!("{listen} is open to the network, and speaks plain HTTP"),
        "who can listen on the way reads approvers' tokens, and can then decide",
        "listen on loopback behind a proxy that speaks TLS, or on a private network",
    )];
    if config.api_tokens.is_empty() && config.people.approvers.is_empty() {
        flaws.push(flaw(
            format!("{listen} is not on loopback, and no token is configured"),
            "nobody can read or start runs",
            "set `http.api_token_sha256`",
        ));
    }
    flaws
}

#[cfg(test)]
mod tests;
