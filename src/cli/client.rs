//! The client of the commands. They use the public API: of a running service, or of one inside the
//! command (`--local`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use futures_util::future::BoxFuture;
use reqwest::header::RETRY_AFTER;
use reqwest::{Method, RequestBuilder, Response};
use serde::Serialize;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{CommandError, runtime, tell, wording};
use crate::app::App;
use crate::base::clock::SystemClock;
use crate::base::ids::new_uuid;
use crate::config::auth::ApiKey;
use crate::config::{Config, Origin};

/// Seconds that work inside the command has to finish when the command is stopped.
const INSIDE_GRACE: u64 = 1;
/// How long a request is repeated while the service is busy.
const PATIENCE: Duration = Duration::from_mins(5);
/// A service that asks for a longer pause needs attention: a spend cap, for example.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// How to connect to memoir.
#[derive(Clone, clap::Args)]
pub struct Connection {
    /// URL of a running memoir; by default, the address that this configuration listens on
    #[arg(long, value_name = "URL", env = "MEMOIR_SERVER")]
    server: Option<String>,
    /// API key, if the service requires one
    #[arg(long, value_name = "KEY", env = "MEMOIR_KEY", hide_env_values = true)]
    key: Option<String>,
    /// The space to work in; by default, the space of the key, or `default`
    #[arg(long, value_name = "NAME")]
    space: Option<String>,
    /// Work in this process on the configured database, without a running service
    #[arg(long, conflicts_with_all = ["server", "key"])]
    local: bool,
}

impl Connection {
    /// The URL of the service: the one that is named, or the address that this configuration listens on.
    pub fn base(&self, origin: &Origin) -> Result<String, CommandError> {
        Ok(match &self.server {
            Some(server) if server.contains("://") => server.trim_end_matches('/').to_owned(),
            Some(server) => format!("http://{}", server.trim_end_matches('/')),
            None => format!("http://{}", reachable(Config::load(origin)?.server.listen)),
        })
    }

    /// Whether a service is named.
    pub fn names_a_service(&self) -> bool {
        self.server.is_some()
    }

    /// Whether the work is to be done in this process.
    pub fn is_local(&self) -> bool {
        self.local
    }
}

/// A connection to the API.
pub struct Client {
    base: String,
    key: Option<String>,
    space: Option<String>,
    http: reqwest::Client,
    local: Option<LocalService>,
}

/// A service inside the command: its stop signal, and its task.
pub struct LocalService(CancellationToken, JoinHandle<()>);

impl LocalService {
    /// Stops the service, and waits until it has stored everything.
    pub async fn close(self) {
        let Self(stop, served) = self;
        stop.cancel();
        let _ = served.await;
    }
}

/// Sends one request and disconnects.
pub fn post_once(
    connection: &Connection,
    origin: &Origin,
    path: &str,
    request: &Value,
) -> Result<Value, CommandError> {
    runtime()?.block_on(async {
        let client = Client::open(connection, origin).await?;
        let answered = client.post(path, request).await;
        client.close().await;
        answered.map_err(CommandError::from)
    })
}

/// All items of a list, page by page.
pub async fn pages(
    client: &Client,
    path: &str,
    filters: &[(&str, Option<&str>)],
) -> anyhow::Result<Vec<Value>> {
    let mut items = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let given = filters
            .iter()
            .filter_map(|(name, value)| Some((*name, (*value)?)));
        let mut query: Vec<(&str, &str)> = given.collect();
        query.push(("limit", "200"));
        query.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
        let url = reqwest::Url::parse_with_params(&format!("{}{path}", client.base), &query)
            .context("the address of the service is invalid")?;
        let page = client.get(&url.as_str()[client.base.len()..]).await?;

        items.extend(page["items"].as_array().cloned().unwrap_or_default());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => return Ok(items),
        }
    }
}

/// A response as indented JSON.
pub fn pretty(answer: &Value) -> String {
    format!(
        "{}\n",
        serde_json::to_string_pretty(answer).unwrap_or_default()
    )
}

/// The service returned a problem document.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    message: String,
    pub problem: Value,
    /// How long the service asks the client to wait, if the same request may succeed later.
    retry_after: Option<Duration>,
}

impl Refused {
    /// A problem document in terms of the command line; `None` if it is not one.
    pub fn of(problem: Value) -> Option<Self> {
        let (detail, remedy) = (
            problem["detail"].as_str()?,
            problem["remediation"].as_str()?,
        );
        let message = wording::for_command_line(&format!("{detail}\n  {remedy}"));
        Some(Self {
            message,
            problem,
            retry_after: None,
        })
    }
}

impl Client {
    pub async fn open(connection: &Connection, origin: &Origin) -> Result<Self, CommandError> {
        let (base, key, local) = if connection.local {
            let (address, key, local) = serve_locally(Config::load(origin)?, None).await?;
            (format!("http://{address}"), Some(key), Some(local))
        } else {
            (connection.base(origin)?, connection.key.clone(), None)
        };

        let http = http_client(&base)?;
        Ok(Self {
            base,
            key,
            space: connection.space.clone(),
            http,
            local,
        })
    }

    /// A client of a service inside this command, which runs jobs once `turn` has ended.
    pub async fn of_own_service(
        connection: &Connection,
        config: Config,
        turn: BoxFuture<'static, ()>,
    ) -> Result<Self, CommandError> {
        let (address, key, local) = serve_locally(config, Some(turn)).await?;
        let base = format!("http://{address}");
        Ok(Self {
            http: http_client(&base)?,
            base,
            key: Some(key),
            space: connection.space.clone(),
            local: Some(local),
        })
    }

    pub(super) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let mut request = self.http.request(method, format!("{}{path}", self.base));
        if let Some(key) = &self.key {
            request = request.bearer_auth(key);
        }

