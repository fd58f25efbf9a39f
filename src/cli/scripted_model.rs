//! `memoir scripted-model`: a stand-in for OpenAI, Anthropic and Gemini, for tests and benchmarks.

use std::net::SocketAddr;

use anyhow::Context as _;
use tokio::net::TcpListener;

use super::{CommandError, print, runtime};
use crate::scripted_model::{Script, ScriptedModel};

pub const EXAMPLES: &str = "\
Examples:
  memoir scripted-model --listen 127.0.0.1:9100 --latency-ms 200
  MEMOIR__LLM__PROVIDERS__STUB__BASE_URL=http://127.0.0.1:9100/v1 MEMOIR__LLM__MODEL=stub:any memoir

GET /_requests shows what was asked, GET /_stats the counts; POST /_script and /_faults change the answers.";

#[derive(clap::Args)]
pub struct Arguments {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9100")]
    listen: SocketAddr,
    /// Milliseconds before each answer
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
