//! `[server]`: the address to listen on, and timeouts for clients.

use std::net::SocketAddr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::{Violation, Violations};

/// The most that the limits of connections can be set to.
const MAX_CONNECTIONS: u64 = 1_000_000;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    #[serde(deserialize_with = "address")]
    pub listen: SocketAddr,
    pub shutdown_grace: u64,
    pub header_timeout: u64,
    pub body_timeout: u64,
    pub write_timeout: u64,
    pub max_connections: u64,
    #[serde(deserialize_with = "per_peer")]
    max_connections_per_peer: PerPeer,
    pub cors_origins: Vec<String>,
}

/// How many connections one peer may have.
#[derive(Debug, Clone, Copy)]
enum PerPeer {
    /// A quarter of all.
    Quarter,
    /// 0: any number.
    Most(u64),
}

fn per_peer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PerPeer, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text == "quarter" {
        return Ok(PerPeer::Quarter);
    }

    let most = text.trim().parse().ok();
    most.filter(|most| *most <= MAX_CONNECTIONS)
        .map(PerPeer::Most)
        .ok_or_else(|| D::Error::custom("\"quarter\", or a whole number from 0 to 1000000"))
}

/// Parses an address; `localhost` is the only name that needs no lookup.
fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    let text = text
        .strip_prefix("localhost:")
        .map_or(text.clone(), |port| format!("127.0.0.1:{port}"));
    text.parse().map_err(|_| {
        D::Error::custom(
            "an IP address and a port, such as 127.0.0.1:8080, 0.0.0.0:80 or [::1]:8080",
        )
    })
}

impl Server {
    /// Whether only this machine can reach the service.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.listen.ip().to_canonical().is_loopback()
    }

    /// How many connections one peer may have; 0: any number.
    #[must_use]
    pub fn max_connections_per_peer(&self) -> u64 {
        match self.max_connections_per_peer {
            PerPeer::Quarter => (self.max_connections / 4).max(1),
            PerPeer::Most(most) => most,
        }
    }

    pub fn validate(&self, violations: &mut Violations) {
        violations.check_range("server.shutdown_grace", self.shutdown_grace, 0..=3600, 25);
        violations.check_range("server.header_timeout", self.header_timeout, 1..=3600, 30);
        violations.check_range("server.body_timeout", self.body_timeout, 1..=3600, 30);
        violations.check_range("server.write_timeout", self.write_timeout, 1..=3600, 30);
        violations.check_range(
            "server.max_connections",
            self.max_connections,
            1..=MAX_CONNECTIONS,
            1024,
        );

        for origin in &self.cors_origins {
            let parsed = url::Url::parse(origin)
                .ok()
                .filter(|url| matches!(url.scheme(), "http" | "https"));
            if parsed.is_none_or(|url| url.origin().ascii_serialization() != *origin) {
                violations.add(
                    Violation::new("server.cors_origins", origin)
                        .allowed(
                            "origins: scheme, host, and the port unless it is the default one; \
                             no path, no *",
                        )
                        .example(r#"cors_origins = ["https://app.example.com"]"#),
                );
            }
        }
    }
}
