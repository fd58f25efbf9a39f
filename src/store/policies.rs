//! Rows of `policies`: every version of a policy. A version is never changed.

use super::rows::{Stored as _, row};
use super::{Store, StoreError, row_limit};
use crate::base::clock::Timestamp;
use crate::base::ids::Space;

/// One version of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyRow {
    pub name: String,
    pub version: i64,
    pub kind: String,
    pub body_json: String,
    pub created_at: Timestamp,
}

const COLUMNS: &str = PolicyRow::COLUMNS;

row! {
    PolicyRow as "" { name, version, kind, body_json, created_at }
}

impl Store {
    /// The newest version of a policy, or the given one.
    pub async fn find_policy(
        &self,
        space: &Space,
        name: &str,
        version: Option<i64>,
    ) -> Result<Option<PolicyRow>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM policies WHERE space = ? AND name = ? AND version <= ? ORDER BY version DESC LIMIT 1"
        );
        let found: Option<PolicyRow> = self
            .read_first("find_policy", || {
                let query = self.composed(&sql).bind(space.as_str()).bind(name);
                query.bind(version.unwrap_or(i64::MAX))
            })
            .await?;

        Ok(found.filter(|found| version.is_none_or(|version| found.version == version)))
    }

    /// The newest version of every policy, by name.
    pub async fn list_policies(&self, space: &Space) -> Result<Vec<PolicyRow>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM policies p WHERE space = ? AND version = (SELECT MAX(n.version) FROM policies n \
             WHERE n.space = p.space AND n.name = p.name) ORDER BY name"
        );
        self.read_all("list_policies", || self.composed(&sql).bind(space.as_str()))
            .await
    }

    /// The versions of a policy below the given one, newest first.
    pub async fn list_policy_versions(
        &self,
        space: &Space,
        name: &str,
        below: i64,
        limit: usize,
    ) -> Result<Vec<PolicyRow>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM policies WHERE space = ? AND name = ? AND version < ? ORDER BY version DESC LIMIT ?"
        );
        self.read_all("list_policy_versions", || {
            let query = self.composed(&sql).bind(space.as_str()).bind(name);
            query.bind(below).bind(row_limit(limit))
        })
        .await
    }

    /// Adds a version, which becomes current, unless somebody else was faster.
    pub async fn add_policy_version(
        &self,
        space: &Space,
        (name, version): (&str, i64),
        kind: &str,
        body_json: &str,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        self.retry("add_policy_version", || async {
            let mut tx = self.begin().await?;
            let insert = tx.dialect().insert_if_absent(
                "INSERT INTO policies (space, name, version, kind, body_json, created_at) \
                 VALUES (?, ?, ?, ?, ?, ?)",
            );
            let insert = insert
                .bind(space.as_str().to_owned())
                .bind(name.to_owned())
                .bind(version)
                .bind(kind.to_owned())
                .bind(body_json.to_owned())
                .bind(now.as_micros());
            let added = tx.execute(insert).await?;
            tx.commit().await?;
            Ok(added == 1)
        })
        .await
    }
}
