//! Prevents web pages from reaching an open service through their own host name that points to this
//! machine (DNS rebinding).

use std::net::IpAddr;

use axum::http::{HeaderMap, header};

use super::error::ApiError;

/// Rejects a `Host` that is not a name of this machine.
pub fn check(headers: &HeaderMap) -> Result<(), ApiError> {
    let Some(host) = headers.get(header::HOST) else {
        return Ok(());
    };
    if host.to_str().is_ok_and(is_local) {
        return Ok(());
    }

    Err(ApiError::forbidden(
        "without API keys, memoir responds only to host names of this machine, such as localhost",
    )
    .fix("Use http://127.0.0.1 or http://localhost, or configure auth.keys."))
}

fn is_local(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(rest, |(address, _)| address),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };

    let name = name.trim_end_matches('.');
    let localhost =
        name.eq_ignore_ascii_case("localhost") || name.to_ascii_lowercase().ends_with(".localhost");
    localhost
        || name
            .parse::<IpAddr>()
            .is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_only_host_names_of_this_machine() {
        for host in [
            "localhost",
            "localhost:8080",
            "LOCALHOST",
            "127.0.0.1:80",
            "127.8.8.8",
            "[::1]:8080",
            "a.localhost",
        ] {
            assert!(is_local(host), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example:8080",
            "10.0.0.1",
            "[2001:db8::1]",
            "",
            "127.0.0.1.nip.io",
        ] {
            assert!(!is_local(host), "{host}");
        }
    }
}
