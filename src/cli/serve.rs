//! `memoir serve`: runs the service until SIGTERM or Ctrl-C.

use std::sync::Arc;

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::CommandError;
use crate::app::App;
use crate::base::clock::SystemClock;
use crate::config::Config;

pub const EXAMPLES: &str = "\
Examples:
  memoir serve
  MEMOIR__SERVER__LISTEN=127.0.0.1:9000 memoir serve
  DATABASE_URL=postgres://memoir:PASSWORD@localhost/memoir memoir serve";

pub async fn run(config: Config) -> Result<(), CommandError> {
    let listen = config.server.listen;
    let listener = TcpListener::bind(listen).await.with_context(|| {
        format!(
            "cannot listen on {listen}: set server.listen (or MEMOIR__SERVER__LISTEN) to another \
             address, or stop the process that uses it"
        )
    })?;
    let address = listener
        .local_addr()
        .context("the listener has no address")?;
    let stop = stop_on_signal()?;
    for key in &config.auth.keys {
        tracing::debug!(key = key.name, "API key configured");
    }

    let open = config.auth.keys.is_empty();
    let model = config.llm.model.clone();
    let app = App::build(config, Arc::new(SystemClock)).await?;
    tracing::info!(%address, open, model, "memoir is ready on http://{address}");
    Box::pin(app.serve(listener, stop)).await;
    tracing::info!("memoir has stopped");

    Ok(())
}

/// Turns the first SIGTERM or Ctrl-C into a graceful stop; a second one ends the process
/// immediately.
pub fn stop_on_signal() -> Result<CancellationToken, CommandError> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let token = CancellationToken::new();
    let stop = token.clone();
    #[expect(clippy::disallowed_methods, reason = "lives as long as the process")]
    tokio::spawn(async move {
        tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
        tracing::info!("stopping; waiting for requests and jobs to finish");
        stop.cancel();
        tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }

        crate::telemetry::flush_log();
        std::process::exit(130);
    });

    Ok(token)
}
