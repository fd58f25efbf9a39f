//! `Idempotency-Key`: the same request sent twice has one effect and one response.
//!
//! The key, the effect and the response are written in one transaction. A second request with the
//! same key waits for the first transaction; then it gets the stored response, or takes over if the
//! first request failed. Only successes are stored. Requests that take too long for a transaction
//! are in `running`.

mod queueing;
mod running;

use std::collections::BTreeSet;
use std::str::FromStr as _;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use memoir_text::hash::sha256_hex;
use serde::Serialize;

use super::auth::Caller;
use super::error::ApiError;
use super::etag;
use super::state::AppState;
use crate::base::clock::Timestamp;
use crate::base::erased_json::uses;
use crate::base::ids::USER;
use crate::base::problems;
use crate::categories::CategoryError;
use crate::conversation::ConversationError;
use crate::ingestion::IngestionError;
use crate::jobs::JobsError;
use crate::sources::SourceError;
use crate::store::{AsStoreError, ERASED_STATUS, NewResponse, Store, StoreError, StoredAnswer, Tx};

pub use running::{Runs, Turn};

pub const HEADER: &str = "idempotency-key";
/// How long a response is stored.
pub const KEEP_SECONDS: i64 = 24 * 60 * 60;

/// The key of a request, if it has one.
pub struct Idempotency {
    key: Option<String>,
    route: &'static str,
    body_hash: String,
}

/// What to do with a request.
enum Begun {
    /// A stored response exists.
    Answered(Response),
    /// Process the request inside this transaction.
    Fresh(Tx),
}

impl Idempotency {
    /// Parses the header, quoted or bare; `route` is the operation that the key belongs to.
    pub fn of(headers: &HeaderMap, route: &'static str, body: &[u8]) -> Result<Self, ApiError> {
        let key = headers.get(HEADER).map(|value| {
            let text = value.to_str().unwrap_or_default().trim();
            text.strip_prefix('"')
                .and_then(|rest| rest.strip_suffix('"'))
                .unwrap_or(text)
                .to_owned()
        });

        if let Some(key) = &key
            && !((1..=255).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic()))
        {
            let rule = "must have 1 to 255 visible ASCII characters, such as a UUID";
            return Err(ApiError::invalid_field("Idempotency-Key", rule));
        }

        let body_hash = if key.is_some() {
            sha256_hex(body)
        } else {
            String::new()
        };

        Ok(Self {
            key,
            route,
            body_hash,
        })
    }

    /// The stored response, if any: a repeat gets it even if the resource has changed or is gone.
    pub async fn answered(
        &self,
        store: &Store,
        caller: &Caller,
    ) -> Result<Option<Response>, ApiError> {
        let Some(key) = &self.key else {
            return Ok(None);
        };
        let since = caller.call.now.minus_seconds(KEEP_SECONDS);
        let Some(found) = store
            .find_idempotency_key(&caller.call.space, key, since)
            .await?
        else {
            return Ok(None);
        };

        store.settle().await?;
        self.replay(&found).map(Some)
    }

    /// Begins the transaction and looks up the key in it.
    async fn begin(&self, store: &Store, caller: &Caller) -> Result<Begun, ApiFailure> {
        let mut tx = store.begin().await?;
        let Some(key) = &self.key else {
            return Ok(Begun::Fresh(tx));
        };
        let expired = caller.call.now.minus_seconds(KEEP_SECONDS);
        let claim = tx.claim_idempotency_key(
            &caller.call.space,
            key,
            (self.route, &self.body_hash),
            caller.call.now,
            expired,
        );

        match claim.await? {
            None => Ok(Begun::Fresh(tx)),
            Some(answer) => {
                // The first request may still be waiting for the disk.
                drop(tx);
                store.settle().await?;
                Ok(Begun::Answered(self.replay(&answer)?))
            }
        }
    }

    /// Answers with 201, or 200 if it existed, and the resource that `make` creates in the transaction, which it returns; or
    /// returns the stored response.
    pub async fn create<B: Serialize, F>(
        &self,
        state: &AppState,
        caller: &Caller,
        make: impl Fn(Tx) -> F,
    ) -> Result<Response, ApiError>
    where
        F: Future<Output = Result<(Tx, Created<B>), ApiFailure>>,
    {
        let created = state.store.retry_as(self.route, || async {
            let tx = match self.begin(&state.store, caller).await? {
                Begun::Answered(response) => return Ok(response),
                Begun::Fresh(tx) => tx,
            };

            let (tx, created) = make(tx).await?;
            self.finish(tx, caller, created.status, created.headers, &created.body)
                .await
        });

        Ok(created.await?)
    }

    /// Answers with 200 and what `work` did in the transaction that it returns; or returns the stored
    /// response. If `work` returns no transaction, it has changed nothing, and the key stays free.
    pub async fn change<B: Serialize, F>(
        &self,
        state: &AppState,
        caller: &Caller,
        work: impl Fn(Tx) -> F,
    ) -> Result<Response, ApiError>
    where
        F: Future<Output = Result<(Option<Tx>, B), ApiFailure>>,
    {
        let changed = state.store.retry_as(self.route, || async {
            let tx = match self.begin(&state.store, caller).await? {
                Begun::Answered(response) => return Ok(response),
                Begun::Fresh(tx) => tx,
            };

            match work(tx).await? {
                (Some(tx), body) => self.finish(tx, caller, StatusCode::OK, [], &body).await,
                (None, body) => Ok(axum::Json(body).into_response()),
            }
        });

        Ok(changed.await?)
    }

    /// Stores the response and commits everything.
    async fn finish(
        &self,
        mut tx: Tx,
        caller: &Caller,
        status: StatusCode,
        headers: impl IntoIterator<Item = (HeaderName, HeaderValue)>,
        body: &impl Serialize,
    ) -> Result<Response, ApiFailure> {
        let text = |value: HeaderValue| value.to_str().unwrap_or_default().to_owned();
        let headers = headers
            .into_iter()
            .map(|(name, value)| (name.to_string(), text(value)))
            .collect();

        let stored = Stored {
            headers,
            body: to_json(body)?,
        };

        if let Some(key) = &self.key {
            let response = stored.to_write(status, caller.call.now)?;
            tx.update_idempotency_key(&caller.call.space, key, &response)
                .await?;
        }

        tx.commit().await?;
        Ok(respond(status, &stored))
    }

    fn replay(&self, answer: &StoredAnswer) -> Result<Response, ApiError> {
        if answer.route != self.route || answer.body_hash != self.body_hash {
            return Err(ApiError::new(
                problems::IDEMPOTENCY_KEY_REUSED,
                "this Idempotency-Key was already used for another request",
            ));
        }

        if answer.status.is_none() {
            return Err(running::still_running());
        }

        if answer.status == Some(ERASED_STATUS) {
            let detail =
                "the stored response to this Idempotency-Key held text that has been deleted";
            return Err(ApiError::new(problems::ERASED, detail)
                .fix("The request was processed once. To process it again, use a new key."));
        }

        let status = answer
            .status
            .and_then(|status| StatusCode::from_u16(u16::try_from(status).ok()?).ok());
        let stored = answer
            .response_json
            .as_deref()
            .and_then(|json| serde_json::from_str::<Stored>(json).ok());

        let (Some(status), Some(stored)) = (status, stored) else {
            return Err(ApiError::internal("a stored response cannot be parsed"));
        };
        let mut response = respond(status, &stored);
        response
            .headers_mut()
            .insert("idempotency-replayed", HeaderValue::from_static("true"));
        Ok(response)
    }
}

