//! Sources: register, find, tag.

pub mod retrieval;
mod rules;

use std::collections::HashMap;

use memoir_policy::secrets::redact_in_place;
use memoir_text::field_error::FieldError;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::base::clock::Timestamp;
use crate::base::ids::SourceId;
use crate::model::call::CallContext;
use crate::model::chunk::Chunk;
use crate::model::source::Source;
use crate::model::source_version::SourceVersion;
use crate::store::{SourceFilter, SourcePage, Store, StoreError, Tx, as_store_error};

pub use rules::titled;

/// Entry point of sources; cheap to clone.
#[derive(Clone)]
pub struct Sources {
    store: Store,
}

/// A source to create. Send `filename` or `path`.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CreateSourceRequest, example = json!({"path": "/docs/plan.md", "tags": ["design"]}))]
pub struct NewSource {
    /// Generated if missing.
    #[serde(skip)]
    pub id: Option<SourceId>,
    /// The file name. If you send a path, memoir uses its last segment.
    #[schema(
        max_length = 255,
        pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]*[^\\s\\u0000-\\u001f\\u007f-\\u009f][^\\u0000-\\u001f\\u007f-\\u009f]*$"
    )]
    pub filename: Option<String>,
    /// The path in your system: absolute, unique per user.
    #[schema(
        max_length = 4096,
        pattern = "^(/|\\\\\\\\|[A-Za-z]:[/\\\\])[^\\u0000-\\u001f\\u007f-\\u009f]*$"
    )]
    pub path: Option<String>,
    /// The end user who owns the source; `default` if omitted.
    #[serde(default, deserialize_with = "crate::base::user_id::trimmed")]
    #[schema(
        max_length = 128,
        pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]*[^\\s\\u0000-\\u001f\\u007f-\\u009f][^\\u0000-\\u001f\\u007f-\\u009f]*$"
    )]
    pub user_id: Option<String>,
    /// Tags to find the source by.
    #[serde(default)]
    #[schema(max_items = 99, value_type = Vec<Tag>)]
    pub tags: Vec<String>,
    /// Whether retrieval may use the source; true if omitted.
    // Not declared as `default`, because some generators then make the field required.
    #[serde(default = "yes")]
    pub eligible: bool,
}

/// A tag: at least one visible character, no control characters.
#[derive(ToSchema)]
#[schema(
    max_length = 100,
    pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]*[^\\s\\u0000-\\u001f\\u007f-\\u009f][^\\u0000-\\u001f\\u007f-\\u009f]*$",
    example = "design"
)]
#[expect(dead_code, reason = "only its description is used")]
pub struct Tag(String);

fn yes() -> bool {
    true
}

/// A source in a list.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = ListedSourceResponse)]
pub struct DescribedSource {
    #[serde(flatten)]
    pub source: Source,
    /// The size of the newest version in bytes; null until the first ingestion.
    pub size_bytes: Option<i64>,
    /// The current contextual helper; null if there is none.
    pub helper: Option<String>,
}

/// The fields to change; omitted fields stay unchanged.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = UpdateSourceRequest, example = json!({"tags": ["file_ingest", "design", "draft"], "eligible": false}))]
pub struct SourceChange {
    /// The new tags, which replace all existing ones; must include `file_ingest`.
    #[schema(max_items = 100, value_type = Option<Vec<Tag>>)]
    pub tags: Option<Vec<String>>,
    /// Whether retrieval may use the source.
    pub eligible: Option<bool>,
}

/// A request about a source failed.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// 422: fields violate a rule.
    #[error("the source is invalid")]
    Invalid(Vec<FieldError>),
    /// 404: no such source in this space.
    #[error("there is no source {0} in this space")]
    NotFound(String),
    /// 404: the source has no such version.
    #[error("source {id} has no version {version} in this space")]
    NoVersion { id: String, version: i64 },
    /// 409: the user already has a source at that path.
    #[error("a source with this path already exists")]
    AlreadyRegistered { existing: Option<SourceId> },
    /// 412: it has changed since the caller read it.
    #[error(
        "the source does not match If-Match: it has changed since you read it, or the \
         ETag belongs to another source"
    )]
    Changed,
    /// 503 or 500, as the store says.
    #[error(transparent)]
    Store(#[from] StoreError),
}

as_store_error!(SourceError);

