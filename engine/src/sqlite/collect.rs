//! What may be thrown away?
//!
//! Authority: the store's clock. What expired is gone for every reader already; this only gives
//! the space back.
//! Invariant: a step is small, so that no commit waits long behind it.
//! If we crash here: the step did not happen and the next one does it.

use portcullis_proto::time::Ms;
use rusqlite::{Connection, params};

/// Rows of one table that one step removes at most.
pub(super) const STEP_ROWS_MAX: i64 = 512;
/// The feed grows by many rows a commit, side by side: they go fast.
const STEP_FEED_MAX: i64 = 2_048;
/// Blobs are long, so fewer of them go at once.
const STEP_BLOBS_MAX: i64 = 8;
/// Entries that the feed keeps. Its newest entry always stays, so no place is given out twice.
pub(super) const FEED_ROWS_KEPT: i64 = 100_000;

struct Rule {
    /// Is there anything to remove? `?1`: the store's time, or what the feed keeps.
    any: &'static str,
    /// Removes at most `?2` rows.
    remove: &'static str,
    limit: i64,
    mark: fn(Ms) -> i64,
}

const RULES: [Rule; 4] = [
    Rule {
        any: "SELECT EXISTS (SELECT 1 FROM licence WHERE expires_ms <= ?1)",
        remove: "DELETE FROM licence WHERE approval IN
                 (SELECT approval FROM licence WHERE expires_ms <= ?1 LIMIT ?2)",
        limit: STEP_ROWS_MAX,
        mark: |now| now.0,
    },
    Rule {
        any: "SELECT EXISTS (SELECT 1 FROM record WHERE expires_ms <= ?1)",
        remove: "DELETE FROM record WHERE id IN
                 (SELECT id FROM record WHERE expires_ms <= ?1 LIMIT ?2)",
        limit: STEP_ROWS_MAX,
        mark: |now| now.0,
    },
    Rule {
        any: "SELECT EXISTS (SELECT 1 FROM blob WHERE expires_ms <= ?1)",
        remove: "DELETE FROM blob WHERE id IN
                 (SELECT id FROM blob WHERE expires_ms <= ?1 LIMIT ?2)",
        limit: STEP_BLOBS_MAX,
        mark: |now| now.0,
    },
    Rule {
        // In lots: one entry too many is not worth an fsync.
        any: "SELECT (SELECT min(id) FROM feed) + ?1 + 511 < (SELECT max(id) FROM feed)",
        // One bound, not two: SQLite searches by one of them only, and would walk through all that
        // is yet to go at every step.
        remove: "DELETE FROM feed WHERE id < min((SELECT max(id) FROM feed) - ?1 + 1,
                 (SELECT min(id) FROM feed) + ?2)",
        limit: STEP_FEED_MAX,
        mark: |_| FEED_ROWS_KEPT,
    },
];

/// Removes a bounded number of expired rows, and says whether there are more.
pub(super) fn step(connection: &Connection, now: Ms) -> rusqlite::Result<bool> {
    let due: Vec<&Rule> = RULES
        .iter()
        .filter_map(|rule| match is_due(connection, rule, now) {
            Ok(true) => Some(Ok(rule)),
            Ok(false) => None,
            Err(why) => Some(Err(why)),
        })
        .collect::<rusqlite::Result<_>>()?;
    if due.is_empty() {
        return Ok(false);
    }
    let transaction =
        rusqlite::Transaction::new_unchecked(connection, rusqlite::TransactionBehavior::Immediate)?;
    let mut more = false;
    for rule in due {
        let removed = transaction
            .prepare_cached(rule.remove)?
            .execute(params![(rule.mark)(now), rule.limit])?;
        more |= usize::try_from(rule.limit).is_ok_and(|limit| limit <= removed);
    }
    transaction.commit()?;
    Ok(more)
}

fn is_due(connection: &Connection, rule: &Rule, now: Ms) -> rusqlite::Result<bool> {
    let due: Option<bool> =
        connection.prepare_cached(rule.any)?.query_row([(rule.mark)(now)], |row| row.get(0))?;
    Ok(due == Some(true))
}

#[cfg(test)]
mod tests {
    use portcullis_proto::ids::Epoch;
    use rusqlite::StatementStatus;

    use super::*;
    use crate::sqlite::open;

    #[test]
    fn a_step_costs_the_same_however_much_is_left_to_remove() {
        let connection = open::in_memory(Epoch([7; 16]));
        let fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 300000)
                    INSERT INTO feed (json) SELECT i FROM n";
        connection.execute_batch(fill).unwrap();
        let feed = &RULES[3];
        let mut remove = connection.prepare(feed.remove).unwrap();
        let removed = remove.execute(params![FEED_ROWS_KEPT, feed.limit]).unwrap();
        assert_eq!(i64::try_from(removed), Ok(STEP_FEED_MAX));
        let steps = i64::from(remove.get_status(StatementStatus::VmStep));
        assert!(steps < 20 * STEP_FEED_MAX, "{steps} steps for {removed} rows");
    }
}
