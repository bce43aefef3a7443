//! Is this Redis fit to hold records that must not be lost?
//!
//! Authority: the server's own `INFO` and `CONFIG`; where `CONFIG` is not permitted, the operator.
//! Invariant: what cannot be found out counts as unfit, unless the operator vouches for it.

use std::collections::HashMap;

use redis::Value;

use super::link::{Failure, Link};
use super::settings::RedisSettings;
use crate::finding::Finding;

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
/// The settings that are read, where `CONFIG GET` is permitted.
const SETTINGS: [&str; 3] = ["appendfsync", "no-appendfsync-on-rewrite", "min-replicas-to-write"];
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

/// What `INFO` and `CONFIG GET` say. A missing setting was not permitted to be read.
pub(super) struct Facts {
    pub(super) info: HashMap<String, String>,
    pub(super) config: HashMap<String, String>,
}

impl Facts {
    pub(super) fn info(&self, name: &str) -> &str {
        self.info.get(name).map_or("", String::as_str)
    }

    pub(super) fn config(&self, name: &str) -> Option<&str> {
        self.config.get(name).map(String::as_str)
    }
}

/// Asks the server for everything that it says of itself.
pub(super) async fn facts(link: &Link) -> Result<Facts, Failure> {
    Ok(Facts { info: info(link).await?, config: config(link).await? })
}

/// Looks at everything without which a store is not even opened while `store.strict` is on.
pub(super) async fn look(
    link: &Link,
    facts: &Facts,
    settings: &RedisSettings,
) -> Result<Vec<Finding>, Failure> {
    Ok(vec![
        version(facts),
        role(facts),
        cluster(facts),
        eviction(facts),
        append_only(facts),
        fsync(facts, settings.assume_durable),
        replicas(facts, settings.replicas),
        permissions(link).await?,
    ])
}

async fn info(link: &Link) -> Result<HashMap<String, String>, Failure> {
    let answer = link.query(&redis::cmd("INFO")).await?;
    let text: String = redis::from_redis_value(answer)
        .map_err(|why| Failure::Failed(format!("INFO is unreadable: {why}")))?;
    Ok(pairs(&text))
}

/// The lines of an `INFO`.
pub(super) fn pairs(text: &str) -> HashMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()
}

async fn config(link: &Link) -> Result<HashMap<String, String>, Failure> {
    let mut command = redis::cmd("CONFIG");
    command.arg("GET").arg(&SETTINGS[..]);
    match link.query(&command).await {
        Ok(answer) => redis::from_redis_value(answer)
            .map_err(|why| Failure::Failed(format!("CONFIG is unreadable: {why}"))),
        // Managed services do not permit it, or do not have it.
        Err(Failure::Refused(_) | Failure::Failed(_)) => Ok(HashMap::new()),
        Err(failure) => Err(failure),
    }
}

fn version(facts: &Facts) -> Finding {
    const CHECK: &str = "redis-version";
    let text = facts.info("redis_version");
    let mut numbers = text.split('.').map(|part| part.parse().unwrap_or(0));
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if VERSION_MIN <= found {
        return Finding::fine(CHECK, text);
    }
    let (major, minor) = VERSION_MIN;
    let found = format!("this is Redis {text}, and {major}.{minor} is the oldest that will do");
    Finding::fatal(CHECK, found, "the scripts that commit cannot run", "upgrade Redis")
}

fn role(facts: &Facts) -> Finding {
    const CHECK: &str = "redis-role";
    match facts.info("role") {
        "master" => Finding::fine(CHECK, "primary"),
        other => Finding::fatal(
            CHECK,
            format!("this server is a {other}"),
            "nothing can be committed here",
            "name the primary in `store.url`",
        ),
    }
}

fn cluster(facts: &Facts) -> Finding {
    const CHECK: &str = "redis-cluster";
    match facts.info("cluster_enabled") {
        "0" => Finding::fine(CHECK, "off"),
        _ => Finding::fatal(
            CHECK,
            "this server is a node of a Redis Cluster",
            "it holds only some of the shards",
            "name a primary that is not part of a Cluster",
        ),
    }
}

fn eviction(facts: &Facts) -> Finding {
    const CHECK: &str = "redis-maxmemory-policy";
    match facts.info("maxmemory_policy") {
        "noeviction" => Finding::fine(CHECK, "noeviction"),
        other => Finding::fatal(
            CHECK,
            format!("it is `{other}`"),
            "Redis deletes records and licences when memory is short",
            "set `maxmemory-policy noeviction`",
        ),
    }
}

