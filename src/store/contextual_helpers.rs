//! Rows of `contextual_helpers`: helpers of sources, with versions.

use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::{Store, StoreError, Tx, row_limit};
use crate::base::clock::Timestamp;
use crate::base::ids::{SourceId, Space};
use crate::model::contextual_helper::{ContextualHelper, HelperOrigin, NewHelper};

impl Store {
    /// The helpers of a source, newest first; the first is current.
    pub async fn list_helpers(
        &self,
        space: &Space,
        source_id: &SourceId,
        limit: usize,
    ) -> Result<Vec<ContextualHelper>, StoreError> {
        let sql = "SELECT version, text, origin, author, doc_date, topic, description, description_at, token_count, tokens_prompt, \
                   tokens_completion, created_at FROM contextual_helpers WHERE space = ? AND source_id = ? \
                   ORDER BY version DESC LIMIT ?";
        self.retry("list_helpers", || async {
            let query = self.sql(sql).bind(space.as_str()).bind(source_id.as_str());
            let query = query.bind(row_limit(limit));
            self.fetch_all(query)
                .await?
                .iter()
                .map(read_helper)
                .collect()
        })
        .await
    }

    /// The current helper.
    pub async fn find_helper(
        &self,
        space: &Space,
        source_id: &SourceId,
    ) -> Result<Option<ContextualHelper>, StoreError> {
        Ok(self
            .list_helpers(space, source_id, 1)
            .await?
            .into_iter()
            .next())
    }
}

impl Tx {
    /// Who wrote the current helper.
    pub async fn find_helper_origin(
        &mut self,
        space: &Space,
        source_id: &SourceId,
    ) -> Result<Option<HelperOrigin>, StoreError> {
        let sql = "SELECT origin FROM contextual_helpers WHERE space = ? AND source_id = ? ORDER BY version DESC LIMIT 1";
        let row = self
            .fetch_optional(self.sql(sql).bind(space.as_str()).bind(source_id.as_str()))
            .await?;
        let origin: Option<String> = row.map(|row| row.try_get("origin")).transpose()?;
        Ok(origin.map(|origin| read_origin(&origin)))
    }

    /// Adds a helper, which becomes current; returns its version. The caller holds the source's
    /// row.
    pub async fn add_helper(
        &mut self,
        space: &Space,
        source_id: &SourceId,
        helper: &NewHelper,
        now: Timestamp,
    ) -> Result<i64, StoreError> {
        let last = self
            .sql("SELECT MAX(version) AS newest FROM contextual_helpers WHERE space = ? AND source_id = ?");
        let last = self
            .fetch_optional(last.bind(space.as_str()).bind(source_id.as_str()))
            .await?;
        let last: Option<i64> = last.map(|row| row.try_get("newest")).transpose()?.flatten();
        let version = last.unwrap_or(0) + 1;
        let insert = "INSERT INTO contextual_helpers (space, source_id, version, text, origin, author, doc_date, topic, \
                      description, description_at, token_count, tokens_prompt, tokens_completion, created_at) \
                      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
        let at = helper.description.as_deref().and_then(|description| {
            let before = helper.text.strip_suffix(description)?;
            i64::try_from(before.chars().count()).ok()
        });
        let description = helper.description.clone().filter(|_| at.is_none());
        let insert = self
            .sql(insert)
            .bind(space.as_str())
            .bind(source_id.as_str())
            .bind(version);

        let insert = insert
            .bind(helper.text.as_str())
            .bind(helper.origin.into_str())
            .bind(helper.author.clone());

        let insert = insert
            .bind(helper.date.clone())
            .bind(helper.topic.clone())
            .bind(description)
            .bind(at);

        let insert = insert
            .bind(helper.token_count)
            .bind(helper.tokens_prompt)
            .bind(helper.tokens_completion);

        self.execute(insert.bind(now.as_micros())).await?;
        Ok(version)
    }
}

fn read_origin(stored: &str) -> HelperOrigin {
    stored.parse().unwrap_or(HelperOrigin::Generated)
}

fn read_helper(row: &AnyRow) -> Result<ContextualHelper, StoreError> {
    let origin: String = row.try_get("origin")?;
    let text: String = row.try_get("text")?;
    let at: Option<i64> = row.try_get("description_at")?;
    let description = match at {
        // It is part of the text, and stored only there.
        Some(at) => Some(
            text.chars()
                .skip(usize::try_from(at).unwrap_or(0))
                .collect(),
        ),
        None => row.try_get("description")?,
    };

    Ok(ContextualHelper {
        version: row.try_get("version")?,
        helper: NewHelper {
            text,
            origin: read_origin(&origin),
            author: row.try_get("author")?,
            date: row.try_get("doc_date")?,
            topic: row.try_get("topic")?,
            description,
            token_count: row.try_get("token_count")?,
            tokens_prompt: row.try_get("tokens_prompt")?,
            tokens_completion: row.try_get("tokens_completion")?,
        },
        created_at: Timestamp::from_micros(row.try_get("created_at")?),
    })
}
