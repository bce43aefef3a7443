//! What else about this Redis would an operator want to know? For `portcullis doctor`.
//!
//! Authority: the server's own answers; for the clock, this host's as well.
//! Invariant: looking writes nothing, and what may not be looked at is said so.

mod access;
mod copies;
mod times;

use portcullis_proto::topology;
use redis::{ConnectionInfo, Value};

use super::boot::Facts;
use super::link::{Failure, Link};
use super::settings::RedisSettings;
use crate::finding::Finding;
use crate::sqlite::WallClock;

/// More memory in use than this share of what there is gets a word, in percent.
const MEMORY_PERCENT_MAX: u64 = 80;

/// Looks at everything beyond what [`super::boot`] refuses to start with.
pub(super) async fn look(
    link: &Link,
    facts: &Facts,
    place: &ConnectionInfo,
    settings: &RedisSettings,
    wall: &WallClock,
) -> Result<Vec<Finding>, Failure> {
    let shards = shards(link, settings).await?;
    let mut findings = vec![memory(facts), writes(facts)];
    findings.push(copies::promotable(facts, place, settings).await);
    findings.push(copies::minimum(facts, settings.replicas));
    findings.push(times::skew(link, wall).await?);
    findings.push(times::lag(link, &shards).await?);
    findings.push(installation(&shards, settings.shards.get()));
    findings.push(access::wide(link).await?);
    findings.push(access::login(place));
    findings.push(access::tls(place));
    Ok(findings)
}

/// What one shard says of itself.
#[derive(Clone, Debug, Default)]
struct Meta {
    epoch: Option<String>,
    shards: Option<String>,
    complete: bool,
    seen_ms: i64,
}

async fn shards(link: &Link, settings: &RedisSettings) -> Result<Vec<Meta>, Failure> {
    let mut all = Vec::new();
    for shard in settings.shards.all() {
        let mut get = redis::cmd("HMGET");
        get.arg(topology::meta_key(shard)).arg(&["epoch", "shards", "complete", "hw"][..]);
        match link.query(&get).await {
            Ok(answer) => all.push(meta(answer)),
            // Not permitted, or no hash: told by the check of permissions, or as a damaged shard.
            Err(Failure::Refused(_) | Failure::Failed(_)) => all.push(Meta::default()),
            Err(failure) => return Err(failure),
        }
    }
    Ok(all)
}

fn meta(answer: Value) -> Meta {
    let fields: Vec<Option<String>> = redis::from_redis_value(answer).unwrap_or_default();
    let field = |index: usize| fields.get(index).cloned().flatten();
    Meta {
        epoch: field(0),
        shards: field(1),
        complete: field(2).is_some(),
        seen_ms: field(3).and_then(|text| text.parse().ok()).unwrap_or(0),
    }
}

fn memory(facts: &Facts) -> Finding {
    const CHECK: &str = "redis-memory";
    let number = |name| facts.info(name).parse::<u64>().unwrap_or(0);
    let (used, limit) = (number("used_memory"), number("maxmemory"));
    let (of, whose) = match limit {
        0 => (number("total_system_memory"), "the machine's memory; `maxmemory` sets no limit"),
        limit => (limit, "`maxmemory`"),
    };
    if used == 0 || of == 0 {
        let mend = "permit `INFO memory`";
        return Finding::unseen(CHECK, "the server does not say how much is in use", mend);
    }
    let percent = u128::from(used) * 100 / u128::from(of);
    let found = format!("{used} bytes in use, {percent} % of {whose}");
    if percent < u128::from(MEMORY_PERCENT_MAX) {
        return Finding::fine(CHECK, found);
    }
    let why = "once it is full no run is accepted and no decision committed";
    Finding::warning(CHECK, found, why, "raise `maxmemory`, or give the machine more memory")
}

fn writes(facts: &Facts) -> Finding {
    const CHECK: &str = "redis-write-status";
    let bad = |name: &str| !matches!(facts.info(name), "ok" | "");
    if bad("aof_last_write_status") {
        return Finding::fatal(
            CHECK,
            "the last write to the append-only file failed",
            "Redis refuses every commit until one succeeds",
            "look at the disk and at Redis' log",
        );
    }
    let failed: Vec<&str> = ["aof_last_bgrewrite_status", "rdb_last_bgsave_status"]
        .into_iter()
        .filter(|name| bad(name))
        .collect();
    if failed.is_empty() {
        return Finding::fine(CHECK, "what was written last is on disk");
    }
    let why = "the append-only file grows without bound, and commits may be refused";
    let mend = "look at the disk, the memory for a fork, and Redis' log";
    Finding::warning(CHECK, format!("it failed last: {}", failed.join(", ")), why, mend)
}

