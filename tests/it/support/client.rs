//! The tests' own HTTP client: plain connections to this machine, no certificates to read.

/// Quick to build, unlike one that reads the certificates of the machine.
pub fn client() -> reqwest::Client {
    builder().build().unwrap()
}

pub fn builder() -> reqwest::ClientBuilder {
    // A second call finds it installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().tls_certs_only([])
}

/// One plain request.
pub async fn get(url: &str) -> reqwest::Result<reqwest::Response> {
    client().get(url).send().await
}
