//! The header `Host`: well-formed in every request, and a name of this machine if the service is
//! open.
//!
//! The latter prevents web pages from reaching an open service through their own host name that
//! points to this machine (DNS rebinding).

use std::net::{IpAddr, Ipv6Addr};

use axum::extract::Request;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::error::ApiError;

/// Rejects a request that does not name exactly one host and port.
pub async fn check_form(mut request: Request, next: Next) -> Response {
    let target = request.uri().authority().cloned();
    if !is_well_formed(request.headers(), target.as_ref()) {
        return ApiError::malformed(
            "the request must have one Host header with a host name or address and an optional port",
        )
        .fix(
            "Send one Host header, such as Host: localhost:8080, without a user name or a path, \
             and check what proxies change.",
        )
        .into_response();
    }

    // A host in the target counts like one in the header.
    if let Some(host) = target.and_then(|target| HeaderValue::from_str(target.as_str()).ok()) {
        request.headers_mut().insert(header::HOST, host);
    }

    next.run(request).await
}

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

/// Whether the header and the target of a request name at most one host, and the same one.
fn is_well_formed(headers: &HeaderMap, target: Option<&Authority>) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = match (hosts.next().map(HeaderValue::to_str), hosts.next()) {
        (None, _) => None,
        (Some(Ok(host)), None) => Some(host),
        // Two headers may come from two proxies that disagree.
        (Some(_), _) => return false,
    };

    let target = target.map(Authority::as_str);
    let same = host
        .zip(target)
        .is_none_or(|(host, target)| host.eq_ignore_ascii_case(target));

    same && host.is_none_or(|host| parse(host).is_some())
        && target.is_none_or(|target| parse(target).is_some())
}

/// A host in a header.
enum Host<'h> {
    Name(&'h str),
    V6(Ipv6Addr),
}

/// The host of `host` or `host:port`; none if it is anything else.
fn parse(text: &str) -> Option<Host<'_>> {
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        (Host::V6(address.parse().ok()?), port)
    } else {
        let end = text.find(':').unwrap_or(text.len());
        let (name, port) = text.split_at(end);
        (is_name(name).then_some(Host::Name(name))?, port)
    };

    let is_port = |digits: &str| {
        digits.bytes().all(|byte| byte.is_ascii_digit()) && digits.parse::<u16>().is_ok()
    };

    match port.strip_prefix(':') {
        Some(digits) => is_port(digits).then_some(host),
        None => port.is_empty().then_some(host),
    }
}

/// Whether this is a name as they occur in DNS and in networks of containers, or an IPv4 address:
/// labels of letters, digits, hyphens and underscores.
fn is_name(text: &str) -> bool {
    let is_label = |label: &str| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        !label.is_empty() && label.bytes().all(fits)
    };

    let labels = text.strip_suffix('.').unwrap_or(text);
    labels.split('.').all(is_label)
}

fn is_local(host: &str) -> bool {
    let is_loopback = |address: IpAddr| address.to_canonical().is_loopback();
    match parse(host) {
        Some(Host::V6(address)) => is_loopback(address.into()),
        Some(Host::Name(name)) => {
            let name = name.trim_end_matches('.').to_ascii_lowercase();
            name == "localhost"
                || name.ends_with(".localhost")
                || name.parse().is_ok_and(is_loopback)
        }
        None => false,
    }
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
            "[::ffff:127.0.0.1]",
            "a.localhost",
        ] {
            assert!(is_local(host), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example:8080",
            "localhost:80@evil",
            "10.0.0.1",
            "[2001:db8::1]",
            "",
            "127.0.0.1.nip.io",
        ] {
            assert!(!is_local(host), "{host}");
        }
    }
}
