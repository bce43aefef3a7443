//! What was promised, said and done, held against what the runs tell.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use serde_json::Value;

use super::load::Sent;
use super::report::Report;
use super::storm::{Storm, wall_ms};
use super::targets::Site;
use crate::processes::Api;

/// Once everybody is back: how long until the last run has ended, beyond the longest cap.
const END_MAX: Duration = Duration::from_secs(90 + 15);
/// How many runs are asked for at once.
const ASKED_AT_ONCE: usize = 8;

/// Lines of tools, by text.
type Done = BTreeMap<String, u64>;

/// What the approver said of a run's request, in order.
#[derive(Debug, Default)]
struct Said {
    /// The first yes: when, and before when it had to be.
    yes: Option<(i64, i64)>,
    no: bool,
}

/// Waits for the ends, and holds the books against them.
pub(super) async fn close(site: &Arc<Site>, storm: &Storm, sent: Sent, took: Duration) -> Report {
    let until = wall_ms();
    let api = site.api(0);
    let listed = api.all_runs().await;
    let ids: BTreeSet<String> = listed.iter().map(id_of).chain(sent.accepted.clone()).collect();
    let deadline = Instant::now() + END_MAX;
    let shown: Vec<(String, Option<Value>)> = futures_util::stream::iter(ids)
        .map(|id| ended(api.clone(), id, deadline))
        .buffer_unordered(ASKED_AT_ONCE)
        .collect()
        .await;

    let mut report = Report::new(storm, took);
    let (done, said) = (done(site), said(site));
    let accepted: BTreeSet<&String> = sent.accepted.iter().collect();
    report.count("accepted (202)", u64::try_from(accepted.len()).expect("fits"));
    report.count("not accepted, or not answered", sent.refused);
    report.promise("deliveries with two runs", sent.torn);
    let mut lost = 0;
    let mut fires = BTreeMap::<i64, u64>::new();
    for (id, run) in &shown {
        let Some(run) = run else {
            lost += u64::from(accepted.contains(id));
            continue;
        };
        if let Some(instant) = run["origin"]["reminder"]["instant"].as_i64() {
            *fires.entry(instant).or_default() += 1;
        }
        judge(&mut report, storm, run, &done, said.get(id));
    }
    report.promise("accepted triggers lost", lost);
    // Read again: what was caught up since is in it, and the state of the reminder too.
    for run in api.all_runs().await {
        if let Some(instant) = run["origin"]["reminder"]["instant"].as_i64() {
            fires.entry(instant).or_insert(1);
        }
    }
    let told = api.get("/v1/reminders").await.1;
    // After a longer absence only the latest ten are caught up; the others are said to be missed.
    let missed = told["reminders"][0]["missed"].as_u64().expect("it counts what it missed");
    report.count("instants missed, and said so", missed);
    reminders(&mut report, &fires, until, missed);
    let known: BTreeSet<&String> = shown.iter().map(|(id, _)| id).collect();
    let strange = done.keys().filter_map(|line| line.split_once(' ')).filter(|(_, run)| {
        // What the reminder started since the list was read is not in it.
        !known.contains(&(*run).to_owned()) && accepted.contains(&(*run).to_owned())
    });
    report.promise("effects of runs that nobody knows", count(strange));
    report
}

fn count<T>(of: impl Iterator<Item = T>) -> u64 {
    u64::try_from(of.count()).expect("fits")
}

fn id_of(run: &Value) -> String {
    run["run_id"].as_str().unwrap().to_owned()
}

