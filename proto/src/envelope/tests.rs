use super::*;
use crate::digest::Digest;
use crate::ids::{AgentName, JobKey, ReminderName, ShardCount, Subject, Tenant};
use crate::job::{Attendance, Limits, Origin, Parent, Payload, Trace};
use crate::time::Ms;
use serde_json::{Value, json};

const FIXTURE: &[u8] = include_bytes!("../../fixtures/envelope/v1.json");

fn job() -> Job {
    let name = ReminderName::new("nightly").unwrap();
    let instant = Ms(1_767_225_600_000);
    let above = RunId::of(&JobKey::reminder(&name, instant), ShardCount::new(16).unwrap());
    let input = json!({"ref": "main", "retries": 3});
    let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    Job {
        key: JobKey::child(&above, 2),
        tenant: Tenant::new("acme").unwrap(),
        agent: AgentName::new("deployer").unwrap(),
        input_hash: Digest::of_json(&input).unwrap(),
        input: Payload::Inline(input),
        origin: Origin::Reminder { name, instant },
        attendance: Attendance::Session { approver: Subject::new("alice").unwrap() },
        limits: Limits { cap_ms: 7_200_000, step_ms: 600_000, approval_ms: 1_800_000 },
        start_by: Ms(1_767_312_000_000),
        parent: Some(Parent { run: above, call: 2, depth: 1, hard_cap: Ms(1_767_232_800_000) }),
        trace: Trace::of_header(traceparent),
    }
}

fn envelope() -> JobEnvelope {
    JobEnvelope { epoch: Epoch([0xE; 16]), job: job() }
}

fn value() -> Value {
    serde_json::from_slice(FIXTURE).unwrap()
}

fn bytes(value: &Value) -> Vec<u8> {
    serde_json::to_vec(value).unwrap()
}

#[test]
fn the_first_version_is_still_read_and_is_what_is_written() {
    assert_eq!(decode(FIXTURE).unwrap(), envelope());
    let written: Value = serde_json::from_slice(&encode(&envelope()).unwrap()).unwrap();
    assert_eq!(written, value());
}

#[test]
fn every_shape_of_a_job_comes_back_as_it_was() {
    let plain = Job { parent: None, trace: None, attendance: Attendance::Unattended, ..job() };
    let route = crate::ids::RouteName::new("github").unwrap();
    let digest = Digest::of_bytes(b"long");
    let jobs = [
        Job { origin: Origin::Api, ..plain.clone() },
        Job { origin: Origin::Webhook { route }, ..plain.clone() },
        Job { input: Payload::Stored { digest, bytes: 1 << 40 }, ..plain.clone() },
        plain,
    ];
    for job in jobs {
        let envelope = JobEnvelope { epoch: Epoch([1; 16]), job };
        assert_eq!(decode(&encode(&envelope).unwrap()).unwrap(), envelope);
    }
}

#[test]
fn fields_of_a_later_release_are_ignored() {
    let mut later = value();
    later["priority"] = json!("high");
    later["job"]["labels"] = json!(["a"]);
    later["job"]["limits"]["tokens"] = json!(5);
    assert_eq!(decode(&bytes(&later)).unwrap(), envelope());
}

#[test]
fn a_malformed_trace_is_dropped_and_not_the_job() {
    let mut odd = value();
    odd["job"]["trace"]["traceparent"] = json!("nonsense");
    assert_eq!(decode(&bytes(&odd)).unwrap().job, Job { trace: None, ..job() });
}

#[test]
fn what_is_no_known_job_is_refused() {
    let with = |change: fn(&mut Value)| {
        let mut value = value();
        change(&mut value);
        decode(&bytes(&value))
    };
    use DecodeError::{TooLarge, UnknownKind, UnknownVersion, Unreadable};
    assert!(matches!(with(|v| v["v"] = json!(2)), Err(UnknownVersion(2))));
    assert!(matches!(with(|v| v["kind"] = json!("wake")), Err(UnknownKind(_))));
    assert!(matches!(with(|v| v["kind"] = json!("Job")), Err(UnknownKind(_))));
    let unreadable: [fn(&mut Value); 9] = [
        |v| *v = json!([]),
        |v| v["v"] = json!("1"),
        |v| v["v"] = json!(-1),
        |v| v["epoch"] = json!("e"),
        |v| v["job"] = Value::Null,
        |v| v["job"]["start_by"] = Value::Null,
        |v| v["job"]["tenant"] = json!("no such tenant"),
        |v| v["job"]["attendance"] = json!("attended"),
        |v| v["job"]["limits"]["cap_ms"] = json!(1e99),
    ];
    for change in unreadable {
        assert!(matches!(with(change), Err(Unreadable(_))));
    }
    assert!(matches!(decode(b""), Err(Unreadable(_))));
    assert!(matches!(decode(b"\xff"), Err(Unreadable(_))));
    let long = vec![b' '; BODY_BYTES_MAX + 1];
    assert!(matches!(decode(&long), Err(TooLarge { bytes }) if bytes == long.len()));
    assert!(matches!(classify(&long), Err(TooLarge { .. })));
}

#[test]
fn a_job_that_is_too_long_is_not_written() {
    let mut envelope = envelope();
    envelope.job.input = Payload::Inline(json!("x".repeat(BODY_BYTES_MAX)));
    assert!(matches!(encode(&envelope), Err(EncodeError::TooLarge { .. })));
}

#[test]
fn a_reader_of_the_jobs_exchange_tells_wakes_from_jobs() {
    assert_eq!(classify(FIXTURE).unwrap(), Body::Job(Box::new(envelope())));
    let wake = include_bytes!("../../fixtures/wake/v1.json");
    assert!(matches!(classify(wake).unwrap(), Body::Wake(runs) if runs.len() == 2));
    use DecodeError::{UnknownKind, Unreadable, Wake};
    let later = json!({"v": 9, "kind": "wake", "runs": []});
    assert!(matches!(classify(&bytes(&later)), Err(Wake(WakeError::UnknownVersion(9)))));
    let other = json!({"v": 1, "kind": "reminder"});
    assert!(matches!(classify(&bytes(&other)), Err(UnknownKind(kind)) if kind == "reminder"));
    assert!(matches!(classify(b"{}"), Err(Unreadable(_))));
}
