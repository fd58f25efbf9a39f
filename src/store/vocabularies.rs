//! Rows of `vocabularies` and of the `lexicon`.

use memoir_text::text::name_key;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::rows::row;
use super::{Store, StoreError, Tx};
use crate::base::clock::Timestamp;
use crate::base::ids::Space;
use crate::model::vocabulary::Vocabulary;

const NEWEST: &str = "SELECT version, terms_json FROM vocabularies WHERE space = ? \
                      ORDER BY created_at DESC, version DESC LIMIT 1";
/// Rows per insert.
const ROWS: usize = 100;

/// A term and an alias of it: a search for one also finds the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = LexiconPair)]
pub struct LexiconEntry {
    #[schema(min_length = 1, max_length = 100)]
    pub term: String,
    #[schema(min_length = 1, max_length = 100)]
    pub alias: String,
}

row! {
    LexiconEntry as "" { term, alias }
}

row! {
    Vocabulary as "" { version, terms = "terms_json" }
}

impl Store {
    /// The current vocabulary of a space; `None` if it has none of its own.
    pub async fn find_vocabulary(&self, space: &Space) -> Result<Option<Vocabulary>, StoreError> {
        self.read_first("find_vocabulary", || self.sql(NEWEST).bind(space.as_str()))
            .await
    }

    /// The whole lexicon of a space, in its order.
    pub async fn list_lexicon(&self, space: &Space) -> Result<Vec<LexiconEntry>, StoreError> {
        let sql = "SELECT term, alias FROM lexicon WHERE space = ? ORDER BY position";
        self.read_all("list_lexicon", || self.sql(sql).bind(space.as_str()))
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
        self.read_first(query).await
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
            let mut insert = self.dialect().insert_rows_if_absent(sql, some.len());
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
