//! The database: SQLite, PostgreSQL or MySQL/MariaDB, chosen by the URL, one set of statements for
//! all.
//!
//! `Store` reads, `Tx` writes; each table has a file here that adds its functions to both. Every
//! function takes the space it works in. No code outside this folder contains SQL or uses sqlx.
//!
//! Rules for statements, each of which took a plan or a profile to find:
//! - A `LIMIT` is part of the text. SQLite plans by the value of a bound limit, and so would prepare
//!   the statement again each time.
//! - What is below a parent is read without `ORDER BY` and sorted here: SQLite would scan the whole
//!   space by id.
//! - `COALESCE(space, '') = ?` beside a list of numbers keeps SQLite from reading the whole space
//!   through an index instead of a few rows by their key.
//! - Texts are the last columns of their tables: to reach a column behind a text, SQLite reads the
//!   text. The request of a job has a table of its own, because SQLite rewrites a whole row with
//!   every change of it.

mod api_keys;
mod backend;
mod balance;
mod batches;
mod candidates;
mod catalog;
mod categories;
mod category_changes;
mod category_counts;
mod category_states;
mod chunk_placements;
mod chunk_ranges;
mod chunks;
mod connection;
mod contextual_helpers;
mod dialect;
#[cfg(test)]
mod durability_tests;
mod embeddings;
mod empty_categories;
mod erased_names;
mod erasures;
mod error;
mod flush;
mod group_entries;
mod hierarchy_as_of;
mod idempotency;
mod idempotency_runs;
mod job_claims;
mod job_details;
mod job_endings;
mod job_erasure;
mod job_events;
mod job_filters;
mod job_log;
mod job_losses;
mod job_queue;
mod job_waits;
mod jobs;
mod journal;
mod llm_calls;
mod memories;
mod memory_enrichment;
mod memory_labels;
mod memory_lists;
mod memory_removal;
mod memory_stages;
mod migrate;
mod old_holders;
mod pgvector;
mod policies;
mod queries;

mod reindexing;
mod retry;
mod rows;
mod search;
mod search_changes;
mod search_entries;
mod shared_call_erasure;
mod source_chunks;
mod source_erasure;
mod source_lists;
mod source_versions;
mod sources;
mod space;
mod spaces;
mod text_uses;
mod thread_receipts;
mod threads;
mod transaction;
mod usage;
mod version_search;
mod vocabularies;
mod wal_file;
mod workspaces;
mod writability;

use std::sync::Arc;
use std::time::Duration;

use sqlx::any::AnyRow;
use sqlx::pool::PoolConnection;
use sqlx::{Any, Row as _};

pub use crate::config::database::Engine;
pub use api_keys::{ALL_SPACES, ApiKeyChange, ApiKeyRow};
pub use candidates::LeafPart;
pub use catalog::Missing;
pub use categories::{CategoryFilter, CategoryPage};
pub use chunk_placements::{ChunkSet, NewPlacement, ReturnedChunks};
pub use chunks::{ChunkPlace, ChunkScope, Sample};
pub use embeddings::{NewEmbedding, PlacedVector, VectorPart};
pub use erasures::ErasurePage;
pub use error::StoreError;
pub use idempotency::{NewResponse, StoredAnswer};
pub use idempotency_runs::{IdempotentRun, RunClaim};
pub use job_claims::QueueDepth;
pub use job_endings::{Ending, Success};
pub use job_erasure::JobTexts;
pub use jobs::JobPage;
pub use journal::{CallEntry, CallPart, Journal};
pub use memory_enrichment::Said;
pub use memory_lists::{MemoryFilter, MemoryPage, TurnPage, Turns};
pub use memory_removal::{RemovalScope, Removed};
pub use memory_stages::StageQuery;
pub use migrate::{Migrated, SCHEMA_VERSION};
pub use old_holders::{StoredReceipt, StoredResponse};
pub use policies::PolicyRow;
pub use queries::QueryPage;
pub use reindexing::{EntryTerms, EntryText, VersionEntry};
pub(crate) use retry::as_store_error;
pub use retry::{AsStoreError, add_retries, count_retries};
pub use search_entries::NewEntry;
pub use source_erasure::{NamedCategory, SourceEntry};
pub use source_lists::{SortValue, SourceFilter, SourceKey, SourceOrder, SourcePage};
pub use source_versions::NewVersion;
pub use space::{CHUNK_RESETS, CHUNK_WRITES};
pub use spaces::{SPACE_TABLES, SpaceSize};
pub use text_uses::{ERASED_STATE, ERASED_STATUS, Holder, HolderKind};
pub use thread_receipts::ReceiptPage;
pub use threads::{ThreadFilter, ThreadKey, ThreadPage};
pub use usage::{UsageFilter, UsagePlace};
pub use vocabularies::LexiconEntry;
pub use workspaces::{SourceState, WorkspaceRow};

use crate::config;
use backend::Backend;
use dialect::{Dialect, Statement};
use rows::{Field, Stored};
use transaction::OpenTransaction;

