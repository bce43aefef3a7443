//! The simulated broker does what a broker does.

use portcullis_tests::bus_conformance;
use portcullis_tests::conformance::bus::Home;
use portcullis_tests::simulation::bus::MemoryBus;

#[expect(clippy::unused_async, reason = "the suite awaits every home")]
async fn home() -> Home {
    Home { bus: MemoryBus::new(), _server: Box::new(()) }
}

bus_conformance!(home);
