//! Which replicas might be promoted, and would each have every firm commit?

use std::time::Duration;

use redis::{ConnectionAddr, ConnectionInfo};

use super::super::boot::{Facts, pairs};
use super::super::settings::RedisSettings;
use crate::finding::Finding;

/// So many replicas are asked, one after the other.
const REPLICAS_MAX: u32 = 8;
/// The priority with which Redis announces itself unless told otherwise.
const PROMOTABLE: u32 = 100;

/// A replica with priority 0 is never promoted; every other one may be.
pub(super) async fn promotable(
    facts: &Facts,
    place: &ConnectionInfo,
    settings: &RedisSettings,
) -> Finding {
    let mut priorities = Vec::new();
    for address in addresses(facts) {
        priorities.push(priority(address, place, settings).await);
    }
    judge(&priorities, settings.replicas)
}

/// `None`: that replica could not be asked.
fn judge(priorities: &[Option<u32>], wanted: u32) -> Finding {
    const CHECK: &str = "redis-promotable";
    let silent = priorities.iter().filter(|priority| priority.is_none()).count();
    let count = priorities.iter().filter(|priority| priority.unwrap_or(PROMOTABLE) != 0).count();
    let mut found = format!("{count} replicas may be promoted, and firm commits wait for {wanted}");
    if 0 < silent {
        found += &format!(" ({silent} could not be asked, and count as promotable)");
    }
    if count <= usize::try_from(wanted).unwrap_or(usize::MAX) {
        return Finding::fine(CHECK, found);
    }
    let why = "a failover to one that is behind loses confirmed commits: a decision, or the \
               knowledge that a call has begun";
    let mend = format!("set `store.replicas = {count}`, or `replica-priority 0` on the others");
    Finding::fatal(CHECK, found, why, mend)
}

/// Where the replicas are, as the primary sees them: `slave0:ip=…,port=…,state=online,…`.
fn addresses(facts: &Facts) -> Vec<(String, u16)> {
    let lines = (0..REPLICAS_MAX).map(|number| facts.info(&format!("slave{number}")).to_owned());
    let address = |line: String| {
        let part = |name: &str| {
            line.split(',').find_map(|part| part.strip_prefix(name).map(str::to_owned))
        };
        Some((part("ip=")?, part("port=")?.parse().ok()?))
    };
    lines.filter_map(address).collect()
}

async fn priority(
    (host, port): (String, u16),
    place: &ConnectionInfo,
    settings: &RedisSettings,
) -> Option<u32> {
    let there = place.clone().set_addr(ConnectionAddr::Tcp(host, port));
    let client = redis::Client::open(there).ok()?;
    let asking = async {
        let mut connection = client.get_multiplexed_async_connection().await.ok()?;
        let mut info = redis::cmd("INFO");
        info.arg("replication").query_async::<String>(&mut connection).await.ok()
    };
    let limit = Duration::from_millis(settings.connect_timeout_ms);
    let text = tokio::time::timeout(limit, asking).await.ok().flatten()?;
    pairs(&text).get("slave_priority")?.parse().ok()
}

/// A primary that is cut off goes on confirming soft commits that the new one never sees.
pub(super) fn minimum(facts: &Facts, wanted: u32) -> Finding {
    const CHECK: &str = "redis-min-replicas";
    if wanted == 0 {
        return Finding::fine(CHECK, "there is no failover to be ready for");
    }
    let mend = format!("set `min-replicas-to-write {wanted}`");
    match facts.config("min-replicas-to-write").map(str::parse::<u32>) {
        Some(Ok(least)) if wanted <= least => Finding::fine(CHECK, least.to_string()),
        Some(Ok(least)) => Finding::warning(
            CHECK,
            format!("it is {least}, and firm commits wait for {wanted}"),
            "a primary that is cut off goes on taking soft commits, which a failover loses",
            mend,
        ),
        Some(Err(_)) | None => Finding::unseen(CHECK, "`CONFIG GET` is not permitted", mend),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;
    use crate::redis::boot::facts_of;

    #[test]
    fn more_promotable_replicas_than_are_waited_for_are_fatal() {
        assert_eq!(judge(&[], 0).severity, Severity::Fine);
        assert_eq!(judge(&[Some(100)], 1).severity, Severity::Fine);
        assert_eq!(judge(&[Some(100), Some(0)], 1).severity, Severity::Fine);
        assert_eq!(judge(&[Some(100), Some(1)], 1).severity, Severity::Fatal);
        let silent = judge(&[None], 0);
        assert_eq!(silent.severity, Severity::Fatal);
        assert!(silent.found.contains("could not be asked"), "{silent}");
    }

    #[test]
    fn replicas_are_found_where_the_primary_sees_them() {
        let line = "ip=10.0.0.7,port=6380,state=online,offset=1,lag=0";
        let facts = facts_of(&[("slave0", line), ("slave1", "nonsense")], &[]);
        assert_eq!(addresses(&facts), [("10.0.0.7".to_owned(), 6380)]);
    }

    #[test]
    fn a_primary_that_is_cut_off_must_stop_by_itself() {
        let with = |least| facts_of(&[], &[("min-replicas-to-write", least)]);
        assert_eq!(minimum(&with("0"), 0).severity, Severity::Fine);
        assert_eq!(minimum(&with("0"), 1).severity, Severity::Warning);
        assert_eq!(minimum(&with("1"), 1).severity, Severity::Fine);
        let unseen = minimum(&facts_of(&[], &[]), 1);
        assert!(unseen.found.contains("not permitted"), "{unseen}");
    }
}
