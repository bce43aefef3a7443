//! Does the broker survive the loss of a node?

use portcullis_engine::finding::Finding;
use serde_json::Value;

/// Judges `/api/nodes`.
pub(super) fn look(nodes: &Value) -> Finding {
    const CHECK: &str = "rabbitmq-nodes";
    let all = nodes.as_array().map_or(&[][..], Vec::as_slice);
    let named = |is_bad: fn(&Value) -> bool| -> Vec<&str> {
        all.iter().filter(|node| is_bad(node)).filter_map(|node| node["name"].as_str()).collect()
    };
    let cases = [
        (
            named(|node| node["running"] == false),
            "do not run",
            "queues with a minority of their copies stop",
            "start them, or take them out of the cluster",
        ),
        (
            named(|node| node["mem_alarm"] == true || node["disk_free_alarm"] == true),
            "raise an alarm",
            "publishers are blocked: requests are not published and expire",
            "free memory or disk on them",
        ),
        (
            named(|node| node["partitions"].as_array().is_some_and(|all| !all.is_empty())),
            "see a partition",
            "one side of it serves nothing",
            "mend the network, then restart the smaller side",
        ),
    ];
    for (names, what, why, mend) in cases {
        if !names.is_empty() {
            return Finding::warning(CHECK, format!("{} {what}", names.join(", ")), why, mend);
        }
    }
    match all.len() {
        0 => Finding::unseen(CHECK, "no node is named", "look with `rabbitmqctl cluster_status`"),
        1 => Finding::fine(CHECK, "1, whose disk has the only copy of every message"),
        2 => Finding::warning(
            CHECK,
            "2",
            "a quorum of two is lost with either: it is less available than one node",
            "add a third",
        ),
        count => Finding::fine(CHECK, count.to_string()),
    }
}

/// Judges `/api/queues/<vhost>`; `nodes`: how many there are, if that is known.
pub(super) fn replicas(queues: &Value, nodes: Option<usize>) -> Finding {
    const CHECK: &str = "rabbitmq-queue-replicas";
    let Some(nodes) = nodes else {
        let mend = "look with a user that is tagged `monitoring`";
        return Finding::unseen(CHECK, "how many nodes there are is not known", mend);
    };
    let all = queues.as_array().map_or(&[][..], Vec::as_slice);
    let few: Vec<&str> = all
        .iter()
        .filter(|queue| queue["members"].as_array().is_some_and(|all| all.len() < nodes))
        .filter_map(|queue| queue["name"].as_str())
        .collect();
    if few.is_empty() {
        return Finding::fine(CHECK, format!("every quorum queue has a copy on all {nodes} nodes"));
    }
    Finding::warning(
        CHECK,
        format!("fewer than {nodes} copies: {}", few.join(", ")),
        "they stop, or lose messages, with fewer lost nodes than the cluster could bear",
        "rabbitmq-queues grow <node> all",
    )
}

#[cfg(test)]
mod tests {
    use portcullis_engine::finding::Severity;
    use serde_json::json;

    use super::*;

    #[test]
    fn nodes_in_trouble_are_named() {
        let node = |name: &str| json!({ "name": name, "running": true, "partitions": [] });
        let with = |key: &str, value: Value| {
            let mut bad = node("b");
            bad[key] = value;
            look(&json!([node("a"), bad, node("c")]))
        };
        let fine = look(&json!([node("a"), node("b"), node("c")]));
        assert_eq!(fine.severity, Severity::Fine);
        for (key, value, told) in [
            ("running", json!(false), "b do not run"),
            ("mem_alarm", json!(true), "b raise an alarm"),
            ("disk_free_alarm", json!(true), "b raise an alarm"),
            ("partitions", json!(["a"]), "b see a partition"),
        ] {
            let finding = with(key, value);
            assert_eq!((finding.severity, &*finding.found), (Severity::Warning, told));
        }
        assert_eq!(look(&json!([node("a")])).severity, Severity::Fine);
        assert_eq!(look(&json!([node("a"), node("b")])).severity, Severity::Warning);
        assert_eq!(look(&json!([])).severity, Severity::Warning);
    }

    #[test]
    fn a_queue_with_too_few_copies_is_named() {
        let queues = json!([
            { "name": "jobs.lo.0", "members": ["a", "b", "c"] },
            { "name": "jobs.hi.0", "members": ["a"] },
            { "name": "classic" },
        ]);
        let finding = replicas(&queues, Some(3));
        assert_eq!(finding.severity, Severity::Warning);
        assert!(finding.found.ends_with("copies: jobs.hi.0"), "{finding}");
        assert_eq!(replicas(&queues, Some(1)).severity, Severity::Fine);
        assert_eq!(replicas(&queues, None).severity, Severity::Warning);
    }
}
