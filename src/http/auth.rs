//! Who calls, into which space, at what time (D-2).
//!
//! Keys are known by their SHA-256. Which role a route needs stands in `roles`, and is checked
//! here, so that a handler that takes a [`Caller`] cannot forget it. With no key at all the service
//! is open to this machine only, and answers only to names of this machine: a web page must not
//! reach it through a host name of its own that points here.

use std::sync::Arc;

use axum::extract::{FromRequestParts, MatchedPath};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};

use super::error::ApiError;
use super::state::AppState;
use super::{host, roles};
use crate::base::clock::Timestamp;
use crate::base::ids::{JobId, Space};
use crate::config::auth::Role;
use crate::keys::Key;
use crate::llm::Llm;
use crate::model::llm_call::KeyBudget;
use crate::store::{StoreError, Tx};

const SPACE_HEADER: &str = "x-memoir-space";
const NOW_HEADER: &str = "x-memoir-now";

/// A caller who may use the space they named, and whose role is enough for the route.
#[derive(Debug, Clone)]
pub struct Caller {
    pub space: Space,
    pub now: Timestamp,
    /// Whether the request named the time itself.
    now_named: bool,
    /// None where the service needs none: then the caller is an admin of all spaces.
    pub key: Option<Arc<Key>>,
}

/// A caller with the role `admin`, of one space or of all of them.
#[derive(Debug, Clone)]
pub struct Admin(pub Caller);

/// A caller with the role `admin` for all spaces.
#[derive(Debug, Clone)]
pub struct AdminOfAll;

impl FromRequestParts<AppState> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        let named = named_space(&parts.headers)?;
        check_single_authorization(&parts.headers)?;
        let key = if state.keys.are_required().await {
            Some(state.keys.admit(bearer(&parts.headers)?).await?)
        } else {
            host::check(&parts.headers)?;
            None
        };

        let space = match &key {
            Some(key) => space_for(key, named)?,
            None => named.unwrap_or_default(),
        };

        let named = named_now(parts, state)?;
        let now = named.unwrap_or_else(|| state.clock.now());
        let caller = Self {
            space,
            now,
            now_named: named.is_some(),
            key,
        };

        let route = parts
            .extensions
            .get::<MatchedPath>()
            .map_or("", MatchedPath::as_str);

        caller.require(roles::needed(&parts.method, route))?;
        Ok(caller)
    }
}

impl Caller {
    /// The time, if the request named it: what it causes later happens then, too (K-64).
    pub fn named_now(&self) -> Option<Timestamp> {
        self.now_named.then_some(self.now)
    }

    fn role(&self) -> Role {
        self.key.as_ref().map_or(Role::Admin, |key| key.role)
    }

    /// Refuses a role that is not enough.
    pub fn require(&self, role: Role) -> Result<(), ApiError> {
        if self.role() >= role {
            return Ok(());
        }

        let detail = format!(
            "this needs a key with the role {}, and this one has {}",
            role.as_str(),
            self.role().as_str()
        );

        Err(ApiError::forbidden(&detail)
            .fix(format!(
                "Use a key whose role is {} or higher.",
                role.as_str()
            ))
            .with("needed_role", role.as_str()))
    }

    /// The only space that this caller can see; `None` for all.
    pub fn only_space(&self) -> Option<&Space> {
        self.key.as_ref().and_then(|key| key.space.as_ref())
    }

    /// Who pays for what is asked of models.
    pub fn budget(&self) -> Option<KeyBudget> {
        self.key.as_ref().map(|key| key.budget())
    }

    /// Notes who pays for a job that this transaction has queued.
    pub async fn pay_for(&self, tx: &mut Tx, id: &JobId) -> Result<(), StoreError> {
        match self.budget() {
            Some(budget) => tx.update_job_budget(&self.space, id, &budget).await,
            None => Ok(()),
        }
    }

