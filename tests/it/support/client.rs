//! The HTTP client of the tests: plain connections to this machine, without certificates.

/// Quick to create, unlike a client that reads the certificates of the machine.
pub fn client() -> reqwest::Client {
    builder().build().unwrap()
}

pub fn builder() -> reqwest::ClientBuilder {
    // Already installed by an earlier call.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().tls_certs_only([])
}

/// One plain request.
pub async fn get(url: &str) -> reqwest::Result<reqwest::Response> {
    client().get(url).send().await
}
