//! Rows of `vocabularies` and of the `lexicon`.

use memoir_text::text::name_key;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::{Store, StoreError, Tx};
use crate::base::clock::Timestamp;
use crate::base::ids::Space;
use crate::model::vocabulary::Vocabulary;

const NEWEST: &str = "SELECT version, terms_json FROM vocabularies WHERE space = ? \
                      ORDER BY created_at DESC, version DESC LIMIT 1";
/// Rows per insert.
const ROWS: usize = 100;

/// A term and another name for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LexiconEntry {
    pub term: String,
    pub alias: String,
}

impl Store {
    /// The current vocabulary of a space; `None` if it has none of its own.
    pub async fn find_vocabulary(&self, space: &Space) -> Result<Option<Vocabulary>, StoreError> {
        self.retry("find_vocabulary", || async {
            let rows = self
                .fetch_all(self.sql(NEWEST).bind(space.as_str()))
                .await?;
            rows.first().map(read_vocabulary).transpose()
        })
        .await
    }

    /// The whole lexicon of a space, in its order.
    pub async fn list_lexicon(&self, space: &Space) -> Result<Vec<LexiconEntry>, StoreError> {
        self.retry("list_lexicon", || async {
            let query =
                self.sql("SELECT term, alias FROM lexicon WHERE space = ? ORDER BY position");
            let rows = self.fetch_all(query.bind(space.as_str())).await?;
            rows.iter()
                .map(|row| {
                    Ok(LexiconEntry {
                        term: row.try_get("term")?,
                        alias: row.try_get("alias")?,
                    })
                })
                .collect()
        })
        .await
    }
}

impl Tx {
    /// Reads the current vocabulary; other writers of it wait until this transaction ends.
    pub async fn lock_vocabulary(
        &mut self,
        space: &Space,
    ) -> Result<Option<Vocabulary>, StoreError> {
        self.count_vocabulary_write(space).await?;
        let query = self.sql(NEWEST).bind(space.as_str());
        let row = self.fetch_optional(query).await?;
        row.as_ref().map(read_vocabulary).transpose()
    }

    /// Whether a version of this name exists.
    pub async fn has_vocabulary(
        &mut self,
        space: &Space,
        version: &str,
    ) -> Result<bool, StoreError> {
        let query = self.sql("SELECT version FROM vocabularies WHERE space = ? AND version = ?");
        let query = query.bind(space.as_str()).bind(version.to_owned());
        Ok(self.fetch_optional(query).await?.is_some())
    }

    pub async fn add_vocabulary(
        &mut self,
        space: &Space,
        vocabulary: &Vocabulary,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let insert =
            "INSERT INTO vocabularies (space, version, terms_json, created_at) VALUES (?, ?, ?, ?)";
        let terms = serde_json::to_value(&vocabulary.terms).unwrap_or_default();
        let insert = self
            .sql(insert)
            .bind(space.as_str())
            .bind(vocabulary.version.clone())
            .bind(terms.to_string())
            .bind(now.as_micros());

        match self.insert(insert).await? {
            Some(_) => Ok(()),
            None => Err(StoreError::Conflict {
                constraint: "the version of the vocabulary",
            }),
        }
    }

    /// Replaces the lexicon of a space.
    pub async fn replace_lexicon(
        &mut self,
        space: &Space,
        entries: &[LexiconEntry],
    ) -> Result<(), StoreError> {
        let clear = self.sql("DELETE FROM lexicon WHERE space = ?");
        self.execute(clear.bind(space.as_str())).await?;
        let mut position = 0_i64;
        for some in entries.chunks(ROWS) {
            let sql = "INSERT INTO lexicon (space, term_key, alias_key, term, alias, position) VALUES (?, ?, ?, ?, ?, ?)";
            let mut insert = self.backend.dialect.insert_rows_if_absent(sql, some.len());
            for entry in some {
                insert = insert
                    .bind(space.as_str())
                    .bind(name_key(&entry.term))
                    .bind(name_key(&entry.alias))
                    .bind(entry.term.clone())
                    .bind(entry.alias.clone())
                    .bind(position);
                position += 1;
            }

            self.execute(insert).await?;
        }

        Ok(())
    }
}

fn read_vocabulary(row: &AnyRow) -> Result<Vocabulary, StoreError> {
    let terms: String = row.try_get("terms_json")?;
    let terms = serde_json::from_str(&terms).map_err(|error| StoreError::Broken {
        cause: format!("a stored vocabulary cannot be parsed: {error}"),
    })?;

    Ok(Vocabulary {
        version: row.try_get("version")?,
        terms,
    })
}
