use portcullis_proto::denial::{Denial, DenialCode};
use portcullis_proto::ids::{PoolName, Subject};
use serde_json::{Value, json};

use super::*;

const RUN: &str = "s00-aaaaaaaaaaaaaaaaaaaaaaaaaa";
const CHILD: &str = "s00-bbbbbbbbbbbbbbbbbbbbbbbbbb";
/// 2026-12-01 04:00:00 UTC.
const START: i64 = 1_796_097_600_000;

/// A waiting run, with what the test says about it laid over.
fn run(over: Value) -> RunView {
    let mut view = json!({
        "run_id": RUN, "phase": "waiting", "agent": "deployer", "origin": "api",
        "created": START, "begun": START + 10, "now": START + 10_000,
        "attendance": "unattended", "hard_cap": START + 7_200_000,
        "input": { "inline": {} }, "waits": [], "calls": [], "history": [], "history_earlier": 0,
    });
    for (key, value) in over.as_object().unwrap() {
        view[key] = value.clone();
    }
    serde_json::from_value(view).unwrap()
}

fn approval() -> String {
    format!("{RUN}.0.1")
}

fn call(over: Value) -> Value {
    let mut call = json!({
        "seq": 0, "tool": "shell", "args": { "inline": {} }, "gate": "asked",
        "progress": "planned",
    });
    for (key, value) in over.as_object().unwrap() {
        call[key] = value.clone();
    }
    call
}

fn timed_out() -> Value {
    json!({
        "code": "approval_timed_out", "at": START + 30_010, "pool": "default",
        "waited_ms": 30_000,
    })
}

#[test]
fn the_opening_says_who_asked() {
    let parent = json!({ "run": CHILD, "call": 2, "depth": 1, "hard_cap": START });
    let cases = [
        (json!({}), "it was started through the API; nobody attends it."),
        (
            json!({ "origin": { "reminder": { "name": "nightly", "instant": START } } }),
            "the reminder `nightly` started it, for 2026-12-01 04:00:00 UTC; nobody attends it.",
        ),
        (
            json!({ "origin": { "webhook": { "route": "github" } } }),
            "the webhook /hooks/github started it; nobody attends it.",
        ),
        (
            json!({ "called_by": parent }),
            "call 2 of run s00-bbbbbbbbbbbbbbbbbbbbbbbbbb started it; nobody attends it.",
        ),
        (
            json!({ "attendance": { "session": { "approver": "alice" } } }),
            "it was started through the API; `alice` attends it.",
        ),
    ];
    for (over, wanted) in cases {
        let opening = tell(&run(over)).opening;
        assert_eq!(opening[1], format!("At 2026-12-01 04:00:00 UTC {wanted}"));
    }
}