/// A new resource: the headers and the body of its response.
pub struct Created<B> {
    status: StatusCode,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: B,
}

impl<B: Serialize> Created<B> {
    /// A resource at this path.
    pub fn at(path: &str, body: B) -> Result<Self, ApiError> {
        let headers = vec![location(path)?];
        Ok(Self {
            status: StatusCode::CREATED,
            headers,
            body,
        })
    }

    /// The resource existed before, if so.
    #[must_use]
    pub fn unless_new(mut self, is_new: bool) -> Self {
        if !is_new {
            self.status = StatusCode::OK;
        }
        self
    }

    /// Adds the tag by which a change can name the state that it depends on.
    #[must_use]
    pub fn with_etag(self) -> Self {
        let etag = etag::etag(&self.body);
        self.with(header::ETAG, etag)
    }

    #[must_use]
    pub fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }
}

/// The `Location` header of a new resource.
pub fn location(path: &str) -> Result<(HeaderName, HeaderValue), ApiError> {
    let value =
        HeaderValue::from_str(path).map_err(|error| ApiError::internal(error.to_string()))?;
    Ok((header::LOCATION, value))
}

/// A stored response.
#[derive(Serialize, serde::Deserialize)]
struct Stored {
    headers: Vec<(String, String)>,
    body: serde_json::Value,
}

impl Stored {
    fn to_write(&self, status: StatusCode, now: Timestamp) -> Result<NewResponse, ApiError> {
        let mut used = BTreeSet::new();
        uses(&self.body, &mut used);
        // A queued job tells nothing of a text, but whose it is.
        if status == StatusCode::ACCEPTED {
            used.retain(|used| used.starts_with(USER));
        }
        Ok(NewResponse {
            status: status.as_u16(),
            json: to_json(self)?.to_string(),
            used,
            at: now,
        })
    }
}

fn to_json(value: &impl Serialize) -> Result<serde_json::Value, ApiError> {
    serde_json::to_value(value).map_err(|error| ApiError::internal(error.to_string()))
}

fn respond(status: StatusCode, stored: &Stored) -> Response {
    let mut response = Response::new(Body::from(stored.body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );

    for (name, value) in &stored.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::from_str(name), HeaderValue::from_str(value)) {
            response.headers_mut().insert(name, value);
        }
    }

    response
}

/// An error inside a unit of work that the store may retry.
#[derive(Debug)]
pub enum ApiFailure {
    Store(StoreError),
    Api(ApiError),
}

impl AsStoreError for ApiFailure {
    fn as_store_error(&self) -> Option<&StoreError> {
        if let Self::Store(error) = self {
            Some(error)
        } else {
            None
        }
    }
}

impl From<StoreError> for ApiFailure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<ApiError> for ApiFailure {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

/// Errors of the areas, except those that the store may retry.
macro_rules! failures {
    ($($error:ty),*) => {$(
        impl From<$error> for ApiFailure {
            fn from(error: $error) -> Self {
                match error.as_store_error() {
                    Some(error) => Self::Store(error.clone()),
                    None => ApiError::from(error).into(),
                }
            }
        }
    )*};
}

failures!(
    CategoryError,
    ConversationError,
    IngestionError,
    JobsError,
    SourceError
);

impl From<ApiFailure> for ApiError {
    fn from(failure: ApiFailure) -> Self {
        match failure {
            ApiFailure::Store(error) => error.into(),
            ApiFailure::Api(error) => error,
        }
    }
}
