//! What the servers themselves say about a figure: their settings, their counters, their fsyncs.
//!
//! Authority: Redis's `INFO` and `CONFIG`, RabbitMQ's management API, the kernel's count of
//! `fsync` and `fdatasync` by way of `perf` where that is installed.

use std::process::{Child, Command, Stdio};

use portcullis_tests::home::Home;
use serde_json::{Value, json};

/// Counting from here on.
pub(crate) struct Counting {
    redis: Option<Info>,
    published: u64,
    syncs: Option<Child>,
}

struct Info {
    url: String,
    cpu_s: f64,
    calls: u64,
    usec: u64,
}

/// How a home keeps what it has promised, from the mouths of its servers.
pub(crate) async fn durability(home: &Home) -> Value {
    let Some(servers) = &home.servers else {
        return json!({ "sqlite_journal_mode": home.journal_mode() });
    };
    let mut connection = connect(&servers.redis.url()).await;
    let mut settings = serde_json::Map::new();
    for name in ["appendonly", "appendfsync", "maxmemory-policy"] {
        let pair: Vec<String> = redis::cmd("CONFIG")
            .arg("GET")
            .arg(name)
            .query_async(&mut connection)
            .await
            .expect("CONFIG GET");
        settings.insert(name.to_owned(), json!(pair.last()));
    }
    let queues = servers.vhost.management().get(&format!("/api/queues/{}", servers.vhost.name()));
    let queues = queues.expect("the management API answers");
    let quorum = queues.as_array().is_some_and(|queues| {
        !queues.is_empty() && queues.iter().all(|queue| queue["type"] == "quorum")
    });
    json!({ "redis": settings, "all_queues_quorum": quorum })
}

async fn connect(url: &str) -> redis::aio::MultiplexedConnection {
    let client = redis::Client::open(url).expect("a URL");
    client.get_multiplexed_async_connection().await.expect("Redis answers")
}

impl Info {
    async fn of(url: &str) -> Self {
        let mut connection = connect(url).await;
        let ask = redis::cmd("INFO").arg("everything").clone();
        let text: String = ask.query_async(&mut connection).await.expect("INFO");
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
        let number = |name: &str| field(name).and_then(|text| text.trim().parse::<f64>().ok());
        let script = field("cmdstat_evalsha:").unwrap_or_default();
        let part = |name: &str| {
            let pair = script.split(',').find_map(|pair| pair.strip_prefix(name));
            pair.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0)
        };
        Self {
            url: url.to_owned(),
            cpu_s: number("used_cpu_user:").unwrap_or(0.0) + number("used_cpu_sys:").unwrap_or(0.0),
            calls: part("calls="),
            usec: part("usec="),
        }
    }
}

/// Messages that the broker has taken for this home.
async fn published(home: &Home) -> u64 {
    let Some(servers) = &home.servers else { return 0 };
    // sleep: the broker renews its figures every five seconds
    tokio::time::sleep(std::time::Duration::from_millis(5_500)).await;
    let path = format!("/api/vhosts/{}", servers.vhost.name());
    let answer = servers.vhost.management().get(&path).unwrap_or_default();
    answer["message_stats"]["publish"].as_u64().unwrap_or(0)
}

impl Counting {
    pub(crate) async fn start(home: &Home) -> Self {
        let redis = match &home.servers {
            Some(servers) => Some(Info::of(&servers.redis.url()).await),
            None => None,
        };
        let writer = home.servers.as_ref().map_or(std::process::id(), |s| s.redis.pid());
        Self { redis, published: published(home).await, syncs: count_syncs(writer) }
    }

    /// What was counted.
    pub(crate) async fn stop(self, home: &Home) -> Value {
        let syncs = self.syncs.and_then(counted).map_or(json!("not counted: no perf"), Value::from);
        let Some(before) = self.redis else {
            return json!({ "fsyncs": syncs });
        };
        let after = Info::of(&before.url).await;
        let calls = after.calls.saturating_sub(before.calls);
        let usec = after.usec.saturating_sub(before.usec);
        json!({
            "fsyncs": syncs,
            "redis_cpu_s": round(after.cpu_s - before.cpu_s),
            "redis_script_calls": calls,
            "redis_us_per_call": usec.checked_div(calls),
            "rabbitmq_published": published(home).await.saturating_sub(self.published),
        })
    }
}

fn round(seconds: f64) -> f64 {
    (seconds * 100.0).round() / 100.0
}

/// The kernel counts, not we.
fn count_syncs(pid: u32) -> Option<Child> {
    let events = "syscalls:sys_enter_fsync,syscalls:sys_enter_fdatasync";
    let mut command = Command::new("perf");
    command.args(["stat", "-x", ",", "-e", events, "-p", &pid.to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().ok()
}

fn counted(counter: Child) -> Option<u64> {
    let pid = rustix::process::Pid::from_child(&counter);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).ok()?;
    let output = counter.wait_with_output().ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let counts = text.lines().filter(|line| line.contains("sys_enter_f"));
    counts.map(|line| line.split(',').next()?.parse::<u64>().ok()).sum()
}
