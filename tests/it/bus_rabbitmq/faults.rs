//! Whatever happens to the broker, nothing is lost that it confirmed, nobody waits for long, and
//! everything goes on by itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use portcullis_engine::finding::Severity;
use portcullis_engine::ports::{Bus, Condition, Published, Settled, Source};
use portcullis_engine::rabbitmq::{Declare, RabbitBus, RabbitSettings};
use portcullis_proto::topology::{self, Lane};
use portcullis_tests::conformance::bus::{
    consume, next, request, ring, run, runs_of, tenant, wake_of,
};
use portcullis_tests::servers::RabbitServer;

use super::{READY_MS_MAX, bus, settings};

const CONDITION_MS_MAX: u64 = 30_000;
/// Well under the time that a publish may take.
const QUICK_MS_MAX: u64 = 2_000;

async fn await_condition(bus: &RabbitBus, wanted: Condition) {
    let mut condition = bus.condition();
    let reached = condition.wait_for(|condition| *condition == wanted);
    let limit = Duration::from_millis(CONDITION_MS_MAX);
    let _reached = tokio::time::timeout(limit, reached).await.expect("in time").unwrap();
}

/// Nothing tells of the reading connection's end, so this looks again and again.
async fn await_lost_connections(bus: &RabbitBus, wanted: u64) {
    let looking = async {
        let mut look = tokio::time::interval(Duration::from_millis(20));
        while bus.figures().connections_lost < wanted {
            look.tick().await;
        }
    };
    let limit = Duration::from_millis(CONDITION_MS_MAX);
    tokio::time::timeout(limit, looking).await.expect("in time");
}