/// The database, cheap to clone.
#[derive(Clone)]
pub struct Store {
    backend: Arc<Backend>,
}

/// A transaction. Dropped without [`Tx::commit`], it changes nothing.
pub struct Tx {
    backend: Arc<Backend>,
    transaction: OpenTransaction,
}

/// A number of rows, as a statement takes it.
fn row_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

impl Store {
    /// Connects, without touching the schema.
    ///
    /// # Errors
    /// The database cannot be reached or opened.
    pub async fn connect(config: &config::Database) -> Result<Self, StoreError> {
        Ok(Self {
            backend: Arc::new(Backend::connect(config).await?),
        })
    }

    /// Brings the schema up to date; safe to run from several processes at once.
    ///
    /// # Errors
    /// The schema is newer than this binary knows, was changed by hand, or a statement failed.
    pub async fn migrate(&self) -> Result<Migrated, StoreError> {
        migrate::run(&self.backend).await
    }

    /// How many migrations have run; 0 on an empty database.
    pub async fn schema_version(&self) -> Result<i64, StoreError> {
        self.retry("schema_version", || async {
            migrate::version(&mut *self.read().await?, &self.backend).await
        })
        .await
    }

    /// Tables and indexes of the schema that the database lacks.
    pub async fn find_missing(&self) -> Result<Vec<Missing>, StoreError> {
        self.retry("find_missing", || async {
            catalog::find_missing(&mut *self.read().await?, &self.backend).await
        })
        .await
    }

    /// Makes one round trip.
    pub async fn ping(&self) -> Result<(), StoreError> {
        let mut connection = self.read().await?;
        self.backend
            .within(sqlx::Connection::ping(&mut *connection))
            .await
    }

    /// The error of a database that did not answer in time.
    #[must_use]
    pub fn unanswered(&self, waited: Duration) -> StoreError {
        self.backend.gave_no_answer(waited)
    }

    #[must_use]
    pub fn engine(&self) -> Engine {
        self.backend.engine
    }

    /// Begins a transaction for writing.
    ///
    /// # Errors
    /// The database is unreachable, or no connection was available in time.
    pub async fn begin(&self) -> Result<Tx, StoreError> {
        let transaction = self.backend.begin().await?;
        Ok(Tx {
            backend: Arc::clone(&self.backend),
            transaction,
        })
    }

    /// Waits until everything readable is on disk. A commit waits for itself; this is for a caller
    /// that acknowledges what another transaction has just written.
    ///
    /// # Errors
    /// [`StoreError::Uncertain`]: the disk failed.
    pub async fn settle(&self) -> Result<(), StoreError> {
        self.backend.make_durable().await
    }

    /// Empties SQLite's write-ahead log, which may still contain what was deleted; `false` if
    /// another connection reads from it, `None` if there is no log.
    ///
    /// # Errors
    /// The database is unreachable, or its disk failed.
    pub async fn truncate_log(&self) -> Result<Option<bool>, StoreError> {
        self.backend.truncate_log().await
    }

    /// Closes all connections; SQLite merges its write-ahead log into the file.
    pub async fn close(&self) {
        self.backend.close().await;
    }

    async fn read(&self) -> Result<PoolConnection<Any>, StoreError> {
        self.backend.read().await
    }

    fn dialect(&self) -> &Dialect {
        &self.backend.dialect
    }

    fn sql(&self, sql: &'static str) -> Statement {
        self.dialect().query(sql)
    }

    /// Runs one statement that is its own transaction. Its answer may be lost, so it must be safe
    /// to repeat.
    async fn execute(&self, query: Statement) -> Result<(), StoreError> {
        let mut connection = self.backend.write().await?;
        self.backend.within(query.execute(&mut *connection)).await?;
        drop(connection);
        self.backend.make_durable().await
    }

    /// A statement composed of fixed parts.
    fn composed(&self, sql: &str) -> Statement {
        self.dialect().assembled(sql)
    }

    /// Reads all rows of a statement, which is made again for each attempt.
    async fn read_all<T: Stored>(
        &self,
        name: &'static str,
        statement: impl Fn() -> Statement,
    ) -> Result<Vec<T>, StoreError> {
        self.retry(name, || async {
            let rows = self.fetch_all(statement()).await?;
            rows.iter().map(T::read).collect()
        })
        .await
    }

    /// Reads the first value of each row of a statement, which is made again for each attempt.
    async fn read_values<T: Field>(
        &self,
        name: &'static str,
        statement: impl Fn() -> Statement,
    ) -> Result<Vec<T>, StoreError> {
        let rows = self.read_all::<(T,)>(name, statement).await?;
        Ok(rows.into_iter().map(|(value,)| value).collect())
    }

    /// Reads the first value of the first row of a statement, which is made again for each attempt.
    async fn read_value<T: Field>(
        &self,
        name: &'static str,
        statement: impl Fn() -> Statement,
    ) -> Result<Option<T>, StoreError> {
        let row = self.read_first::<(T,)>(name, statement).await?;
        Ok(row.map(|(value,)| value))
    }

