//! What a parked run costs, and how long a start takes among many of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use portcullis_engine::surroundings::{Draw as _, System};
use portcullis_proto::call::{self, OnDenied, OnUnknown, SideEffect, Traits};
use portcullis_proto::digest::Digest;
use portcullis_proto::ids::{JobKey, RunId, Shard, Tenant, ToolName};
use portcullis_proto::job::{Attendance, Job, Limits, Origin, Payload};
use portcullis_proto::policy::{Risk, Terms};
use portcullis_proto::run::{Ask, Event, Gating, Parentage, PlannedCall};
use portcullis_proto::time::Ms;
use portcullis_tests::home::{AgentBuilder, Home, Kind, Plan};
use serde_json::json;
use tokio::task::JoinSet;

use crate::figure;
use crate::signal::Signal;

/// How many runs are filled in at once.
const FILL_AT_ONCE: usize = 512;

pub(crate) async fn home(kind: Kind) -> Arc<Home> {
    let agent = AgentBuilder::new("asker").step(vec![("asks", json!({}))]).acting_by(Signal::new());
    Arc::new(Home::of(kind, Plan { slots: 64, ..Plan::of(vec![agent]) }).await)
}

/// Parks `count` one-step runs by the same events that a worker commits, in one commit each.
pub(crate) async fn fill(home: &Arc<Home>, count: usize, approval_ms: i64) {
    let mut tasks = JoinSet::new();
    let now = home.engine.store.now().await.expect("the store answers");
    for n in 0..count {
        if FILL_AT_ONCE <= tasks.len() {
            tasks.join_next().await;
        }
        let home = Arc::clone(home);
        tasks.spawn(async move {
            park(&home, n, now, approval_ms).await;
        });
    }
    while tasks.join_next().await.is_some() {}
}

/// Parks `count` runs whose deadlines lie within a few milliseconds of `at`.
pub(crate) async fn fill_until(home: &Arc<Home>, count: usize, at: Ms) -> Vec<RunId> {
    let mut tasks = JoinSet::new();
    for n in 0..count {
        let home = Arc::clone(home);
        tasks.spawn(async move {
            let now = home.engine.store.now().await.expect("the store answers");
            park(&home, n, now, at.since(now)).await
        });
    }
    tasks.join_all().await
}

async fn park(home: &Arc<Home>, n: usize, now: Ms, approval_ms: i64) -> RunId {
    let tenant = Tenant::new("default").expect("a name");
    let input = json!({ "ref": format!("refs/heads/feature-{n}"), "actor": "somebody" });
    let key = JobKey::api(&tenant, format!("fill-{now}-{approval_ms}-{n}").as_bytes());
    let id = home.engine.run_id(&key);
    let limits = Limits { approval_ms, cap_ms: 3 * 24 * 3_600_000, ..Limits::default() };
    let job = Job {
        key,
        tenant,
        agent: "asker".parse().expect("a name"),
        input_hash: Digest::of_json(&input).expect("plain JSON"),
        input: Payload::Inline(input),
        origin: Origin::Webhook { route: "github".parse().expect("a name") },
        attendance: Attendance::Unattended,
        limits,
        start_by: now.plus(86_400_000),
        parent: None,
        trace: None,
    };
    let tool = ToolName::new("asks").expect("a name");
    let args = json!({});
    let terms = Terms {
        pool: "ops".parse().expect("a name"),
        risk: Risk::High,
        need: 1,
        eligible: home.roster.pools.values().flat_map(|p| p.members.clone()).collect(),
        inbox: true,
        levels: vec![],
    };
    let claim = System.claim_id();
    let planned = PlannedCall {
        args_hash: call::args_hash(&id, 0, &tool, &args).expect("plain JSON"),
        fingerprint: call::fingerprint(&tool, &args).expect("plain JSON"),
        tool,
        args: Payload::Inline(args),
        traits: Traits {
            effect: SideEffect::AtMostOnce,
            timeout_ms: 60_000,
            on_denied: OnDenied::TellModel,
            on_unknown: OnUnknown::Fail,
        },
        gating: Gating::Ask(Ask { terms, nonce: System.nonce(), policy_epoch: 0 }),
    };
    let approval = portcullis_proto::ids::ApprovalId::of(&id, 0, 1);
    let events = [
        Event::Accepted { id: id.clone(), job: Box::new(job) },
        Event::Claim { claim, parentage: Parentage::None },
        Event::Planned { claim, calls: vec![planned], definition: None },
        Event::Published { approval, rev: 1 },
        Event::Park { claim },
    ];
    home.engine.send(&id, &events).await.expect("it parks");
    id
}

/// This process's resident memory, in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1_024
}

/// What the store takes, in bytes: Redis's own figure, or the size of the SQLite file.
async fn stored(home: &Home) -> u64 {
    match &home.servers {
        Some(servers) => redis_memory(&servers.redis.url()).await,
        None => home.store_bytes(),
    }
}

async fn redis_memory(url: &str) -> u64 {
    let client = redis::Client::open(url).expect("a URL");
    let mut connection = client.get_multiplexed_async_connection().await.expect("Redis answers");
    let info: String =
        redis::cmd("INFO").arg("memory").query_async(&mut connection).await.expect("INFO");
    let line = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
    line.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// Bytes of store and of this process per parked run, between `few` and `many` of them.
pub(crate) async fn bytes(kind: Kind, few: usize, many: usize) {
    let home = home(kind).await;
    fill(&home, few, 86_400_000).await;
    let (store_before, memory_before) = (stored(&home).await, resident());
    fill(&home, many, 86_300_000).await;
    let (store_after, memory_after) = (stored(&home).await, resident());
    let more = json!({ "from": few, "to": few + many });
    #[expect(clippy::cast_precision_loss, reason = "bytes per run")]
    let per_run = store_after.saturating_sub(store_before) as f64 / many as f64;
    figure::print(kind, "store_bytes_per_parked_run", per_run, "B", &more);
    #[expect(clippy::cast_precision_loss, reason = "MiB")]
    let grown = memory_after.saturating_sub(memory_before) as f64 / 1_048_576.0;
    figure::print(kind, "worker_memory_grown", grown, "MiB", &more);
}

/// From nothing to a store that has answered which deadlines are due, on every shard.
pub(crate) async fn start_up(kind: Kind, home: Arc<Home>, live: usize) {
    let Ok(home) = Arc::try_unwrap(home) else { unreachable!("every task has ended") };
    let closed = home.close().await;
    let began = Instant::now();
    let again = closed.open().await;
    let until = again.now().await.expect("the store answers").plus(1_000);
    let shards: Vec<Shard> = again.shape().shards.all().collect();
    for shard in shards {
        again.due(shard, until, 0, 256).await.expect("the store answers");
    }
    let took = began.elapsed();
    figure::print(kind, "start_up", ms(took), "ms", &json!({ "live": live }));
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}
