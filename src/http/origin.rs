//! Prevents pages of other origins from changing anything.
//!
//! A browser lets any page send forms and simple requests anywhere; it only withholds the response.
//! So a request that changes something is rejected if the browser says that it comes from another
//! origin: by `Sec-Fetch-Site`, which no page can set, or, if an old browser does not send that, by
//! an `Origin` that differs from the request's own `Host`. Clients other than browsers send
//! neither.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::error::ApiError;
use super::state::AppState;
use crate::base::problems;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Rejects a request from a foreign page unless it only reads, because the browser withholds the
/// response from that page.
pub async fn check(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let reads = [Method::GET, Method::HEAD, Method::OPTIONS].contains(request.method());
    if !reads && is_foreign(request.headers(), &state.settings.cors_origins) {
        return refused(request.headers()).into_response();
    }

    next.run(request).await
}

fn refused(headers: &HeaderMap) -> ApiError {
    let origin = headers
        .get(header::ORIGIN)
        .and_then(|origin| origin.to_str().ok())
        .unwrap_or("null");
    ApiError::new(
        problems::CROSS_ORIGIN_REQUEST,
        "a web page from another origin sent this request, and server.cors_origins does not \
         include that origin",
    )
    .fix(
        "If the page is yours, add its origin to server.cors_origins, e.g. \
         [\"https://app.example.com\"]. Behind a reverse proxy that changes the Host header, \
         add the origin at which users open memoir's own page.",
    )
    .with("origin", origin)
}

/// Whether a browser says that this request comes from a page of an origin that is neither ours nor
/// trusted.
fn is_foreign(headers: &HeaderMap, trusted: &[String]) -> bool {
    let (origins, sites) = (
        headers.get_all(header::ORIGIN),
        headers.get_all(SEC_FETCH_SITE),
    );

    // Two headers may come from two proxies that disagree.
    if origins.iter().count() > 1 || sites.iter().count() > 1 {
        return true;
    }

    let origin = headers.get(header::ORIGIN);
    if origin.is_some_and(|origin| {
        trusted
            .iter()
            .any(|trusted| origin.as_bytes() == trusted.as_bytes())
    }) {
        return false;
    }

    let own = || origin.is_some_and(|origin| is_own(origin, headers.get(header::HOST)));
    match headers.get(SEC_FETCH_SITE).map(HeaderValue::as_bytes) {
        Some(b"same-origin") => false,
        // Another port of the same machine is another origin.
        Some(b"same-site") => !own(),
        // The request comes from no page, or the browser is too old to say.
        Some(b"none") | None => origin.is_some() && !own(),
        Some(_) => true,
    }
}

/// Whether an origin is the host that the request was sent to. The scheme is unknown here, because
/// a proxy may terminate TLS.
fn is_own(origin: &HeaderValue, host: Option<&HeaderValue>) -> bool {
    let (Ok(origin), Some(Ok(host))) = (origin.to_str(), host.map(HeaderValue::to_str)) else {
        return false;
    };
    let Some((scheme, authority)) = origin.split_once("://") else {
        return false;
    };
    let usual = match scheme {
        "http" => ":80",
        "https" => ":443",
        _ => return false,
    };

    let without = |authority: &'_ str| {
        authority
            .strip_suffix(usual)
            .unwrap_or(authority)
            .to_ascii_lowercase()
    };

    !authority.is_empty() && without(authority) == without(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_the_same_if_its_host_and_port_match_the_request() {
        for (origin, host, own) in [
            ("http://localhost:8080", "localhost:8080", true),
            ("http://LOCALHOST:8080", "localhost:8080", true),
            ("http://[::1]:8080", "[::1]:8080", true),
            ("http://memoir.example", "memoir.example:80", true),
            ("http://memoir.example", "memoir.example", true),
            ("https://memoir.example", "memoir.example", true),
            ("https://memoir.example", "memoir.example:443", true),
            ("https://memoir.example", "memoir.example:80", false),
            ("http://localhost:8081", "localhost:8080", false),
            ("http://127.0.0.1:8080", "localhost:8080", false),
            (
                "http://localhost:8080.evil.example",
                "localhost:8080",
                false,
            ),
            ("http://evil.example", "memoir.example", false),
            ("chrome-extension://localhost:8080", "localhost:8080", false),
            ("file://", "", false),
            ("null", "localhost:8080", false),
            ("", "", false),
        ] {
            let (origin, host) = (
                HeaderValue::from_static(origin),
                HeaderValue::from_static(host),
            );
            assert_eq!(is_own(&origin, Some(&host)), own, "{origin:?} {host:?}");
        }
        assert!(!is_own(&HeaderValue::from_static("http://localhost"), None));
    }
}
