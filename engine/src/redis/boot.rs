//! Is this Redis fit to hold records that must not be lost?
//!
//! Authority: the server's own `INFO` and `CONFIG`; where `CONFIG` is not permitted, the operator.
//! Invariant: what cannot be found out counts as unfit, unless the operator vouches for it.

use std::collections::HashMap;

use redis::Value;

use super::link::{Failure, Link};
use super::settings::RedisSettings;

/// The oldest release with everything that the scripts use.
const VERSION_MIN: (u32, u32) = (7, 0);
/// Every command that a script calls on a key.
const COMMANDS: [&str; 20] = [
    "GET",
    "GETRANGE",
    "SET",
    "DEL",
    "EXISTS",
    "PEXPIRE",
    "HGET",
    "HMGET",
    "HSET",
    "HSETNX",
    "HLEN",
    "ZADD",
    "ZREM",
    "ZRANGE",
    "ZCARD",
    "XADD",
    "XRANGE",
    "XREVRANGE",
    "TIME",
    "EVALSHA",
];
/// Asks for one permission after the other, with as many arguments as each command wants.
const PERMITTED: &str = "local missing = {} \
    for i = 1, #ARGV do \
      local a = ARGV[i] \
      local ok = a == 'TIME' and redis.acl_check_cmd(a) \
        or a == 'EVALSHA' and redis.acl_check_cmd(a, 'x', 0) \
        or redis.acl_check_cmd(a, KEYS[1]) \
        or redis.acl_check_cmd(a, KEYS[1], 1) \
        or redis.acl_check_cmd(a, KEYS[1], 1, 1) \
        or redis.acl_check_cmd(a, KEYS[1], '*', 'j', 1) \
      if not ok then missing[#missing + 1] = a end \
    end return missing";

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Fine,
    /// Works, but promises less than it could.
    Warning,
    /// A confirmed record may be lost: refused by a strict installation.
    Error,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at, such as `appendfsync`.
    pub check: &'static str,
    pub severity: Severity,
    /// What was found, and why it matters.
    pub why: String,
    /// What to do about it; empty when all is well.
    pub mend: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.check, self.why)?;
        if self.mend.is_empty() { Ok(()) } else { write!(f, "; {}", self.mend) }
    }
}

fn fine(check: &'static str, why: impl Into<String>) -> Finding {
    Finding { check, severity: Severity::Fine, why: why.into(), mend: String::new() }
}

fn warning(check: &'static str, why: impl Into<String>, mend: &str) -> Finding {
    Finding { check, severity: Severity::Warning, why: why.into(), mend: mend.into() }
}

fn error(check: &'static str, why: impl Into<String>, mend: &str) -> Finding {
    Finding { check, severity: Severity::Error, why: why.into(), mend: mend.into() }
}

/// What `INFO` and `CONFIG GET` say. A missing setting was not permitted to be read.
struct Facts {
    info: HashMap<String, String>,
    config: HashMap<String, String>,
}

impl Facts {
    fn info(&self, name: &str) -> &str {
        self.info.get(name).map_or("", String::as_str)
    }

    fn config(&self, name: &str) -> Option<&str> {
        self.config.get(name).map(String::as_str)
    }
}

/// Looks at everything that the promises of the store rest on.
pub(super) async fn look(link: &Link, settings: &RedisSettings) -> Result<Vec<Finding>, Failure> {
    let facts = Facts { info: info(link).await?, config: config(link).await? };
    Ok(vec![
        version(&facts),
        role(&facts),
        cluster(&facts),
        eviction(&facts),
        append_only(&facts),
        fsync(&facts, settings.assume_durable),
        replicas(&facts, settings.replicas),
        permissions(link).await?,
    ])
}

async fn info(link: &Link) -> Result<HashMap<String, String>, Failure> {
    let answer = link.query(&redis::cmd("INFO")).await?;
    let text: String = redis::from_redis_value(answer)
        .map_err(|why| Failure::Failed(format!("INFO is unreadable: {why}")))?;
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    Ok(pairs.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect())
}

async fn config(link: &Link) -> Result<HashMap<String, String>, Failure> {
    let mut command = redis::cmd("CONFIG");
    command.arg("GET").arg("appendfsync");
    match link.query(&command).await {
        Ok(answer) => redis::from_redis_value(answer)
            .map_err(|why| Failure::Failed(format!("CONFIG is unreadable: {why}"))),
        // Managed services do not permit it, or do not have it.
        Err(Failure::Refused(_) | Failure::Failed(_)) => Ok(HashMap::new()),
        Err(failure) => Err(failure),
    }
}

fn version(facts: &Facts) -> Finding {
    let text = facts.info("redis_version");
    let mut numbers = text.split('.').map(|part| part.parse().unwrap_or(0));
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if VERSION_MIN <= found {
        return fine("version", text);
    }
    let (major, minor) = VERSION_MIN;
    let why = format!("this is Redis {text}, and {major}.{minor} is the oldest that will do");
    error("version", why, "upgrade Redis")
}

fn role(facts: &Facts) -> Finding {
    match facts.info("role") {
        "master" => fine("role", "primary"),
        other => error(
            "role",
            format!("this server is a {other}: nothing can be committed here"),
            "name the primary in the URL",
        ),
    }
}

