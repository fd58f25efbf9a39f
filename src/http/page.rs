//! Cursor pagination: `{items, next_cursor}`, in an order that new rows do not disturb.

use std::str::FromStr;

use axum::Json;
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

/// A requested page of a list.
pub struct Page {
    limit: usize,
    cursor: Option<String>,
    /// The list and its filters.
    filter: String,
}

/// A response with the items of a page.
pub trait List {
    type Item;

    fn new(items: Vec<Self::Item>, next_cursor: Option<String>) -> Self;
}

impl Page {
    /// # Errors
    /// 422: the limit is out of range.
    pub fn new(
        limit: Option<usize>,
        cursor: Option<String>,
        filter: impl Into<String>,
    ) -> Result<Self, ApiError> {
        let limit = limit.unwrap_or(DEFAULT_LIMIT);
        if !(1..=MAX_LIMIT).contains(&limit) {
            let rule = format!("must be from 1 to {MAX_LIMIT}");
            return Err(ApiError::invalid_field("limit", rule));
        }

        Ok(Self {
            limit,
            cursor,
            filter: filter.into(),
        })
    }

    /// How many items to read: one more than the page has, to tell whether there is a next page.
    pub fn rows(&self) -> usize {
        self.limit + 1
    }

    /// Where the list continues, in the list's own form.
    pub fn after<K: DeserializeOwned>(&self) -> Result<Option<K>, ApiError> {
        let cursor = self.cursor.as_deref();
        cursor
            .map(|cursor| decode(cursor, &self.filter))
            .transpose()
    }

    /// The strings at which the list continues.
    pub fn after_texts<const N: usize>(&self) -> Result<Option<[String; N]>, ApiError> {
        let Some(texts) = self.after::<Vec<String>>()? else {
            return Ok(None);
        };

        // A forged cursor may contain characters that a database rejects.
        let texts: Option<[String; N]> = texts.try_into().ok();
        let texts = texts.filter(|texts| !texts.iter().any(|text| has_control(text)));
        texts.map(Some).ok_or_else(invalid)
    }

    /// The time and the id at which the list continues.
    pub fn after_item<I: FromStr>(&self) -> Result<Option<(Timestamp, I)>, ApiError> {
        let Some((micros, id)) = self.after::<(i64, String)>()? else {
            return Ok(None);
        };
        let id = id.parse().map_err(|_| invalid())?;
        Ok(Some((Timestamp::from_micros(micros), id)))
    }

    /// Cuts a list that was read one item longer than the page, and creates the cursor for the
    /// next page.
    pub fn cut<T, K: Serialize>(
        &self,
        mut found: Vec<T>,
        key: impl Fn(&T) -> K,
    ) -> (Vec<T>, Option<String>) {
        let more = found.len() > self.limit;
        found.truncate(self.limit);
        let next = found.last().filter(|_| more);
        let next = next.map(|last| encode(key(last), &self.filter));
        (found, next)
    }

    /// The response with the items of the page, each as `shown`.
    pub fn list<T, K: Serialize, L: List>(
        &self,
        found: Vec<T>,
        key: impl Fn(&T) -> K,
        shown: impl FnMut(T) -> L::Item,
    ) -> Json<L> {
        let (found, next_cursor) = self.cut(found, key);
        Json(L::new(found.into_iter().map(shown).collect(), next_cursor))
    }
}

/// Declares the parameters of a list: its own, and those of pagination.
macro_rules! list_query {
    ($(#[$about:meta])* $name:ident { $($fields:tt)* }) => {
        $(#[$about])*
        #[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
        #[serde(deny_unknown_fields)]
        #[into_params(parameter_in = Query)]
        pub struct $name {
            $($fields)*
            /// Maximum number of items on the page.
            #[param(minimum = 1, maximum = 500, default = 50)]
            limit: Option<usize>,
            /// `next_cursor` from the previous page.
            cursor: Option<String>,
        }
    };
}

/// Declares the response with a page of items.
macro_rules! list_response {
    ($(#[$about:meta])* $name:ident of $item:ty) => {
        $(#[$about])*
        #[derive(Debug, serde::Serialize, utoipa::ToSchema)]
        pub struct $name {
            pub items: Vec<$item>,
            /// Pass it as `cursor` to get the next page; null on the last page.
            pub next_cursor: Option<String>,
        }

        impl $crate::http::page::List for $name {
            type Item = $item;

            fn new(items: Vec<$item>, next_cursor: Option<String>) -> Self {
                Self { items, next_cursor }
            }
        }
    };
}

pub(in crate::http) use {list_query, list_response};

/// The cursor after an item of a list with this filter.
fn encode<K: Serialize>(after: K, filter: &str) -> String {
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

/// A cursor that no list has made.
pub fn invalid() -> ApiError {
    refused("the cursor is invalid")
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
