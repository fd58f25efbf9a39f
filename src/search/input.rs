//! A search request, checked all at once.

use super::SearchError;
use super::rank::Kind;
use crate::base::clock::Timestamp;
use crate::base::field_error::FieldError;
use crate::base::ids::SourceId;
use crate::base::text::{char_count, has_control};
use crate::model::query::QueryScope;

/// Maximum characters of a search query.
pub const MOST_QUERY_CHARS: usize = 10_000;
/// Maximum results of one search.
pub const MOST_K: i64 = 200;
/// The default number of results.
pub const USUAL_K: usize = 20;
/// Maximum sources, and maximum tags, that one search names.
pub const MOST_NAMED: usize = 100;

/// The query.
#[derive(Debug, Clone, Default)]
pub struct SearchInput {
    pub query: String,
    pub kind: Option<Kind>,
    /// Sources instead of chunks.
    pub by_source: bool,
    pub k: Option<i64>,
    pub min_score: Option<f64>,
    pub tags: Vec<String>,
    pub source_ids: Vec<String>,
    pub user_id: Option<String>,
    pub category_id: Option<i64>,
    pub as_of: Option<String>,
}

/// The same after validation.
#[derive(Debug, Clone)]
pub struct CheckedSearch {
    pub query: String,
    pub kind: Kind,
    pub by_source: bool,
    pub k: usize,
    pub min_score: Option<f64>,
    pub scope: QueryScope,
    pub category_id: Option<i64>,
}

impl SearchInput {
    /// Checks everything and reports all errors at once.
    ///
    /// # Errors
    /// [`SearchError::Invalid`].
    pub fn resolve(self) -> Result<CheckedSearch, SearchError> {
        let mut errors = Vec::new();
        let mut refuse = |field: &str, rule: String| errors.push(FieldError::new(field, rule));
        if self.query.trim().is_empty() {
            refuse("query", "must not be empty".to_owned());
        }

        if char_count(&self.query) > MOST_QUERY_CHARS {
            refuse(
                "query",
                format!("must have at most {MOST_QUERY_CHARS} characters"),
            );
        }

        if self.k.is_some_and(|k| !(1..=MOST_K).contains(&k)) {
            refuse("k", format!("must be a whole number from 1 to {MOST_K}"));
        }

        if self
            .min_score
            .is_some_and(|score| !(0.0..=1.0).contains(&score))
        {
            refuse("min_score", "must be from 0 to 1".to_owned());
        }
        for (field, named) in [
            ("filters.source_ids", self.source_ids.len()),
            ("filters.tags", self.tags.len()),
        ] {
            if named > MOST_NAMED {
                refuse(field, format!("must have at most {MOST_NAMED} entries"));
            }
        }

        let plain = |text: &str, most: usize| {
            !text.trim().is_empty() && !has_control(text) && char_count(text) <= most
        };
        for (place, _) in self
            .tags
            .iter()
            .enumerate()
            .filter(|(_, tag)| !plain(tag, 100))
        {
            let rule = "must have 1 to 100 characters and no control characters";
            refuse(&format!("filters.tags[{place}]"), rule.to_owned());
        }

        if self
            .user_id
            .as_deref()
            .is_some_and(|user_id| !plain(user_id, 128))
        {
            refuse(
                "filters.user_id",
                "must have 1 to 128 characters and no control characters".to_owned(),
            );
        }

        let mut source_ids = Vec::new();
        for (place, id) in self.source_ids.iter().enumerate() {
            match id.parse::<SourceId>() {
                Ok(id) => source_ids.push(id),
                Err(_) => refuse(
                    &format!("filters.source_ids[{place}]"),
                    "must be the id of a source".to_owned(),
                ),
            }
        }

        let as_of = self.as_of.as_deref().map(Timestamp::parse_rfc3339);
        if as_of == Some(None) {
            refuse(
                "filters.as_of",
                "must be a timestamp such as 2026-01-31T12:00:00Z".to_owned(),
            );
        }

        if !errors.is_empty() {
            return Err(SearchError::Invalid(errors));
        }

        let (tags, user_id, as_of) = (self.tags, self.user_id, as_of.flatten());
        Ok(CheckedSearch {
            query: self.query,
            kind: self.kind.unwrap_or(Kind::Hybrid),
            by_source: self.by_source,
            k: self
                .k
                .and_then(|k| usize::try_from(k).ok())
                .unwrap_or(USUAL_K),
            min_score: self.min_score,
            scope: QueryScope {
                source_ids,
                tags,
                user_id,
                as_of,
                all_versions: false,
            },
            category_id: self.category_id,
        })
    }
}
