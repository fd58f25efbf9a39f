//! Extractors that return problem documents, and reject what JSON parsers accept: duplicate keys,
//! unknown fields, and NUL characters, which PostgreSQL cannot store and clients never intend.

mod strict;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::body;
use super::body_budget::Reservation;
use super::error::ApiError;
use super::state::AppState;
use crate::base::clock::Timestamp;
use crate::base::problems;

pub use crate::base::json_object::{object, object_list, object_or_null, objects};

/// The media type of JSON Lines: one object per line.
const JSON_LINES: &str = "application/x-ndjson";

const READ_THE_DOCS: &str = "Correct the request; /docs describes every field.";

/// A JSON body and its original bytes.
pub struct JsonBody<T> {
    pub value: T,
    pub bytes: Bytes,
    /// Held until the handler is done.
    _reservation: Reservation,
}

impl<T: DeserializeOwned> FromRequest<AppState> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, ApiError> {
        check_media_type(request.headers())?;
        let (bytes, reservation) = body::read(request.into_body(), state).await?;
        Ok(Self {
            value: parse(&bytes)?,
            bytes,
            _reservation: reservation,
        })
    }
}

/// A JSON body that may also be a list.
pub struct JsonListBody<T>(pub JsonBody<T>);

impl<T: DeserializeOwned> FromRequest<AppState> for JsonListBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, ApiError> {
        check_media_type(request.headers())?;
        let (bytes, reservation) = body::read(request.into_body(), state).await?;
        let value = if bytes.trim_ascii_start().first() == Some(&b'[') {
            let value = parse_json(&bytes)?;
            strict::check(&bytes, "")?;
            value
        } else {
            parse(&bytes)?
        };
        Ok(Self(JsonBody {
            value,
            bytes,
            _reservation: reservation,
        }))
    }
}

/// A JSON body that may be missing or null.
pub struct OptionalJsonBody<T>(pub JsonBody<T>);

impl<T: DeserializeOwned + Default> FromRequest<AppState> for OptionalJsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        let (bytes, reservation) = body::read(body, state).await?;
        let value = if matches!(bytes.trim_ascii(), b"" | b"null") {
            T::default()
        } else {
            check_media_type(&parts.headers)?;
            parse(&bytes)?
        };
        Ok(Self(JsonBody {
            value,
            bytes,
            _reservation: reservation,
        }))
    }
}

/// A body of any type.
pub struct RawBody {
    pub bytes: Bytes,
    /// Held until the handler is done.
    _reservation: Reservation,
}

impl FromRequest<AppState> for RawBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, ApiError> {
        let (bytes, reservation) = body::read(request.into_body(), state).await?;
        Ok(Self {
            bytes,
            _reservation: reservation,
        })
    }
}

/// Parameters of the query string.
pub struct QueryParams<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<AppState> for QueryParams<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self, ApiError> {
        let query = parts.uri.query().unwrap_or_default();
        // The parser replaces invalid UTF-8; a client that intends U+FFFD itself encodes it.
        let replaced = url::form_urlencoded::parse(query.as_bytes())
            .any(|(name, value)| (name + &*value).contains('\u{fffd}'));
        if replaced && !query.to_ascii_uppercase().contains("%EF%BF%BD") {
            return Err(ApiError::malformed("the query string is not UTF-8")
                .fix("Percent-encode it as UTF-8."));
        }

        if let Some((name, _)) =
            url::form_urlencoded::parse(query.as_bytes()).find(|(_, value)| value.contains('\0'))
        {
            return Err(ApiError::invalid_field(
                name.into_owned(),
                "must not contain the character U+0000",
            ));
        }

        match axum::extract::Query::<T>::try_from_uri(&parts.uri) {
            Ok(axum::extract::Query(value)) => Ok(Self(value)),
            Err(rejection) => {
                let text = rejection.body_text();
                let message = text
                    .strip_prefix("Failed to deserialize query string: ")
                    .unwrap_or(&text);
                let message =
                    &message.replace("invalid digit found in string", "must be a whole number");
                Err(match message.split_once(": ") {
                    Some((field, message)) if !field.contains(' ') => {
                        ApiError::invalid_field(field, message)
                    }
                    _ => ApiError::invalid_field(quoted(message).unwrap_or("(query)"), message),
                })
            }
        }
    }
}

/// One segment of the path, or several.
pub struct PathId<T = String>(pub T);

impl<T: DeserializeOwned + Send> FromRequestParts<AppState> for PathId<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        match axum::extract::Path::<T>::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(value)) => Ok(Self(value)),
            Err(rejection) => {
                Err(ApiError::malformed(rejection.body_text())
                    .fix("Percent-encode the path as UTF-8."))
            }
        }
    }
}

/// A timestamp in the request, if there is one.
pub fn moment(field: &str, text: Option<&str>) -> Result<Option<Timestamp>, ApiError> {
    let Some(text) = text else { return Ok(None) };
    // In a query string `+` means a space unless it is encoded.
    let read = Timestamp::parse_rfc3339(text).or_else(|| {
        let (time, offset) = text.rsplit_once(' ')?;
        Timestamp::parse_rfc3339(&format!("{time}+{offset}"))
    });

    let rule = "must be a timestamp with an offset, such as 2026-01-31T12:00:00Z";
    read.map(Some)
        .ok_or_else(|| ApiError::invalid_field(field, rule))
}

/// The media type of a body, without parameters.
pub fn media_type(headers: &HeaderMap) -> String {
    let named = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    named
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase()
}

