//! Firing over a store: once per instant, whatever crashes and whoever else fires.

use std::sync::Arc;

use portcullis_engine::ports::{RecordKey, Store as _};
use portcullis_engine::sweep::OnDue as _;
use portcullis_proto::ids::{JobKey, RunId};
use portcullis_proto::job::{Attendance, Origin};
use portcullis_proto::run::{Event as RunEvent, Reason};
use portcullis_proto::time::Ms;
use serde_json::json;

use super::calendar::Rule;
use super::state::{HOLD_MS, Outcome, Schedule};
use super::*;
use crate::fake::{START_MS, Stage, Trouble, settings};
use crate::settings::{CatchUp, Overlap, Settings};

const HOUR: i64 = 3_600_000;

fn name() -> ReminderName {
    "nightly".parse().unwrap()
}

fn reminder() -> Reminder {
    Reminder {
        agent: "greeter".parse().unwrap(),
        tenant: "acme".parse().unwrap(),
        rule: Rule::every(HOUR, START_MS).unwrap(),
        input: json!({ "report": "daily" }),
        catch_up: CatchUp::One,
        overlap: Overlap::Skip,
        attendance: Attendance::Unattended,
    }
}

fn with(reminder: Reminder) -> Settings {
    let mut settings = settings();
    settings.reminders.insert(name(), reminder);
    settings
}

impl Stage {
    async fn due(&self) -> bool {
        let shards = self.engine.store.shape().shards;
        self.scheduler.due(&RecordKey::reminder(name(), shards)).await
    }

    async fn schedule(&self) -> Schedule {
        self.scheduler.reminder_state(&name()).await.unwrap().unwrap()
    }

    async fn runs(&self) -> Vec<(Ms, RunId)> {
        let told = self.get("/v1/runs?limit=500").await.json;
        let rows = told["runs"].as_array().unwrap().iter();
        let mut runs: Vec<_> = rows
            .map(|row| {
                let origin: Origin = serde_json::from_value(row["origin"].clone()).unwrap();
                let Origin::Reminder { instant, .. } = origin else { panic!("{row}") };
                (instant, row["run_id"].as_str().unwrap().parse().unwrap())
            })
            .collect();
        runs.sort();
        runs
    }
}

async fn armed(reminder: Reminder) -> Stage {
    let stage = Stage::with(with(reminder));
    stage.scheduler.sync_reminders().await.unwrap();
    stage
}

#[tokio::test]
async fn a_due_reminder_starts_its_run_and_is_armed_for_the_next() {
    let stage = armed(reminder()).await;
    assert!(stage.due().await, "too early is nobody's fault");
    assert!(stage.runs().await.is_empty());
    stage.store.advance(HOUR);
    assert!(stage.due().await);
    let first = Ms(START_MS + HOUR);
    let run = stage.engine.run_id(&JobKey::reminder(&name(), first));
    assert_eq!(stage.runs().await, [(first, run.clone())]);
    let schedule = stage.schedule().await;
    assert_eq!(schedule.next_fire, Some(Ms(START_MS + 2 * HOUR)));
    assert_eq!(schedule.last.map(|fire| fire.outcome), Some(Outcome::Started { run: run.clone() }));
    let (held, _) = stage.engine.load(&run).await.unwrap();
    let job = held.unwrap().run().job.clone();
    assert_eq!(job.input, portcullis_proto::job::Payload::Inline(json!({ "report": "daily" })));
    assert!(stage.due().await && stage.runs().await.len() == 1, "once");
}

