//! The real application on a random port, with its own database and clock.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use memoir::app::App;
use memoir::config::{Config, Origin};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::clock::ManualClock;
use super::database::TestDatabase;

pub struct TestApp {
    pub address: SocketAddr,
    pub clock: Arc<ManualClock>,
    pub database: Arc<TestDatabase>,
    pub stop: CancellationToken,
    pub client: reqwest::Client,
    served: Option<JoinHandle<()>>,
}

/// A complete response.
#[derive(Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: reqwest::header::HeaderMap,
    pub text: String,
}

impl TestApp {
    /// On SQLite, with the default settings.
    pub async fn spawn() -> Self {
        Self::with(&[]).await
    }

    /// On SQLite, with settings as in the environment: `("SERVER__LISTEN", "…")`.
    pub async fn with(settings: &[(&str, &str)]) -> Self {
        Self::on(TestDatabase::sqlite(), settings).await
    }

    pub async fn on(database: TestDatabase, settings: &[(&str, &str)]) -> Self {
        let url = database.url.clone();
        Self::at(&url, Arc::new(database), settings).await
    }

    /// Connects to the database through another address, such as a proxy.
    pub async fn at(url: &str, database: Arc<TestDatabase>, settings: &[(&str, &str)]) -> Self {
        let config = load(url, settings);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let clock = Arc::new(ManualClock::default());
        let app = App::build(config, Arc::clone(&clock) as _).await.unwrap();
        let stop = CancellationToken::new();
        #[expect(clippy::disallowed_methods, reason = "ends with the test")]
        let served = tokio::spawn(app.serve(listener, stop.clone()));

        Self {
            address,
            clock,
            database,
            stop,
            client: super::client::client(),
            served: Some(served),
        }
    }

    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client
            .request(method, format!("http://{}{path}", self.address))
    }

    pub async fn get(&self, path: &str) -> Reply {
        send(self.request(Method::GET, path)).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Reply {
        send(self.request(Method::POST, path).json(body)).await
    }

    /// Stops as on SIGTERM, and waits for the end.
    pub async fn finish(mut self) {
        self.stop.cancel();
        self.served.take().unwrap().await.unwrap();
    }
}

/// Settings for a database URL.
pub fn load(url: &str, settings: &[(&str, &str)]) -> Config {
    let mut environment: HashMap<String, String> = settings
        .iter()
        .map(|(name, value)| (format!("MEMOIR__{name}"), (*value).to_owned()))
        .collect();

    environment.insert("DATABASE_URL".to_owned(), url.to_owned());

    // Still survives a killed process, and takes half the time; tests that start the binary use the
    // default.
    environment
        .entry("MEMOIR__DATABASE__SQLITE_SYNCHRONOUS".to_owned())
        .or_insert_with(|| "normal".to_owned());

    // A developer's own model server must not change what a test sees.
    environment
        .entry("MEMOIR__LLM__NOTICE_LOCAL_MODELS".to_owned())
        .or_insert_with(|| "false".to_owned());
    Config::load(&Origin {
        file: None,
        environment,
    })
    .unwrap()
}

pub async fn send(request: RequestBuilder) -> Reply {
    Reply::read(request.send().await.unwrap()).await
}

impl Reply {
    async fn read(response: Response) -> Self {
        let (status, headers) = (response.status(), response.headers().clone());
        Self {
            status,
            headers,
            text: response.text().await.unwrap(),
        }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    /// Checks that this is a complete problem document with this status and code.
    #[track_caller]
    pub fn assert_problem(&self, status: u16, code: &str) {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        assert_eq!(self.header("content-type"), "application/problem+json");
        let problem = self.json();
        assert_eq!(problem["code"], code, "{}", self.text);
        assert_eq!(problem["status"], status);
        assert_eq!(problem["type"], format!("urn:memoir:problem:{code}"));
        assert_eq!(problem["request_id"], self.header("x-request-id"));

        for member in ["title", "detail", "remediation", "request_id"] {
            assert!(
                problem[member]
                    .as_str()
                    .is_some_and(|text| !text.is_empty()),
                "{member}: {}",
                self.text
            );
        }
    }
}
