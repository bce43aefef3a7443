//! Promise: the bus of the embedded home behaves as a broker does, as far as wakes go.

use std::sync::Arc;

use portcullis_engine::inprocess::{InProcessBus, InProcessSettings};
use portcullis_engine::ports::{Bus, BusError, Condition, Published, Source};
use portcullis_proto::topology::Lane;
use portcullis_tests::bus_conformance;
use portcullis_tests::conformance::bus::{Home, consume, next, ring, run, runs_of, wake_of};

#[expect(clippy::unused_async, reason = "the suite awaits every home")]
async fn home() -> Home {
    Home { bus: InProcessBus::new(InProcessSettings::default()), _server: Box::new(()) }
}

bus_conformance!(home);

#[tokio::test]
async fn what_does_not_fit_is_refused_and_its_place_is_free_again_when_taken() {
    let bus = InProcessBus::new(InProcessSettings { wakes_max: 2 });
    let bus: Arc<dyn Bus> = bus;
    ring(&bus, wake_of(Lane::Lo, 0)).await;
    ring(&bus, wake_of(Lane::Lo, 1)).await;
    assert_eq!(bus.wake(wake_of(Lane::Lo, 2)).await, Published::Nacked);
    assert_eq!(bus.wake(wake_of(Lane::Hi, 2)).await, Published::Confirmed, "its own places");

    let mut consumer = consume(&bus, Source::Wakes(Lane::Lo), 1).await;
    let taken = next(&mut consumer).await;
    assert_eq!(runs_of(&taken), [run(0)]);
    ring(&bus, wake_of(Lane::Lo, 3)).await;
}

#[tokio::test]
async fn after_shutdown_nothing_is_taken_and_every_consumer_ends() {
    let bus = InProcessBus::new(InProcessSettings::default());
    let as_port: Arc<dyn Bus> = bus.clone();
    let mut consumer = consume(&as_port, Source::Wakes(Lane::Lo), 1).await;
    bus.shutdown();
    assert!(consumer.next().await.is_none());
    assert!(matches!(bus.wake(wake_of(Lane::Lo, 1)).await, Published::Unknown(_)));
    assert!(matches!(bus.consume(Source::Intake, 1).await, Err(BusError::ShutDown)));
    assert_eq!(*bus.condition().borrow(), Condition::Down);
}
