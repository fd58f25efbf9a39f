//! `memoir mcp`: serves one agent over standard input and output, with the memory of a running service or, if none
//! runs, of a store of its own. It ends when its input ends.

pub mod install;
pub mod own_store;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use futures_util::future::BoxFuture;
use http::HeaderMap;
use rmcp::ServiceExt as _;
use rmcp::service::ServerInitializeError;
use rmcp::transport::stdio;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use self::install::Installation;
use super::client::{Client, Connection};
use super::serve::stop_on_signal;
use super::{CommandError, runtime};
use crate::config::{Config, Origin};
use crate::connect::mcp::api::{Api, ApiReply, ApiRequest, Unreachable};
use crate::connect::mcp::{McpScope, McpServer};
use crate::http::openapi;

pub const EXAMPLES: &str = "\
Examples:
  memoir mcp install claude-code            print the settings for Claude Code
  memoir mcp install cursor --write         write them, and keep the former file as .bak
  memoir mcp                                what an agent starts; speaks JSON-RPC on standard input and output
  memoir mcp --server https://memoir.example.com --space team --user ann

Without --server, memoir mcp uses the memoir that runs on this machine, at the address of this configuration. If none
runs, it keeps a store of its own: $XDG_DATA_HOME/memoir/memoir.db. A key comes from the environment (MEMOIR_KEY).";

/// How long a local service has to say that it is memoir.
const LOOK: Duration = Duration::from_secs(2);

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// The end user; by default, `default`, but `read` and the resources then show the documents of all users
    #[arg(long, value_name = "ID")]
    user: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Print or write the settings that make an agent start `memoir mcp`
    #[command(after_help = install::EXAMPLES)]
    Install(Installation),
}

pub fn run(arguments: &Arguments, origin: &Origin) -> Result<(), CommandError> {
    if let Some(Command::Install(installation)) = &arguments.command {
        return install::run(installation, origin);
    }

    let runtime = runtime()?;
    let served = runtime.block_on(serve(arguments, &own_store::own_origin(origin)));
    // Standard input is read on a thread that nothing can interrupt.
    runtime.shutdown_timeout(Duration::from_millis(100));
    served
}

async fn serve(arguments: &Arguments, origin: &Origin) -> Result<(), CommandError> {
    let stop = stop_on_signal()?;
    let config = Config::load(origin)?;
    let settings = config.mcp;
    let mut client = tokio::select! {
        client = open(&arguments.connection, origin, config) => client?,
        () = stop.cancelled() => return Ok(()),
    };

    // Calls in progress may hold the client for longer than the service lives.
    let own_service = client.take_own_service();
    let document = openapi::to_json(openapi::Version::V3_1);
    let document: Value = serde_json::from_str(&document).unwrap_or_default();
    let scope = McpScope {
        files: working_folder(origin),
        user: arguments.user.clone(),
    };
    let server = McpServer::new(OverHttp(client), &settings, &document, scope);
    let outcome = until_input_ends(server, &stop).await;
    if let Some(own_service) = own_service {
        own_service.close().await;
    }
    outcome.map_err(CommandError::Other)
}

/// The folder whose files may be ingested; none if an agent was started in one that holds everything.
fn working_folder(origin: &Origin) -> Option<PathBuf> {
    let folder = std::env::current_dir().ok()?;
    let home = origin.environment.get("HOME").map(PathBuf::from);
    (folder.parent().is_some() && Some(&folder) != home.as_ref()).then_some(folder)
}

async fn until_input_ends(server: McpServer, stop: &CancellationToken) -> anyhow::Result<()> {
    let started = tokio::select! {
        started = server.serve(stdio()) => started,
        () = stop.cancelled() => return Ok(()),
    };
    let running = match started {
        Ok(running) => running,
        // The input ended before the first message.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => {
            return Err(error).context("the client does not speak the Model Context Protocol");
        }
    };

    let end = running.cancellation_token();
    let mut waiting = std::pin::pin!(running.waiting());
    tokio::select! {
        ended = &mut waiting => ended,
        () = stop.cancelled() => {
            end.cancel();
            waiting.await
        }
    }
    .context("the connection broke")?;
    Ok(())
}

/// The running service, or one of its own.
async fn open(
    connection: &Connection,
    origin: &Origin,
    config: Config,
) -> Result<Client, CommandError> {
    if connection.names_a_service()
        || (!connection.is_local() && is_memoir(&connection.base(origin)?).await)
    {
        return Client::open(connection, origin).await;
    }

    let (config, turn) = own_store::prepare(config, origin)?;
    Client::of_own_service(connection, config, turn).await
}

/// Whether memoir answers there.
async fn is_memoir(base: &str) -> bool {
    let Ok(client) = super::client::http_client(base) else {
        return false;
    };
    let info = async {
        let reply = client.get(format!("{base}/v1/info")).send().await.ok()?;
        let info: Value = reply.json().await.ok()?;
        Some(info["name"] == "memoir")
    };
    let answered = tokio::time::timeout(LOOK, info).await;
    answered.ok().flatten().unwrap_or_default()
}

/// The routes of a service, over HTTP.
struct OverHttp(Client);

impl Api for OverHttp {
    fn send<'a>(
        &'a self,
        request: ApiRequest,
        _: &'a HeaderMap,
    ) -> BoxFuture<'a, Result<ApiReply, Unreachable>> {
        Box::pin(async move {
            let mut sent = self.0.request(request.method, &request.path);
            sent = sent.header("X-Memoir-Redact", "secrets");
            if let Some(body) = &request.body {
                sent = sent.json(body);
            }
            let unreachable = |error: anyhow::Error| Unreachable(format!("{error:#}"));
            let reply = self.0.begin(sent).await.map_err(unreachable)?;
            let status = reply.status();
            let text = reply.text().await.context("the response ended early");
            Ok(ApiReply {
                status,
                text: text.map_err(unreachable)?,
            })
        })
    }
}