fn is_unknown(published: &Published) -> bool {
    matches!(published, Published::Unknown(_))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_crash_of_the_broker_publishers_and_readers_go_on() {
    let mut server = RabbitServer::start().unwrap();
    let bus = bus(&server.url()).await;
    let as_port: Arc<dyn Bus> = bus.clone();
    let queues: Vec<_> = (0..2).map(|bucket| topology::jobs_queue(Lane::Lo, bucket)).collect();
    server.await_queues_on_disk(&queues.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    let mut consumer = consume(&as_port, Source::Wakes(Lane::Lo), 1).await;
    ring(&as_port, wake_of(Lane::Lo, 1)).await;
    let held = next(&mut consumer).await;
    ring(&as_port, wake_of(Lane::Lo, 2)).await;

    server.kill9().unwrap();
    await_condition(&bus, Condition::Down).await;
    await_lost_connections(&bus, 2).await;
    let begin = Instant::now();
    assert!(is_unknown(&bus.wake(wake_of(Lane::Lo, 3)).await));
    assert!(is_unknown(&bus.publish(request("ops", "a.1")).await));
    assert!(begin.elapsed() < Duration::from_millis(QUICK_MS_MAX));
    assert_eq!(held.settle.ack().await, Settled::Lost);

    server.restart().unwrap();
    bus.ready(READY_MS_MAX).await.unwrap();
    // In any order: the broker may notice the end of our old connection late.
    let mut kept = BTreeMap::new();
    for _ in 0..2 {
        let delivery = next(&mut consumer).await;
        kept.insert(runs_of(&delivery), delivery.redelivered);
        assert_eq!(delivery.settle.ack().await, Settled::Done);
    }
    assert!(kept[&vec![run(1)]], "what was not acknowledged comes again and says so");
    assert!(kept.contains_key(&vec![run(2)]), "what was confirmed survives");
    ring(&as_port, wake_of(Lane::Lo, 4)).await;
    assert_eq!(runs_of(&next(&mut consumer).await), [run(4)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_closed_by_force_come_back_and_give_back_what_was_held() {
    let server = RabbitServer::start().unwrap();
    let bus = bus(&server.url()).await;
    let as_port: Arc<dyn Bus> = bus.clone();
    let mut consumer = consume(&as_port, Source::Wakes(Lane::Lo), 1).await;
    ring(&as_port, wake_of(Lane::Lo, 1)).await;
    let held = next(&mut consumer).await;
    server.control(&["close_all_connections", "by the test"]).unwrap();
    let again = next(&mut consumer).await;
    assert!(again.redelivered);
    assert_eq!(held.settle.ack().await, Settled::Lost, "a delivery of a connection that is gone");
    assert_eq!(again.settle.ack().await, Settled::Done);
    await_lost_connections(&bus, 2).await;
    bus.ready(READY_MS_MAX).await.unwrap();
    ring(&as_port, wake_of(Lane::Lo, 2)).await;
    assert_eq!(runs_of(&next(&mut consumer).await), [run(2)]);
    assert_eq!(bus.figures().connections_lost, 2);
    assert_eq!(bus.figures().settlements_lost, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_alarm_blocks_publishers_for_a_bounded_time_and_readers_not_at_all() {
    let server = RabbitServer::start().unwrap();
    let bus = bus(&server.url()).await;
    let as_port: Arc<dyn Bus> = bus.clone();
    let mut consumer = consume(&as_port, Source::Wakes(Lane::Lo), 1).await;
    for n in 0..3 {
        ring(&as_port, wake_of(Lane::Lo, n)).await;
    }
    server.control(&["set_vm_memory_high_watermark", "0.00001"]).unwrap();
    // The broker tells a connection that it is blocked once it publishes, and reads that message.
    while *bus.condition().borrow() == Condition::Up {
        let begin = Instant::now();
        let word = bus.publish(request("ops", "a.1")).await;
        assert!(matches!(word, Published::Returned) || is_unknown(&word), "{word:?}");
        assert!(begin.elapsed() < Duration::from_millis(QUICK_MS_MAX));
    }
    await_condition(&bus, Condition::Blocked).await;
    let begin = Instant::now();
    for n in 0..100 {
        assert!(is_unknown(&bus.publish(request("ops", &format!("b.{n}"))).await));
        assert!(is_unknown(&bus.wake(wake_of(Lane::Hi, n)).await));
    }
    assert!(begin.elapsed() < Duration::from_millis(QUICK_MS_MAX), "nothing piles up");
    for n in 0..3 {
        let delivery = next(&mut consumer).await;
        assert_eq!(runs_of(&delivery), [run(n)]);
        assert_eq!(delivery.settle.ack().await, Settled::Done);
    }
    assert!(bus.witness(None).await.is_ok(), "questions are not blocked");
    let found = bus.examine(Declare::PoliciesOnly).await.unwrap();
    let alarm = found.iter().find(|finding| finding.check == "rabbitmq-alarm").unwrap();
    assert_eq!(alarm.severity, Severity::Warning, "{alarm}");

    server.control(&["set_vm_memory_high_watermark", "0.9"]).unwrap();
    await_condition(&bus, Condition::Up).await;
    ring(&as_port, wake_of(Lane::Lo, 9)).await;
    assert_eq!(runs_of(&next(&mut consumer).await), [run(9)]);
    assert_eq!(bus.figures().connections_lost, 0, "an alarm is no fault");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bus_ends_in_time_even_while_it_is_blocked() {
    let server = RabbitServer::start().unwrap();
    let bus = bus(&server.url()).await;
    server.control(&["set_vm_memory_high_watermark", "0.00001"]).unwrap();
    while *bus.condition().borrow() == Condition::Up {
        bus.publish(request("ops", "a.1")).await;
    }
    let begin = Instant::now();
    bus.shutdown().await;
    assert!(begin.elapsed() < Duration::from_millis(QUICK_MS_MAX));
    assert_eq!(open_sockets_to(server.port()), 0);
}

/// Established connections from this machine to a port, as the kernel lists them.
fn open_sockets_to(port: u16) -> usize {
    let list = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    let is_open = |line: &&str| {
        let mut fields = line.split_whitespace().skip(2);
        let to = fields.next().is_some_and(|to| to.ends_with(&format!(":{port:04X}")));
        to && fields.next() == Some("01")
    };
    list.lines().filter(is_open).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_broker_is_noticed_and_costs_no_publisher_more_than_its_time() {
    let server = RabbitServer::start().unwrap();
    let confirm_timeout_ms = 1_000;
    let settings = RabbitSettings { heartbeat_s: 2, confirm_timeout_ms, ..settings(&server.url()) };
    let bus = RabbitBus::connect(settings).unwrap();
    bus.ready(READY_MS_MAX).await.unwrap();
    let as_port: Arc<dyn Bus> = bus.clone();
    let mut consumer = consume(&as_port, Source::Wakes(Lane::Lo), 1).await;
    ring(&as_port, wake_of(Lane::Lo, 1)).await;
    let held = next(&mut consumer).await;

    server.pause().unwrap();
    let rings = (0..10_000).map(|n| {
        let bus = Arc::clone(&bus);
        tokio::spawn(async move { bus.wake(wake_of(Lane::Hi, n)).await })
    });
    let mut words = Vec::new();
    for word in rings.collect::<Vec<_>>() {
        words.push(word.await.unwrap());
    }
    let refused = words.iter().filter(|word| **word == Published::Nacked).count();
    assert!(5_000 < refused, "{refused}: what would pile up is refused at once");
    assert!(words.iter().all(|word| *word == Published::Nacked || is_unknown(word)));
    let begin = Instant::now();
    let publishing = (0..100).map(|n| {
        let bus = Arc::clone(&bus);
        tokio::spawn(async move {
            let wake =
                portcullis_engine::ports::Wake { lane: Lane::Lo, tenant: tenant(n), run: run(n) };
            (bus.publish(request("ops", &format!("a.{n}"))).await, bus.wake(wake).await)
        })
    });
    for words in publishing.collect::<Vec<_>>() {
        let (request, wake) = words.await.unwrap();
        assert!(is_unknown(&request) && is_unknown(&wake), "{request:?} {wake:?}");
    }
    assert!(begin.elapsed() < Duration::from_millis(2 * confirm_timeout_ms + QUICK_MS_MAX));
    // Each connection notices by itself, at its own heartbeat.
    await_lost_connections(&bus, 2).await;

    server.resume().unwrap();
    bus.ready(READY_MS_MAX).await.unwrap();
    // Between the wakes of before the freeze, which may all arrive by now, the held one comes too.
    loop {
        let delivery = next(&mut consumer).await;
        let is_held = runs_of(&delivery) == [run(1)] && delivery.redelivered;
        assert_eq!(delivery.settle.ack().await, Settled::Done);
        if is_held {
            break;
        }
    }
    assert_eq!(held.settle.ack().await, Settled::Lost);
    ring(&as_port, wake_of(Lane::Lo, 2)).await;
}