    /// Reads the first row of a statement, which is made again for each attempt.
    async fn read_first<T: Stored>(
        &self,
        name: &'static str,
        statement: impl Fn() -> Statement,
    ) -> Result<Option<T>, StoreError> {
        self.retry(name, || async {
            let rows = self.fetch_all(statement()).await?;
            rows.first().map(T::read).transpose()
        })
        .await
    }

    async fn fetch_all(&self, query: Statement) -> Result<Vec<AnyRow>, StoreError> {
        let mut connection = self.read().await?;
        self.backend.within(query.fetch_all(&mut *connection)).await
    }
}

impl Tx {
    /// Commits the transaction durably.
    ///
    /// # Errors
    /// Nothing was written; or [`StoreError::Uncertain`].
    pub async fn commit(self) -> Result<(), StoreError> {
        self.commit_and_then(|| ()).await
    }

    /// Commits what may be lost in a power cut, such as a count of uses: SQLite does not wait for
    /// the disk.
    ///
    /// # Errors
    /// Nothing was written; or [`StoreError::Uncertain`].
    pub async fn commit_unflushed(self) -> Result<(), StoreError> {
        self.backend.commit_unflushed(self.transaction).await
    }

    /// As `commit`; calls `visible` as soon as others can see what was written.
    ///
    /// # Errors
    /// Nothing was written; or [`StoreError::Uncertain`].
    pub async fn commit_and_then(self, visible: impl FnOnce()) -> Result<(), StoreError> {
        self.backend.commit(self.transaction, visible).await
    }

    /// Runs an insert whose key may exist: then `None`, and on PostgreSQL the transaction is
    /// aborted.
    async fn insert(&mut self, query: Statement) -> Result<Option<u64>, StoreError> {
        let inserted = self.backend.within(async {
            match query.execute(&mut *self.transaction).await {
                Ok(done) => Ok(Some(done.rows_affected())),
                Err(error) if error::is_taken(&error) => Ok(None),
                Err(error) => Err(error),
            }
        });

        let inserted = inserted.await;
        self.transaction.look_at(inserted)
    }

    /// Runs an insert made by [`dialect::Dialect::insert_with_id`]; returns the new row's number.
    async fn insert_for_id(&mut self, query: Statement) -> Result<i64, StoreError> {
        if self.backend.engine != Engine::Mysql {
            let row = self
                .backend
                .within(query.fetch_one(&mut *self.transaction))
                .await;
            return Ok(self.transaction.look_at(row)?.try_get("id")?);
        }

        self.execute(query).await?;
        let query = self.sql("SELECT CAST(LAST_INSERT_ID() AS SIGNED) AS id");
        let row = self
            .backend
            .within(query.fetch_one(&mut *self.transaction))
            .await;

        Ok(self.transaction.look_at(row)?.try_get("id")?)
    }

    fn dialect(&self) -> &Dialect {
        &self.backend.dialect
    }

    fn sql(&self, sql: &'static str) -> Statement {
        self.dialect().query(sql)
    }

    /// Runs a statement; returns how many rows it matched.
    async fn execute(&mut self, query: Statement) -> Result<u64, StoreError> {
        let done = self
            .backend
            .within(query.execute(&mut *self.transaction))
            .await;
        Ok(self.transaction.look_at(done)?.rows_affected())
    }

    /// A statement composed of fixed parts.
    fn composed(&self, sql: &str) -> Statement {
        self.dialect().assembled(sql)
    }

    /// Reads all rows of a statement.
    async fn read_all<T: Stored>(&mut self, query: Statement) -> Result<Vec<T>, StoreError> {
        let rows = self.fetch_all(query).await?;
        rows.iter().map(T::read).collect()
    }

    /// Reads the first row of a statement.
    async fn read_first<T: Stored>(&mut self, query: Statement) -> Result<Option<T>, StoreError> {
        let row = self.fetch_optional(query).await?;
        row.as_ref().map(T::read).transpose()
    }

    /// Reads the first value of each row.
    async fn read_values<T: Field>(&mut self, query: Statement) -> Result<Vec<T>, StoreError> {
        let rows = self.read_all::<(T,)>(query).await?;
        Ok(rows.into_iter().map(|(value,)| value).collect())
    }

    /// Reads the first value of the first row.
    async fn read_value<T: Field>(&mut self, query: Statement) -> Result<Option<T>, StoreError> {
        let row = self.read_first::<(T,)>(query).await?;
        Ok(row.map(|(value,)| value))
    }

    async fn fetch_all(&mut self, query: Statement) -> Result<Vec<AnyRow>, StoreError> {
        let rows = self
            .backend
            .within(query.fetch_all(&mut *self.transaction))
            .await;
        self.transaction.look_at(rows)
    }

    async fn fetch_optional(&mut self, query: Statement) -> Result<Option<AnyRow>, StoreError> {
        let row = self
            .backend
            .within(query.fetch_optional(&mut *self.transaction))
            .await;
        self.transaction.look_at(row)
    }
}
