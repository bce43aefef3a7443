//! Measures Portcullis: one line of JSON per figure, in both homes.
//!
//! The whole path is the shipped one: engine, sweeper and worker in this process, the store and
//! the bus as an operator would have them (SQLite; or a real Redis with `appendfsync always` and a
//! real RabbitMQ with quorum queues). Steps do nothing, so what is measured is ours. Raw samples go
//! to `target/bench/`.

mod counters;
mod deadlines;
mod figure;
mod flows;
mod parked;
mod signal;
mod watch;

use portcullis_tests::home::Kind;

const USAGE: &str = "usage: bench [embedded|distributed] [jobs|flows|latency|deadlines|parked] \
                     [--live N]; nothing named: everything, with a million live keys";

struct Wanted {
    kinds: Vec<Kind>,
    figures: Vec<String>,
    live: usize,
}

fn wanted() -> Option<Wanted> {
    let mut wanted = Wanted { kinds: vec![], figures: vec![], live: 1_000_000 };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "embedded" => wanted.kinds.push(Kind::Embedded),
            "distributed" => wanted.kinds.push(Kind::Distributed),
            "jobs" | "flows" | "latency" | "deadlines" | "parked" => wanted.figures.push(argument),
            "--live" => wanted.live = arguments.next()?.parse().ok()?,
            _ => return None,
        }
    }
    if wanted.kinds.is_empty() {
        wanted.kinds = vec![Kind::Embedded, Kind::Distributed];
    }
    Some(wanted)
}

/// The same as the product's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> std::process::ExitCode {
    let Some(wanted) = wanted() else {
        eprintln!("{USAGE}");
        return std::process::ExitCode::from(2);
    };
    let on = |name: &str| wanted.figures.is_empty() || wanted.figures.iter().any(|f| f == name);
    for kind in wanted.kinds.iter().copied() {
        if on("jobs") {
            flows::jobs(kind, 20_000, 256).await;
            flows::jobs(kind, 40_000, 1_024).await;
        }
        if on("flows") {
            flows::approvals(kind, 5_000, 64).await;
        }
        if on("latency") {
            flows::enqueue_to_done(kind, 1_000, 50).await;
            flows::decision_to_resumed(kind, 400, 20).await;
        }
        if on("parked") {
            parked::bytes(kind, 1_000, 100_000).await;
            parked::start_up(kind, parked::home(kind).await, 0).await;
        }
        if on("deadlines") {
            for live in [1_000, wanted.live] {
                let home = parked::home(kind).await;
                parked::fill(&home, live, 86_400_000).await;
                deadlines::lateness(kind, &home, 1_000, live).await;
                deadlines::burst(kind, &home, 1_000, live).await;
                parked::start_up(kind, home, live).await;
            }
        }
    }
    std::process::ExitCode::SUCCESS
}