#[tokio::test]
async fn its_timer_stands_in_the_stores_timer() {
    let stage = armed(reminder()).await;
    let key = RecordKey::reminder(name(), stage.engine.store.shape().shards);
    let due = stage.store.due(key.shard(), Ms(START_MS + HOUR), 0, 10).await.unwrap();
    assert_eq!(due.entries.len(), 1);
    assert_eq!((&due.entries[0].key, due.entries[0].at), (&key, Ms(START_MS + HOUR)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_schedulers_fire_an_instant_once() {
    let first = armed(Reminder { overlap: Overlap::Allow, ..reminder() }).await;
    let second = first.another(with(Reminder { overlap: Overlap::Allow, ..reminder() }));
    let (first, second) = (Arc::new(first), Arc::new(second));
    for _ in 0..20 {
        first.store.advance(HOUR);
        let tasks: Vec<_> = (0..6)
            .map(|n| {
                let stage = Arc::clone(if n % 2 == 0 { &first } else { &second });
                tokio::spawn(async move { stage.due().await })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    }
    let instants: Vec<_> = first.runs().await.into_iter().map(|(at, _)| at).collect();
    let wanted: Vec<_> = (1..=20).map(|n| Ms(START_MS + n * HOUR)).collect();
    assert_eq!(instants, wanted);
    assert_eq!(first.schedule().await.fired, 20, "and each outcome was stored once");
}

#[tokio::test]
async fn a_crash_after_the_instant_was_taken_loses_nothing() {
    let stage = armed(reminder()).await;
    stage.store.advance(HOUR);
    // One process takes the instant and dies before it decides.
    let moved = stage.scheduler.move_reminder(&name(), &reminder(), &Event::Due).await.unwrap();
    assert_eq!(moved.change.fire, [Ms(START_MS + HOUR)]);
    assert!(stage.due().await && stage.runs().await.is_empty(), "others are kept off");
    stage.store.advance(HOLD_MS);
    assert!(stage.another(with(reminder())).due().await);
    assert_eq!(stage.runs().await.len(), 1);
}

#[tokio::test]
async fn a_crash_after_the_run_was_made_makes_no_second_one_and_does_not_skip_it() {
    let stage = armed(reminder()).await;
    stage.store.advance(HOUR);
    let moved = stage.scheduler.move_reminder(&name(), &reminder(), &Event::Due).await.unwrap();
    let instant = moved.change.fire[0];
    let fired = stage.scheduler.fire(&name(), &reminder(), instant, None).await.unwrap();
    // It died before the outcome was stored.
    stage.store.advance(HOLD_MS);
    assert!(stage.due().await);
    let schedule = stage.schedule().await;
    assert_eq!((stage.runs().await.len(), schedule.fired, schedule.skipped), (1, 1, 0));
    assert_eq!(schedule.last.map(|fire| fire.outcome), Some(fired));
}

#[tokio::test]
async fn an_instant_is_skipped_while_the_run_before_it_lives() {
    let stage = armed(reminder()).await;
    stage.store.advance(HOUR);
    assert!(stage.due().await);
    let (_, run) = stage.runs().await[0].clone();
    // Its start_by is an hour: by then it has ended, unless somebody works on it.
    let claim = portcullis_proto::ids::ClaimId([1; 16]);
    let parentage = portcullis_proto::run::Parentage::None;
    stage.engine.send(&run, &[RunEvent::Claim { claim, parentage }]).await.unwrap();
    stage.store.advance(HOUR);
    assert!(stage.due().await);
    let schedule = stage.schedule().await;
    assert_eq!((schedule.fired, schedule.skipped), (1, 1));
    assert_eq!(
        schedule.last.map(|fire| fire.outcome),
        Some(Outcome::Skipped { live: run.clone() })
    );
    let cancel = RunEvent::Cancel { by: "test".into(), reason: Reason::of("cancelled") };
    stage.engine.send(&run, &[cancel]).await.unwrap();
    stage.store.advance(HOUR);
    assert!(stage.due().await);
    assert_eq!(stage.schedule().await.fired, 2);
}

#[tokio::test]
async fn overlap_can_be_allowed() {
    let stage = armed(Reminder { overlap: Overlap::Allow, ..reminder() }).await;
    for _ in 0..3 {
        stage.store.advance(HOUR);
        assert!(stage.due().await);
    }
    assert_eq!((stage.runs().await.len(), stage.schedule().await.skipped), (3, 0));
}

#[tokio::test]
async fn what_passed_while_nothing_ran_is_caught_up_in_order() {
    let all = Reminder { catch_up: CatchUp::All, overlap: Overlap::Allow, ..reminder() };
    let stage = armed(all).await;
    stage.store.advance(25 * HOUR);
    assert!(stage.due().await);
    let instants: Vec<_> = stage.runs().await.into_iter().map(|(at, _)| at).collect();
    let wanted: Vec<_> = (16..=25).map(|n| Ms(START_MS + n * HOUR)).collect();
    assert_eq!(instants, wanted, "the newest ten");
}

#[tokio::test]
async fn nothing_fires_without_a_store_and_everything_pending_fires_after() {
    let stage = armed(reminder()).await;
    stage.store.advance(HOUR);
    stage.store.trouble(Some(Trouble::Down));
    assert!(!stage.due().await, "the sweeper tries again");
    stage.store.trouble(Some(Trouble::NotDurable));
    assert!(!stage.due().await, "a run that could be lost is none");
    stage.store.trouble(None);
    stage.store.advance(HOLD_MS);
    assert!(stage.due().await);
    let schedule = stage.schedule().await;
    assert_eq!((stage.runs().await.len(), schedule.fired), (1, 1));
}

#[tokio::test]
async fn a_reminder_that_is_configured_no_more_is_disarmed() {
    let stage = armed(reminder()).await;
    let without = stage.another(settings());
    stage.store.advance(HOUR);
    assert!(!without.due().await, "an unknown reminder is somebody else's");
    without.scheduler.sync_reminders().await.unwrap();
    let key = RecordKey::reminder(name(), stage.engine.store.shape().shards);
    let due = stage.store.due(key.shard(), Ms(START_MS + 100 * HOUR), 0, 10).await.unwrap();
    assert!(due.entries.is_empty());
    assert!(!stage.due().await, "also where it is still configured");
    assert!(stage.runs().await.is_empty());
    // It comes back with the next start that knows it.
    stage.scheduler.sync_reminders().await.unwrap();
    stage.store.advance(HOUR);
    assert!(stage.due().await);
    assert_eq!(stage.runs().await.len(), 1);
}

#[tokio::test]
async fn an_unusable_reminder_is_recorded_as_failed_and_goes_on() {
    for (broken, code) in [
        (Reminder { agent: "gone".parse().unwrap(), ..reminder() }, "unknown_agent"),
        (Reminder { input: json!(9_007_199_254_740_993_u64), ..reminder() }, "input_not_canonical"),
    ] {
        let stage = armed(broken).await;
        stage.store.advance(HOUR);
        assert!(stage.due().await);
        let schedule = stage.schedule().await;
        assert_eq!(schedule.failed, 1);
        let failed = Outcome::Failed { code: code.to_owned() };
        assert_eq!(schedule.last.map(|fire| fire.outcome), Some(failed));
        assert_eq!(schedule.next_fire, Some(Ms(START_MS + 2 * HOUR)));
    }
}
