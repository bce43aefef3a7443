//! How do spans of several processes become one story?
//!
//! A run's record carries the W3C trace context of what started it. Whoever works on the run goes
//! on in that trace; a claim after a lost one begins a trace of its own and links to it, and so
//! does whoever only touches the run, such as an approver.
//!
//! Authority: none. Without an exporter every function here does nothing.
//! Invariant: the sampled flag of a context from outside is not believed.

use opentelemetry::Context;
use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState,
};
use portcullis_proto::ids::ApprovalId;
use portcullis_proto::job::Trace;
use portcullis_proto::run::Run;
use tracing::{Span, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// Makes a span part of a trace. To be called before the span is entered.
pub fn go_on(span: &Span, trace: &Trace) {
    let Some(from) = context(trace) else { return };
    if let Err(why) = span.set_parent(Context::new().with_remote_span_context(from)) {
        // Nobody exports spans, or this one is filtered out.
        tracing::trace!(?why, "a span stands alone");
    }
}

/// Points from a span to a trace that it belongs with and is no part of.
pub fn link(span: &Span, trace: &Trace) {
    if let Some(to) = context(trace) {
        span.add_link(to);
    }
}

/// The span in which a decision is put to its run: part of the run's trace, and linked with the
/// request that brought it.
#[must_use]
pub fn decision(approval: &ApprovalId, run: &Run) -> Span {
    let span = info_span!("decide", approval.id = %approval);
    if let Some(trace) = &run.job.trace {
        go_on(&span, trace);
        link(&Span::current(), trace);
    }
    span
}

/// Where the current span stands, if spans are exported.
#[must_use]
pub fn here() -> Option<Trace> {
    let context = Span::current().context();
    let span = context.span().span_context().clone();
    let (trace, id) = (span.trace_id(), span.span_id());
    let text = format!("00-{trace:032x}-{id:016x}-00");
    Some(span).filter(SpanContext::is_valid).and_then(|_| Trace::of_header(&text))
}

fn context(trace: &Trace) -> Option<SpanContext> {
    let mut parts = trace.traceparent.split('-').skip(1);
    let trace_id = TraceId::from_hex(parts.next()?).ok()?;
    let span_id = SpanId::from_hex(parts.next()?).ok()?;
    let flags = TraceFlags::default();
    let context = SpanContext::new(trace_id, span_id, flags, true, TraceState::default());
    context.is_valid().then_some(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_from_outside_is_read_and_its_flag_is_not() {
        let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let context = context(&Trace::of_header(text).unwrap()).unwrap();
        assert_eq!(context.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(context.span_id().to_string(), "b7ad6b7169203331");
        assert!(context.is_remote() && !context.is_sampled());
    }

    #[test]
    fn without_an_exporter_there_is_no_place() {
        assert_eq!(here(), None);
    }
}
