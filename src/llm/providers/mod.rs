//! The protocols that providers speak.

mod embedded;
mod embedded_prompts;
mod native;
mod native_stream;
mod openai;
mod openai_stream;

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::provider::{Capabilities, Provider};
use crate::config::llm::{self as settings, Kind};

/// A client for a provider.
pub fn connect(
    provider: &settings::Provider,
    transport: &settings::Transport,
) -> Box<dyn Provider> {
    match provider.kind {
        Kind::Local => Box::new(embedded::Embedded),
        Kind::Openai => Box::new(openai::OpenAi::new(
            provider,
            http_client(provider, transport),
        )),
        Kind::Anthropic | Kind::Gemini => Box::new(native::Native::new(
            provider,
            http_client(provider, transport),
        )),
    }
}

/// The capabilities of a kind of provider; needed before there is a client.
pub fn capabilities(kind: Kind) -> Capabilities {
    match kind {
        Kind::Local => embedded::CAPABILITIES,
        Kind::Openai | Kind::Anthropic | Kind::Gemini => Capabilities::default(),
    }
}

/// One connection pool per provider, with its headers and our timeouts.
fn http_client(provider: &settings::Provider, transport: &settings::Transport) -> reqwest::Client {
    let headers: HeaderMap = provider
        .headers
        .iter()
        .filter_map(|(name, value)| {
            let mut value = HeaderValue::from_str(value.expose()).ok()?;
            value.set_sensitive(true);
            Some((HeaderName::from_bytes(name.as_bytes()).ok()?, value))
        })
        .collect();

    let client = reqwest::Client::builder()
        .default_headers(headers)
        .connect_timeout(Duration::from_secs(transport.connect_timeout))
        .read_timeout(Duration::from_secs(transport.read_timeout))
        // Following a redirect would send our key to another address.
        .redirect(reqwest::redirect::Policy::none())
        .tcp_nodelay(true)
        .user_agent(concat!("memoir/", env!("CARGO_PKG_VERSION")));

    client
        .build()
        .unwrap_or_else(|error| unreachable!("the client's settings are fixed: {error}"))
}
