//! What must hold of a [`Bus`], in one process or over a broker?
//!
//! [`bus_conformance!`](crate::bus_conformance) makes one test of each check. Wakes only: what else
//! a bus carries differs between the homes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use portcullis_engine::ports::{Bus, BusError, Condition, Consumer, Delivery, Message, Published};
use portcullis_engine::ports::{Route, Settled, Source, Wake};
use portcullis_proto::ids::{JobKey, PoolName, RunId, ShardCount, Tenant};
use portcullis_proto::topology::Lane;
use portcullis_proto::wake;

/// How long something that must come may take, in milliseconds.
pub const COMES_MS_MAX: u64 = 20_000;
/// How long we look whether something that must not come does, in milliseconds.
pub const COMES_NOT_MS: u64 = 400;
/// Rings at once in the checks of many.
const RINGS_AT_ONCE: usize = 256;

/// A bus under test, with whatever keeps its server up.
pub struct Home {
    pub bus: Arc<dyn Bus>,
    pub _server: Box<dyn std::any::Any + Send>,
}

/// The tests of the suite, on the buses that `$home` (an async function) makes.
#[macro_export]
macro_rules! bus_conformance {
    ($home:path: $($check:ident),* $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $check() {
                let home: $crate::conformance::bus::Home = $home().await;
                $crate::conformance::bus::$check(&home.bus).await;
            }
        )*
    };
    ($home:path) => {
        $crate::bus_conformance! { $home:
            a_wake_reaches_a_consumer,
            lanes_do_not_mix,
            what_was_acknowledged_does_not_come_again,
            what_is_given_back_comes_again_and_says_so,
            what_a_reader_forgot_comes_again,
            a_dropped_consumer_gives_back_what_is_unsettled,
            a_settlement_after_the_end_of_its_consumer_is_lost,
            no_more_than_the_prefetch_is_unsettled,
            competing_consumers_share_the_wakes,
            a_prefetch_out_of_bounds_is_refused,
            ten_thousand_wakes_are_all_delivered,
            a_request_that_no_queue_takes_is_returned,
            a_working_bus_is_up,
        }
    };
}

/// The `n`th run of the tests.
#[must_use]
pub fn run(n: usize) -> RunId {
    let key = JobKey::api(&tenant(0), n.to_string().as_bytes());
    RunId::of(&key, ShardCount::new(16).expect("16 is a shard count"))
}

/// The `n`th tenant of the tests.
#[must_use]
pub fn tenant(n: usize) -> Tenant {
    Tenant::new(format!("tenant-{n}")).expect("a short name")
}

/// A wake for the `n`th run of one tenant: all of these go through one queue.
#[must_use]
pub fn wake_of(lane: Lane, n: usize) -> Wake {
    Wake { lane, tenant: tenant(0), run: run(n) }
}

