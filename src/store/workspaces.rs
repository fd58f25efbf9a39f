//! Rows of `workspaces`: every version of a space's workspace, which is never changed; and what else
//! the workbench reads.

use std::collections::HashMap;

use sqlx::Row as _;

use super::{Store, StoreError};
use crate::base::clock::Timestamp;
use crate::base::ids::{SourceId, Space};

/// One version of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceRow {
    pub version: i64,
    pub body_json: String,
    pub created_at: Timestamp,
}

/// The newest text of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceState {
    pub sha256: String,
    /// When its file last changed: the time that the client gave, or that of the ingestion.
    pub changed_at: Timestamp,
}

impl Store {
    /// The newest version of the workspace.
    pub async fn find_workspace(&self, space: &Space) -> Result<Option<WorkspaceRow>, StoreError> {
        let sql = "SELECT version, body_json, created_at FROM workspaces \
                   WHERE space = ? ORDER BY version DESC LIMIT 1";
        self.retry("find_workspace", || async {
            let query = self.sql(sql).bind(space.as_str().to_owned());
            let rows = self.fetch_all(query).await?;
            let Some(row) = rows.first() else {
                return Ok(None);
            };

            Ok(Some(WorkspaceRow {
                version: row.try_get("version")?,
                body_json: row.try_get("body_json")?,
                created_at: Timestamp::from_micros(row.try_get("created_at")?),
            }))
        })
        .await
    }

    /// The newest texts of these sources, where they have any.
    pub async fn list_source_states(
        &self,
        space: &Space,
        ids: &[SourceId],
    ) -> Result<HashMap<SourceId, SourceState>, StoreError> {
        if ids.is_empty() {
            return Ok(HashMap::new());
        }

        let sql = "SELECT s.id, v.sha256, COALESCE(v.mtime, v.ingested_at) AS changed_at FROM sources s \
                   JOIN source_versions v ON v.space = s.space AND v.source_id = s.id \
                   AND v.version = s.latest_version WHERE s.space = ? AND s.id IN (??)";
        self.retry("list_source_states", || async {
            let query = self
                .backend
                .dialect
                .query_list(sql, ids.len())
                .bind(space.as_str());
            let rows = self
                .fetch_all(ids.iter().fold(query, |query, id| query.bind(id.as_str())))
                .await?;
            rows.iter()
                .map(|row| {
                    let id = SourceId::from_stored(row.try_get("id")?);
                    let state = SourceState {
                        sha256: row.try_get("sha256")?,
                        changed_at: Timestamp::from_micros(row.try_get("changed_at")?),
                    };
                    Ok((id, state))
                })
                .collect()
        })
        .await
    }

    /// Adds a version, unless another writer has taken its number.
    pub async fn add_workspace_version(
        &self,
        space: &Space,
        row: &WorkspaceRow,
    ) -> Result<bool, StoreError> {
        let added = self
            .retry("add_workspace_version", || async {
                let mut tx = self.begin().await?;
                let insert = tx.backend.dialect.insert_if_absent(
                    "INSERT INTO workspaces (space, version, body_json, created_at) \
                     VALUES (?, ?, ?, ?)",
                );
                let insert = insert
                    .bind(space.as_str().to_owned())
                    .bind(row.version)
                    .bind(row.body_json.clone())
                    .bind(row.created_at.as_micros());
                let added = tx.execute(insert).await?;
                tx.commit().await?;
                Ok(added)
            })
            .await?;

        Ok(added == 1)
    }
}
