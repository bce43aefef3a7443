//! Where does a request go, who reads it there, and may we do more than we must?

use portcullis_engine::finding::Finding;
use portcullis_proto::ids::{PoolName, Tenant};
use portcullis_proto::topology;
use serde_json::Value;

/// A tenant and a risk that no pattern names: what matches them all the same, matches all.
const NOBODY: &str = "nobody-is-called-like-this";

/// Judges the exchange of requests itself.
pub(super) fn alternate(exchange: &Value) -> Finding {
    const CHECK: &str = "rabbitmq-alternate-exchange";
    let by_policy = &exchange["effective_policy_definition"]["alternate-exchange"];
    let named = [&exchange["arguments"]["alternate-exchange"], by_policy];
    match named.into_iter().find_map(Value::as_str) {
        None => Finding::fine(CHECK, "requests that nobody takes come back"),
        Some(name) => Finding::fatal(
            CHECK,
            format!("what nobody takes goes to `{name}`"),
            "a request without an approver does not come back, and is denied only when its time \
             is over",
            "take `alternate-exchange` out of the policy; to audit, bind `portcullis.events`",
        ),
    }
}

/// Judges the bindings of the exchange of requests.
pub(super) fn catch_all(bindings: &Value) -> Finding {
    const CHECK: &str = "rabbitmq-bindings";
    let key = format!("approval.{NOBODY}.{NOBODY}.{NOBODY}");
    let all: Vec<String> = each(bindings)
        .filter(|binding| matches(pattern(binding), &key))
        .map(|binding| format!("`{}` by `{}`", destination(binding), pattern(binding)))
        .collect();
    if all.is_empty() {
        return Finding::fine(CHECK, "none takes every request");
    }
    Finding::fatal(
        CHECK,
        format!("every request goes to {}", all.join(", ")),
        "every request looks routable, so a missing approver is no longer denied at once",
        "unbind it from `portcullis.approvals`; to audit, bind `portcullis.events`",
    )
}

/// Does somebody read the requests to this pool?
pub(super) fn listeners(pool: &PoolName, bindings: &Value, queues: Option<&Value>) -> Finding {
    const CHECK: &str = "rabbitmq-approvers";
    let tenant = Tenant::new("default").expect("a valid tenant");
    let key = topology::approval_key(&tenant, pool, "medium");
    let bound: Vec<&str> =
        each(bindings).filter(|binding| matches(pattern(binding), &key)).map(destination).collect();
    let mend = format!("start an approver service for pool `{pool}`, see deploy/approvers");
    if bound.is_empty() {
        let found = format!("no queue takes requests to pool `{pool}`");
        return Finding::warning(CHECK, found, "they are denied at once: no_approver", mend);
    }
    let listed = queues.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let queue = |name: &&str| listed.iter().find(|queue| queue["name"] == **name);
    let found: Vec<&Value> = bound.iter().filter_map(queue).collect();
    if !found.iter().any(|queue| queue["consumers"].as_u64().is_some_and(|count| 0 < count)) {
        let found = format!("nobody reads {}, which pool `{pool}` has", bound.join(", "));
        return Finding::warning(CHECK, found, "requests wait there until they are denied", mend);
    }
    if let Some(classic) = found.iter().find(|queue| queue["type"] == "classic") {
        let found = format!("{} of pool `{pool}` is a classic queue", classic["name"]);
        let why = "its requests are lost with its node, and then denied when their time is over";
        return Finding::warning(CHECK, found, why, "declare it with x-queue-type = quorum");
    }
    Finding::fine(CHECK, format!("pool `{pool}` is read from {}", bound.join(", ")))
}

/// Judges `/api/permissions/<vhost>/<user>`.
pub(super) fn rights(rights: &Value) -> Finding {
    const CHECK: &str = "rabbitmq-rights";
    let wide: Vec<&str> = ["configure", "write", "read"]
        .into_iter()
        .filter(|kind| matches!(rights[kind].as_str(), Some(".*" | "^.*$" | ".+")))
        .collect();
    if wide.is_empty() {
        return Finding::fine(CHECK, "this user's rights are limited to names");
    }
    Finding::warning(
        CHECK,
        format!("this user may {} everything in the virtual host", wide.join(", ")),
        "whoever gets the password can bind a catch-all queue and send what looks like ours",
        "make users with deploy/rabbitmq/make-users.sh",
    )
}

