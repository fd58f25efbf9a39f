//! Document retrieval: one version by metadata and time, the manifest, and differences between
//! versions.
//!
//! The store returns candidates in one round trip (`store/version_search.rs`); this module filters
//! them and chooses one (`choosing`, `scoring`).

mod choosing;
pub mod difference;
mod input;
mod scoring;

use memoir_text::field_error::FieldError;
use memoir_text::words::telling;

use crate::base::ids::SourceId;
use crate::model::call::CallContext;
use crate::model::version_search::{Choice, ManifestEntry, VersionCandidate, VersionSearch};
use crate::search::{Search, SearchError};
use crate::store::{SourceFilter, SourcePage, Store, StoreError, as_store_error};

pub use choosing::Relaxed;
pub use input::{RetrievalInput, VersionDescription};

use choosing::Sieve;

/// Maximum sources that are found by words.
const BY_WORDS: usize = 50;
/// More text than this is scored on a blocking thread.
const LARGE: usize = 64 * 1024;

/// Entry point of document retrieval; cheap to clone.
#[derive(Clone)]
pub struct DocumentRetrieval {
    store: Store,
    search: Search,
}

/// The chosen version, and how it was chosen.
#[derive(Debug, Clone)]
pub struct Retrieved {
    pub found: VersionCandidate,
    pub content: String,
    /// How well its words match, if that was computed.
    pub score: Option<f64>,
    /// The query.
    pub input: RetrievalInput,
    pub query: String,
    pub required_tags: Vec<String>,
    pub relaxed: Relaxed,
    /// `as_of` was given with a strategy that ignores it.
    pub as_of_ignored: bool,
    /// Words were to decide, and no candidate contains any.
    pub no_word_matches: bool,
    /// Versions that the store returned, before any filter.
    pub raw_candidates: usize,
    /// Round trips to the store.
    pub store_queries: usize,
    /// All of them with their scores, if requested.
    pub candidates: Option<Vec<(VersionCandidate, f64)>>,
}