    /// Refuses a model that the request names and the key may not.
    pub fn check_model(&self, llm: &Llm, field: &str, model: Option<&str>) -> Result<(), ApiError> {
        let (Some(key), Some(model)) = (&self.key, model) else {
            return Ok(());
        };
        // A provider alone stands for its own model.
        let name = llm
            .target_name("answer", Some(model))
            .unwrap_or_else(|_| model.to_owned());
        if key.limits.allow_model(&name) {
            return Ok(());
        }

        Err(ApiError::forbidden(&format!(
            "{field}: the API key may not name the model {name}"
        ))
        .fix("Leave the model out, or name one that the key allows (context.models).")
        .with("models", key.limits.models.clone()))
    }
}

impl FromRequestParts<AppState> for Admin {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        let caller = Caller::from_request_parts(parts, state).await?;
        caller.require(Role::Admin)?;
        Ok(Self(caller))
    }
}

impl FromRequestParts<AppState> for AdminOfAll {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        let Admin(caller) = Admin::from_request_parts(parts, state).await?;
        if caller.only_space().is_none() {
            return Ok(Self);
        }

        Err(ApiError::forbidden("this endpoint covers all spaces, but the API key opens only one")
            .fix("Use an admin key whose space is \"*\". Figures of one space: GET /v1/admin/spaces/{space}."))
    }
}

fn named_space(headers: &HeaderMap) -> Result<Option<Space>, ApiError> {
    let mut values = headers.get_all(SPACE_HEADER).into_iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };

    // Said twice, it may be one proxy's word against another's.
    let space = value
        .to_str()
        .ok()
        .filter(|_| values.next().is_none())
        .and_then(|name| name.parse().ok());

    space.map(Some).ok_or_else(|| {
        ApiError::invalid_field(
            "X-Memoir-Space",
            format!("must be given once, as {}", Space::RULE),
        )
    })
}

/// Given twice, it may be one proxy's word against another's.
fn check_single_authorization(headers: &HeaderMap) -> Result<(), ApiError> {
    if headers.get_all(header::AUTHORIZATION).iter().count() > 1 {
        return Err(
            ApiError::malformed("the request has more than one Authorization header")
                .fix("Send one Authorization header; check that no proxy in between adds its own."),
        );
    }
    Ok(())
}

/// The key that a request carries.
fn bearer(headers: &HeaderMap) -> Result<&str, ApiError> {
    let given = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let Some(given) = given else {
        return Err(unauthorized("no API key came with the request"));
    };
    match given.split_once(' ') {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case("bearer") => Ok(key.trim()),
        _ => Err(unauthorized(
            "the Authorization header is not of the form Bearer KEY",
        )),
    }
}

fn space_for(key: &Key, named: Option<Space>) -> Result<Space, ApiError> {
    match (&key.space, named) {
        (Some(own), Some(named)) if *own != named => Err(ApiError::forbidden(
            "the API key does not open the space that was named",
        )
        .fix("Leave out the header X-Memoir-Space, or name the key's own space.")),
        (Some(own), _) => Ok(own.clone()),
        (None, named) => Ok(named.unwrap_or_default()),
    }
}

fn named_now(parts: &Parts, state: &AppState) -> Result<Option<Timestamp>, ApiError> {
    let header = parts
        .headers
        .get(NOW_HEADER)
        .filter(|_| state.settings.clock_header);

    let Some(header) = header else {
        return Ok(None);
    };
    let moment = header.to_str().ok().and_then(Timestamp::parse_rfc3339);
    moment.map(Some).ok_or_else(|| {
        ApiError::invalid_field("X-Memoir-Now", "must be a time like 2026-01-31T12:00:00Z")
    })
}

/// 401: no key, or none that opens anything.
pub fn unauthorized(detail: &str) -> ApiError {
    ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", "Unauthorized", detail)
        .fix("Send the header Authorization: Bearer KEY with a key of auth.keys or of POST /v1/admin/keys.")
        .header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
}
