//! Do policies or arguments give every queue its limits, and keep what is dead?

use portcullis_engine::finding::{Finding, Severity};
use portcullis_proto::topology;
use serde_json::Value;

/// A consumer that is cut off sooner than this takes a decision twice, in milliseconds.
const CONSUMER_TIMEOUT_MS_MIN: u64 = 60_000;
const MEND: &str = "load deploy/rabbitmq/definitions.json, or set `bus.declare = \"arguments\"` \
                    before the queues are made";

/// Judges `/api/queues/<vhost>`.
pub(super) fn look(queues: &Value) -> Finding {
    const CHECK: &str = "rabbitmq-policies";
    let flaws: Vec<(Severity, String)> = ours(queues)
        .flat_map(|queue| {
            let name = queue["name"].as_str().unwrap_or_default();
            let told = flaws(queue, name.starts_with("dead."));
            told.into_iter().map(move |(severity, what)| (severity, format!("`{name}` {what}")))
        })
        .collect();
    let Some(worst) = flaws.iter().map(|(severity, _)| *severity).max() else {
        return Finding::fine(CHECK, "every queue has its limits, and keeps what is dead");
    };
    let texts: Vec<String> = flaws.into_iter().map(|(_, text)| text).collect();
    let why = "what cannot be read or settled, or does not fit, is lost without a word";
    Finding::new(CHECK, worst, texts.join("; "), why, MEND)
}

fn flaws(queue: &Value, is_dead: bool) -> Vec<(Severity, String)> {
    let mut flaws = Vec::new();
    let text = |key: &str| setting(queue, key).as_str().map(str::to_owned);
    let bounded =
        ["max-length", "max-length-bytes"].iter().any(|key| !setting(queue, key).is_null());
    if text("overflow").as_deref() != Some("reject-publish") {
        let (severity, what) = match bounded {
            true => (Severity::Fatal, "throws away its oldest message when it is full"),
            false => (Severity::Warning, "has no `overflow: reject-publish`"),
        };
        flaws.push((severity, what.to_owned()));
    }
    if !bounded {
        flaws.push((Severity::Warning, "has no `max-length`".to_owned()));
    }
    if is_dead {
        return flaws;
    }
    match text("dead-letter-exchange").as_deref() {
        Some(topology::DEAD) => {}
        Some(other) => {
            let what = format!("sends what is dead to `{other}`, not to `{}`", topology::DEAD);
            flaws.push((Severity::Fatal, what));
        }
        None => flaws.push((Severity::Fatal, "drops what is dead".to_owned())),
    }
    if text("dead-letter-strategy").as_deref() != Some("at-least-once") {
        flaws.push((Severity::Warning, "may lose what is dead on the way".to_owned()));
    }
    if setting(queue, "delivery-limit").is_null() {
        let what = "gives a message that kills its reader to the next one for ever";
        flaws.push((Severity::Warning, what.to_owned()));
    }
    flaws
}

/// A policy's definition, or the argument of the same name; both say the same thing.
fn setting<'a>(queue: &'a Value, key: &str) -> &'a Value {
    let argument = &queue["arguments"][format!("x-{key}")];
    if argument.is_null() { &queue["effective_policy_definition"][key] } else { argument }
}

/// The broker's own limit is not shown by its API; a policy or an argument is.
pub(super) fn consumer_timeout(queues: &Value) -> Finding {
    const CHECK: &str = "rabbitmq-consumer-timeout";
    let short: Vec<String> = ours(queues)
        .filter_map(|queue| {
            let ms = setting(queue, "consumer-timeout").as_u64()?;
            let name = queue["name"].as_str()?;
            (ms < CONSUMER_TIMEOUT_MS_MIN).then(|| format!("`{name}` {ms} ms"))
        })
        .collect();
    if short.is_empty() {
        let found = "no queue shortens it; the broker's own `consumer_timeout` is not shown, and \
                     its default is enough";
        return Finding::fine(CHECK, found);
    }
    Finding::warning(
        CHECK,
        short.join(", "),
        "a reader that waits for a slow store is cut off, and its messages come again",
        format!("allow at least {CONSUMER_TIMEOUT_MS_MIN} ms"),
    )
}

fn ours(queues: &Value) -> impl Iterator<Item = &Value> {
    let is_ours = |queue: &&Value| {
        let name = queue["name"].as_str().unwrap_or_default();
        ["jobs.", "decisions.", "dead."].iter().any(|prefix| name.starts_with(prefix))
    };
    queues.as_array().into_iter().flatten().filter(is_ours)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn good() -> Value {
        json!({
            "overflow": "reject-publish", "max-length": 10, "delivery-limit": 100,
            "dead-letter-exchange": "portcullis.dead", "dead-letter-strategy": "at-least-once",
        })
    }

    fn queue(name: &str, policy: &Value) -> Value {
        json!({ "name": name, "arguments": {}, "effective_policy_definition": policy })
    }

    #[track_caller]
    fn check(name: &str, change: &[(&str, Value)], severity: Severity, told: &str) {
        let mut policy = good();
        for (key, value) in change {
            policy[*key] = value.clone();
        }
        let finding = look(&json!([queue(name, &policy)]));
        assert_eq!(finding.severity, severity, "{finding}");
        assert!(finding.found.contains(told), "{finding}");
    }

    #[test]
    fn each_missing_limit_is_named() {
        check("jobs.lo.0", &[], Severity::Fine, "");
        let gone = Value::Null;
        let cases = [
            ("overflow", gone.clone(), Severity::Fatal, "throws away"),
            ("overflow", json!("drop-head"), Severity::Fatal, "throws away"),
            ("max-length", gone.clone(), Severity::Warning, "max-length"),
            ("dead-letter-exchange", gone.clone(), Severity::Fatal, "drops what is dead"),
            ("dead-letter-exchange", json!("mine"), Severity::Fatal, "to `mine`"),
            ("dead-letter-strategy", json!("at-most-once"), Severity::Warning, "on the way"),
            ("delivery-limit", gone.clone(), Severity::Warning, "for ever"),
        ];
        for (key, value, severity, told) in cases {
            check("jobs.lo.0", &[(key, value)], severity, told);
        }
        // The last queue keeps what it has; and what is not ours is others' affair.
        check("dead.jobs", &[("dead-letter-exchange", gone.clone())], Severity::Fine, "");
        check("others", &[("overflow", gone)], Severity::Fine, "");
    }

    #[test]
    fn arguments_count_as_a_policy_does() {
        let arguments: serde_json::Map<String, Value> = good()
            .as_object()
            .unwrap()
            .iter()
            .map(|(k, v)| (format!("x-{k}"), v.clone()))
            .collect();
        let queue = json!([{ "name": "jobs.lo.0", "arguments": arguments }]);
        assert_eq!(look(&queue).severity, Severity::Fine);
        let bare = json!([{ "name": "jobs.lo.0", "arguments": {} }]);
        assert_eq!(look(&bare).severity, Severity::Fatal);
    }

    #[test]
    fn a_short_consumer_timeout_is_told() {
        let with = |ms: u64| {
            consumer_timeout(&json!([queue("jobs.lo.0", &json!({ "consumer-timeout": ms }))]))
        };
        assert_eq!(with(59_999).severity, Severity::Warning);
        assert_eq!(with(60_000).severity, Severity::Fine);
        assert_eq!(consumer_timeout(&json!([])).severity, Severity::Fine);
    }
}
