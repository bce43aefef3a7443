//! Are people, sandbox, files, time zones and clock as they must be?

use std::os::unix::fs::PermissionsExt as _;

use portcullis_scheduler::webhooks::verify::Scheme;
use portcullis_worker::sandbox;

use super::Finding;
use crate::config::{Config, SandboxMode};
use crate::serve;

/// The clock of a machine that was never set shows an earlier time than this release's, in
/// milliseconds since 1970: 2026-01-01.
const RELEASE_MS: i64 = 1_767_225_600_000;

pub(super) fn look(config: &Config) -> Vec<Finding> {
    let mut findings = people(config);
    findings.extend(notary(config));
    findings.extend(routes(config));
    findings.push(data_dir(config));
    findings.push(sandbox_layers(config));
    findings.push(time_zones());
    findings.push(clock());
    findings
}

fn people(config: &Config) -> Vec<Finding> {
    let empty = serve::empty_pools(config);
    if empty.is_empty() {
        return vec![Finding::fine("approvers", "every pool that is asked has somebody in it")];
    }
    let told = empty.into_iter().map(|(pool, agents)| {
        let agents: Vec<String> = agents.into_iter().collect();
        let found = format!("nobody belongs to pool `{pool}`, which {} asks", agents.join(", "));
        let why = "unless a service binds a queue for it, what is asked is denied: no_approver";
        let mend = format!("add an approver: [approvers.<name>] pools = [\"{pool}\"]");
        Finding::warning("approvers", found, why, mend)
    });
    told.collect()
}

fn notary(config: &Config) -> Option<Finding> {
    const CHECK: &str = "notary";
    let inbox = config.people.roster.pools.values().any(|pool| !pool.inbox.is_empty());
    match (&config.notary_key_file, inbox) {
        (None, false) => None,
        (None, true) => {
            let why = "approvers hold tokens, and nobody can decide over HTTP";
            Some(Finding::warning(CHECK, "there is no key", why, "set `approvals.notary_key_file`"))
        }
        // A worker is not given the key.
        (Some(path), _) if !path.exists() => {
            let found = format!("{} is not here", path.display());
            let mend = "put it where schedulers run, and only there";
            Some(Finding::warning(CHECK, found, "a scheduler does not start without it", mend))
        }
        (Some(path), _) => Some(match serve::notary(config) {
            Err(failure) => {
                let mend = failure.mend.unwrap_or_default();
                Finding::fatal(CHECK, failure.message, "a scheduler does not start", mend)
            }
            Ok(_) if is_open(path) => {
                let found = format!("others can read {}", path.display());
                let mend = format!("chmod 600 {}", path.display());
                Finding::warning(CHECK, found, "whoever has the key can approve anything", mend)
            }
            Ok(_) => Finding::fine(CHECK, "its key is configured and readable to us alone"),
        }),
    }
}

fn is_open(path: &std::path::Path) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o077 != 0)
}

fn routes(config: &Config) -> Vec<Finding> {
    let unsigned = config.webhooks.iter().filter(|(_, route)| matches!(route.scheme, Scheme::None));
    let told = unsigned.map(|(name, _)| {
        let found = format!("/hooks/{name} verifies nothing");
        let why = "every program on this machine can start its runs, an agent's tools aside";
        Finding::warning("webhooks", found, why, "choose github or standard-webhooks for it")
    });
    told.collect()
}

fn data_dir(config: &Config) -> Finding {
    const CHECK: &str = "data folder";
    let path = &config.data_dir;
    let shown = path.display();
    match std::fs::metadata(path) {
        Err(why) => Finding::warning(
            CHECK,
            format!("{shown}: {why}"),
            "it is made at the start, if its parent allows it",
            "portcullis init makes one",
        ),
        Ok(_) if is_open(path) => Finding::warning(
            CHECK,
            format!("others can look into {shown}"),
            "keys and tokens are in it",
            format!("chmod 700 {shown}"),
        ),
        Ok(_) => Finding::fine(CHECK, format!("{shown} is ours alone")),
    }
}

fn sandbox_layers(config: &Config) -> Finding {
    const CHECK: &str = "sandbox";
    let layers = sandbox::probe();
    match config.sandbox {
        SandboxMode::Off => Finding::warning(
            CHECK,
            "it is off",
            "a tool can read the keys here, reach the API, and approve itself",
            "set `sandbox.mode` to enforce",
        ),
        SandboxMode::Enforce if !layers.are_sufficient() => Finding::fatal(
            CHECK,
            format!("this kernel lacks a layer: {layers:?}"),
            "no shell tool runs",
            "use Linux 6.7 or later with landlock and seccomp; in a container, allow their calls",
        ),
        SandboxMode::Enforce if !layers.landlock_scopes => Finding::warning(
            CHECK,
            "this kernel does not keep signals in",
            "a tool may signal processes of the same user, the worker included",
            "use Linux 6.12 or later, or `sandbox.uid`",
        ),
        SandboxMode::Enforce => Finding::fine(CHECK, "every layer is there"),
    }
}

fn time_zones() -> Finding {
    const CHECK: &str = "time zones";
    match jiff::tz::TimeZone::get("Europe/Berlin") {
        Ok(_) => Finding::fine(CHECK, "the database is there"),
        Err(why) => Finding::warning(
            CHECK,
            why.to_string(),
            "reminders with a time zone are not loaded",
            "install the package tzdata",
        ),
    }
}

fn clock() -> Finding {
    const CHECK: &str = "clock";
    let now = jiff::Timestamp::now();
    if now.as_millisecond() < RELEASE_MS {
        let why = "requests and caps would end long ago or late";
        return Finding::fatal(
            CHECK,
            format!("it is {now}"),
            why,
            "set the clock, run an NTP client",
        );
    }
    Finding::fine(CHECK, format!("it is {now}"))
}
