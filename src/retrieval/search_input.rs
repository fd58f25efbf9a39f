//! A search request, checked all at once.

use memoir_index::Kind;
use memoir_text::field_error::FieldError;
use memoir_text::text::char_count;

use crate::model::scope::{MEMORIES_NEED_A_USER, QueryScope, ScopeInput, Searched};
use crate::search::SearchError;

/// Maximum characters of a search query.
pub const MAX_QUERY_CHARS: usize = 10_000;
/// Maximum results of one search.
pub const MAX_K: i64 = 200;
/// The default number of results.
pub const DEFAULT_K: usize = 20;

const OF_SOURCES: &str = "filters sources; use it with the scope chunks, sources or both";

/// The query.
#[derive(Debug, Clone, Default)]
pub struct SearchInput {
    pub query: String,
    pub kind: Option<Kind>,
    /// Sources instead of chunks.
    pub by_source: bool,
    pub k: Option<i64>,
    pub min_score: Option<f64>,
    pub scope: ScopeInput,
    pub category_id: Option<i64>,
    pub searched: Searched,
}

/// A search whose values are checked.
#[derive(Debug, Clone)]
pub struct CheckedSearch {
    pub query: String,
    pub kind: Kind,
    pub by_source: bool,
    pub k: usize,
    pub min_score: Option<f64>,
    pub scope: QueryScope,
    pub category_id: Option<i64>,
    pub searched: Searched,
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

        if char_count(&self.query) > MAX_QUERY_CHARS {
            refuse(
                "query",
                format!("must have at most {MAX_QUERY_CHARS} characters"),
            );
        }

        if self.k.is_some_and(|k| !(1..=MAX_K).contains(&k)) {
            refuse("k", format!("must be a whole number from 1 to {MAX_K}"));
        }

        if self
            .min_score
            .is_some_and(|score| !(0.0..=1.0).contains(&score))
        {
            refuse("min_score", "must be from 0 to 1".to_owned());
        }

        if self.searched.memories() && self.scope.user_id.is_none() {
            refuse("filters.user_id", MEMORIES_NEED_A_USER.to_owned());
        }

        if self.searched == Searched::Memories {
            let only = |field: &str, named: bool| {
                named.then(|| FieldError::new(format!("filters.{field}"), OF_SOURCES))
            };
            let [sources, category] = [
                only("source_ids", !self.scope.source_ids.is_empty()),
                only("category_id", self.category_id.is_some()),
            ];
            errors.extend(sources.into_iter().chain(category));
        }

        let scope = self.scope.resolve("filters.", &mut errors);
        if !errors.is_empty() {
            return Err(SearchError::Invalid(errors));
        }

        Ok(CheckedSearch {
            query: self.query,
            kind: self.kind.unwrap_or(Kind::Hybrid),
            by_source: self.by_source,
            k: self
                .k
                .and_then(|k| usize::try_from(k).ok())
                .unwrap_or(DEFAULT_K),
            min_score: self.min_score,
            scope,
            category_id: self.category_id,
            searched: self.searched,
        })
    }
}
