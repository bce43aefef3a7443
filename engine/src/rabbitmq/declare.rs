//! Which exchanges, queues and bindings must the broker have?
//!
//! Authority: `proto::topology` names them; the broker has them. Arguments of a queue cannot be
//! changed once it exists, so by default only the queue's type is one, and the rest comes from the
//! shipped policies.
//! Invariant: nothing is ever deleted or bound to the topic of requests here.
//! If we crash here: every declaration can be repeated; the next connection does.

use lapin::types::{AMQPValue, FieldTable};
use lapin::{Connection, ExchangeKind};
use portcullis_proto::topology::{self, Lane};

use super::channel::{ACCESS_REFUSED, AmqpError, Asker, PRECONDITION_FAILED};

/// Who sets limits, overflow and dead-lettering of the queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Declare {
    /// The operator's policies; a queue is declared with its type only.
    #[default]
    PoliciesOnly,
    /// This process, as queue arguments: for development and tests, where nobody sets policies.
    Arguments,
    /// Nobody here: for who only looks.
    Nothing,
}

pub(super) struct QueueSpec {
    pub(super) name: String,
    pub(super) exchange: &'static str,
    key: String,
    /// Under which key of [`topology::DEAD`] its dead messages go.
    dead_key: Option<&'static str>,
}

pub(super) fn queues(buckets: u8) -> Vec<QueueSpec> {
    let live = |name: String, exchange, dead_key| QueueSpec {
        key: name.clone(),
        name,
        exchange,
        dead_key: Some(dead_key),
    };
    let dead = |name: &str, key: &str| QueueSpec {
        name: name.to_owned(),
        exchange: topology::DEAD,
        key: key.to_owned(),
        dead_key: None,
    };
    let jobs = |name| live(name, topology::JOBS, topology::DEAD_JOBS_KEY);
    let decisions = |bucket| {
        let name = topology::decisions_queue(bucket);
        live(name, topology::DECISIONS, topology::DEAD_DECISIONS_KEY)
    };
    let mut all = vec![
        dead(topology::DEAD_JOBS_QUEUE, topology::DEAD_JOBS_KEY),
        dead(topology::DEAD_DECISIONS_QUEUE, topology::DEAD_DECISIONS_KEY),
        jobs(topology::INTAKE_QUEUE.to_owned()),
    ];
    for bucket in 0..buckets {
        all.push(jobs(topology::jobs_queue(Lane::Hi, bucket)));
        all.push(jobs(topology::jobs_queue(Lane::Lo, bucket)));
        all.push(decisions(bucket));
    }
    all
}

pub(super) fn arguments(spec: &QueueSpec, declare: Declare) -> FieldTable {
    let mut table = FieldTable::default();
    let mut text = |name: &str, value: &str| {
        table.insert(name.into(), AMQPValue::LongString(value.into()));
    };
    text("x-queue-type", "quorum");
    match declare {
        Declare::PoliciesOnly | Declare::Nothing => return table,
        Declare::Arguments => {}
    }
    // A full queue says so to the publisher; at-least-once dead-lettering needs this overflow too.
    text("x-overflow", "reject-publish");
    if let Some(key) = spec.dead_key {
        text("x-dead-letter-exchange", topology::DEAD);
        text("x-dead-letter-routing-key", key);
        text("x-dead-letter-strategy", "at-least-once");
        table.insert("x-delivery-limit".into(), number(topology::DELIVERY_LIMIT));
    }
    table.insert("x-max-length".into(), number(topology::QUEUE_LENGTH_MAX));
    table
}

fn number(value: u32) -> AMQPValue {
    AMQPValue::LongLongInt(i64::from(value))
}

/// Declares everything, or says which thing is in the way and what mends it.
///
/// # Errors
/// A thing exists with other settings, is absent and may not be declared, or the broker is gone.
pub(super) async fn declare(
    connection: &Connection,
    buckets: u8,
    declare: Declare,
) -> Result<(), AmqpError> {
    if declare == Declare::Nothing {
        return Ok(());
    }
    let mut asker = Asker::new(connection);
    let exchanges = [
        (topology::DEAD, ExchangeKind::Direct),
        (topology::JOBS, ExchangeKind::Direct),
        (topology::APPROVALS, ExchangeKind::Topic),
        (topology::DECISIONS, ExchangeKind::Direct),
        (topology::EVENTS, ExchangeKind::Topic),
    ];
    for (name, kind) in exchanges {
        let declared = asker.exchange(name, kind).await;
        match declared {
            Err(why) if why.code() == Some(ACCESS_REFUSED) => {
                let found = asker.has_exchange(name).await?;
                check_found(found, "exchange", name)?;
            }
            other => other.map_err(|why| explain(why, "exchange", name))?,
        }
    }
    for spec in queues(buckets) {
        declare_queue(&mut asker, &spec, declare).await?;
    }
    Ok(())
}

async fn declare_queue(
    asker: &mut Asker<'_>,
    spec: &QueueSpec,
    declare: Declare,
) -> Result<(), AmqpError> {
    match asker.queue(&spec.name, arguments(spec, declare)).await {
        // A user that may not declare works with what an administrator loaded, binding included.
        Err(why) if why.code() == Some(ACCESS_REFUSED) => {
            let found = asker.find_queue(&spec.name).await?.is_some();
            return check_found(found, "queue", &spec.name);
        }
        other => other.map_err(|why| explain(why, "queue", &spec.name))?,
    }
    match asker.bind(&spec.name, spec.exchange, &spec.key).await {
        Err(why) if why.code() == Some(ACCESS_REFUSED) => Ok(()),
        other => other.map_err(|why| explain(why, "the binding of queue", &spec.name)),
    }
}

fn check_found(found: bool, what: &str, name: &str) -> Result<(), AmqpError> {
    if found {
        return Ok(());
    }
    Err(AmqpError::Refused(format!(
        "{what} `{name}` is absent and this user may not declare it: load the shipped definitions \
         as an administrator, or grant `configure` on it"
    )))
}

fn explain(why: AmqpError, what: &str, name: &str) -> AmqpError {
    match why.code() {
        Some(PRECONDITION_FAILED) => AmqpError::Refused(format!(
            "{what} `{name}` exists with other settings ({why}): drain and delete it, and it is \
             declared anew, or use the declare mode that made it"
        )),
        Some(_) => AmqpError::Refused(format!("{what} `{name}`: {why}")),
        None => why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_stay_free_to_set_all_but_the_type_of_a_queue() {
        for spec in queues(2) {
            let table = arguments(&spec, Declare::PoliciesOnly);
            assert_eq!(table.inner().len(), 1, "{}", spec.name);
            assert!(table.inner().contains_key("x-queue-type"));
        }
    }

    #[test]
    fn no_queue_of_ours_is_bound_to_the_topic_of_requests() {
        assert!(queues(16).iter().all(|spec| spec.exchange != topology::APPROVALS));
    }

    #[test]
    fn what_is_dead_is_not_dead_lettered_again() {
        for spec in queues(1).iter().filter(|spec| spec.exchange == topology::DEAD) {
            let table = arguments(spec, Declare::Arguments);
            assert!(!table.inner().contains_key("x-dead-letter-exchange"), "{}", spec.name);
        }
    }
}
