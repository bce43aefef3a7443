//! Where do log lines, traces and metrics go?
//!
//! Authority: none; what is told here decides nothing.
//! Invariant: the exporters' own traffic is not exported, so telling never feeds itself; the
//! broker's client, which logs passwords and bodies, is held to errors.
//! If we crash here: the last seconds of traces are lost, nothing else.

mod gauges;
mod metrics;

use std::time::Duration;

use anyhow::{Context as _, anyhow};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{KeyValue, global};
use opentelemetry_otlp::WithExportConfig as _;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, Registry};

use crate::config::{Environment, LogFormat, LogSection, TelemetrySection};

pub(crate) use gauges::{BusFigures, Gauges, watch_bus, watch_worker};
pub(crate) use metrics::{Sources, router};

/// Of libraries whose own spans and lines are about telling, or tell too much.
const QUIET: &str = "hyper=off,h2=off,reqwest=off,opentelemetry=off,opentelemetry_sdk=off,\
                     opentelemetry-otlp=off,tower=off";
const FLUSH_MAX: Duration = Duration::from_secs(5);
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// What has to be flushed at the end.
pub(crate) struct Telemetry {
    /// Scraped by `/metrics`.
    pub(crate) registry: prometheus::Registry,
    meters: SdkMeterProvider,
    tracer: Option<SdkTracerProvider>,
}

/// Starts everything. Before any instrument is made: those made earlier would tell nobody.
///
/// # Errors
/// The log level or the endpoint cannot be read, or telemetry was started before.
pub(crate) fn start(
    log: &LogSection,
    telemetry: &TelemetrySection,
    environment: &Environment,
    role: &'static str,
) -> anyhow::Result<Telemetry> {
    let endpoint = telemetry.otlp_endpoint.as_deref().or_else(|| environment.get(ENDPOINT));
    let endpoint = endpoint.map(|url| url.trim_end_matches('/')).filter(|url| !url.is_empty());
    let resource = Resource::builder()
        .with_service_name(telemetry.service_name.clone())
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .with_attribute(KeyValue::new("portcullis.role", role))
        .build();
    let registry = prometheus::Registry::new();
    let meters = meters(&registry, endpoint, &resource)?;
    global::set_meter_provider(meters.clone());
    let tracer = match endpoint {
        Some(endpoint) => Some(tracer(endpoint, telemetry.sample_ratio, resource)?),
        None => None,
    };
    let exported = tracer.as_ref().map(|provider| {
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("portcullis"));
        layer.with_location(false).with_threads(false).with_filter(filter("info"))
    });
    tracing_subscriber::registry().with(lines(log)?).with(exported).try_init()?;
    Ok(Telemetry { registry, meters, tracer })
}

fn lines(log: &LogSection) -> anyhow::Result<Box<dyn Layer<Registry> + Send + Sync>> {
    let filter = EnvFilter::try_new(directives(&log.level))
        .with_context(|| format!("`log.level` = `{}`", log.level))?;
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    Ok(match log.format {
        LogFormat::Human => {
            let tty = std::io::IsTerminal::is_terminal(&std::io::stderr());
            layer.with_ansi(tty).with_filter(filter).boxed()
        }
        LogFormat::Json => {
            layer.json().flatten_event(true).with_span_list(false).with_filter(filter).boxed()
        }
    })
}

/// Ours come last: they win over what is written before them about the same target.
fn directives(level: &str) -> String {
    format!("{level},{},{QUIET}", portcullis_engine::rabbitmq::LOG_DIRECTIVES)
}

fn filter(level: &str) -> EnvFilter {
    EnvFilter::try_new(directives(level)).expect("our own directives are readable")
}

fn meters(
    registry: &prometheus::Registry,
    endpoint: Option<&str>,
    resource: &Resource,
) -> anyhow::Result<SdkMeterProvider> {
    let scraped = opentelemetry_prometheus::exporter()
        .with_registry(registry.clone())
        .scope_info_enabled(false)
        .build()
        .map_err(|why| anyhow!("cannot make the metrics' registry: {why}"))?;
    let provider = SdkMeterProvider::builder().with_reader(scraped).with_resource(resource.clone());
    let Some(endpoint) = endpoint else { return Ok(provider.build()) };
    let pushed = opentelemetry_otlp::MetricExporter::builder()
        .with_http()
        .with_endpoint(format!("{endpoint}/v1/metrics"))
        .build()
        .with_context(|| format!("cannot export metrics to {endpoint}"))?;
    Ok(provider.with_periodic_exporter(pushed).build())
}

/// Sampled by the trace's id alone: what a sender says about sampling is not trusted.
fn tracer(
    endpoint: &str,
    sample_ratio: f64,
    resource: Resource,
) -> anyhow::Result<SdkTracerProvider> {
    let exporter = opentelemetry_otlp::SpanExporter::builder()
        .with_http()
        .with_endpoint(format!("{endpoint}/v1/traces"))
        .build()
        .with_context(|| format!("cannot export traces to {endpoint}"))?;
    Ok(SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_sampler(Sampler::TraceIdRatioBased(sample_ratio))
        .with_resource(resource)
        .build())
}

impl Telemetry {
    /// Tells what was not told yet, for at most a few seconds. Blocks: call it after the runtime.
    pub(crate) fn flush(&self) {
        let traces = self.tracer.as_ref().map(|tracer| tracer.shutdown_with_timeout(FLUSH_MAX));
        let metrics = self.meters.shutdown_with_timeout(FLUSH_MAX);
        for result in traces.into_iter().chain([metrics]) {
            if let Err(why) = result {
                tracing::warn!(%why, "the last telemetry was lost");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_brokers_client_never_logs_more_than_errors() {
        let text = directives("trace,lapin=trace");
        let places = ["lapin=trace", "lapin=error"].map(|part| text.find(part).unwrap());
        assert!(places[0] < places[1], "{text}");
        assert!(EnvFilter::try_new(&text).is_ok());
    }
}