/// Every fact with its sentence checked; none: nothing is said.
#[track_caller]
fn check(cases: impl IntoIterator<Item = (Value, &'static str)>) {
    for (mut fact, wanted) in cases {
        fact["at"] = json!(START + 5);
        let told = tell(&run(json!({ "history": [fact] }))).happened;
        let texts: Vec<&str> = told.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(texts.join(" "), wanted, "{fact}");
    }
}

#[test]
fn the_way_of_a_run_is_told_in_sentences() {
    let id = approval();
    check([
        (json!({ "what": "accepted", "agent": "a", "origin": "api" }), ""),
        (json!({ "what": "claimed", "attempt": 1 }), "A worker took it."),
        (
            json!({ "what": "claimed", "attempt": 3 }),
            "A worker took it, for the third time in this place.",
        ),
        (json!({ "what": "planned", "turn": 1, "calls": 1 }), "Step 1: one call was planned."),
        (json!({ "what": "planned", "turn": 2, "calls": 3 }), "Step 2: 3 calls were planned."),
        (
            json!({ "what": "asked", "approval": id, "tool": "shell", "pool": "ops",
                    "deadline": START + 30_000 }),
            "Call 0, `shell`, needs a yes from pool `ops`; silence denies it at 2026-12-01 \
             04:00:30 UTC.",
        ),
        (
            json!({ "what": "published", "approval": id, "rev": 1 }),
            "The request is on a queue of its approvers.",
        ),
        (
            json!({ "what": "unroutable", "approval": id }),
            "No queue of its approvers takes the request.",
        ),
        (json!({ "what": "started", "call": 0, "tool": "shell" }), "Call 0, `shell`, started."),
        (
            json!({ "what": "spawned", "call": 1, "child": CHILD }),
            "Call 1 started run s00-bbbbbbbbbbbbbbbbbbbbbbbbbb.",
        ),
        (
            json!({ "what": "finished", "call": 0, "tool": "shell", "status": "unknown" }),
            "Call 0, `shell`, was begun, and nobody knows how it ended.",
        ),
        (
            json!({ "what": "retried", "call": 0, "tries": 1 }),
            "Call 0 is tried again, for the second time.",
        ),
        (json!({ "what": "parked", "waits": 1 }), "It parked on one wait and holds no worker."),
        (json!({ "what": "roused" }), "A wait is over: workers were rung for."),
        (json!({ "what": "released", "why": "draining" }), "Its worker let go of it: draining."),
        (json!({ "what": "lapsed" }), "Its worker did not renew the lease and counts as lost."),
        (json!({ "what": "cancel_asked", "by": "local" }), "local asked to cancel it."),
        (json!({ "what": "ended", "outcome": "failed", "code": "x", "detail": null }), ""),
    ]);
}

#[test]
fn what_approvers_do_is_told_in_sentences() {
    let id = approval();
    check([
        (
            json!({ "what": "extended", "approval": id, "by": "alice",
                    "deadline": START + 60_000 }),
            "`alice` gave call 0 more time: silence denies it at 2026-12-01 04:01:00 UTC.",
        ),
        (
            json!({ "what": "escalated", "approval": id, "pool": "ops" }),
            "Pool `ops` is asked about call 0 as well.",
        ),
        (
            json!({ "what": "edited", "approval": id, "becomes": id, "by": "alice" }),
            "`alice` allows call 0 with other arguments.",
        ),
        (
            json!({ "what": "voted", "approval": id, "by": "alice", "verdict": "deny",
                    "channel": "amqp" }),
            "`alice` denied call 0, by RabbitMQ.",
        ),
        (
            json!({ "what": "approved", "approval": id, "use_by": START + 900_000 }),
            "Call 0 may start, until 2026-12-01 04:15:00 UTC.",
        ),
        (
            json!({ "what": "denied", "call": 0, "tool": "shell", "denial": timed_out() }),
            "Call 0, `shell`, was denied: nobody in pool `default` answered within 30 s.",
        ),
    ]);
}

#[test]
fn an_approval_says_how_long_it_took() {
    let history = json!([
        { "at": START + 100, "what": "asked", "approval": approval(), "tool": "shell",
          "pool": "ops", "deadline": START + 30_000 },
        { "at": START + 5_100, "what": "approved", "approval": approval(), "use_by": START },
    ]);
    let told = tell(&run(json!({ "history": history }))).happened;
    let wanted = "Call 0 was approved after 5 s and may start, until 2026-12-01 04:00:00 UTC.";
    assert_eq!(told[1], (5_100, wanted.to_owned()));
}

#[test]
fn a_wait_says_whose_turn_it_is_and_when_it_ends() {
    let wait = |what: &str, who: &str, over: Value| {
        let mut wait = json!({
            "run_id": RUN, "agent": "deployer", "for": what, "who": who,
            "ends_at": START + 40_000, "ends_how": "the call is denied: approval_timed_out",
        });
        for (key, value) in over.as_object().unwrap() {
            wait[key] = value.clone();
        }
        wait
    };
    let denied = "left alone, the call is denied: approval_timed_out at 2026-12-01 04:00:40 UTC, \
                  in 30 s";
    let cases = [
        (
            wait(
                "decision",
                "pool ops: 1 of alice",
                json!({ "call": 0, "approval_id": approval() }),
            ),
            format!(
                "It waits for a decision on call 0, `shell`, by pool ops: 1 of alice; {denied}. \
                 Decide with `portcullis approvals approve {RUN}.0.1`, or deny."
            ),
        ),
        (
            wait("child", &format!("run {CHILD}"), json!({ "call": 0 })),
            format!("It waits for run {CHILD}, which call 0, `shell`, started; {denied}."),
        ),
        (
            wait("worker", "a worker with a free slot", json!({})),
            format!("It is the turn of a worker with a free slot; {denied}."),
        ),
        (
            wait("time", "nobody: it tries again later", json!({})),
            format!("It waits for nobody: it tries again later; {denied}."),
        ),
    ];
    for (wait, wanted) in cases {
        let story = tell(&run(json!({ "calls": [call(json!({}))], "waits": [wait] })));
        assert_eq!(story.now[0], wanted);
        assert_eq!(
            story.now[1],
            "Whatever happens, it ends by 2026-12-01 06:00:00 UTC, in 1 h 59 min."
        );
    }
}

#[test]
fn a_running_run_says_what_it_does() {
    let busy = run(json!({
        "phase": "running", "calls": [call(json!({ "progress": "started" }))],
    }));
    assert_eq!(tell(&busy).now[0], "A worker runs call 0, `shell`, now.");
    let thinking = run(json!({ "phase": "running" }));
    assert_eq!(tell(&thinking).now[0], "A worker works on it now.");
}

#[test]
fn an_end_says_why() {
    let ended = |outcome: &str, reason: Value, calls: Value| {
        run(json!({
            "phase": "ended", "outcome": outcome, "reason": reason, "ended": START + 31_000,
            "calls": calls,
        }))
    };
    let cases = [
        (
            ended("succeeded", json!({ "code": "done" }), json!([])),
            vec!["It ended as succeeded at 2026-12-01 04:00:31 UTC, after 31 s."],
        ),
        (
            ended("failed", json!({ "code": "tool_failed", "detail": "call 0" }), json!([])),
            vec![
                "It ended as failed at 2026-12-01 04:00:31 UTC, after 31 s: tool_failed (call 0).",
            ],
        ),
        (
            ended(
                "completed_with_denials",
                json!({ "code": "denied" }),
                json!([call(json!({ "denial": timed_out() }))]),
            ),
            vec![
                "It ended as completed_with_denials at 2026-12-01 04:00:31 UTC, after 31 s: \
                denied.",
                "Call 0, `shell`, never ran. denied: nobody in pool `default` answered within 30 \
                s.",
            ],
        ),
        (
            ended("interrupted", json!({ "code": "outcome_unknown" }), json!([])),
            vec![
                "It ended as interrupted at 2026-12-01 04:00:31 UTC, after 31 s: outcome_unknown.",
                "What was running may have taken effect, or may yet: look before starting it \
                again.",
            ],
        ),
    ];
    for (view, wanted) in cases {
        assert_eq!(tell(&view).now, wanted);
    }
}

#[test]
fn what_time_has_decided_is_told_before_anybody_records_it() {
    let late = run(json!({ "calls": [call(json!({ "denial": timed_out() }))] }));
    assert_eq!(
        tell(&late).happened,
        [(
            30_010,
            "Call 0, `shell`, is denied: nobody in pool `default` answered within 30 s.".to_owned()
        )]
    );
    let recorded = json!({
        "at": START + 30_012, "what": "denied", "call": 0, "tool": "shell", "denial": timed_out(),
    });
    let told = run(json!({
        "calls": [call(json!({ "denial": timed_out() }))], "history": [recorded],
    }));
    assert_eq!(tell(&told).happened.len(), 1, "and not twice");
}

#[test]
fn every_denial_has_its_words_and_only_a_person_is_named() {
    let mut all = std::collections::BTreeSet::new();
    for code in DenialCode::ALL {
        let denial = Denial {
            pool: PoolName::new("ops").ok(),
            waited_ms: Some(30_000),
            by: (code == DenialCode::Denied).then(|| Subject::new("alice").unwrap()),
            ..Denial::of(code, Ms(START))
        };
        let words = why_denied(&denial);
        assert_eq!(words.contains("alice"), code == DenialCode::Denied, "{words}");
        assert!(all.insert(words.clone()), "{words}");
    }
}
