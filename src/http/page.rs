//! Cursor pagination: `{items, next_cursor}`, in an order that new rows do not disturb.

use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use memoir_text::hash::sha256_hex;
use memoir_text::text::has_control;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::error::ApiError;
use crate::base::clock::Timestamp;
use crate::base::problems;

pub const DEFAULT_LIMIT: usize = 50;
pub const MAX_LIMIT: usize = 500;

/// Where a list continues, and which list it was.
#[derive(Serialize, Deserialize)]
struct Cursor<K> {
    after: K,
    /// A cursor belongs to its filter: with another one it would skip rows silently.
    filter: String,
}

/// The page size.
pub fn limit(asked: Option<usize>) -> Result<usize, ApiError> {
    match asked.unwrap_or(DEFAULT_LIMIT) {
        limit @ 1..=MAX_LIMIT => Ok(limit),
        _ => Err(ApiError::invalid_field(
            "limit",
            format!("must be from 1 to {MAX_LIMIT}"),
        )),
    }
}

/// The cursor after an item of a list with this filter.
pub fn encode<K: Serialize>(after: K, filter: &str) -> String {
    let cursor = Cursor {
        after,
        filter: fingerprint(filter),
    };
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(&cursor).unwrap_or_default())
}

/// Reads a cursor that [`encode`] made for the same filter.
fn decode<K: DeserializeOwned>(text: &str, filter: &str) -> Result<K, ApiError> {
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| invalid())?;
    let cursor: Cursor<K> = serde_json::from_slice(&bytes).map_err(|_| invalid())?;
    if cursor.filter == fingerprint(filter) {
        Ok(cursor.after)
    } else {
        Err(refused("the cursor belongs to a list with other filters"))
    }
}

/// The strings at which a list continues.
pub fn decode_texts<const N: usize>(
    cursor: Option<&str>,
    filter: &str,
) -> Result<Option<[String; N]>, ApiError> {
    let Some(cursor) = cursor else {
        return Ok(None);
    };
    let texts: Vec<String> = decode(cursor, filter)?;
    let texts: Result<[String; N], _> = texts.try_into();

    // A forged cursor may contain characters that a database rejects.
    let texts = texts
        .ok()
        .filter(|texts| !texts.iter().any(|text| has_control(text)));
    texts.map(Some).ok_or_else(invalid)
}

/// The place at which a list continues, in the list's own form.
pub fn decode_key<K: DeserializeOwned>(
    cursor: Option<&str>,
    filter: &str,
) -> Result<Option<K>, ApiError> {
    cursor.map(|cursor| decode(cursor, filter)).transpose()
}

/// A cursor that no list has made.
pub fn invalid() -> ApiError {
    refused("the cursor is invalid")
}

/// The time and the id at which a list continues.
pub fn decode_place<I: FromStr>(
    cursor: Option<&str>,
    filter: &str,
) -> Result<Option<(Timestamp, I)>, ApiError> {
    let Some(cursor) = cursor else {
        return Ok(None);
    };
    let (micros, id) = decode::<(i64, String)>(cursor, filter)?;
    let id = id.parse().map_err(|_| invalid())?;
    Ok(Some((Timestamp::from_micros(micros), id)))
}

/// The numbers at which a list continues.
pub fn decode_numbers(cursor: Option<&str>, filter: &str) -> Result<Option<(i64, i64)>, ApiError> {
    decode_key(cursor, filter)
}

/// Cuts a list that was read one item longer than the page, and creates the cursor for the next
/// page.
pub fn cut<T, K: Serialize>(
    mut found: Vec<T>,
    limit: usize,
    filter: &str,
    key: impl Fn(&T) -> K,
) -> (Vec<T>, Option<String>) {
    let more = found.len() > limit;
    found.truncate(limit);
    let next = found
        .last()
        .filter(|_| more)
        .map(|last| encode(key(last), filter));

    (found, next)
}

fn refused(detail: &str) -> ApiError {
    ApiError::new(problems::INVALID_CURSOR, detail)
}

fn fingerprint(filter: &str) -> String {
    sha256_hex(filter.as_bytes())[..16].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_works_only_for_its_own_list() {
        let cursor = encode((7, "x"), "tag=a");
        assert_eq!(
            decode::<(i64, String)>(&cursor, "tag=a").unwrap(),
            (7, "x".to_owned())
        );

        assert!(decode::<(i64, String)>(&cursor, "tag=b").is_err());
        for text in ["", "!", "bm9uc2Vuc2U", &"A".repeat(10_000)] {
            assert!(decode::<(i64, String)>(text, "").is_err());
        }
    }
}