/// A request for a document failed.
#[derive(Debug, thiserror::Error)]
pub enum RetrievalError {
    /// 422: fields violate a rule.
    #[error("the request is invalid")]
    Invalid(Vec<FieldError>),
    /// 404: nothing matches; with `strict`, names the filter.
    #[error("{}", nothing(*.filter))]
    NotFound { filter: Option<&'static str> },
    /// 404: no such source in this space.
    #[error("there is no source {0} in this space")]
    NoSource(String),
    /// 404: the source has no such version.
    #[error("source {id} has no version {version} in this space")]
    NoVersion { id: String, version: i64 },
    /// 500: a version without a text, which is a bug.
    #[error("version {version} of source {id} has no text")]
    ContentMissing { id: String, version: i64 },
    /// 503 or 500, as the store says.
    #[error(transparent)]
    Store(#[from] StoreError),
}

as_store_error!(RetrievalError);

fn nothing(filter: Option<&'static str>) -> String {
    match filter {
        None => "this user has no eligible source in this space".to_owned(),
        Some(filter) => format!("no source matches {filter}, and strict is set"),
    }
}

impl DocumentRetrieval {
    #[must_use]
    pub fn new(store: Store, search: Search) -> Self {
        Self { store, search }
    }

    /// The one version that matches best.
    ///
    /// # Errors
    /// [`RetrievalError::Invalid`], [`RetrievalError::NotFound`], or the store's.
    pub async fn retrieve(
        &self,
        call: &CallContext,
        input: RetrievalInput,
    ) -> Result<Retrieved, RetrievalError> {
        let input = input.checked().map_err(RetrievalError::Invalid)?;
        let (query, required_tags) = (input.query(), input.required_tags());
        let as_of = input.as_of.filter(|_| input.choice == Choice::Latest);
        let words = telling(&input.words()).join(" ");
        let hits = if words.is_empty() {
            Vec::new()
        } else {
            let found = self
                .search
                .find_sources(call, &input.user_id, &words, BY_WORDS);
            found.await.map_err(of_search)?
        };

        let search = VersionSearch {
            user_id: input.user_id.clone(),
            filename: input.filename().map(ToOwned::to_owned),
            hits,
            tags: required_tags.clone(),
            as_of,
            choice: input.choice,
            most: input.k,
            texts: input.explain || input.choice == Choice::Score,
        };

        let candidates = self
            .store
            .list_version_candidates(&call.space, &search)
            .await?;
        let raw_candidates = candidates.len();
        let sieve = Sieve {
            filename: input.filename().map(ToOwned::to_owned),
            tags: required_tags.clone(),
            as_of,
            choice: input.choice,
            query: query.clone(),
            strict: input.strict,
        };

        let explain = input.explain;
        let read: usize = candidates
            .iter()
            .filter_map(|candidate| candidate.content.as_ref())
            .map(String::len)
            .sum();

        let decide = move || {
            let decided = sieve
                .decide(&candidates, explain)
                .map_err(|filter| RetrievalError::NotFound { filter })?;
            Ok::<_, RetrievalError>((decided, candidates))
        };

        let words_decide = input.choice == Choice::Score;
        let large = read > LARGE;
        let (decided, mut candidates) = if large {
            apart(decide).await?
        } else {
            decide()?
        };

        let no_word_matches = words_decide && decided.score.is_none_or(|score| score <= 0.0);
        if no_word_matches && input.strict {
            let filter = Some("any word of the query or its meaning");
            return Err(RetrievalError::NotFound { filter });
        }

        let mut found = if explain {
            candidates[decided.place].clone()
        } else {
            candidates.swap_remove(decided.place)
        };

        let mut store_queries = 1;
        let content = if let Some(content) = found.content.take() {
            content
        } else {
            // Only if many long texts had to be compared, of which not all are fetched.
            store_queries += 1;
            self.content(call, &found.source.id, found.version.version)
                .await?
        };

        if content.is_empty() {
            let (id, version) = (found.source.id.to_string(), found.version.version);
            return Err(RetrievalError::ContentMissing { id, version });
        }

        Ok(Retrieved {
            score: decided.score,
            candidates: decided
                .scores
                .map(|scores| candidates.drain(..).zip(scores).collect()),
            as_of_ignored: input.as_of.is_some() && as_of.is_none(),
            relaxed: decided.relaxed,
            no_word_matches,
            found,
            content,
            input,
            query,
            required_tags,
            raw_candidates,
            store_queries,
        })
    }

    /// A page of the manifest, in the order of the sources.
    ///
    /// # Errors
    /// The store's.
    pub async fn manifest(
        &self,
        call: &CallContext,
        filter: &SourceFilter,
        page: &SourcePage,
    ) -> Result<Vec<ManifestEntry>, RetrievalError> {
        Ok(self.store.list_manifest(&call.space, filter, page).await?)
    }

    /// The differences between two versions of a source, as a unified diff.
    ///
    /// # Errors
    /// [`RetrievalError::NoSource`], [`RetrievalError::NoVersion`], or the store's.
    pub async fn difference(
        &self,
        call: &CallContext,
        id: &str,
        from: i64,
        to: i64,
    ) -> Result<String, RetrievalError> {
        let source_id: SourceId = id
            .parse()
            .map_err(|_| RetrievalError::NoSource(id.chars().take(64).collect()))?;
        let source = self.store.find_source(&call.space, &source_id).await?;
        let source = source.ok_or_else(|| RetrievalError::NoSource(id.to_owned()))?;
        let before = self.content(call, &source_id, from).await?;
        let after = self.content(call, &source_id, to).await?;
        let names = [from, to].map(|version| format!("{} (version {version})", source.filename));

        apart(move || Ok(difference::unified(&before, &after, &names))).await
    }

    async fn content(
        &self,
        call: &CallContext,
        id: &SourceId,
        version: i64,
    ) -> Result<String, RetrievalError> {
        let found = self.store.find_content(&call.space, id, version).await?;
        found.ok_or_else(|| RetrievalError::NoVersion {
            id: id.to_string(),
            version,
        })
    }
}

/// Finding sources depends on no model, so only the store can fail.
fn of_search(error: SearchError) -> StoreError {
    match error {
        SearchError::Store(error) => error,
        other => StoreError::Broken {
            cause: other.to_string(),
        },
    }
}

/// Computes on a blocking thread.
async fn apart<T: Send + 'static>(
    compute: impl FnOnce() -> Result<T, RetrievalError> + Send + 'static,
) -> Result<T, RetrievalError> {
    #[expect(
        clippy::disallowed_methods,
        reason = "pure computation that ends by itself"
    )]
    let computed = tokio::task::spawn_blocking(compute).await;
    computed.unwrap_or_else(|error| {
        Err(StoreError::Broken {
            cause: error.to_string(),
        }
        .into())
    })
}
