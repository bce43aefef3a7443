//! Messages on the jobs exchange: whole jobs, and wakes.

use portcullis_engine::record::Record;
use portcullis_proto::digest::Digest;
use portcullis_proto::envelope::{self, Body, JobEnvelope};
use portcullis_proto::ids::{
    AgentName, Epoch, JobKey, ReminderName, RouteName, RunId, ShardCount, Subject, Tenant,
};
use portcullis_proto::job::{Attendance, Job, Limits, Origin, Parent, Payload, Trace};
use portcullis_proto::run::{Event, apply};
use portcullis_proto::time::Ms;
use portcullis_proto::wake;
use serde_json::json;

use super::super::{Target, hold, told};
use super::{LARGE, SMALL};

pub(super) const ENVELOPE: Target = Target {
    name: "envelope",
    promise: "a job that is read is written and read again the same, and becomes a record that \
              is read again; both readers of the queue agree",
    seeds: || jobs().map(|job| encoded(&JobEnvelope { epoch: Epoch([7; 16]), job })).to_vec(),
    check: check_envelope,
    memory_bytes: LARGE,
    slice: 2_000,
};

pub(super) const WAKE: Target = Target {
    name: "wake",
    promise: "1 to 64 runs are read and written again the same, or nothing",
    seeds: || {
        let key = |n: usize| JobKey::api(&tenant(), &n.to_be_bytes());
        let runs: Vec<RunId> = (0..64).map(|n| RunId::of(&key(n), shards())).collect();
        vec![wake::encode(&runs[..1]), wake::encode(&runs[..3]), wake::encode(&runs)]
    },
    check: check_wake,
    memory_bytes: SMALL,
    slice: 2_000,
};

pub(super) const NOW: Ms = Ms(1_767_225_600_000);

fn tenant() -> Tenant {
    Tenant::new("acme").unwrap()
}

fn shards() -> ShardCount {
    ShardCount::new(16).unwrap()
}

/// One job of every shape.
pub(super) fn jobs() -> [Job; 4] {
    let input = json!({ "ref": "main", "list": [{ "x": 1.5 }, null, "ä\n"], "n": -0.0001 });
    let plain = Job {
        key: JobKey::api(&tenant(), b"one"),
        tenant: tenant(),
        agent: AgentName::new("deployer").unwrap(),
        input_hash: Digest::of_json(&input).unwrap(),
        input: Payload::Inline(input),
        origin: Origin::Api,
        attendance: Attendance::Unattended,
        limits: Limits::default(),
        start_by: NOW.plus(3_600_000),
        parent: None,
        trace: Trace::of_header("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    };
    let name = ReminderName::new("nightly").unwrap();
    let above = RunId::of(&plain.key, shards());
    let parent = Parent { run: above.clone(), call: 2, depth: 1, hard_cap: NOW.plus(7_200_000) };
    [
        Job {
            origin: Origin::Webhook { route: RouteName::new("github").unwrap() },
            input: Payload::Stored { digest: Digest::of_bytes(b"long"), bytes: 1 << 40 },
            trace: None,
            ..plain.clone()
        },
        Job {
            key: JobKey::child(&above, 2),
            origin: Origin::Reminder { name, instant: NOW },
            parent: Some(parent),
            ..plain.clone()
        },
        Job {
            attendance: Attendance::Session { approver: Subject::new("alice").unwrap() },
            start_by: NOW,
            ..plain.clone()
        },
        plain,
    ]
}

fn encoded(envelope: &JobEnvelope) -> Vec<u8> {
    envelope::encode(envelope).expect("a small job")
}

fn check_envelope(bytes: &[u8]) -> Result<String, String> {
    let read = envelope::decode(bytes);
    match (&read, envelope::classify(bytes)) {
        (Ok(one), Ok(Body::Job(other))) => hold(*one == *other, || "two jobs in one".to_owned())?,
        (Ok(_), Ok(Body::Wake(_)) | Err(_)) => return Err("a job, and none".to_owned()),
        (Err(_), Ok(Body::Job(_))) => return Err("none, and a job".to_owned()),
        (Err(_), Ok(Body::Wake(_)) | Err(_)) => {}
    }
    let envelope = match read {
        Ok(envelope) => envelope,
        Err(why) => return told(&why, &[]),
    };
    let Ok(written) = envelope::encode(&envelope) else { return Ok("too long again".to_owned()) };
    let again = envelope::decode(&written).map_err(|why| format!("not read again: {why}"))?;
    hold(again == envelope, || format!("{again:?} was {envelope:?}"))?;
    let id = RunId::of(&envelope.job.key, shards());
    let accepted = Event::Accepted { id, job: Box::new(envelope.job) };
    match apply(None, &accepted, NOW) {
        Ok(change) => {
            let record = Record::after(None, change.next, change.journal);
            super::records::comes_back(&record)?;
            Ok(format!("a run, {}", record.run.phase.name()))
        }
        Err(why) => told(&why, &[]),
    }
}

fn check_wake(bytes: &[u8]) -> Result<String, String> {
    match wake::decode(bytes) {
        Ok(runs) => {
            hold((1..=wake::RUNS_MAX).contains(&runs.len()), || format!("{} runs", runs.len()))?;
            let again = wake::decode(&wake::encode(&runs)).map_err(|why| why.to_string())?;
            hold(again == runs, || format!("{again:?} was {runs:?}"))?;
            Ok(format!("{} runs", if runs.len() == 1 { "one" } else { "many" }))
        }
        Err(why) => told(&why, &[]),
    }
}
