//! Problem documents for API keys.

use axum::http::{HeaderName, HeaderValue, StatusCode, header};

use super::ApiError;
use crate::http::auth;
use crate::keys::KeysError;

impl From<KeysError> for ApiError {
    fn from(error: KeysError) -> Self {
        let detail = error.to_string();
        let conflict = |code, title| Self::new(StatusCode::CONFLICT, code, title, detail.as_str());
        match error {
            KeysError::Unknown => auth::unauthorized(&detail),
            KeysError::Expired(_) | KeysError::Revoked(_) => {
                auth::unauthorized(&detail).fix("Ask an admin for a new key (POST /v1/admin/keys).")
            }
            KeysError::TooMany { limit, resets_in } => Self::new(
                StatusCode::TOO_MANY_REQUESTS,
                "rate_limited",
                "Rate limited",
                detail,
            )
            .fix(
                "Wait for the time given in Retry-After, or ask an admin to raise \
                 limits.requests_per_minute of the key.",
            )
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
            KeysError::OfConfiguration(_) => {
                conflict("key_of_configuration", "Key defined in the configuration")
                    .fix("Change or delete its entry in auth.keys and restart.")
            }
            KeysError::First => conflict("first_key", "First key must be an admin key").fix(
                "Create a key with the role \"admin\" and the space \"*\" first, then use it \
                 to create the others.",
            ),
            KeysError::Invalid(errors) => Self::invalid(errors),
            KeysError::Store(error) => error.into(),
        }
    }
}
