//! What the store holds: runs, reminders, and how Redis frames them.

use std::collections::BTreeSet;

use portcullis_engine::record::Record;
use portcullis_engine::redis::record_of;
use portcullis_proto::digest::Digest;
use portcullis_proto::time::Ms;
use portcullis_scheduler::reminders::calendar::Rule;
use portcullis_scheduler::reminders::state::{Event, Outcome, Schedule, Terms, apply};
use portcullis_scheduler::settings::CatchUp;

use super::super::{Target, hold, told};
use super::{LARGE, SMALL};
use crate::simulation;

pub(super) const RECORD: Target = Target {
    name: "record",
    promise: "what is read as a run is written and read again the same; nothing unpacks beyond \
              its bound",
    // Both as they are stored and as the JSON inside, which `check` packs: a changed bit of
    // compressed bytes is seldom more than «does not decompress».
    seeds: || {
        let mut seeds = Vec::new();
        for stored in lived() {
            let record = Record::decode(&stored).expect("of our own making");
            seeds.push(serde_json::to_vec(&record).expect("plain JSON"));
            seeds.push(stored);
        }
        seeds
    },
    check: check_record,
    // A record may unpack to 64 MiB.
    memory_bytes: 64 * 1024 * 1024 + LARGE,
    slice: 500,
};

pub(super) const REDIS: Target = Target {
    name: "redis_record",
    promise: "a value is a record with the very bytes that follow its head, or corrupt",
    seeds: || {
        let framed = |version: u64| {
            let ops = usize::try_from(version.min(8)).expect("at most 8");
            [&version.to_be_bytes()[..], &vec![9; ops * 8], b"bytes"].concat()
        };
        [1, 2, 7, 8, 9, u64::MAX].map(framed).to_vec()
    },
    check: check_redis,
    memory_bytes: SMALL,
    slice: 5_000,
};

pub(super) const REMINDER: Target = Target {
    name: "reminder_record",
    promise: "what is read as a reminder is written and read again the same, and whatever it \
              says, its next step is taken or refused in bounded time",
    seeds: || reminders().iter().map(Schedule::encode).collect(),
    check: check_reminder,
    memory_bytes: LARGE,
    slice: 500,
};

const ANCHOR_MS: i64 = 1_767_225_600_000;

/// Records of runs that lived in the simulation, one per length, for they differ then.
fn lived() -> Vec<Vec<u8>> {
    let all = (1..4).flat_map(simulation::records);
    let mut lengths = BTreeSet::new();
    all.filter(|bytes| lengths.insert(bytes.len() / 64)).map(Vec::from).collect()
}

/// What is read again from what is written.
pub(super) fn comes_back(record: &Record) -> Result<(), String> {
    let written = record.encode().map_err(|why| format!("not written: {why}"))?;
    let again = Record::decode(&written).map_err(|why| format!("not read again: {why}"))?;
    hold(again == *record, || format!("{again:?} was {record:?}"))
}

fn check_record(bytes: &[u8]) -> Result<String, String> {
    let stored = if bytes.first() == Some(&b'{') {
        let packed = zstd::bulk::compress(bytes, 1).map_err(|why| why.to_string())?;
        let length = u32::try_from(bytes.len()).expect("a few megabytes").to_be_bytes();
        [&[1], &length[..], &packed].concat()
    } else {
        bytes.to_vec()
    };
    match Record::decode(&stored) {
        Ok(record) => {
            comes_back(&record)?;
            Ok(format!("{} {}", record.run.phase.name(), record.run.calls.len().min(4)))
        }
        Err(why) => told(&why, &[]),
    }
}

fn check_redis(bytes: &[u8]) -> Result<String, String> {
    match record_of(bytes.to_vec()) {
        Ok(stored) => {
            let version = bytes.first_chunk().map(|head| u64::from_be_bytes(*head));
            hold(version == Some(stored.version.0), || format!("{:?}", stored.version))?;
            let head = 8 + 8 * usize::try_from(stored.version.0.min(8)).expect("at most 8");
            hold(bytes.get(head..) == Some(&stored.bytes[..]), || "other bytes".to_owned())?;
            hold(bytes.get(8..16) == Some(&stored.op.0[..]), || "another operation".to_owned())?;
            Ok("a record".to_owned())
        }
        Err(why) => told(&why, &[]),
    }
}

fn terms(rule: &Rule) -> Terms<'_> {
    Terms { rule, digest: Digest::of_bytes(b"rule"), catch_up: CatchUp::All }
}

/// A reminder as it is armed, while it fires, and after a failed fire.
fn reminders() -> [Schedule; 3] {
    let rule = Rule::every(60_000, ANCHOR_MS).expect("a minute");
    let step = |before: Option<&Schedule>, event: &Event, now: i64| {
        apply(before, event, terms(&rule), Ms(now)).expect("it follows").next
    };
    let armed = step(None, &Event::Synced, ANCHOR_MS + 1);
    let firing = step(Some(&armed), &Event::Due, ANCHOR_MS + 600_000);
    let fired = Event::Fired {
        instant: firing.pending[0],
        hold_until: firing.hold_until.expect("it fires"),
        outcome: Outcome::Failed { code: "unknown_agent".to_owned() },
    };
    let after = step(Some(&firing), &fired, ANCHOR_MS + 600_001);
    [armed, firing, after]
}

fn check_reminder(bytes: &[u8]) -> Result<String, String> {
    let schedule = match Schedule::decode(bytes) {
        Ok(schedule) => schedule,
        Err(why) => return told(&why, &[]),
    };
    let again = Schedule::decode(&schedule.encode()).map_err(|why| format!("not again: {why}"))?;
    hold(again == schedule, || format!("{again:?} was {schedule:?}"))?;
    let rules = [
        Rule::every(1_000, ANCHOR_MS).expect("a second"),
        Rule::parse_cron("*/5 * * * *", "Europe/Berlin", Default::default()).expect("a rule"),
        Rule::at(ANCHOR_MS),
    ];
    let mut steps = String::new();
    for rule in &rules {
        for event in [Event::Synced, Event::Due] {
            let stepped = apply(Some(&schedule), &event, terms(rule), Ms(ANCHOR_MS + 86_400_000));
            match stepped {
                Ok(change) => {
                    // More than a scheduler ever writes stays until it is due, and is cut then.
                    let pending = change.next.pending.len();
                    hold(event != Event::Due || pending <= 10, || format!("{change:?}"))?;
                    steps.push('+');
                }
                Err(why) => steps.push_str(&told(&why, &[])?.chars().take(8).collect::<String>()),
            }
        }
    }
    Ok(steps)
}