/// A request that goes to the approvers of `pool`.
#[must_use]
pub fn request(pool: &str, message_id: &str) -> Message {
    let pool = PoolName::new(pool).expect("a short name");
    Message {
        route: Route::Approval { tenant: tenant(0), pool, risk: "high" },
        message_id: message_id.to_owned(),
        expiration_ms: Some(60_000),
        headers: vec![("traceparent".to_owned(), "00-1-2-01".to_owned())],
        body: bytes::Bytes::from_static(br#"{"v":1}"#),
    }
}

/// Rings and insists that the bus took it.
pub async fn ring(bus: &Arc<dyn Bus>, wake: Wake) {
    assert_eq!(bus.wake(wake).await, Published::Confirmed);
}

/// Subscribes and insists that it can.
pub async fn consume(bus: &Arc<dyn Bus>, source: Source, prefetch: u16) -> Consumer {
    bus.consume(source, prefetch).await.expect("a subscription")
}

/// The next delivery, which must come.
pub async fn next(consumer: &mut Consumer) -> Delivery {
    let limit = Duration::from_millis(COMES_MS_MAX);
    let next = tokio::time::timeout(limit, consumer.next()).await;
    next.expect("a delivery in time").expect("the bus is not shut down")
}

/// Insists that nothing is delivered.
pub async fn nothing_comes(consumer: &mut Consumer) {
    let limit = Duration::from_millis(COMES_NOT_MS);
    let next = tokio::time::timeout(limit, consumer.next()).await;
    assert!(next.is_err(), "unexpected: {next:?}");
}

/// The runs that a delivery wakes.
#[must_use]
pub fn runs_of(delivery: &Delivery) -> Vec<RunId> {
    wake::decode(&delivery.body).expect("a readable wake")
}

pub async fn a_wake_reaches_a_consumer(bus: &Arc<dyn Bus>) {
    let mut consumer = consume(bus, Source::Wakes(Lane::Lo), 1).await;
    ring(bus, wake_of(Lane::Lo, 1)).await;
    let delivery = next(&mut consumer).await;
    assert_eq!(runs_of(&delivery), [run(1)]);
    assert!(!delivery.redelivered);
    assert_eq!(delivery.settle.ack().await, Settled::Done);
}

pub async fn lanes_do_not_mix(bus: &Arc<dyn Bus>) {
    let mut lo = consume(bus, Source::Wakes(Lane::Lo), 1).await;
    let mut hi = consume(bus, Source::Wakes(Lane::Hi), 1).await;
    ring(bus, wake_of(Lane::Hi, 1)).await;
    assert_eq!(runs_of(&next(&mut hi).await), [run(1)]);
    nothing_comes(&mut lo).await;
}

pub async fn what_was_acknowledged_does_not_come_again(bus: &Arc<dyn Bus>) {
    let mut consumer = consume(bus, Source::Wakes(Lane::Lo), 1).await;
    ring(bus, wake_of(Lane::Lo, 1)).await;
    assert_eq!(next(&mut consumer).await.settle.ack().await, Settled::Done);
    drop(consumer);
    ring(bus, wake_of(Lane::Lo, 2)).await;
    let mut consumer = consume(bus, Source::Wakes(Lane::Lo), 1).await;
    assert_eq!(runs_of(&next(&mut consumer).await), [run(2)]);
}

pub async fn what_is_given_back_comes_again_and_says_so(bus: &Arc<dyn Bus>) {
    let mut consumer = consume(bus, Source::Wakes(Lane::Lo), 1).await;
    ring(bus, wake_of(Lane::Lo, 1)).await;
    assert_eq!(next(&mut consumer).await.settle.give_back().await, Settled::Done);
    let again = next(&mut consumer).await;
    assert_eq!(runs_of(&again), [run(1)]);
    assert!(again.redelivered);
}

pub async fn what_a_reader_forgot_comes_again(bus: &Arc<dyn Bus>) {
    let mut consumer = consume(bus, Source::Wakes(Lane::Lo), 1).await;
    ring(bus, wake_of(Lane::Lo, 1)).await;
    drop(next(&mut consumer).await);
    let again = next(&mut consumer).await;
    assert_eq!(runs_of(&again), [run(1)]);
    assert!(again.redelivered);
}

pub async fn a_dropped_consumer_gives_back_what_is_unsettled(bus: &Arc<dyn Bus>) {
    let mut first = consume(bus, Source::Wakes(Lane::Lo), 2).await;
    for n in 0..3 {
        ring(bus, wake_of(Lane::Lo, n)).await;
    }
    // One in our hands, one in the subscription, one in the queue.
    let held = next(&mut first).await;
    drop(first);
    let mut second = consume(bus, Source::Wakes(Lane::Lo), 4).await;
    let mut again = BTreeSet::new();
    for _ in 0..3 {
        let delivery = next(&mut second).await;
        again.extend(runs_of(&delivery));
        if runs_of(&delivery) == runs_of(&held) {
            assert!(delivery.redelivered);
        }
        assert_eq!(delivery.settle.ack().await, Settled::Done);
    }
    assert_eq!(again, BTreeSet::from([run(0), run(1), run(2)]));
}

pub async fn a_settlement_after_the_end_of_its_consumer_is_lost(bus: &Arc<dyn Bus>) {
    let mut first = consume(bus, Source::Wakes(Lane::Lo), 1).await;
    ring(bus, wake_of(Lane::Lo, 1)).await;
    let held = next(&mut first).await;
    drop(first);
    // It has come again, so the end of the first consumer is complete.
    let mut second = consume(bus, Source::Wakes(Lane::Lo), 1).await;
    let again = next(&mut second).await;
    assert_eq!(held.settle.ack().await, Settled::Lost);
    assert_eq!(again.settle.ack().await, Settled::Done);
}

pub async fn no_more_than_the_prefetch_is_unsettled(bus: &Arc<dyn Bus>) {
    let mut consumer = consume(bus, Source::Wakes(Lane::Lo), 2).await;
    // One after the other: so each is a message of its own, in any home.
    for n in 0..4 {
        ring(bus, wake_of(Lane::Lo, n)).await;
    }
    let one = next(&mut consumer).await;
    let _two = next(&mut consumer).await;
    nothing_comes(&mut consumer).await;
    assert_eq!(one.settle.ack().await, Settled::Done);
    let _three = next(&mut consumer).await;
    nothing_comes(&mut consumer).await;
}

pub async fn competing_consumers_share_the_wakes(bus: &Arc<dyn Bus>) {
    let mut one = consume(bus, Source::Wakes(Lane::Lo), 1).await;
    let mut two = consume(bus, Source::Wakes(Lane::Lo), 1).await;
    ring(bus, wake_of(Lane::Lo, 1)).await;
    ring(bus, wake_of(Lane::Lo, 2)).await;
    let (first, second) = tokio::join!(next(&mut one), next(&mut two));
    let both: BTreeSet<_> = runs_of(&first).into_iter().chain(runs_of(&second)).collect();
    assert_eq!(both, BTreeSet::from([run(1), run(2)]));
}

pub async fn a_prefetch_out_of_bounds_is_refused(bus: &Arc<dyn Bus>) {
    for prefetch in [0, 65] {
        let refused = bus.consume(Source::Wakes(Lane::Lo), prefetch).await;
        assert!(matches!(refused, Err(BusError::Refused(_))), "{prefetch}: {refused:?}");
    }
}

pub async fn ten_thousand_wakes_are_all_delivered(bus: &Arc<dyn Bus>) {
    const WAKES: usize = 10_000;
    let mut one = consume(bus, Source::Wakes(Lane::Lo), 32).await;
    let mut two = consume(bus, Source::Wakes(Lane::Lo), 32).await;
    let ringing = ring_many(bus, WAKES);
    let (seen_in, mut seen) = tokio::sync::mpsc::channel(WAKES);
    let read = async |consumer: &mut Consumer, seen: tokio::sync::mpsc::Sender<RunId>| loop {
        let delivery = next(consumer).await;
        for run in runs_of(&delivery) {
            seen.send(run).await.expect("the counter listens");
        }
        assert_eq!(delivery.settle.ack().await, Settled::Done);
    };
    let counting = async {
        let mut all = BTreeSet::new();
        while all.len() < WAKES {
            all.insert(seen.recv().await.expect("the readers read on"));
        }
    };
    let done = async { tokio::join!(ringing, counting) };
    tokio::select! {
        _ = done => {}
        () = read(&mut one, seen_in.clone()) => {}
        () = read(&mut two, seen_in.clone()) => {}
    }
}

/// Rings for the runs `0..count` of sixteen tenants, [`RINGS_AT_ONCE`] at a time.
pub async fn ring_many(bus: &Arc<dyn Bus>, count: usize) {
    let ringers = (0..RINGS_AT_ONCE).map(|ringer| {
        let bus = Arc::clone(bus);
        tokio::spawn(async move {
            for n in (ringer..count).step_by(RINGS_AT_ONCE) {
                let wake = Wake { lane: Lane::Lo, tenant: tenant(n % 16), run: run(n) };
                ring(&bus, wake).await;
            }
        })
    });
    for ringer in ringers.collect::<Vec<_>>() {
        ringer.await.expect("every ring was taken");
    }
}

pub async fn a_request_that_no_queue_takes_is_returned(bus: &Arc<dyn Bus>) {
    assert_eq!(bus.publish(request("nobody", "a.1")).await, Published::Returned);
}

pub async fn a_working_bus_is_up(bus: &Arc<dyn Bus>) {
    assert_eq!(*bus.condition().borrow(), Condition::Up);
}
