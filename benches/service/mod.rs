//! memoir in the process of a benchmark, with a scripted model.

use std::collections::HashMap;
use std::sync::Arc;

use memoir::app::App;
use memoir::base::clock::SystemClock;
use memoir::config::{Config, Origin};
use memoir::scripted_model::ScriptedModel;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// A configuration with the scripted model.
pub fn config(database: &str, model: &ScriptedModel, strategy: &str) -> Config {
    let settings = [
        ("LLM__PROVIDERS__STUB__BASE_URL", model.openai_url()),
        ("LLM__PROVIDERS__STUB__MAX_CONCURRENCY", "1000".to_owned()),
        ("LLM__MODEL", "stub:gpt-4o".to_owned()),
        ("QUERY__STRATEGY", strategy.to_owned()),
        ("TAXONOMY__LIMIT_SCOPE", "parent".to_owned()),
        ("TELEMETRY__LOG_LEVEL", "error".to_owned()),
        ("DATABASE__URL", database.to_owned()),
    ];
    let environment: HashMap<String, String> = settings
        .into_iter()
        .map(|(name, value)| (format!("MEMOIR__{name}"), value))
        .collect();

    Config::load(&Origin {
        file: None,
        environment,
    })
    .unwrap()
}

/// memoir, in this process, and a client for it.
pub struct Service {
    pub client: reqwest::Client,
    address: String,
    stop: CancellationToken,
    served: tokio::task::JoinHandle<()>,
}

impl Service {
    pub async fn start(config: Config) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let stop = CancellationToken::new();
        let app = App::build(config, Arc::new(SystemClock)).await.unwrap();
        #[expect(clippy::disallowed_methods, reason = "awaited by stop()")]
        let served = tokio::spawn(app.serve(listener, stop.clone()));
        // Without compression, as between two services on one machine.
        let client = reqwest::Client::builder()
            .tls_certs_only([])
            .gzip(false)
            .build()
            .unwrap();

        Self {
            client,
            address,
            stop,
            served,
        }
    }

    pub fn url(&self, route: &str) -> String {
        format!("http://{}/v1/{route}", self.address)
    }

    pub async fn stop(self) {
        self.stop.cancel();
        self.served.await.unwrap();
    }
}
