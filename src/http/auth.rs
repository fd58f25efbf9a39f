//! Who calls, into which space, at what time (D-2).
//!
//! Keys are compared by their SHA-256 in constant time. With no key configured the service is open to
//! this machine only, and answers only to names of this machine: a web page must not reach it through
//! a host name of its own that points here.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use subtle::ConstantTimeEq as _;

use super::error::ApiError;
use super::host;
use super::state::AppState;
use crate::base::clock::Timestamp;
use crate::base::hash;
use crate::base::ids::Space;
use crate::config::auth::{ApiKey, Role};

const SPACE_HEADER: &str = "x-memoir-space";
const NOW_HEADER: &str = "x-memoir-now";

/// A caller who may use the space they named.
#[derive(Debug, Clone)]
pub struct Caller {
    pub space: Space,
    pub now: Timestamp,
    /// Whether the request named the time itself.
    now_named: bool,
    role: Role,
}

/// A caller with the role `admin`.
#[derive(Debug, Clone)]
pub struct Admin;

impl FromRequestParts<AppState> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        let named = named_space(&parts.headers)?;
        let keys = &state.settings.auth.keys;
        let (space, role) = if keys.is_empty() {
            host::check(&parts.headers)?;
            (named.unwrap_or_default(), Role::Admin)
        } else {
            let key = find_key(keys, &parts.headers)?;
            (space_for(key, named)?, key.role)
        };
        let named = named_now(parts, state)?;
        Ok(Self { space, now: named.unwrap_or_else(|| state.clock.now()), now_named: named.is_some(), role })
    }
}

impl Caller {
    /// The time, if the request named it: what it causes later happens then, too (K-64).
    pub fn named_now(&self) -> Option<Timestamp> {
        self.now_named.then_some(self.now)
    }
}

impl FromRequestParts<AppState> for Admin {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        let caller = Caller::from_request_parts(parts, state).await?;
        if caller.role == Role::Admin {
            return Ok(Self);
        }
        Err(ApiError::forbidden("this needs a key with the role admin")
            .fix("Use a key whose role is admin (auth.keys)."))
    }
}

fn named_space(headers: &HeaderMap) -> Result<Option<Space>, ApiError> {
    let mut values = headers.get_all(SPACE_HEADER).into_iter();
    let Some(value) = values.next() else { return Ok(None) };
    // Said twice, it may be one proxy's word against another's.
    let space = value.to_str().ok().filter(|_| values.next().is_none()).and_then(|name| name.parse().ok());
    space
        .map(Some)
        .ok_or_else(|| ApiError::invalid_field("X-Memoir-Space", format!("must be given once, as {}", Space::RULE)))
}

fn find_key<'a>(keys: &'a [ApiKey], headers: &HeaderMap) -> Result<&'a ApiKey, ApiError> {
    // Given twice, it may be one proxy's word against another's.
    if headers.get_all(header::AUTHORIZATION).iter().count() > 1 {
        return Err(ApiError::malformed("the request has more than one Authorization header")
            .fix("Send one Authorization header; check that no proxy in between adds its own."));
    }
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some(given) = given else { return Err(unauthorized("no API key came with the request")) };
    let key = match given.split_once(' ') {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case("bearer") => key.trim(),
        _ => return Err(unauthorized("the Authorization header is not of the form Bearer KEY")),
    };
    let digest = hash::sha256(key.as_bytes());
    // Looks at every key, so that the time tells nothing about which one nearly fitted.
    let mut found = None;
    for key in keys {
        if bool::from(key.digest.ct_eq(&digest)) {
            found = Some(key);
        }
    }
    found.ok_or_else(|| unauthorized("the API key is not known"))
}

fn space_for(key: &ApiKey, named: Option<Space>) -> Result<Space, ApiError> {
    match (&key.space, named) {
        (Some(own), Some(named)) if *own != named => {
            Err(ApiError::forbidden("the API key does not open the space that was named")
                .fix("Leave out the header X-Memoir-Space, or name the key's own space."))
        }
        (Some(own), _) => Ok(own.clone()),
        (None, named) => Ok(named.unwrap_or_default()),
    }
}

fn named_now(parts: &Parts, state: &AppState) -> Result<Option<Timestamp>, ApiError> {
    let header = parts.headers.get(NOW_HEADER).filter(|_| state.settings.clock_header);
    let Some(header) = header else { return Ok(None) };
    let moment = header.to_str().ok().and_then(Timestamp::parse_rfc3339);
    moment.map(Some).ok_or_else(|| ApiError::invalid_field("X-Memoir-Now", "must be a time like 2026-01-31T12:00:00Z"))
}

fn unauthorized(detail: &str) -> ApiError {
    ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", "Unauthorized", detail)
        .fix("Send the header Authorization: Bearer KEY with a key from auth.keys.")
        .header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
}
