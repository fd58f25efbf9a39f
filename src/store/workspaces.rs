//! Rows of `workspaces`: every version of a space's workspace, which is never changed; and what else
//! the workbench reads.

use std::collections::HashMap;

use super::dialect::BindAll as _;
use super::rows::{Stored as _, Written as _, written_row};
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

written_row! {
    WorkspaceRow as "" { version, body_json, created_at }
}

impl Store {
    /// The newest version of the workspace.
    pub async fn find_workspace(&self, space: &Space) -> Result<Option<WorkspaceRow>, StoreError> {
        let sql = format!(
            "SELECT {} FROM workspaces WHERE space = ? ORDER BY version DESC LIMIT 1",
            WorkspaceRow::COLUMNS
        );
        self.read_first("find_workspace", || {
            self.composed(&sql).bind(space.as_str())
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
        let rows = self.read_all::<(SourceId, String, Timestamp)>("list_source_states", || {
            let query = self.dialect().query_list(sql, ids.len());
            let query = query.bind(space.as_str());
            query.bind_all(ids.iter().map(SourceId::as_str))
        });
        let states = rows.await?.into_iter().map(|(id, sha256, changed_at)| {
            let state = SourceState { sha256, changed_at };
            (id, state)
        });
        Ok(states.collect())
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
                let insert = tx.dialect().insert_if_absent(
                    "INSERT INTO workspaces (version, body_json, created_at, space) \
                     VALUES (?, ?, ?, ?)",
                );
                let insert = row.bind(insert).bind(space.as_str());
                let added = tx.execute(insert).await?;
                tx.commit().await?;
                Ok(added)
            })
            .await?;

        Ok(added == 1)
    }
}
