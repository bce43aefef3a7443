//! Is the store's clock one that deadlines can rest on?

use redis::Value;

use super::super::link::{Failure, Link};
use super::Meta;
use crate::finding::Finding;
use crate::ports::CLOCK_LAG_MS_MAX;
use crate::sqlite::WallClock;

/// A difference between two clocks that is worth a word, in milliseconds.
const SKEW_MS_MAX: i64 = 1_000;

/// Do this host and the server agree on the time?
pub(super) async fn skew(link: &Link, wall: &WallClock) -> Result<Finding, Failure> {
    let before = wall();
    let there = server_ms(link).await?;
    let after = wall();
    Ok(judge_skew(before, there, after))
}

/// Has the server's clock been further ahead than it is now?
pub(super) async fn lag(link: &Link, shards: &[Meta]) -> Result<Finding, Failure> {
    let seen = shards.iter().map(|meta| meta.seen_ms).max().unwrap_or(0);
    Ok(judge_lag(server_ms(link).await?, seen))
}

async fn server_ms(link: &Link) -> Result<i64, Failure> {
    let answer: Value = link.query(&redis::cmd("TIME")).await?;
    let unreadable = |why: String| Failure::Failed(format!("TIME is unreadable: {why}"));
    let (seconds, micros): (i64, i64) =
        redis::from_redis_value(answer).map_err(|why| unreadable(why.to_string()))?;
    Ok(seconds * 1_000 + micros / 1_000)
}

/// The server answered somewhere between `before` and `after`; only what lies outside is skew.
fn judge_skew(before: i64, there: i64, after: i64) -> Finding {
    const CHECK: &str = "redis-clock-skew";
    let skew = if there < before { there - before } else { (there - after).max(0) };
    let side = if skew < 0 { "behind" } else { "ahead of" };
    let found = format!("the store's clock is {} ms {side} this host's", skew.abs());
    let mend = "run an NTP client on both machines";
    if CLOCK_LAG_MS_MAX < skew.abs() {
        let why = "a failover, or a mended clock, would make the store's clock unsteady, and then \
                   no granted call starts; deadlines are shown wrongly meanwhile";
        return Finding::fatal(CHECK, found, why, mend);
    }
    if SKEW_MS_MAX < skew.abs() {
        let why = "deadlines are the store's: people see them that much too early or too late";
        return Finding::warning(CHECK, found, why, mend);
    }
    Finding::fine(CHECK, found)
}

fn judge_lag(there: i64, seen: i64) -> Finding {
    const CHECK: &str = "redis-clock-lag";
    let lag = (seen - there).max(0);
    let found = format!("the store's clock is {lag} ms behind the highest time it has shown");
    let mend = "set the server's clock; denials go on meanwhile";
    if CLOCK_LAG_MS_MAX < lag {
        let why = "no granted call starts until it has caught up";
        return Finding::fatal(CHECK, found, why, mend);
    }
    if SKEW_MS_MAX < lag {
        return Finding::warning(CHECK, found, "it was set back, or failed over", mend);
    }
    Finding::fine(CHECK, found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;

    #[test]
    fn only_what_a_slow_answer_cannot_explain_is_skew() {
        let cases = [
            (1_000, 1_000, 1_000, Severity::Fine),
            (1_000, 4_000, 5_000, Severity::Fine),
            (0, 1_000, 0, Severity::Fine),
            (0, 1_001, 0, Severity::Warning),
            (10_000, 8_900, 10_000, Severity::Warning),
            (10_000, 5_000, 10_000, Severity::Warning),
            (10_000, 4_999, 10_000, Severity::Fatal),
            (0, 5_001, 0, Severity::Fatal),
        ];
        for (before, there, after, severity) in cases {
            let finding = judge_skew(before, there, after);
            assert_eq!(finding.severity, severity, "{before} {there} {after}: {finding}");
        }
        assert!(judge_skew(10_000, 5_000, 10_000).found.contains("5000 ms behind"));
    }

    #[test]
    fn a_clock_that_was_set_back_stops_grants() {
        for (there, seen, severity) in [
            (10_000, 0, Severity::Fine),
            (10_000, 11_000, Severity::Fine),
            (10_000, 11_001, Severity::Warning),
            (10_000, 15_001, Severity::Fatal),
        ] {
            assert_eq!(judge_lag(there, seen).severity, severity, "{seen}");
        }
    }
}
