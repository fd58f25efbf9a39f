//! Rows of `threads`.

use super::candidates::StatementBuilder;
use super::rows::{Stored as _, get, row};
use super::{Statement, Store, StoreError, Tx};
use crate::base::clock::Timestamp;
use crate::base::ids::{Space, ThreadId};
use crate::model::thread::Thread;

const COLUMNS: &str = Thread::COLUMNS;

row! {
    Thread as "" {
        id, user_id, external_id, title, message_count, turn_count, created_at, updated_at,
    }
    from row "last_message_at" {
        last_message_at: Some(get(row, "last_message_at")?).filter(|time| *time != NO_MESSAGE),
    }
}

/// What a list of threads is sorted by, the newest first; equal ones by their id.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ThreadKey {
    #[default]
    Created,
    /// The newest message; threads without messages are last.
    LastMessage,
}

impl ThreadKey {
    fn column(self) -> &'static str {
        match self {
            Self::Created => "created_at",
            Self::LastMessage => "last_message_at",
        }
    }

    /// The value of a thread.
    #[must_use]
    pub fn value(self, thread: &Thread) -> Timestamp {
        match self {
            Self::Created => thread.created_at,
            Self::LastMessage => thread.last_message_at.unwrap_or(NO_MESSAGE),
        }
    }
}

const INSERT: &str = "INSERT INTO threads (space, id, user_id, external_id, title, message_count, turn_count, created_at, updated_at, last_message_at) \
                      VALUES (?, ?, ?, ?, ?, 0, 0, ?, ?, 0)";

/// Stored for a thread without messages.
const NO_MESSAGE: Timestamp = Timestamp::from_micros(0);

/// A page: at most `limit` threads, newest first, before the given one.
#[derive(Debug, Clone)]
pub struct ThreadPage {
    pub before: Option<(Timestamp, ThreadId)>,
    pub limit: usize,
    pub by: ThreadKey,
}

/// Which threads a list contains.
#[derive(Debug, Clone, Copy, Default)]
pub struct ThreadFilter<'f> {
    pub user_id: Option<&'f str>,
    pub external_id: Option<&'f str>,
}

impl Store {
    pub async fn find_thread(
        &self,
        space: &Space,
        id: &ThreadId,
    ) -> Result<Option<Thread>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM threads WHERE space = ? AND id = ?");
        self.read_first("find_thread", || {
            let query = self.composed(&sql);
            query.bind(space.as_str()).bind(id.as_str())
        })
        .await
    }

    /// The threads that match a filter.
    pub async fn list_threads(
        &self,
        space: &Space,
        filter: ThreadFilter<'_>,
        page: &ThreadPage,
    ) -> Result<Vec<Thread>, StoreError> {
        let mut statement = StatementBuilder::of(&format!("SELECT {COLUMNS} FROM threads WHERE "));
        statement.text("space = ?", space.as_str());
        if let Some(user_id) = filter.user_id {
            statement.text(" AND user_id = ?", user_id);
        }

        if let Some(external_id) = filter.external_id {
            statement.text(" AND external_id = ?", external_id);
        }

        let column = page.by.column();
        if let Some((time, id)) = &page.before {
            statement.number(&format!(" AND {column} <= ?"), time.as_micros());
            statement.number(&format!(" AND ({column} < ?"), time.as_micros());
            statement.text(" OR id < ?)", id.as_str());
        }

        statement.limit(&format!(" ORDER BY {column} DESC, id DESC"), page.limit);
        self.read_all("list_threads", || self.put_together(&statement, true))
            .await
    }
}

impl Tx {
    /// # Errors
    /// [`StoreError::Conflict`]: the id is in use.
    pub async fn add_thread(&mut self, space: &Space, thread: &Thread) -> Result<(), StoreError> {
        let insert = written(self.sql(INSERT), space, thread);
        match self.insert(insert).await? {
            Some(_) => Ok(()),
            None => Err(StoreError::Conflict {
                constraint: "the id of the thread",
            }),
        }
    }

    /// Adds a thread unless its id is in use; returns the stored one, locked until the transaction
    /// ends, and whether it is new.
    pub async fn find_or_add_thread(
        &mut self,
        space: &Space,
        thread: &Thread,
    ) -> Result<(Thread, bool), StoreError> {
        let insert = self.dialect().insert_if_absent(INSERT);
        let added = self.execute(written(insert, space, thread)).await? > 0;
        let found = self.find_thread(space, &thread.id).await?;
        let found = found.ok_or_else(|| StoreError::Broken {
            cause: "a thread that was just written cannot be found".to_owned(),
        })?;
        Ok((found, added))
    }

    /// Reads a thread and locks it until the transaction ends.
    pub async fn find_thread(
        &mut self,
        space: &Space,
        id: &ThreadId,
    ) -> Result<Option<Thread>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM threads WHERE space = ? AND id = ?");
        let query = self
            .dialect()
            .query_for_update(&sql)
            .bind(space.as_str())
            .bind(id.as_str());

        self.read_first(query).await
    }

    /// The time of the newest message that a thread still has.
    pub async fn find_last_message_at(
        &mut self,
        space: &Space,
        thread: &Thread,
    ) -> Result<Option<Timestamp>, StoreError> {
        let sql = "SELECT created_at FROM memories WHERE space = ? AND user_id = ? AND thread_id = ? \
                   AND type = 'message' ORDER BY created_at DESC LIMIT 1";
        let query = self
            .sql(sql)
            .bind(space.as_str())
            .bind(thread.user_id.as_str())
            .bind(thread.id.as_str());
        let time = self.read_value(query).await?;
        Ok(time.map(Timestamp::from_micros))
    }

    /// Writes what may change in a thread.
    pub async fn update_thread(
        &mut self,
        space: &Space,
        thread: &Thread,
    ) -> Result<(), StoreError> {
        let update = "UPDATE threads SET title = ?, message_count = ?, turn_count = ?, updated_at = ?, last_message_at = ? \
                      WHERE space = ? AND id = ?";
        let update = self
            .sql(update)
            .bind(thread.title.clone())
            .bind(thread.message_count)
            .bind(thread.turn_count)
            .bind(thread.updated_at.as_micros())
            .bind(thread.last_message_at.unwrap_or(NO_MESSAGE).as_micros())
            .bind(space.as_str())
            .bind(thread.id.as_str());

        self.execute(update).await.map(|_| ())
    }
}

fn written(insert: Statement, space: &Space, thread: &Thread) -> Statement {
    insert
        .bind(space.to_string())
        .bind(thread.id.to_string())
        .bind(thread.user_id.clone())
        .bind(thread.external_id.clone())
        .bind(thread.title.clone())
        .bind(thread.created_at.as_micros())
        .bind(thread.updated_at.as_micros())
}