fn cluster(facts: &Facts) -> Finding {
    match facts.info("cluster_enabled") {
        "0" => fine("cluster", "off"),
        _ => error(
            "cluster",
            "this server is a node of a Redis Cluster and holds only some of the shards",
            "name a primary that is not part of a Cluster",
        ),
    }
}

fn eviction(facts: &Facts) -> Finding {
    match facts.info("maxmemory_policy") {
        "noeviction" => fine("maxmemory-policy", "noeviction"),
        other => error(
            "maxmemory-policy",
            format!("`{other}` lets Redis delete records and licences when memory is short"),
            "set `maxmemory-policy noeviction`",
        ),
    }
}

fn append_only(facts: &Facts) -> Finding {
    match facts.info("aof_enabled") {
        "1" => fine("appendonly", "yes"),
        _ => error(
            "appendonly",
            "without an append-only file a restart loses what was confirmed",
            "set `appendonly yes`",
        ),
    }
}

fn fsync(facts: &Facts, assume_durable: bool) -> Finding {
    match (facts.config("appendfsync"), assume_durable) {
        (Some("always"), _) => fine("appendfsync", "always"),
        (Some(other), _) => error(
            "appendfsync",
            format!("`{other}` confirms commits that are not on disk yet"),
            "set `appendfsync always`",
        ),
        (None, true) => warning(
            "appendfsync",
            "`CONFIG` is not permitted; taken for `always` because you vouched for it",
            "permit `CONFIG GET` to have it checked",
        ),
        (None, false) => error(
            "appendfsync",
            "`CONFIG` is not permitted, so nobody can tell whether commits reach the disk",
            "permit `CONFIG GET`, or vouch for `appendfsync always` with `assume_durable = true`",
        ),
    }
}

fn replicas(facts: &Facts, wanted: u32) -> Finding {
    let connected: u32 = facts.info("connected_slaves").parse().unwrap_or(0);
    let why = format!("{connected} connected, and firm commits wait for {wanted}");
    if connected < wanted {
        return warning(
            "replicas",
            format!("{why}: no firm commit can succeed"),
            "start the replicas, or lower `replicas`",
        );
    }
    if wanted < connected {
        return warning(
            "replicas",
            format!("{why}: promoting one that is behind loses confirmed commits"),
            "raise `replicas`, or set `replica-priority 0` where no failover may go",
        );
    }
    fine("replicas", why)
}

async fn permissions(link: &Link) -> Result<Finding, Failure> {
    let mut eval = redis::cmd("EVAL");
    eval.arg(PERMITTED).arg(1).arg("m:{s00}").arg(&COMMANDS[..]);
    let mend = "permit `+@read +@write +@scripting +time +wait +info` on all keys";
    Ok(match link.query(&eval).await {
        Ok(Value::Array(missing)) if missing.is_empty() => fine("permissions", "sufficient"),
        Ok(answer) => {
            let missing: Vec<String> = redis::from_redis_value(answer).unwrap_or_default();
            let why = format!("this user may not call {}", missing.join(", "));
            error("permissions", why, mend)
        }
        Err(Failure::Refused(why) | Failure::Failed(why)) => {
            error("permissions", format!("scripts cannot run: {why}"), mend)
        }
        Err(failure) => return Err(failure),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(info: &[(&str, &str)], config: &[(&str, &str)]) -> Facts {
        let owned = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
        };
        Facts { info: owned(info), config: owned(config) }
    }

    #[test]
    fn what_cannot_be_found_out_is_unfit() {
        let nothing = facts(&[], &[]);
        let found = [
            version(&nothing),
            role(&nothing),
            cluster(&nothing),
            eviction(&nothing),
            append_only(&nothing),
            fsync(&nothing, false),
        ];
        for finding in found {
            assert_eq!(finding.severity, Severity::Error, "{finding}");
            assert!(!finding.mend.is_empty(), "{finding}");
        }
    }

    #[test]
    fn an_operator_vouches_only_for_what_is_hidden() {
        assert_eq!(fsync(&facts(&[], &[]), true).severity, Severity::Warning);
        let seen = facts(&[], &[("appendfsync", "everysec")]);
        assert_eq!(fsync(&seen, true).severity, Severity::Error);
        let seen = facts(&[], &[("appendfsync", "always")]);
        assert_eq!(fsync(&seen, false).severity, Severity::Fine);
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        let cases =
            [("7.0.15", true), ("10.0", true), ("6.2.19", false), ("7", true), ("x", false)];
        for (text, good) in cases {
            let finding = version(&facts(&[("redis_version", text)], &[]));
            assert_eq!(finding.severity == Severity::Fine, good, "{text}");
        }
    }

    #[test]
    fn too_few_and_too_many_replicas_are_told() {
        let one = facts(&[("connected_slaves", "1")], &[]);
        assert_eq!(replicas(&one, 1).severity, Severity::Fine);
        assert!(replicas(&one, 2).why.contains("no firm commit"));
        assert!(replicas(&one, 0).why.contains("behind"));
    }
}
