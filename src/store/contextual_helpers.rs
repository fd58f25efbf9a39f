//! Rows of `contextual_helpers`: helpers of sources, with versions.

use sqlx::any::AnyRow;

use super::rows::{get, row};
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
        self.read_all("list_helpers", || {
            let query = self.sql(sql).bind(space.as_str()).bind(source_id.as_str());
            query.bind(row_limit(limit))
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
        self.read_value(self.sql(sql).bind(space.as_str()).bind(source_id.as_str()))
            .await
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
        let last: Option<i64> = self
            .read_value(last.bind(space.as_str()).bind(source_id.as_str()))
            .await?
            .flatten();
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
            .bind(version)
            .bind(helper.text.as_str())
            .bind(helper.origin.into_str())
            .bind(helper.author.clone())
            .bind(helper.date.clone())
            .bind(helper.topic.clone())
            .bind(description)
            .bind(at)
            .bind(helper.token_count)
            .bind(helper.tokens_prompt)
            .bind(helper.tokens_completion);

        self.execute(insert.bind(now.as_micros())).await?;
        Ok(version)
    }
}

row! {
    ContextualHelper as "" { version, created_at }
    from row { helper: read_helper(row)? }
}

fn read_helper(row: &AnyRow) -> Result<NewHelper, StoreError> {
    let text: String = get(row, "text")?;
    let description = match get::<Option<i64>>(row, "description_at")? {
        // It is part of the text, and stored only there.
        Some(at) => Some(
            text.chars()
                .skip(usize::try_from(at).unwrap_or(0))
                .collect(),
        ),
        None => get(row, "description")?,
    };

    Ok(NewHelper {
        text,
        origin: get(row, "origin")?,
        author: get(row, "author")?,
        date: get(row, "doc_date")?,
        topic: get(row, "topic")?,
        description,
        token_count: get(row, "token_count")?,
        tokens_prompt: get(row, "tokens_prompt")?,
        tokens_completion: get(row, "tokens_completion")?,
    })
}
