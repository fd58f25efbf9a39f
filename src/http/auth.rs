//! Who calls, which space they use, and at what time.
//!
//! Keys are identified by their SHA-256. `roles` defines the role that a route needs, and it is
//! checked here, so that a handler that takes a [`Caller`] cannot forget it. Without any key the
//! service is open to this machine only, and responds only to host names of this machine: a web
//! page must not reach it through its own host name that points here.

use std::sync::Arc;

use axum::extract::{FromRequestParts, MatchedPath};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};

use super::error::ApiError;
use super::state::AppState;
use super::trace::RequestIdentity;
use super::{host, roles};
use crate::base::clock::Timestamp;
use crate::base::ids::Space;
use crate::base::problems;
use crate::config::auth::Role;
use crate::erasure::ErasureOrder;
use crate::keys::Key;
use crate::llm::Llm;
use crate::model::call::CallContext;
use crate::model::erasure::ErasedBy;

const SPACE_HEADER: &str = "x-memoir-space";
const REDACT_HEADER: &str = "x-memoir-redact";
const REDACT_SECRETS: &str = "secrets";
#[cfg(feature = "testing")]
const NOW_HEADER: &str = "x-memoir-now";

/// A caller who may use the requested space and has a sufficient role for the route.
#[derive(Debug, Clone)]
pub struct Caller {
    pub call: CallContext,
    /// Whether the request set the current time.
    now_named: bool,
    /// None if the service requires no key: the caller is then an admin of all spaces.
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

        let (now, now_named) = (state.clock.now(), false);
        #[cfg(feature = "testing")]
        let (now, now_named) =
            named_now(parts, state)?.map_or((now, now_named), |named| (named, true));

        let call = CallContext {
            space,
            now,
            traceparent: parts
                .extensions
                .get::<RequestIdentity>()
                .map(RequestIdentity::traceparent),
            budget: key.as_ref().map(|key| key.budget()),
            redact_secrets: redacts_secrets(&parts.headers)?,
        };

        let caller = Self {
            call,
            now_named,
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
    /// The current time, if the request set it; everything that the request causes later uses it
    /// too.
    pub fn named_now(&self) -> Option<Timestamp> {
        self.now_named.then_some(self.call.now)
    }

    /// An erasure at the request of this caller.
    pub fn erasure(&self) -> ErasureOrder {
        let key = self.key.as_ref();
        ErasureOrder {
            call: self.call.clone(),
            by: ErasedBy {
                key_id: key.map(|key| key.id.clone()),
                key_name: key.map(|key| key.name.clone()),
            },
        }
    }

    fn role(&self) -> Role {
        self.key.as_ref().map_or(Role::Admin, |key| key.role)
    }

    /// Rejects an insufficient role.
    pub fn require(&self, role: Role) -> Result<(), ApiError> {
        if self.role() >= role {
            return Ok(());
        }

        let detail = format!(
            "this operation requires a key with the role {}; this key has the role {}",
            role.into_str(),
            self.role().into_str()
        );

        Err(ApiError::forbidden(&detail)
            .fix(format!(
                "Use a key with the role {} or higher.",
                role.into_str()
            ))
            .with("needed_role", role.into_str()))
    }

    /// The only space that this caller can see; `None` for all.
    pub fn only_space(&self) -> Option<&Space> {
        self.key.as_ref().and_then(|key| key.space.as_ref())
    }

    /// Rejects a model that the key may not use.
    pub fn check_model(&self, llm: &Llm, field: &str, model: Option<&str>) -> Result<(), ApiError> {
        let (Some(key), Some(model)) = (&self.key, model) else {
            return Ok(());
        };
        // A provider without a model stands for its default model.
        let name = llm
            .target_name("answer", Some(model))
            .unwrap_or_else(|_| model.to_owned());
        if key.limits.allow_model(&name) {
            return Ok(());
        }

        Err(ApiError::forbidden(&format!(
            "{field}: the API key may not use the model {name}"
        ))
        .fix("Omit the model, or choose one that the key allows (context.models).")
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

        Err(
            ApiError::forbidden("this operation covers all spaces, but the API key opens only one")
                .fix(
                    "Use an admin key whose space is \"*\". For a single space, use GET \
                 /v1/admin/spaces/{space}.",
                ),
        )
    }
}

fn named_space(headers: &HeaderMap) -> Result<Option<Space>, ApiError> {
    let mut values = headers.get_all(SPACE_HEADER).into_iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };

    // Two headers may come from two proxies that disagree.
    let space = value
        .to_str()
        .ok()
        .filter(|_| values.next().is_none())
        .and_then(|name| name.parse().ok());

    space.map(Some).ok_or_else(|| {
        ApiError::invalid_field(
            "X-Memoir-Space",
            format!("must be sent once, as {}", Space::RULE),
        )
    })
}

/// Whether what the request stores is redacted first.
fn redacts_secrets(headers: &HeaderMap) -> Result<bool, ApiError> {
    let mut values = headers.get_all(REDACT_HEADER).into_iter();
    match values.next() {
        None => Ok(false),
        Some(value) if value == REDACT_SECRETS => Ok(true),
        Some(_) => Err(
            ApiError::malformed("the header X-Memoir-Redact has an unknown value")
                .fix("Send X-Memoir-Redact: secrets, or omit the header."),
        ),
    }
}

/// Two headers may come from two proxies that disagree.
fn check_single_authorization(headers: &HeaderMap) -> Result<(), ApiError> {
    if headers.get_all(header::AUTHORIZATION).iter().count() > 1 {
        return Err(
            ApiError::malformed("the request has more than one Authorization header")
                .fix("Send one Authorization header, and check that no proxy adds its own."),
        );
    }
    Ok(())
}

/// The key in the request.
fn bearer(headers: &HeaderMap) -> Result<&str, ApiError> {
    let given = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let Some(given) = given else {
        return Err(unauthorized("the request has no API key"));
    };
    match given.split_once(' ') {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case("bearer") => Ok(key.trim()),
        _ => Err(unauthorized(
            "the Authorization header does not have the form Bearer KEY",
        )),
    }
}

fn space_for(key: &Key, named: Option<Space>) -> Result<Space, ApiError> {
    match (&key.space, named) {
        (Some(own), Some(named)) if *own != named => Err(ApiError::forbidden(
            "the API key does not open the requested space",
        )
        .fix("Omit the header X-Memoir-Space, or set it to the key's own space.")),
        (Some(own), _) => Ok(own.clone()),
        (None, named) => Ok(named.unwrap_or_default()),
    }
}

/// The time that the request names, where `testing.clock_header` allows it.
#[cfg(feature = "testing")]
fn named_now(parts: &Parts, state: &AppState) -> Result<Option<Timestamp>, ApiError> {
    let header = parts
        .headers
        .get(NOW_HEADER)
        .filter(|_| state.settings.testing.clock_header);

    let Some(header) = header else {
        return Ok(None);
    };
    let moment = header.to_str().ok().and_then(Timestamp::parse_rfc3339);
    moment.map(Some).ok_or_else(|| {
        ApiError::invalid_field(
            "X-Memoir-Now",
            "must be a time such as 2026-01-31T12:00:00Z",
        )
    })
}

/// 401: no key, or an invalid one.
pub fn unauthorized(detail: &str) -> ApiError {
    ApiError::new(problems::UNAUTHORIZED, detail)
        .fix(
            "Send the header Authorization: Bearer KEY with a key from auth.keys or from POST \
             /v1/admin/keys.",
        )
        .header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
}
