//! Promises that only hold if they hold for the real program: its processes are killed, frozen and
//! stopped, its servers too, and what is counted is what its tools did.

mod alarm;
mod approver;
mod attended;
mod clocks;
mod consumers;
mod decisions;
mod disk;
mod doctor;
mod emptied;
mod fires;
mod founding;
mod frozen;
mod killed;
mod limits;
mod outages;
mod partitions;
mod sandbox;
mod soak;
mod stopped;
mod torture;
mod wakes;
mod webhooks;

use portcullis_tests::processes::{Agent, Installation, outcome};
use serde_json::Value;

/// Each promise, once on one process with SQLite and once on Redis with RabbitMQ.
macro_rules! on_both_homes {
    ($($promise:ident)*) => {
        mod embedded {
            use portcullis_tests::home::Kind;
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $promise() {
                super::$promise(Kind::Embedded).await;
            })*
        }
        mod distributed {
            use portcullis_tests::home::Kind;
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $promise() {
                super::$promise(Kind::Distributed).await;
            })*
        }
    };
}
use on_both_homes;

/// Acts at once.
fn plain() -> Agent {
    Agent::new("plain").appends("$0")
}

/// Acts once somebody agrees.
fn asker() -> Agent {
    Agent::new("asker").appends("gated $0").gated()
}

/// Says that it has begun, acts when it is told to, and ends when it is told to.
fn waiter() -> Agent {
    let script = "echo begun >> effects.log; until [ -e go ]; do sleep 0.02; done; \
                  echo acted >> effects.log; until [ -e end ]; do sleep 0.02; done";
    Agent::new("waiter").runs(script).timed("3s", "6s")
}

/// What a run's gated call appends.
fn gated(id: &str) -> String {
    format!("gated {id}")
}

fn ms(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("no time: {value}"))
}

/// Every run ended, and each acted as often as its end says: once if it succeeded; when nobody
/// knows, at most once.
fn assert_effects(site: &Installation, ended: &[Value], line: impl Fn(&str) -> String) {
    for run in ended {
        let id = run["run_id"].as_str().unwrap();
        let acted = site.effects.count(&line(id));
        match outcome(run) {
            ("succeeded", "done") => assert_eq!(acted, 1, "{run:#}"),
            ("interrupted", "outcome_unknown") => assert!(acted <= 1, "{run:#}"),
            other => panic!("{other:?}: {run:#}"),
        }
    }
}