        if let Some(space) = &self.space {
            request = request.header("X-Memoir-Space", space);
        }

        request
    }

    pub async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.send(self.request(Method::GET, path)).await
    }

    pub async fn post(&self, path: &str, body: &impl Serialize) -> anyhow::Result<Value> {
        self.send(self.request(Method::POST, path).json(body)).await
    }

    /// Like [`Client::post`], for a request that creates something: repeats it while the service
    /// is busy, after the pauses that it asks for, unless `is_final` accepts its answer. The
    /// service carries it out only once.
    pub async fn post_patiently(
        &self,
        path: &str,
        body: &impl Serialize,
        is_final: impl Fn(&Refused) -> bool,
    ) -> anyhow::Result<Value> {
        let (began, key) = (Instant::now(), new_uuid());
        let mut has_warned = false;
        loop {
            let request = self.request(Method::POST, path).json(body);
            let error = match self.send(request.header("Idempotency-Key", &key)).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };

            let refused = error.downcast_ref::<Refused>();
            let refused = refused.filter(|refused| !is_final(refused));
            let Some(pause) = refused.and_then(|refused| refused.retry_after) else {
                return Err(error);
            };

            if pause > LONGEST_PAUSE || began.elapsed() + pause > PATIENCE {
                return Err(error);
            }

            if !has_warned {
                tell(&format!("waiting for the service: {error}"));
                has_warned = true;
            }
            tokio::time::sleep(pause).await;
        }
    }

    pub async fn patch(&self, path: &str, body: &impl Serialize) -> anyhow::Result<Value> {
        self.send(self.request(Method::PATCH, path).json(body))
            .await
    }

    pub async fn delete(&self, path: &str) -> anyhow::Result<Value> {
        self.send(self.request(Method::DELETE, path)).await
    }

    async fn send(&self, request: RequestBuilder) -> anyhow::Result<Value> {
        let reply = self.begin(request).await?;
        self.read(reply).await
    }

    /// Sends a request and returns before the body of its response.
    pub(super) async fn begin(&self, request: RequestBuilder) -> anyhow::Result<Response> {
        request.send().await.with_context(|| {
            format!(
                "no response from {}: start memoir there, set --server (or MEMOIR_SERVER), \
                 or use --local",
                self.base
            )
        })
    }

    /// Reads a whole response.
    pub(super) async fn read(&self, reply: Response) -> anyhow::Result<Value> {
        let status = reply.status();
        let retry_after = retry_after(&reply);
        let text = reply.text().await.context("the response ended early")?;
        let body: Value = serde_json::from_str(&text).unwrap_or_default();
        if status.is_success() {
            return Ok(body);
        }

        match Refused::of(body) {
            Some(refused) => Err(Refused {
                retry_after,
                ..refused
            }
            .into()),
            None => bail!(
                "{} returned {status} without a problem document; check that --server is the \
                 address of a memoir",
                self.base
            ),
        }
    }

    /// Whether the service runs inside this command.
    pub fn is_inside(&self) -> bool {
        self.local.is_some()
    }

    /// The service inside the command, if any, which is then closed apart from this client.
    pub fn take_own_service(&mut self) -> Option<LocalService> {
        self.local.take()
    }

    /// Stops the service inside the command, if any, and waits until it has stored everything.
    pub async fn close(self) {
        if let Some(local) = self.local {
            local.close().await;
        }
    }
}

/// A client for the service at an address.
pub fn http_client(base: &str) -> anyhow::Result<reqwest::Client> {
    // It may already be installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder();
    let host = reqwest::Url::parse(base).ok();
    let host = host
        .as_ref()
        .and_then(reqwest::Url::host_str)
        .unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    if host == "localhost" || address.is_ok_and(|address| address.is_loopback()) {
        // A proxy elsewhere cannot reach this machine, and must not see what goes to it.
        builder = builder.no_proxy();
    }
    if base.starts_with("http://") {
        // Reading the certificates of the machine takes longer than the request.
        builder = builder.tls_certs_only([]);
    }

    builder.build().context("cannot create the HTTP client")
}

/// The pause after which a 429 or 503 may be followed by another answer.
fn retry_after(reply: &Response) -> Option<Duration> {
    if !matches!(reply.status().as_u16(), 429 | 503) {
        return None;
    }

    let seconds = reply.headers().get(RETRY_AFTER)?.to_str().ok()?;
    seconds.parse().ok().map(Duration::from_secs)
}

/// Serves on a free port of this machine, for this command only.
async fn serve_locally(
    mut config: Config,
    turn: Option<BoxFuture<'static, ()>>,
) -> Result<(SocketAddr, String, LocalService), CommandError> {
    // A random key, so that no other process can use this service.
    let key = format!("{}{}", new_uuid(), new_uuid());
    config.auth.keys = vec![ApiKey::of_admin("this command", &key)];

    // The user waits for the command to stop; unfinished jobs return to the queue.
    config.server.shutdown_grace = config.server.shutdown_grace.min(INSIDE_GRACE);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .context("cannot find a free port on this machine")?;
    let address = listener
        .local_addr()
        .context("the listener has no address")?;
    let app = App::build(config, Arc::new(SystemClock)).await?;
    let app = match turn {
        Some(turn) => app.running_jobs_after(turn),
        None => app,
    };
    let stop = CancellationToken::new();
    #[expect(clippy::disallowed_methods, reason = "awaited by close")]
    let served = tokio::spawn(app.serve(listener, stop.clone()));

    Ok((address, key, LocalService(stop, served)))
}

/// The unspecified address cannot be called, so use loopback instead.
pub fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    SocketAddr::new(ip, listen.port())
}
