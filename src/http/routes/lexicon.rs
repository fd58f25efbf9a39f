//! The lexicon: read it, and replace it as JSON or CSV.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::conversation::Conversation;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::extract::{self, RawBody};
use crate::store::LexiconEntry;

/// The lexicon of a space.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"entries": [{"term": "NVH", "alias": "vehicle acoustics"}]}))]
pub struct Lexicon {
    /// The pairs, in the order in which they were stored; at most 5,000.
    #[schema(max_items = 5000)]
    pub entries: Vec<LexiconEntry>,
}

impl From<Vec<LexiconEntry>> for Lexicon {
    fn from(entries: Vec<LexiconEntry>) -> Self {
        Self { entries }
    }
}

/// Get the lexicon
///
/// Returns pairs of a term and an alias of it. A search of memories for one also finds the other.
#[utoipa::path(
    get, path = "/v1/lexicon", tag = "conversations", operation_id = "get_lexicon",
    responses((status = 200, description = "The lexicon.", body = Lexicon))
)]
pub async fn get_lexicon(
    caller: Caller,
    State(conversation): State<Conversation>,
) -> Result<Json<Lexicon>, ApiError> {
    Ok(Json(conversation.lexicon(&caller.call).await?.into()))
}

/// Replace the lexicon
///
/// Replaces all entries. The body may also be CSV (`Content-Type: text/csv`): each line has a term
/// and an alias, separated by a comma or a semicolon; the first line may be `term,alias`.
#[utoipa::path(
    put, path = "/v1/lexicon", tag = "conversations", operation_id = "update_lexicon",
    request_body = Lexicon,
    responses((status = 200, description = "The new lexicon.", body = Lexicon))
)]
pub async fn update_lexicon(
    caller: Caller,
    State(conversation): State<Conversation>,
    headers: HeaderMap,
    RawBody { bytes, .. }: RawBody,
) -> Result<Json<Lexicon>, ApiError> {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let lexicon = if kind.is_some_and(|kind| kind.trim().starts_with("text/csv")) {
        read_csv(&bytes)?
    } else {
        extract::check_media_type(&headers)?;
        extract::parse(&bytes)?
    };

    let stored = conversation
        .replace_lexicon(&caller.call, lexicon.entries)
        .await?;
    Ok(Json(stored.into()))
}

fn read_csv(bytes: &[u8]) -> Result<Lexicon, ApiError> {
    let text =
        std::str::from_utf8(bytes).map_err(|_| ApiError::malformed("the CSV is not UTF-8"))?;
    let mut entries = Vec::new();
    for (number, line) in (1..).zip(text.trim_start_matches('\u{feff}').lines()) {
        let fields: Vec<&str> = line
            .split([',', ';'])
            .map(|field| field.trim().trim_matches('"'))
            .collect();
        match fields.as_slice() {
            [""] => {}
            [term, alias] if number == 1 && (*term, *alias) == ("term", "alias") => {}
            [term, alias] => entries.push(LexiconEntry {
                term: (*term).to_owned(),
                alias: (*alias).to_owned(),
            }),
            _ => {
                let rule = format!("line {number} must have a term and an alias");
                return Err(ApiError::invalid_field("(body)", rule));
            }
        }
    }

    Ok(Lexicon { entries })
}
