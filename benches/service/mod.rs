//! memoir in the process of a benchmark.

use std::sync::Arc;

use memoir::app::App;
use memoir::base::clock::SystemClock;
use memoir::config::Config;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// memoir, in this process, and a client for it.
pub struct Service {
    pub client: reqwest::Client,
    address: String,
    stop: CancellationToken,
    served: tokio::task::JoinHandle<()>,
}

impl Service {
    pub async fn start(config: Config) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
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