/// A run as it stands at its end, or at the deadline. `None`: nobody knows it.
async fn ended(api: Api, id: String, deadline: Instant) -> (String, Option<Value>) {
    let mut last = None;
    loop {
        last = api.try_show(&id).await.or(last);
        let has_ended = last.as_ref().is_some_and(|run: &Value| run["phase"] == "ended");
        if has_ended || deadline < Instant::now() {
            return (id, last);
        }
        // sleep: a poll of what other processes do, bounded by the deadline
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn done(site: &Site) -> Done {
    let mut done = Done::new();
    for line in site.installation.effects.lines() {
        *done.entry(line).or_default() += 1;
    }
    done
}

fn said(site: &Site) -> BTreeMap<String, Said> {
    let mut all = BTreeMap::<String, Said>::new();
    let text = std::fs::read_to_string(site.ledger()).unwrap_or_default();
    for line in text.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let [verdict, _, run, deadline, at] = fields[..] else { panic!("no line: {line}") };
        let said = all.entry(run.to_owned()).or_default();
        match verdict {
            "approve" => {
                said.yes.get_or_insert((at.parse().unwrap(), deadline.parse().unwrap()));
            }
            _ => said.no = true,
        }
    }
    all
}

/// One run against the books.
fn judge(report: &mut Report, storm: &Storm, run: &Value, done: &Done, said: Option<&Said>) {
    let id = id_of(run);
    let acted = |what: &str| done.get(&format!("{what} {id}")).copied().unwrap_or(0);
    report.count("runs", 1);
    if run["phase"] != "ended" {
        report.broken("runs that never ended", run);
        return;
    }
    let word = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let outcome = word(&run["outcome"]);
    report.count(&format!("runs {outcome}"), 1);
    let (plain, again, gated, slow) =
        (acted("plain"), acted("again"), acted("gated"), acted("slow"));
    report.count("effects", plain + again + gated + slow);
    if 1 < plain || 1 < slow {
        report.broken("at most once, and twice", run);
    }
    if outcome == "succeeded" && plain + again + gated + slow == 0 {
        report.broken("succeeded, and did nothing", run);
    }
    asked(report, storm, run, gated, said);
}

/// A run's request, if it made one.
fn asked(report: &mut Report, storm: &Storm, run: &Value, gated: u64, said: Option<&Said>) {
    let asked = &run["calls"][0]["approval"];
    let is_late = |at: &Value| asked["deadline"].as_i64() <= at.as_i64();
    let votes = asked["votes"].as_array().cloned().unwrap_or_default();
    let yes = votes.iter().find(|vote| vote["verdict"] == "approve");
    if asked.is_object() {
        report.count("requests", 1);
        report.count("requests approved", u64::from(yes.is_some()));
    }
    if 1 < gated {
        report.broken("two effects of one approval", run);
    }
    if yes.is_some_and(|vote| is_late(&vote["at"])) {
        report.broken("approved after its deadline", run);
    }
    // The yes must be in the record and in the approver's own book, both in time.
    let was_said = said.and_then(|said| said.yes).is_some_and(|(at, deadline)| at < deadline);
    let is_allowed = was_said && yes.is_some();
    if 0 < gated && !is_allowed {
        report.broken("effects without a yes in time", run);
    }
    let Some(code) = run["calls"][0]["denial"]["code"].as_str() else { return };
    report.count(&format!("denied {code}"), 1);
    let refused = run["history"].as_array().into_iter().flatten();
    let mut refused =
        refused.filter(|entry| entry["what"] == "refused" || entry["what"] == "denied");
    if let (Some(deadline), Some(at)) =
        (asked["deadline"].as_i64(), refused.next().and_then(|entry| entry["at"].as_i64()))
        && code == "approval_timed_out"
    {
        let from = storm.light_after(deadline, at);
        report.late(at - from, at - deadline);
    }
}

fn reminders(report: &mut Report, fires: &BTreeMap<i64, u64>, until: i64, missed: u64) {
    report.count("instants fired", count(fires.keys()));
    report.promise("instants fired twice", count(fires.values().filter(|times| 1 < **times)));
    // The last few seconds may still be to come.
    let instants: Vec<i64> = fires.keys().copied().filter(|at| *at + 5_000 < until).collect();
    let gaps = instants.windows(2).map(|pair| (pair[1] - pair[0]) / 1_000 - 1);
    let left_out = u64::try_from(gaps.sum::<i64>()).expect("instants are in order");
    // Told, and not held: a fire may be said to have started and its run not be listed.
    report.count("instants without a run, unexplained", left_out.saturating_sub(missed));
}
