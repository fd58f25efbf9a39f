//! Problem documents for API keys.

use axum::http::{HeaderName, HeaderValue, header};

use super::ApiError;
use crate::base::problems;
use crate::http::auth;
use crate::keys::KeysError;

impl From<KeysError> for ApiError {
    fn from(error: KeysError) -> Self {
        let detail = error.to_string();
        match error {
            KeysError::Unknown => auth::unauthorized(&detail),
            KeysError::Expired(_) | KeysError::Revoked(_) => {
                auth::unauthorized(&detail).fix("Ask an admin for a new key (POST /v1/admin/keys).")
            }
            KeysError::TooMany { limit, resets_in } => Self::new(problems::RATE_LIMITED, detail)
                .with("limit", limit)
                .with("resets_in_seconds", resets_in)
                .header(header::RETRY_AFTER, HeaderValue::from(resets_in))
                .header(
                    HeaderName::from_static("ratelimit-limit"),
                    HeaderValue::from(limit),
                )
                .header(
                    HeaderName::from_static("ratelimit-remaining"),
                    HeaderValue::from_static("0"),
                )
                .header(
                    HeaderName::from_static("ratelimit-reset"),
                    HeaderValue::from(resets_in),
                ),
            KeysError::NotFound(_) => Self::not_found(detail)
                .fix("Use GET /v1/admin/keys to list the keys that you can manage."),
            KeysError::Beyond(_) => Self::forbidden(&detail)
                .fix("Use an admin key for all spaces that has no limits and no expiry."),
            KeysError::OfConfiguration(_) => Self::new(problems::KEY_OF_CONFIGURATION, detail),
            KeysError::First => Self::new(problems::FIRST_KEY, detail),
            KeysError::Invalid(errors) => Self::invalid(errors),
            KeysError::Store(error) => error.into(),
        }
    }
}
