//! Logs and metrics, set up once per process.
//!
//! Logs go to stderr and contain ids, counts, routes and times; never a text, a prompt, a key or a
//! connection string, because logs are read by people who may not see the data. Metrics are local
//! counters that are pulled, never pushed.
//!
//! A log that cannot be written fails neither a request nor the process (`log_queue`).

mod log_queue;

use std::io::IsTerminal as _;
use std::sync::{Once, OnceLock};
use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::base::metrics as names;
use crate::config::Telemetry;
use crate::config::telemetry::LogFormat;
use log_queue::{Entry, LogQueue};

/// Bytes of the log that may wait for a reader, about five thousand lines.
const MAX_WAITING_BYTES: usize = 1 << 20;

/// How long the end of the process waits for a log that nobody reads.
const MAX_FLUSH: Duration = Duration::from_secs(1);

/// The log of this process.
static LOG: LogQueue = LogQueue::new(MAX_WAITING_BYTES);

/// In seconds; the service's own share of a request is well below the first few.
const DURATION_BUCKETS: &[f64] = &[
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    60.0,
];

/// In seconds; a model takes from well below one second to minutes.
const MODEL_BUCKETS: &[f64] = &[
    0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0, 300.0,
];

/// Starts logging. A second call in one process changes nothing.
pub fn start_logging(config: &Telemetry) {
    static WRITING: Once = Once::new();

    // Libraries log connection details at the level debug, and whole statements if they are slow.
    let filter = EnvFilter::new(format!("warn,sqlx::query=off,memoir={}", config.log_level));
    let colours = std::io::stderr().is_terminal();
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // It would report them with a macro that panics if stderr cannot be written.
        .log_internal_errors(false)
        .with_writer(|| Entry(&LOG));
    let builder = builder.with_target(false).with_ansi(colours);
    let _ = match config.log_format {
        LogFormat::Json => builder.json().flatten_event(true).finish().try_init(),
        LogFormat::Pretty => builder.finish().try_init(),
    };

    WRITING.call_once(|| {
        // Without a thread for it, lines are counted as lost.
        let _ = std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(|| LOG.write_to(std::io::stderr(), report_lost_lines));
    });

    std::panic::set_hook(Box::new(log_panic));
}

/// Waits until the log is written, but not long for a log that nobody reads. Call it before the
/// process ends.
pub fn flush_log() {
    LOG.flush(MAX_FLUSH);
}

fn report_lost_lines(lines: u64) -> Vec<u8> {
    log_queue::captured(|| {
        tracing::warn!(
            lines,
            "log lines were lost, because the log could not be written"
        );
    })
}

/// Logs where a panic happened. Its message is shown only if it is a fixed text, because a
/// formatted one may quote data.
fn log_panic(panic: &std::panic::PanicHookInfo<'_>) {
    let place = panic
        .location()
        .map(ToString::to_string)
        .unwrap_or_default();

    let message = panic
        .payload()
        .downcast_ref::<&'static str>()
        .copied()
        .unwrap_or("(message withheld)");

    tracing::error!(place, message, "panic");
    // It may end the process.
    flush_log();
}

/// The metrics of this process, for rendering.
#[derive(Clone)]
pub struct Metrics(PrometheusHandle);

impl Metrics {
    /// Starts counting once; every later call returns the same counters.
    #[must_use]
    pub fn start() -> Self {
        static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();

        let handle = HANDLE.get_or_init(|| {
            let histogram = |name: &str| Matcher::Full(name.to_owned());
            let recorder = PrometheusBuilder::new()
                .set_buckets_for_metric(
                    histogram(names::HTTP_REQUEST_DURATION_SECONDS),
                    DURATION_BUCKETS,
                )
                .and_then(|builder| {
                    builder.set_buckets_for_metric(
                        histogram(names::LLM_REQUEST_DURATION_SECONDS),
                        MODEL_BUCKETS,
                    )
                })
                .and_then(|builder| {
                    builder.set_buckets_for_metric(
                        histogram(names::QUERY_OWN_DURATION_SECONDS),
                        DURATION_BUCKETS,
                    )
                })
                .map_or_else(
                    |_| PrometheusBuilder::new().build_recorder(),
                    PrometheusBuilder::build_recorder,
                );

            let handle = recorder.handle();
            if metrics::set_global_recorder(recorder).is_ok() {
                for (name, help) in names::ALL {
                    metrics::describe_counter!(*name, *help);
                }
            }

            handle
        });

        Self(handle.clone())
    }

    /// The Prometheus text format.
    #[must_use]
    pub fn render(&self) -> String {
        self.0.render()
    }

    /// Merges samples into their histograms; otherwise they accumulate until the next scrape.
    pub fn upkeep(&self) {
        self.0.run_upkeep();
    }
}