fn append_only(facts: &Facts) -> Finding {
    const CHECK: &str = "redis-appendonly";
    match facts.info("aof_enabled") {
        "1" => Finding::fine(CHECK, "yes"),
        _ => Finding::fatal(
            CHECK,
            "there is no append-only file",
            "a restart loses what was confirmed",
            "set `appendonly yes`",
        ),
    }
}

fn fsync(facts: &Facts, assume_durable: bool) -> Finding {
    const CHECK: &str = "redis-appendfsync";
    match (facts.config("appendfsync"), assume_durable) {
        (Some("always"), _) if facts.config("no-appendfsync-on-rewrite") == Some("yes") => {
            Finding::fatal(
                CHECK,
                "`no-appendfsync-on-rewrite yes` suspends it",
                "while the file is rewritten, commits are confirmed that are not on disk",
                "set `no-appendfsync-on-rewrite no`",
            )
        }
        (Some("always"), _) => Finding::fine(CHECK, "always"),
        (Some(other), _) => Finding::fatal(
            CHECK,
            format!("it is `{other}`"),
            "commits are confirmed that are not on disk yet",
            "set `appendfsync always`",
        ),
        (None, true) => Finding::warning(
            CHECK,
            "`CONFIG` is not permitted; taken for `always` because you vouched for it",
            "nobody has checked it",
            "permit `CONFIG GET` to have it checked",
        ),
        (None, false) => Finding::fatal(
            CHECK,
            "`CONFIG` is not permitted",
            "nobody can tell whether commits reach the disk",
            "permit `CONFIG GET`, or vouch for `appendfsync always` with \
             `store.assume_durable = true`",
        ),
    }
}

fn replicas(facts: &Facts, wanted: u32) -> Finding {
    const CHECK: &str = "redis-replicas";
    let connected: u32 = facts.info("connected_slaves").parse().unwrap_or(0);
    let found = format!("{connected} connected, and firm commits wait for {wanted}");
    if connected < wanted {
        let mend = "start the replicas, or lower `store.replicas`";
        return Finding::warning(CHECK, found, "no firm commit can succeed", mend);
    }
    if wanted < connected {
        return Finding::warning(
            CHECK,
            found,
            "promoting one that is behind loses confirmed commits",
            "raise `store.replicas`, or set `replica-priority 0` where no failover may go",
        );
    }
    Finding::fine(CHECK, found)
}

async fn permissions(link: &Link) -> Result<Finding, Failure> {
    const CHECK: &str = "redis-permissions";
    let mut eval = redis::cmd("EVAL");
    eval.arg(PERMITTED).arg(1).arg("m:{s00}").arg(&COMMANDS[..]);
    let why = "commits or reads would be refused while runs are under way";
    let mend = "permit `+@read +@write +@scripting +time +wait +info` on all keys";
    Ok(match link.query(&eval).await {
        Ok(Value::Array(missing)) if missing.is_empty() => Finding::fine(CHECK, "sufficient"),
        Ok(answer) => {
            let missing: Vec<String> = redis::from_redis_value(answer).unwrap_or_default();
            let found = format!("this user may not call {}", missing.join(", "));
            Finding::fatal(CHECK, found, why, mend)
        }
        Err(Failure::Refused(refusal) | Failure::Failed(refusal)) => {
            Finding::fatal(CHECK, format!("scripts cannot run: {refusal}"), why, mend)
        }
        Err(failure) => return Err(failure),
    })
}

/// What a server might say, made by hand.
#[cfg(test)]
pub(super) fn facts_of(info: &[(&str, &str)], config: &[(&str, &str)]) -> Facts {
    let owned = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    };
    Facts { info: owned(info), config: owned(config) }
}

#[cfg(test)]
mod tests {
    use super::facts_of as facts;
    use super::*;
    use crate::finding::Severity;

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
            assert_eq!(finding.severity, Severity::Fatal, "{finding}");
            assert!(!finding.mend.is_empty(), "{finding}");
        }
    }

    #[test]
    fn an_operator_vouches_only_for_what_is_hidden() {
        assert_eq!(fsync(&facts(&[], &[]), true).severity, Severity::Warning);
        let seen = facts(&[], &[("appendfsync", "everysec")]);
        assert_eq!(fsync(&seen, true).severity, Severity::Fatal);
        let seen = facts(&[], &[("appendfsync", "always")]);
        assert_eq!(fsync(&seen, false).severity, Severity::Fine);
        let suspended = [("appendfsync", "always"), ("no-appendfsync-on-rewrite", "yes")];
        assert_eq!(fsync(&facts(&[], &suspended), true).severity, Severity::Fatal);
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
