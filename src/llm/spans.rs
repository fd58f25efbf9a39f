//! OpenTelemetry spans of model calls. The names follow the conventions for generative AI (v1.41)
//! and are all in this file.
//!
//! Off unless `telemetry.otlp_endpoint` is set. Spans contain names, counts and times, never text.

use std::time::{Duration, SystemTime};

use opentelemetry::trace::{
    Span as _, SpanContext, SpanId, SpanKind, Status, TraceContextExt as _, TraceFlags, TraceId,
    TraceState, Tracer as _, TracerProvider as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};

use crate::config::llm::Kind;
use crate::model::llm_call::{LlmCall, Payer};

/// The destination of spans, if any.
pub struct Spans(Option<(SdkTracerProvider, SdkTracer)>);

/// A finished call, with facts that the record does not contain.
pub struct Finished<'a> {
    pub call: &'a LlmCall,
    pub kind: Kind,
    pub temperature: Option<f64>,
    pub max_output_tokens: Option<u64>,
    pub response_id: Option<String>,
    pub response_model: Option<String>,
    pub error: Option<&'static str>,
    pub traceparent: Option<&'a str>,
    pub payer: &'a Payer,
}

impl Spans {
    /// Sends to this collector; disabled if empty.
    pub fn new(endpoint: &str) -> Self {
        if endpoint.is_empty() {
            return Self(None);
        }

        let address = format!(
            "{}/v1/traces",
            endpoint
                .trim_end_matches('/')
                .trim_end_matches("/v1/traces")
        );

        match SpanExporter::builder()
            .with_http()
            .with_endpoint(address)
            .build()
        {
            Ok(exporter) => {
                let resource = Resource::builder().with_service_name("memoir");
                let resource = resource
                    .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
                let provider = SdkTracerProvider::builder().with_batch_exporter(exporter);
                let provider = provider.with_resource(resource.build()).build();
                let tracer = provider.tracer("memoir");

                Self(Some((provider, tracer)))
            }
            Err(error) => {
                tracing::warn!(%error, "cannot send spans");
                Self(None)
            }
        }
    }

    /// Records a finished call as a span.
    pub fn record(&self, finished: &Finished<'_>) {
        let Some((_, tracer)) = &self.0 else { return };
        let call = finished.call;
        let end = SystemTime::UNIX_EPOCH
            + Duration::from_micros(u64::try_from(call.timestamp.as_micros()).unwrap_or(0))
            + Duration::from_secs_f64(call.latency_ms / 1000.0);
        let start = end - Duration::from_secs_f64(call.latency_ms / 1000.0);
        let builder = tracer
            .span_builder(format!("chat {}", call.model))
            .with_kind(SpanKind::Client)
            .with_start_time(start)
            .with_attributes(attributes(finished));

        let parent = finished
            .traceparent
            .and_then(parent)
            .map_or_else(Context::new, |parent| {
                Context::new().with_remote_span_context(parent)
            });

        let mut span = tracer.build_with_context(builder, &parent);
        if let Some(error) = finished.error {
            span.set_status(Status::error(error));
        }

        span.end_with_timestamp(end);
    }

    /// Sends the remaining spans.
    pub async fn close(&self) {
        let Some((provider, _)) = &self.0 else { return };
        let provider = provider.clone();
        #[expect(
            clippy::disallowed_methods,
            reason = "bounded by the exporter's own timeout"
        )]
        let closed = tokio::task::spawn_blocking(move || provider.shutdown()).await;
        if let Ok(Err(error)) = closed {
            tracing::warn!(%error, "cannot send the last spans");
        }
    }
}

fn attributes(finished: &Finished<'_>) -> Vec<KeyValue> {
    let call = finished.call;
    let provider = match finished.kind {
        Kind::Openai => match call.provider.as_str() {
            "xai" => "x_ai".to_owned(),
            "mistral" => "mistral_ai".to_owned(),
            other => other.to_owned(),
        },
        Kind::Anthropic => "anthropic".to_owned(),
        Kind::Gemini => "gcp.gemini".to_owned(),
        Kind::Local => "memoir.local".to_owned(),
    };

    let mut attributes = vec![
        KeyValue::new("gen_ai.operation.name", "chat"),
        KeyValue::new("gen_ai.provider.name", provider),
        KeyValue::new("gen_ai.request.model", call.model.clone()),
        KeyValue::new("gen_ai.output.type", "json"),
        KeyValue::new("gen_ai.usage.input_tokens", call.tokens_prompt),
        KeyValue::new("gen_ai.usage.output_tokens", call.tokens_completion),
        KeyValue::new("gen_ai.usage.cache_read.input_tokens", call.tokens_cached),
        KeyValue::new("memoir.stage", call.stage.clone()),
        KeyValue::new("memoir.attempt", call.attempt),
        KeyValue::new("memoir.outcome", call.outcome.clone()),
        KeyValue::new("memoir.output_mode", call.mode.clone()),
    ];

    let mut add = |name: &'static str, value: Option<opentelemetry::Value>| {
        attributes.extend(value.map(|value| KeyValue::new(name, value)));
    };
    add(
        "gen_ai.request.temperature",
        finished.temperature.map(Into::into),
    );

    add(
        "gen_ai.request.max_tokens",
        finished
            .max_output_tokens
            .and_then(|max| i64::try_from(max).ok())
            .map(Into::into),
    );

    add(
        "gen_ai.response.id",
        finished.response_id.clone().map(Into::into),
    );

    add(
        "gen_ai.response.model",
        finished.response_model.clone().map(Into::into),
    );

    add("error.type", finished.error.map(Into::into));
    add("memoir.cost_usd", call.cost_usd.map(Into::into));
    match finished.payer {
        Payer::Job(id) => add("memoir.job_id", Some(id.to_string().into())),
        Payer::Query(id) => add("memoir.query_id", Some(id.clone().into())),
        Payer::Context(id) => add("memoir.context_id", Some(id.clone().into())),
        Payer::PromptRun(id) => add("memoir.prompt_run_id", Some(id.clone().into())),
        Payer::Request => {}
    }

    attributes
}

/// The caller's span, from a W3C `traceparent`.
fn parent(traceparent: &str) -> Option<SpanContext> {
    let mut parts = traceparent.split('-').skip(1);
    let (trace, span) = (parts.next()?, parts.next()?);
    let flags = parts
        .next()
        .and_then(|flags| u8::from_str_radix(flags, 16).ok())
        .unwrap_or(1);

    let context = SpanContext::new(
        TraceId::from_hex(trace).ok()?,
        SpanId::from_hex(span).ok()?,
        TraceFlags::new(flags),
        true,
        TraceState::default(),
    );

    context.is_valid().then_some(context)
}
