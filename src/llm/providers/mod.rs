//! The protocols that providers speak.

mod anthropic;
mod embedded;
mod embedded_headers;
mod embedded_prompts;
mod gemini;
mod openai;
mod protocol;
mod wire;

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use self::protocol::{Protocol, Remote};
use super::provider::{Capabilities, Provider};
use crate::config::llm::{self as settings, Kind};

/// A client for a provider.
pub fn connect(
    provider: &settings::Provider,
    transport: &settings::Transport,
) -> Box<dyn Provider> {
    let key = provider.api_key.expose();
    match provider.kind {
        Kind::Local => Box::new(embedded::Embedded),
        Kind::Openai => {
            let bearer = (!key.is_empty()).then(|| format!("Bearer {key}"));
            let headers = [("authorization", bearer.as_deref().unwrap_or_default())];
            remote(openai::OpenAi, &headers, provider, transport)
        }
        Kind::Anthropic => {
            let headers = [
                ("x-api-key", key),
                ("anthropic-version", anthropic::VERSION),
            ];
            remote(anthropic::Anthropic, &headers, provider, transport)
        }
        Kind::Gemini => remote(
            gemini::Gemini,
            &[("x-goog-api-key", key)],
            provider,
            transport,
        ),
    }
}

/// A provider that speaks this protocol; empty headers are not sent.
fn remote(
    protocol: impl Protocol,
    headers: &[(&'static str, &str)],
    provider: &settings::Provider,
    transport: &settings::Transport,
) -> Box<dyn Provider> {
    let headers = headers.iter().filter(|(_, value)| !value.is_empty());
    let headers = headers.filter_map(|(name, value)| {
        let mut value = HeaderValue::from_str(value).ok()?;
        value.set_sensitive(true);
        Some((HeaderName::from_static(name), value))
    });

    Box::new(Remote {
        protocol,
        http: http_client(provider, transport),
        base_url: provider.base_url.trim_end_matches('/').to_owned(),
        headers: headers.collect(),
    })
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