pub fn check_media_type(headers: &HeaderMap) -> Result<(), ApiError> {
    check_uncompressed(headers)?;
    let essence = media_type(headers);
    if essence == "application/json"
        || (essence.starts_with("application/") && essence.ends_with("+json"))
    {
        return Ok(());
    }
    Err(unsupported(
        "the request body is not declared as JSON",
        "Send the header Content-Type: application/json.",
    ))
}

/// Whether the body is JSON Lines rather than JSON; anything else is rejected.
pub fn is_json_lines(headers: &HeaderMap) -> Result<bool, ApiError> {
    if media_type(headers) == JSON_LINES {
        return check_uncompressed(headers).map(|()| true);
    }

    check_media_type(headers).map(|()| false).map_err(|error| {
        if headers.contains_key(header::CONTENT_ENCODING) {
            return error;
        }
        unsupported(
            "the request body is declared neither as JSON nor as JSON Lines",
            "Send the header Content-Type: application/json or application/x-ndjson.",
        )
    })
}

fn check_uncompressed(headers: &HeaderMap) -> Result<(), ApiError> {
    let plain = headers
        .get(header::CONTENT_ENCODING)
        .is_none_or(|encoding| encoding == "identity");
    if plain {
        return Ok(());
    }
    Err(unsupported(
        "the request body is compressed",
        "Send the body without Content-Encoding.",
    ))
}

fn unsupported(detail: &str, fix: &str) -> ApiError {
    ApiError::new(problems::UNSUPPORTED_MEDIA_TYPE, detail).fix(fix)
}

/// Parses strictly: duplicate keys, NUL, and unknown fields are errors.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    parse_but(bytes, "")
}

/// Parses strictly, but one top-level field may contain NUL.
pub fn parse_but<T: DeserializeOwned>(bytes: &[u8], nul_in: &str) -> Result<T, ApiError> {
    let value = parse_object(bytes)?;
    strict::check(bytes, nul_in)?;
    Ok(value)
}

/// Parses an object whose values the caller checks for duplicate keys and NUL.
pub fn parse_object<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, ApiError> {
    if bytes.is_empty() {
        return Err(ApiError::malformed("the request body is empty").fix("Send a JSON object."));
    }

    // An array would be accepted as the fields in their order.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        serde_json::from_slice::<IgnoredAny>(bytes).map_err(|error| not_json(&error))?;
        return Err(ApiError::invalid_field("(body)", "must be a JSON object"));
    }

    parse_json(bytes)
}

fn parse_json<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, ApiError> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| refuse(&error))?;
    reader.end().map_err(|error| not_json(&error))?;
    Ok(value)
}

fn not_json(error: &serde_json::Error) -> ApiError {
    ApiError::malformed(format!("the request body is not valid JSON: {error}")).fix(READ_THE_DOCS)
}

fn refuse(error: &serde_path_to_error::Error<serde_json::Error>) -> ApiError {
    let message = error.inner().to_string();
    if !error.inner().is_data() || message.starts_with("duplicate field") {
        return not_json(error.inner());
    }

    // The position in the text adds nothing to the name of the field.
    let message = message.split(" at line ").next().unwrap_or(&message);
    let path = error.path().to_string();

    // serde reports the object for a missing field; the field itself is in its message.
    let field = match quoted(message) {
        Some(name) if message.starts_with("missing field") && path != "." => {
            format!("{path}.{name}")
        }
        Some(name) if message.starts_with("missing field") => name.to_owned(),
        _ if path == "." => "(body)".to_owned(),
        _ => path,
    };

    ApiError::invalid_field(field, message)
}

/// The first name between backticks.
fn quoted(message: &str) -> Option<&str> {
    message.split('`').nth(1)
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;

    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only the parsing is of interest")]
    struct Sample {
        name: String,
        #[serde(default)]
        tags: Vec<String>,
        inner: Option<Inner>,
    }

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only the parsing is of interest")]
    struct Inner {
        count: u32,
    }

    #[test]
    fn reads_valid_json() {
        assert_eq!(
            parse::<Sample>(br#"{"name":"a","tags":["x"]}"#)
                .unwrap()
                .name,
            "a"
        );
    }

    #[test]
    fn rejects_what_is_not_json() {
        let deep = "[".repeat(100_000);
        for body in [
            &b""[..],
            b"{",
            b"nonsense",
            b"{\"name\":\"a\"} x",
            b"\xef\xbb\xbf{\"name\":\"a\"}",
            b"{\"name\":\"\xff\"}",
            br#"{"name":"\ud800"}"#,
            br#"{"name":"a","name":"b"}"#,
            br#"{"name":1e999}"#,
            deep.as_bytes(),
        ] {
            assert_eq!(
                parse::<Sample>(body).unwrap_err().status(),
                StatusCode::BAD_REQUEST
            );
        }
    }

    #[test]
    fn a_broken_rule_names_its_field() {
        for (body, field) in [
            (r#"{"name":"a","nam":1}"#, "nam"),
            (r#"{"tags":[]}"#, "name"),
            (r#"{"name":5}"#, "name"),
            (r#"{"name":"a","tags":["x",2]}"#, "tags[1]"),
            (r#"{"name":"a\u0000"}"#, "name"),
            (r#"{"name":"a","inner":{"count":-1}}"#, "inner.count"),
            (r#"{"name":"a","inner":{"count":1,"more":1}}"#, "inner.more"),
            (r#"{"name":"a","inner":{}}"#, "inner.count"),
            ("[]", "(body)"),
            ("7", "(body)"),
        ] {
            let error = parse::<Sample>(body.as_bytes()).unwrap_err();
            assert_eq!(error.status(), StatusCode::UNPROCESSABLE_ENTITY, "{body}");
            assert_eq!(error.errors[0].field, field, "{body}");
        }
    }
}