fn each(bindings: &Value) -> impl Iterator<Item = &Value> {
    bindings.as_array().into_iter().flatten()
}

fn pattern(binding: &Value) -> &str {
    binding["routing_key"].as_str().unwrap_or_default()
}

fn destination(binding: &Value) -> &str {
    binding["destination"].as_str().unwrap_or_default()
}

/// As a topic exchange matches: `*` is one word, `#` any number of them.
fn matches(pattern: &str, key: &str) -> bool {
    fn words(pattern: &[&str], key: &[&str]) -> bool {
        match (pattern.split_first(), key.split_first()) {
            (None, None) => true,
            (Some((&"#", more)), Some((_, rest))) => words(more, key) || words(pattern, rest),
            (Some((&"#", more)), None) => words(more, key),
            (Some((&"*", more)), Some((_, rest))) => words(more, rest),
            (Some((word, more)), Some((first, rest))) => word == first && words(more, rest),
            (None, Some(_)) | (Some(_), None) => false,
        }
    }
    let split = |text| str::split(text, '.').collect::<Vec<_>>();
    words(&split(pattern), &split(key))
}

#[cfg(test)]
mod tests {
    use portcullis_engine::finding::Severity;
    use serde_json::json;

    use super::*;

    fn bound(key: &str) -> Value {
        json!([{ "routing_key": key, "destination": "approvals.ops" }])
    }

    #[test]
    fn patterns_match_as_the_brokers_do() {
        for (pattern, key, matched) in [
            ("#", "a.b", true),
            ("a.#", "a", true),
            ("#.b", "a.b", true),
            ("a.*.c", "a.b.c", true),
            ("a.*", "a", false),
            ("a.*", "a.b.c", false),
            ("a.#.c", "a.x.y.c", true),
            ("a.b", "a.b", true),
            ("a.b", "a.c", false),
        ] {
            assert_eq!(matches(pattern, key), matched, "{pattern} {key}");
        }
    }

    #[test]
    fn a_binding_that_takes_every_request_is_fatal() {
        for key in ["#", "approval.#", "approval.*.*.*", "*.*.*.*"] {
            assert_eq!(catch_all(&bound(key)).severity, Severity::Fatal, "{key}");
        }
        for key in ["approval.*.ops.*", "approval.default.#", "approval.*.*.high", "other"] {
            assert_eq!(catch_all(&bound(key)).severity, Severity::Fine, "{key}");
        }
    }

    #[test]
    fn an_alternate_exchange_is_fatal_wherever_it_is_named() {
        assert_eq!(alternate(&json!({ "arguments": {} })).severity, Severity::Fine);
        let here = json!({ "arguments": { "alternate-exchange": "audit" } });
        assert_eq!(alternate(&here).severity, Severity::Fatal);
        let there = json!({ "effective_policy_definition": { "alternate-exchange": "audit" } });
        assert_eq!(alternate(&there).severity, Severity::Fatal);
    }

    #[test]
    fn a_pool_that_nobody_reads_is_named() {
        let pool = PoolName::new("ops").unwrap();
        let queue = |consumers: u32, kind: &str| {
            let name = "approvals.ops";
            json!([{ "name": name, "consumers": consumers, "type": kind }])
        };
        let of = |key: &str, queues: &Value| listeners(&pool, &bound(key), Some(queues));
        assert_eq!(of("approval.*.ops.*", &queue(1, "quorum")).severity, Severity::Fine);
        for finding in [
            of("approval.*.dev.*", &queue(1, "quorum")),
            of("approval.*.ops.*", &queue(0, "quorum")),
            of("approval.*.ops.*", &queue(1, "classic")),
        ] {
            assert_eq!(finding.severity, Severity::Warning, "{finding}");
            assert!(finding.found.contains("`ops`"), "{finding}");
        }
    }

    #[test]
    fn rights_over_everything_are_named() {
        let of = |write: &str| rights(&json!({ "configure": "^$", "write": write, "read": "^$" }));
        assert_eq!(of("^portcullis\\.jobs$").severity, Severity::Fine);
        assert!(of(".*").found.contains("may write everything"));
    }
}
