//! How late is a denial by time, and how late is its run woken, among many live keys?

use std::sync::Arc;
use std::time::Duration;

use portcullis_proto::ids::RunId;
use portcullis_proto::journal::Fact;
use portcullis_tests::home::{Home, Kind, asking_for};
use serde_json::json;

use crate::figure;
use crate::parked;

/// How long each request is open, in milliseconds.
const WAIT_MS: i64 = 5_000;
/// How many deadlines pass per second.
const PER_SECOND: u64 = 100;

/// Lateness of `probes` deadlines while `live` other requests stay open.
pub(crate) async fn lateness(kind: Kind, home: &Arc<Home>, probes: usize, live: usize) {
    let mut ticks = tokio::time::interval(Duration::from_millis(1_000 / PER_SECOND));
    let mut runs = Vec::with_capacity(probes);
    for n in 0..probes {
        ticks.tick().await;
        let attendance = portcullis_proto::job::Attendance::Unattended;
        runs.push(
            home.start_with("asker", json!({ "n": n }), asking_for(WAIT_MS), attendance).await,
        );
    }
    let (mut denied, mut woken) = (Vec::new(), Vec::new());
    for id in &runs {
        home.ended(id).await;
        let (late, claimed) = read(home, id).await;
        denied.push(late);
        woken.push(claimed);
    }
    let more = json!({ "n": probes, "live": live });
    figure::percentiles(kind, "deadline_to_denial", denied, &more);
    figure::percentiles(kind, "deadline_to_woken", woken, &more);
}

/// From the record's own history: the denial's entry, and the claim after it.
async fn read(home: &Home, id: &RunId) -> (f64, f64) {
    let (held, _) = home.engine.load(id).await.expect("the store answers");
    let record = held.expect("the run exists").record;
    let mut entries = record.history.iter();
    let denied = entries.find_map(|entry| {
        if let Fact::Denied { denial, .. } = &entry.fact {
            Some((entry.at, denial.at))
        } else {
            None
        }
    });
    let (at, deadline) = denied.expect("it was denied");
    let claimed = entries.find(|entry| matches!(entry.fact, Fact::Claimed { .. }));
    let claimed = claimed.map_or(at, |entry| entry.at);
    #[expect(clippy::cast_precision_loss, reason = "milliseconds of lateness")]
    let late = |at: portcullis_proto::time::Ms| at.since(deadline) as f64;
    (late(at), late(claimed))
}

/// So many requests with one deadline: how late is the last of them denied, and woken?
pub(crate) async fn burst(kind: Kind, home: &Arc<Home>, count: usize, live: usize) {
    let at = home.engine.store.now().await.expect("the store answers").plus(WAIT_MS + 1_000);
    let runs = parked::fill_until(home, count, at).await;
    let (mut denied, mut woken) = (Vec::new(), Vec::new());
    for id in &runs {
        home.ended(id).await;
        let (late, claimed) = read(home, id).await;
        denied.push(late);
        woken.push(claimed);
    }
    let most = |samples: &[f64]| samples.iter().copied().fold(0.0, f64::max);
    let more = json!({ "n": count, "live": live });
    figure::print(kind, "equal_deadlines_all_denied", most(&denied), "ms", &more);
    figure::print(kind, "equal_deadlines_all_woken", most(&woken), "ms", &more);
}
