//! Promise: the bus over RabbitMQ loses nothing it confirmed, says what it does not know, and comes
//! back by itself after any fault.

mod doctor;
mod faults;
mod publishing;
mod topology;

use std::sync::Arc;

use portcullis_engine::ports::Bus;
use portcullis_engine::rabbitmq::{Declare, RabbitBus, RabbitSettings};
use portcullis_tests::bus_conformance;
use portcullis_tests::conformance::bus::Home;
use portcullis_tests::servers::shared_rabbit;

const READY_MS_MAX: u64 = 30_000;

fn settings(url: &str) -> RabbitSettings {
    RabbitSettings {
        buckets: 2,
        declare: Declare::Arguments,
        ..RabbitSettings::new(url, "portcullis tests")
    }
}

async fn bus(url: &str) -> Arc<RabbitBus> {
    let bus = RabbitBus::connect(settings(url)).unwrap();
    bus.ready(READY_MS_MAX).await.unwrap();
    bus
}

async fn home() -> Home {
    let vhost = shared_rabbit().unwrap();
    let bus = bus(&vhost.url()).await;
    let bus: Arc<dyn Bus> = bus;
    Home { bus, _server: Box::new(vhost) }
}

bus_conformance!(home);