/// Is this one whole installation, with as many shards as are configured?
fn installation(shards: &[Meta], configured: u16) -> Finding {
    const CHECK: &str = "redis-installation";
    let Some(epoch) = shards.first().and_then(|meta| meta.epoch.clone()) else {
        let others = shards.iter().any(|meta| meta.epoch.is_some());
        return match others {
            false => Finding::fine(CHECK, "nothing is installed here yet"),
            true => emptied(CHECK, 0),
        };
    };
    let told = shards.first().and_then(|meta| meta.shards.clone());
    if let Some(stored) = told.filter(|stored| *stored != configured.to_string()) {
        let found = format!("it was installed with {stored} shards, not {configured}");
        let mend = format!("set `store.shards = {stored}`");
        return Finding::fatal(CHECK, found, "runs would be looked for in wrong places", mend);
    }
    let complete = shards.first().is_some_and(|meta| meta.complete);
    for (number, meta) in shards.iter().enumerate() {
        match &meta.epoch {
            None if complete => return emptied(CHECK, number),
            Some(other) if *other != epoch => {
                return Finding::fatal(
                    CHECK,
                    format!("shard {number} belongs to the installation {other}, not to {epoch}"),
                    "two installations share this database",
                    "give each a database, or a Redis, of its own",
                );
            }
            None | Some(_) => {}
        }
    }
    Finding::fine(CHECK, format!("{epoch}, {configured} shards"))
}

fn emptied(check: &'static str, shard: usize) -> Finding {
    let found = format!("shard {shard} was emptied behind the installation's back");
    Finding::fatal(check, found, "its runs are gone; nothing starts", "restore a backup")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;
    use crate::redis::boot::facts_of;

    fn shard(epoch: &str, shards: &str) -> Meta {
        let (epoch, shards) = (Some(epoch.to_owned()), Some(shards.to_owned()));
        Meta { epoch, shards, complete: true, seen_ms: 0 }
    }

    #[test]
    fn memory_that_runs_out_is_told_before_it_has() {
        let of = |used, limit, total| {
            let info =
                [("used_memory", used), ("maxmemory", limit), ("total_system_memory", total)];
            memory(&facts_of(&info, &[])).severity
        };
        assert_eq!(of("79", "100", "1000"), Severity::Fine);
        assert_eq!(of("80", "100", "1000"), Severity::Warning);
        assert_eq!(of("80", "0", "1000"), Severity::Fine);
        assert_eq!(of("900", "0", "1000"), Severity::Warning);
        assert_eq!(memory(&facts_of(&[], &[])).severity, Severity::Warning, "nothing is said");
    }

    #[test]
    fn a_failed_write_is_worse_than_a_failed_rewrite() {
        let of = |name| writes(&facts_of(&[(name, "err")], &[])).severity;
        assert_eq!(of("aof_last_write_status"), Severity::Fatal);
        assert_eq!(of("aof_last_bgrewrite_status"), Severity::Warning);
        assert_eq!(of("rdb_last_bgsave_status"), Severity::Warning);
        let good = [("aof_last_write_status", "ok"), ("rdb_last_bgsave_status", "ok")];
        assert_eq!(writes(&facts_of(&good, &[])).severity, Severity::Fine);
    }

    #[test]
    fn an_installation_is_whole_one_and_of_the_configured_size() {
        let fatal = |shards: &[Meta], configured| {
            let finding = installation(shards, configured);
            assert_eq!(finding.severity, Severity::Fatal, "{finding}");
            finding.found
        };
        let (one, gone) = (shard("e1", "2"), Meta::default());
        assert!(fatal(&[one.clone(), gone.clone()], 2).contains("shard 1 was emptied"));
        assert!(fatal(&[gone.clone(), one.clone()], 2).contains("shard 0 was emptied"));
        assert!(fatal(&[one.clone(), shard("e2", "2")], 2).contains("belongs to"));
        assert!(fatal(&[one.clone(), one.clone(), one.clone()], 3).contains("with 2 shards"));
        for fine in [[one.clone(), one.clone()], [gone.clone(), gone.clone()]] {
            assert_eq!(installation(&fine, 2).severity, Severity::Fine);
        }
        // One that another process is just founding lacks shards, and is not marked complete.
        let begun = Meta { complete: false, ..one };
        assert_eq!(installation(&[begun, gone], 2).severity, Severity::Fine);
    }
}
