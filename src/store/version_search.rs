//! Rows of `document_versions`, and the candidate versions for document retrieval. `finding` composes the statement that finds them.

mod finding;

use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::dialect::JOINT;
use super::rows::Stored as _;
use super::source_versions::read_version;
use super::{Engine, Store, StoreError, Tx};
use crate::base::ids::{SourceId, Space};
use crate::model::source::Source;
use crate::model::version_search::{VersionCandidate, VersionSearch};
use finding::Finding;

impl Store {
    /// The candidate versions, best match first: by name, tags, time and words, in this order.
    pub async fn list_version_candidates(
        &self,
        space: &Space,
        search: &VersionSearch,
    ) -> Result<Vec<VersionCandidate>, StoreError> {
        let statement = Finding::new(space, search, self.dialect()).statement();

        // The statement is long, and most requests have one of few shapes. MariaDB (10.11) loses a
        // column of a derived table when it runs such a prepared statement for the second time.
        let kept =
            search.hits.is_empty() && search.tags.len() <= 4 && self.engine() != Engine::Mysql;
        let mut once_more = true;
        loop {
            let found = self.retry("list_version_candidates", || async {
                self.fetch_all(self.put_together(&statement, kept))
                    .await?
                    .iter()
                    .map(read_candidate)
                    .collect()
            });

            let mut found: Vec<VersionCandidate> = found.await?;
            let complete = self.add_texts(space, &mut found).await?;
            // A source may have been deleted between the two statements.
            if complete || !std::mem::take(&mut once_more) {
                return Ok(found);
            }
        }
    }

    /// Adds the texts of chosen versions that are stored elsewhere; `false` if one is missing.
    async fn add_texts(
        &self,
        space: &Space,
        candidates: &mut [VersionCandidate],
    ) -> Result<bool, StoreError> {
        let elsewhere = |candidate: &VersionCandidate| {
            let version = &candidate.version;
            let lacks = candidate.content.as_deref() == Some("") && version.facts.char_count > 0;
            lacks.then(|| version.content_version_id.unwrap_or(version.id))
        };

        let ids: Vec<i64> = candidates.iter().filter_map(elsewhere).collect();
        if ids.is_empty() {
            return Ok(true);
        }

        let texts = self.list_texts(space, &ids).await?;
        for candidate in candidates {
            if let Some(text) = elsewhere(candidate).and_then(|id| texts.get(&id)) {
                candidate.content = Some(text.clone());
            }
        }

        Ok(ids.iter().all(|id| texts.contains_key(id)))
    }
}

impl Tx {
    /// Registers a completely written version by user, time and length.
    pub async fn add_document_version(
        &mut self,
        space: &Space,
        source_id: &SourceId,
        version_id: i64,
    ) -> Result<(), StoreError> {
        let insert = "INSERT INTO document_versions (space, version_id, source_id, user_id, ingested_at, char_count) \
                      SELECT v.space, v.id, v.source_id, s.user_id, v.ingested_at, v.char_count FROM source_versions v \
                      JOIN sources s ON s.space = v.space AND s.id = v.source_id \
                      WHERE v.space = ? AND v.id = ? AND s.id = ?";

        let insert = self
            .sql(insert)
            .bind(space.as_str())
            .bind(version_id)
            .bind(source_id.as_str());

        self.execute(insert).await.map(|_| ())
    }
}

fn read_candidate(row: &AnyRow) -> Result<VersionCandidate, StoreError> {
    let tags: Option<String> = row.try_get("tags")?;
    let mut source = Source::read(row)?;
    source.tags = tags
        .iter()
        .flat_map(|tags| tags.split(JOINT))
        .map(ToOwned::to_owned)
        .collect();

    Ok(VersionCandidate {
        source,
        version: read_version(row)?,
        content: row.try_get("content")?,
    })
}