impl Sources {
    #[must_use]
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// Registers a source inside the caller's transaction.
    ///
    /// # Errors
    /// [`SourceError::Invalid`], [`SourceError::AlreadyRegistered`], or the store's.
    pub async fn register(
        &self,
        tx: &mut Tx,
        call: &CallContext,
        mut new: NewSource,
    ) -> Result<Source, SourceError> {
        if call.redact_secrets {
            for text in new.filename.iter_mut().chain(&mut new.tags) {
                redact_in_place(text);
            }
        }

        let source = rules::build(new, call.now).map_err(SourceError::Invalid)?;
        if let Some(existing) = tx
            .find_source_at(&call.space, &source.user_id, &source.path)
            .await?
        {
            return Err(SourceError::AlreadyRegistered {
                existing: Some(existing),
            });
        }

        match tx.add_source(&call.space, &source).await {
            Ok(()) => Ok(source),
            // Another transaction registered it between the lookup and the insert.
            Err(StoreError::Conflict { .. }) => {
                Err(SourceError::AlreadyRegistered { existing: None })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Checks the fields of a source without registering it.
    ///
    /// # Errors
    /// [`SourceError::Invalid`].
    pub fn check(&self, new: NewSource, now: Timestamp) -> Result<Source, SourceError> {
        rules::build(new, now).map_err(SourceError::Invalid)
    }

    /// The tags of a source with these added, as they are stored.
    ///
    /// # Errors
    /// [`SourceError::Invalid`].
    pub fn check_tags(&self, own: &[String], added: &[String]) -> Result<Vec<String>, SourceError> {
        rules::check_tags(own, added).map_err(SourceError::Invalid)
    }

    /// # Errors
    /// [`SourceError::NotFound`], or the store's.
    pub async fn find(&self, call: &CallContext, id: &str) -> Result<Source, SourceError> {
        let found = self.store.find_source(&call.space, &parse(id)?).await?;
        found.ok_or_else(|| SourceError::NotFound(id.to_owned()))
    }

    /// A source, now or at a time, but always with its present tags and eligibility.
    ///
    /// # Errors
    /// [`SourceError::NotFound`], or the store's.
    pub async fn find_as_of(
        &self,
        call: &CallContext,
        id: &str,
        as_of: Option<Timestamp>,
    ) -> Result<Source, SourceError> {
        let Some(moment) = as_of else {
            return self.find(call, id).await;
        };
        let found = self
            .store
            .find_source_as_of(&call.space, &parse(id)?, moment)
            .await?;

        found.ok_or_else(|| SourceError::NotFound(id.to_owned()))
    }

    /// Versions of a source, newest first, up to a given time.
    ///
    /// # Errors
    /// [`SourceError::NotFound`], or the store's.
    pub async fn versions(
        &self,
        call: &CallContext,
        id: &str,
        before: Option<i64>,
        as_of: Option<Timestamp>,
        limit: usize,
    ) -> Result<Vec<SourceVersion>, SourceError> {
        let source = self.find_as_of(call, id, as_of).await?;
        Ok(self
            .store
            .list_source_versions(&call.space, &source.id, before, as_of, limit)
            .await?)
    }

    /// One version, without its text.
    ///
    /// # Errors
    /// [`SourceError::NotFound`], or the store's.
    pub async fn version(
        &self,
        call: &CallContext,
        id: &str,
        version: i64,
    ) -> Result<SourceVersion, SourceError> {
        let found = self
            .store
            .find_source_version(&call.space, &parse(id)?, version)
            .await?;
        found.ok_or_else(|| SourceError::NoVersion {
            id: id.to_owned(),
            version,
        })
    }

    /// The text of a version.
    ///
    /// # Errors
    /// [`SourceError::NotFound`], or the store's.
    pub async fn content(
        &self,
        call: &CallContext,
        id: &str,
        version: i64,
    ) -> Result<String, SourceError> {
        let found = self
            .store
            .find_content(&call.space, &parse(id)?, version)
            .await?;
        found.ok_or_else(|| SourceError::NoVersion {
            id: id.to_owned(),
            version,
        })
    }

    /// The named version, or the latest, now or at a time. `None` if there is none yet. If no
    /// version of the source is complete, the written part of the newest.
    ///
    /// # Errors
    /// [`SourceError::NotFound`], [`SourceError::NoVersion`], or the store's.
    pub async fn version_as_of(
        &self,
        call: &CallContext,
        id: &str,
        version: Option<i64>,
        as_of: Option<Timestamp>,
    ) -> Result<Option<SourceVersion>, SourceError> {
        let version = match version {
            Some(version) => version,
            None => match self.find_as_of(call, id, as_of).await?.latest_version {
                0 if as_of.is_none() => {
                    return Ok(self
                        .store
                        .find_newest_version(&call.space, &parse(id)?)
                        .await?);
                }
                0 => return Ok(None),
                latest => latest,
            },
        };

        let found = self.version(call, id, version).await?;
        if as_of.is_some_and(|moment| found.ingested_at > moment) {
            return Err(SourceError::NoVersion {
                id: id.to_owned(),
                version,
            });
        }

        Ok(Some(found))
    }

    /// Chunks of a version, in the order of the text.
    ///
    /// # Errors
    /// The store's.
    pub async fn chunks(
        &self,
        call: &CallContext,
        version: &SourceVersion,
        profile: &str,
        after: i64,
        limit: usize,
    ) -> Result<Vec<Chunk>, SourceError> {
        let content = version.content_version_id.unwrap_or(version.id);
        Ok(self
            .store
            .list_version_chunks(&call.space, content, profile, after, limit)
            .await?)
    }

    /// A page of the space's sources.
    pub async fn list(
        &self,
        call: &CallContext,
        filter: &SourceFilter,
        page: &SourcePage,
    ) -> Result<Vec<Source>, SourceError> {
        if matches_nothing(filter) {
            return Ok(Vec::new());
        }

        Ok(self.store.list_sources(&call.space, filter, page).await?)
    }

    /// The number of sources that a filter selects.
    ///
    /// # Errors
    /// The store's.
    pub async fn count(
        &self,
        call: &CallContext,
        filter: &SourceFilter,
    ) -> Result<i64, SourceError> {
        if matches_nothing(filter) {
            return Ok(0);
        }

        Ok(self.store.count_sources(&call.space, filter).await?)
    }

    /// A page of sources, with the size of the newest version and the current helper of each.
    pub async fn list_described(
        &self,
        call: &CallContext,
        filter: &SourceFilter,
        page: &SourcePage,
    ) -> Result<Vec<DescribedSource>, SourceError> {
        if matches_nothing(filter) {
            return Ok(Vec::new());
        }

        let entries = self.store.list_manifest(&call.space, filter, page).await?;
        let ids: Vec<SourceId> = entries
            .iter()
            .map(|entry| entry.source.id.clone())
            .collect();
        let mut helpers: HashMap<SourceId, String> = self
            .store
            .list_source_helpers(&call.space, &ids, filter.as_of)
            .await?
            .into_iter()
            .map(|helper| (helper.source_id, helper.text))
            .collect();

        Ok(entries
            .into_iter()
            .map(|entry| DescribedSource {
                size_bytes: entry.version.map(|version| version.facts.size_bytes),
                helper: helpers.remove(&entry.source.id),
                source: entry.source,
            })
            .collect())
    }

    /// Changes a source, if `unchanged` accepts its current state.
    ///
    /// # Errors
    /// [`SourceError::NotFound`], [`SourceError::Invalid`], [`SourceError::Changed`], or the
    /// store's.
    pub async fn update(
        &self,
        call: &CallContext,
        id: &str,
        change: &SourceChange,
        unchanged: impl Fn(&Source) -> bool,
    ) -> Result<Source, SourceError> {
        let parsed = parse(id)?;
        let mut change = change.clone();
        if call.redact_secrets {
            for tag in change.tags.iter_mut().flatten() {
                redact_in_place(tag);
            }
        }

        let change = rules::check_change(&change).map_err(SourceError::Invalid)?;
        self.store
            .retry_as("update_source", || async {
                let mut tx = self.store.begin().await?;
                let found = tx.find_source(&call.space, &parsed).await?;
                let mut source = found.ok_or_else(|| SourceError::NotFound(id.to_owned()))?;
                if !unchanged(&source) {
                    return Err(SourceError::Changed);
                }

                let tags = change.tags.clone().unwrap_or_else(|| source.tags.clone());
                let eligible = change.eligible.unwrap_or(source.eligible);
                if tags == source.tags && eligible == source.eligible {
                    return Ok(source);
                }

                // Informs caches of the space that sources were added or removed.
                tx.lock_chunks(&call.space).await?;
                source = Source {
                    tags,
                    eligible,
                    updated_at: call.now,
                    ..source
                };

                tx.update_source(&call.space, &source).await?;
                tx.add_search_change(&call.space, source.id.as_str())
                    .await?;
                tx.commit().await?;
                Ok(source)
            })
            .await
    }
}

/// A malformed id is treated as not found.
fn parse(id: &str) -> Result<SourceId, SourceError> {
    id.parse()
        .map_err(|_| SourceError::NotFound(id.chars().take(64).collect()))
}

/// Stored names and tags have no spaces at their ends; MySQL would match them all the same.
fn matches_nothing(filter: &SourceFilter) -> bool {
    let named = [&filter.user_id, &filter.filename, &filter.tag];
    named.into_iter().flatten().any(|text| text.trim() != text)
}
