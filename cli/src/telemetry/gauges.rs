//! How busy is this process, and what waits in the store?

use std::sync::Arc;
use std::sync::atomic::Ordering;

use opentelemetry::metrics::{Gauge, Meter};
use opentelemetry::{KeyValue, global};
use portcullis_engine::ports::{Bus, Condition};
use portcullis_engine::rabbitmq::{Figures, RabbitBus};
use portcullis_scheduler::Readings;
use portcullis_worker::Worker;

/// What is read from the store when somebody asks.
pub(crate) struct Gauges {
    runs: Gauge<u64>,
    parked: Gauge<u64>,
    open: Gauge<u64>,
    oldest: Gauge<f64>,
    queue_age: Gauge<f64>,
}

/// Where the bus' figures come from.
pub(crate) struct BusFigures {
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) rabbit: Option<Arc<RabbitBus>>,
}

impl Gauges {
    pub(crate) fn new() -> Self {
        let meter = meter();
        let count = |name: &'static str, text| meter.u64_gauge(name).with_description(text).build();
        let age = |name: &'static str, text| {
            meter.f64_gauge(name).with_description(text).with_unit("s").build()
        };
        Self {
            runs: count("portcullis_runs", "Runs in the store, by phase"),
            parked: count("portcullis_runs_parked", "Runs that wait and hold no worker"),
            open: count("portcullis_approvals_open", "Requests that nobody has decided"),
            oldest: age("portcullis_approvals_age", "How long the oldest open request waits"),
            queue_age: age("portcullis_queue_age", "How long a run has waited for a worker"),
        }
    }

    pub(crate) fn record(&self, readings: &Readings) {
        for (phase, count) in &readings.runs {
            self.runs.record(*count, &[KeyValue::new("phase", *phase)]);
            if *phase == "waiting" {
                self.parked.record(*count, &[]);
            }
        }
        self.open.record(readings.approvals_open, &[]);
        self.oldest.record(readings.approval_age_seconds, &[]);
        self.queue_age.record(readings.queue_age_seconds, &[]);
    }
}

fn meter() -> Meter {
    global::meter("portcullis")
}

/// The worker's slots, read whenever metrics are collected.
pub(crate) fn watch_worker(worker: &Arc<Worker>) {
    let meter = meter();
    let slots = u64::try_from(worker.settings.slots).unwrap_or(u64::MAX);
    meter
        .u64_observable_gauge("portcullis_worker_slots")
        .with_description("Runs this worker takes at once")
        .with_callback(move |observer| observer.observe(slots, &[]))
        .build();
    let worker = Arc::clone(worker);
    meter
        .u64_observable_gauge("portcullis_worker_busy")
        .with_description("Runs this worker works on now; parked runs are none")
        .with_callback(move |observer| {
            let busy = worker.busy.load(Ordering::Relaxed);
            observer.observe(u64::try_from(busy).unwrap_or(u64::MAX), &[]);
        })
        .build();
}

/// The bus' condition, and what RabbitMQ did so far.
pub(crate) fn watch_bus(figures: BusFigures) {
    let meter = meter();
    let condition = figures.bus.condition();
    meter
        .u64_observable_gauge("portcullis_bus_condition")
        .with_description("1 for the condition the bus is in: up, blocked or down")
        .with_callback(move |observer| {
            let now = *condition.borrow();
            for (name, one) in
                [("up", Condition::Up), ("blocked", Condition::Blocked), ("down", Condition::Down)]
            {
                observer.observe(u64::from(now == one), &[KeyValue::new("condition", name)]);
            }
        })
        .build();
    let Some(rabbit) = figures.rabbit else { return };
    let bus = Arc::clone(&rabbit);
    meter
        .u64_observable_counter("portcullis_bus_published")
        .with_description("Messages by the broker's word about them")
        .with_callback(move |observer| {
            let figures = bus.figures();
            for (word, count) in [
                ("confirmed", figures.confirmed),
                ("returned", figures.returned),
                ("nacked", figures.nacked),
                ("unknown", figures.unknown),
            ] {
                observer.observe(count, &[KeyValue::new("word", word)]);
            }
        })
        .build();
    counter(&rabbit, "portcullis_bus_delivered", "Deliveries from the broker", |f| f.delivered);
    counter(&rabbit, "portcullis_bus_settlements_lost", "Settlements that come again", |f| {
        f.settlements_lost
    });
    counter(&rabbit, "portcullis_bus_connections_lost", "Connections that broke", |f| {
        f.connections_lost
    });
}

fn counter(
    rabbit: &Arc<RabbitBus>,
    name: &'static str,
    text: &'static str,
    read: fn(&Figures) -> u64,
) {
    let bus = Arc::clone(rabbit);
    meter()
        .u64_observable_counter(name)
        .with_description(text)
        .with_callback(move |observer| observer.observe(read(&bus.figures()), &[]))
        .build();
}
