//! `memoir scripted-model`: simulates OpenAI, Anthropic and Gemini, for tests and benchmarks.

use std::net::SocketAddr;

use anyhow::Context as _;
use memoir_scripted_model::{Script, ScriptedModel};
use tokio::net::TcpListener;

use super::{CommandError, print, runtime};

pub const EXAMPLES: &str = "\
Examples:
  memoir scripted-model --listen 127.0.0.1:9100 --latency-ms 200
  MEMOIR__LLM__PROVIDERS__STUB__BASE_URL=http://127.0.0.1:9100/v1 MEMOIR__LLM__MODEL=stub:any memoir

GET /_requests returns the requests received, GET /_stats the counts; POST /_script and /_faults change the responses.";

#[derive(clap::Args)]
pub struct Arguments {
    /// The address to listen on; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9100")]
    listen: SocketAddr,
    /// Delay before each response in milliseconds
    #[arg(long, default_value_t = 0)]
    latency_ms: u64,
}

pub fn run(arguments: &Arguments) -> Result<(), CommandError> {
    runtime()?.block_on(async {
        let listener = TcpListener::bind(arguments.listen).await;
        let listener =
            listener.with_context(|| format!("cannot listen on {}", arguments.listen))?;
        let model = ScriptedModel::start(listener);
        model.set_script(Script {
            latency_ms: arguments.latency_ms,
            ..Script::default()
        });

        print(&format!("{}\n", model.openai_url()));
        tokio::select! {
            () = model.wait() => {}
            _ = tokio::signal::ctrl_c() => {}
        }

        Ok(())
    })
}
