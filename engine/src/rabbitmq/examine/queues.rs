//! Are our queues there, as they must be, and does somebody read them?

use lapin::Queue;
use portcullis_proto::topology;

use super::super::channel::{ACCESS_REFUSED, AmqpError, Asker, PRECONDITION_FAILED};
use super::super::declare::{self, Declare};
use crate::finding::Finding;

/// What a look at one queue showed.
struct Seen {
    name: String,
    is_dead: bool,
    /// Messages and consumers; `None`: it is absent.
    there: Option<(u32, u32)>,
    declared: Declared,
}

enum Declared {
    AsExpected,
    /// The broker's words.
    Otherwise(String),
    NotPermitted,
}

pub(super) async fn look(
    asker: &mut Asker<'_>,
    buckets: u8,
    mode: Declare,
) -> Result<Vec<Finding>, AmqpError> {
    let mut seen = Vec::new();
    for spec in declare::queues(buckets) {
        let there = asker.find_queue(&spec.name).await?;
        // Declared once more only where it is: that changes nothing, and is refused when it is of
        // another type or has other arguments.
        let declared = match &there {
            Some(_) => compare(asker.queue(&spec.name, declare::arguments(&spec, mode)).await)?,
            None => Declared::AsExpected,
        };
        let count = |queue: Queue| (queue.message_count(), queue.consumer_count());
        let is_dead = spec.exchange == topology::DEAD;
        seen.push(Seen { name: spec.name, is_dead, there: there.map(count), declared });
    }
    Ok(vec![absent(&seen), types(&seen), unread(&seen), dead(&seen)])
}

fn compare(answered: Result<(), AmqpError>) -> Result<Declared, AmqpError> {
    match answered {
        Ok(()) => Ok(Declared::AsExpected),
        Err(why) if why.code() == Some(PRECONDITION_FAILED) => {
            Ok(Declared::Otherwise(why.to_string()))
        }
        Err(why) if why.code() == Some(ACCESS_REFUSED) => Ok(Declared::NotPermitted),
        Err(why) => Err(why),
    }
}

fn absent(seen: &[Seen]) -> Finding {
    const CHECK: &str = "rabbitmq-queues";
    let absent: Vec<&str> =
        seen.iter().filter(|queue| queue.there.is_none()).map(|queue| &*queue.name).collect();
    if absent.is_empty() {
        return Finding::fine(CHECK, format!("all {} are there", seen.len()));
    }
    Finding::warning(
        CHECK,
        format!("absent: {}", absent.join(", ")),
        "messages for them are returned",
        "start a process that may declare them, or load deploy/rabbitmq/definitions.json",
    )
}

fn types(seen: &[Seen]) -> Finding {
    const CHECK: &str = "rabbitmq-queue-type";
    let otherwise: Vec<String> = seen
        .iter()
        .filter_map(|queue| match &queue.declared {
            Declared::Otherwise(why) => Some(format!("`{}` ({why})", queue.name)),
            Declared::AsExpected | Declared::NotPermitted => None,
        })
        .collect();
    if !otherwise.is_empty() {
        return Finding::fatal(
            CHECK,
            format!("declared otherwise: {}", otherwise.join(", ")),
            "a classic queue loses its messages with its node, and has no delivery limit; no \
             process starts on it",
            "drain and delete it, and it is declared anew; or use the `bus.declare` that made it",
        );
    }
    let hidden = seen.iter().filter(|queue| matches!(queue.declared, Declared::NotPermitted));
    match hidden.count() {
        0 => Finding::fine(CHECK, "every queue is a quorum queue, declared as it must be"),
        count => Finding::unseen(
            CHECK,
            format!("this user may not declare {count} of the queues"),
            "look with a scheduler's user, or set `bus.management_url`",
        ),
    }
}

fn unread(seen: &[Seen]) -> Finding {
    const CHECK: &str = "rabbitmq-unread";
    let unread: Vec<String> = seen
        .iter()
        .filter(|queue| !queue.is_dead)
        .filter_map(|queue| match queue.there {
            Some((messages @ 1.., 0)) => Some(format!("{messages} in `{}`", queue.name)),
            Some(_) | None => None,
        })
        .collect();
    if unread.is_empty() {
        return Finding::fine(CHECK, "no message waits without a reader");
    }
    Finding::warning(
        CHECK,
        format!("messages wait, and nobody reads them: {}", unread.join(", ")),
        "what they announce is late",
        "run a worker (jobs) or a scheduler (intake, decisions) with this bucket count",
    )
}

fn dead(seen: &[Seen]) -> Finding {
    const CHECK: &str = "rabbitmq-dead-letters";
    let waiting: Vec<String> = seen
        .iter()
        .filter(|queue| queue.is_dead)
        .filter_map(|queue| match queue.there {
            Some((messages @ 1.., _)) => Some(format!("{messages} messages in `{}`", queue.name)),
            Some(_) | None => None,
        })
        .collect();
    if waiting.is_empty() {
        return Finding::fine(CHECK, "none");
    }
    Finding::warning(
        CHECK,
        waiting.join(", "),
        "something could not be read or settled",
        "run a scheduler, which sorts them; see its log for what they were",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;

    fn queue(name: &str, there: Option<(u32, u32)>, declared: Declared) -> Seen {
        let is_dead = name.starts_with("dead.");
        Seen { name: name.to_owned(), is_dead, there, declared }
    }

    fn plain(name: &str, messages: u32, readers: u32) -> Seen {
        queue(name, Some((messages, readers)), Declared::AsExpected)
    }

    #[track_caller]
    fn is(finding: &Finding, severity: Severity, text: &str) {
        assert_eq!(finding.severity, severity, "{finding}");
        assert!(finding.found.contains(text), "{finding}");
    }

    #[test]
    fn a_queue_that_is_not_there_is_named() {
        is(&absent(&[plain("jobs.lo.0", 0, 0)]), Severity::Fine, "all 1");
        let gone = queue("jobs.lo.0", None, Declared::AsExpected);
        is(&absent(&[gone]), Severity::Warning, "jobs.lo.0");
    }

    #[test]
    fn a_queue_of_another_type_is_fatal_and_an_unseen_one_is_not_fine() {
        is(&types(&[plain("jobs.lo.0", 0, 0)]), Severity::Fine, "quorum");
        let classic = Declared::Otherwise("inequivalent arg".into());
        is(&types(&[queue("jobs.lo.0", Some((0, 0)), classic)]), Severity::Fatal, "jobs.lo.0");
        let hidden = queue("jobs.lo.0", Some((0, 0)), Declared::NotPermitted);
        is(&types(&[hidden]), Severity::Warning, "may not declare 1");
    }

    #[test]
    fn messages_that_nobody_reads_are_told_and_dead_ones_by_themselves() {
        let all = [plain("jobs.lo.0", 3, 0), plain("jobs.hi.0", 3, 1), plain("dead.jobs", 2, 0)];
        is(&unread(&all), Severity::Warning, "3 in `jobs.lo.0`");
        assert!(!unread(&all).found.contains("dead"));
        is(&unread(&all[1..]), Severity::Fine, "");
        is(&dead(&all), Severity::Warning, "2 messages in `dead.jobs`");
        is(&dead(&all[..2]), Severity::Fine, "none");
    }
}
