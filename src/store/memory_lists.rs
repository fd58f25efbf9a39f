//! Lists of memories.

use std::collections::HashMap;
use std::fmt::Write as _;

use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::candidates::StatementBuilder;
use super::dialect::{BindAll as _, JOINT};
use super::group_entries::JOINED;
use super::memories::COLUMNS;
use super::rows::{Stored, get};
use super::{Store, StoreError};
use crate::base::clock::Timestamp;
use crate::base::ids::{MemoryId, Space, ThreadId};
use crate::model::memory::{
    EnrichmentState, Labels, Memory, MemoryKind, MemoryOutline, USER_PREFERENCE,
};

/// Ids per statement.
const AT_ONCE: usize = 500;
/// Threads per statement.
const THREADS: usize = 50;
/// Bytes of the longest text whose beginning is read: an engine reads all of a text for a part of it.
const MAX_BYTES: usize = 8_000;
/// Characters of a beginning.
const BEGINNING: usize = 1_000;

/// Which memories a list shows; `None`: all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryFilter {
    pub user_id: Option<String>,
    pub thread_id: Option<ThreadId>,
    pub kinds: Vec<&'static str>,
    pub tag: Option<String>,
    pub topic: Option<String>,
    pub category: Option<String>,
    pub enrichment_state: Option<EnrichmentState>,
    pub pinned: Option<bool>,
    pub important: Option<bool>,
    /// What was believed at this time; without it, what is believed now.
    pub as_of: Option<Timestamp>,
    /// Also what another memory has replaced.
    pub superseded: bool,
}

/// A page of memories by time, after or before the given one.
#[derive(Debug, Clone)]
pub struct MemoryPage {
    pub from: Option<(Timestamp, MemoryId)>,
    pub newest_first: bool,
    pub limit: usize,
}

/// A page of a thread's messages in the order of the conversation, after or before a turn and a
/// number in it.
#[derive(Debug, Clone)]
pub struct TurnPage {
    pub from: Option<(i64, i64)>,
    pub newest_first: bool,
    pub limit: usize,
}

/// Turns of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turns {
    /// From the first to the last.
    Range(i64, i64),
    /// In their order.
    Each(Vec<i64>),
}

impl Store {
    pub async fn find_memory(
        &self,
        space: &Space,
        id: &MemoryId,
    ) -> Result<Option<Memory>, StoreError> {
        let found = self.list_memories_of(space, &[id.to_string()]).await?;
        Ok(found.into_iter().next())
    }

    /// Memories by id, in no particular order.
    pub async fn list_memories_of(
        &self,
        space: &Space,
        ids: &[String],
    ) -> Result<Vec<Memory>, StoreError> {
        let mut all = Vec::with_capacity(ids.len());
        for some in ids.chunks(AT_ONCE) {
            let marks = vec!["?"; some.len()].join(",");
            let sql =
                format!("SELECT {COLUMNS} FROM memories m WHERE m.space = ? AND m.id IN ({marks})");
            let found = self.read_all("list_memories_of", || {
                let query = self.composed(&sql).persistent(some.len() == 1);
                query
                    .bind(space.as_str())
                    .bind_all(some.iter().map(String::as_str))
            });
            all.extend(found.await?);
        }

        Ok(all)
    }

    /// What a search needs of the memories with these numbers, in no particular order.
    pub async fn list_memory_outlines(
        &self,
        space: &Space,
        seqs: &[i64],
    ) -> Result<Vec<MemoryOutline>, StoreError> {
        let mut all = Vec::with_capacity(seqs.len());
        for some in seqs.chunks(AT_ONCE) {
            // By number only: if its index could be used, SQLite would scan the whole space.
            let marks = vec!["?"; some.len()].join(",");
            let sql = format!(
                "SELECT {} FROM memories WHERE COALESCE(space, '') = ? AND seq IN ({marks})",
                MemoryOutline::COLUMNS
            );
            let found = self.read_all("list_memory_outlines", || {
                let query = self.composed(&sql).persistent(false);
                query.bind(space.as_str()).bind_all(some.iter().copied())
            });
            all.extend(found.await?);
        }

        Ok(all)
    }

    /// The beginnings of the texts of the memories with these numbers, without those of long texts:
    /// a search compares hundreds.
    pub async fn list_memory_beginnings(
        &self,
        space: &Space,
        seqs: &[i64],
    ) -> Result<HashMap<i64, String>, StoreError> {
        let mut all = HashMap::with_capacity(seqs.len());
        for some in seqs.chunks(AT_ONCE) {
            let marks = vec!["?"; some.len()].join(",");
            // By number only: if its index could be used, SQLite would scan the whole space.
            let sql = format!(
                "SELECT seq, SUBSTR(content, 1, {BEGINNING}) FROM memories WHERE COALESCE(space, '') = ? \
                 AND seq IN ({marks}) AND OCTET_LENGTH(content) <= {MAX_BYTES}"
            );
            let found: Vec<(i64, String)> = self
                .read_all("list_memory_beginnings", || {
                    let query = self.composed(&sql).persistent(false);
                    query.bind(space.as_str()).bind_all(some.iter().copied())
                })
                .await?;
            all.extend(found);
        }

        Ok(all)
    }

    /// The memories with these numbers, in no particular order.
    pub async fn list_memories_at(
        &self,
        space: &Space,
        seqs: &[i64],
    ) -> Result<Vec<Memory>, StoreError> {
        let mut all = Vec::with_capacity(seqs.len());
        for some in seqs.chunks(AT_ONCE) {
            let marks = vec!["?"; some.len()].join(",");
            // By number only: if its index could be used, SQLite would scan the whole space.
            let sql = format!(
                "SELECT {COLUMNS} FROM memories m WHERE COALESCE(m.space, '') = ? AND m.seq IN ({marks})"
            );
            let found = self.read_all("list_memories_at", || {
                let query = self.composed(&sql).persistent(false);
                query.bind(space.as_str()).bind_all(some.iter().copied())
            });
            all.extend(found.await?);
        }

        Ok(all)
    }

    pub async fn list_memories(
        &self,
        space: &Space,
        filter: &MemoryFilter,
        page: &MemoryPage,
    ) -> Result<Vec<Memory>, StoreError> {
        let mut statement =
            StatementBuilder::of(&format!("SELECT {COLUMNS} FROM memories m WHERE "));
        statement.text("m.space = ?", space.as_str());
        statement.memories(filter);
        let (edge, beyond, order) = direction(page.newest_first);
        if let Some((created_at, id)) = &page.from {
            let micros = created_at.as_micros();
            statement.number(&format!(" AND m.created_at {edge} ?"), micros);
            statement.number(&format!(" AND (m.created_at {beyond} ?"), micros);
            statement.text(&format!(" OR m.id {beyond} ?)"), id.as_str());
        }

        let order = format!(" ORDER BY m.created_at{order}, m.id{order}");
        statement.limit(&order, page.limit);
        self.read_all("list_memories", || self.put_together(&statement, true))
            .await
    }

    /// The messages in some turns of threads: turn and number, in their order.
    pub async fn list_turn_seqs(
        &self,
        space: &Space,
        threads: &[(String, Turns)],
    ) -> Result<HashMap<String, Vec<(i64, i64)>>, StoreError> {
        let mut all: HashMap<String, Vec<(i64, i64)>> = HashMap::new();
        for some in threads.chunks(THREADS) {
            // One text for each thread, because each row of a result costs more than what is in it.
            let pairs = "CONCAT(turn_index, ':', seq)";
            let pairs = self.dialect().joined(pairs, "turn_index, seq");
            let mut statement = StatementBuilder::default();
            for (place, (thread_id, turns)) in some.iter().enumerate() {
                // One index range each; joined by OR, some engines would read the whole space.
                statement.push(if place == 0 { "" } else { " UNION ALL " });
                let _ = write!(
                    statement.sql,
                    "SELECT {place} AS place, {pairs} AS pairs FROM ("
                );
                statement.push("SELECT turn_index, seq FROM memories WHERE ");
                statement.text("space = ?", space.as_str());
                statement.text(" AND thread_id = ?", thread_id);
                match turns {
                    Turns::Range(first, last) => {
                        statement.number(" AND turn_index >= ?", *first);
                        statement.number(" AND turn_index <= ?", *last);
                    }
                    Turns::Each(each) => statement.numbers(" AND turn_index IN (", each),
                }

                statement.limit(" AND type = 'message' ORDER BY turn_index, seq", JOINED);
                statement.push(&format!(") t{place}"));
            }

            let rows = self.retry("list_turn_seqs", || async {
                self.fetch_all(self.put_together(&statement, false)).await
            });
            for row in rows.await? {
                let place = usize::try_from(row.try_get::<i64, _>("place")?).unwrap_or(usize::MAX);
                let pairs: Option<String> = row.try_get("pairs")?;
                if let Some((thread_id, _)) = some.get(place) {
                    all.insert(thread_id.clone(), read_pairs(&pairs.unwrap_or_default()));
                }
            }
        }

        // Later messages have higher numbers and no lower turn.
        for found in all.values_mut() {
            found.sort_unstable();
        }

        Ok(all)
    }

    /// Messages of a thread by turn, and within a turn as they were stored. The times that an import
    /// gives them may be equal or in any order.
    pub async fn list_messages(
        &self,
        space: &Space,
        thread_id: &ThreadId,
        page: &TurnPage,
    ) -> Result<Vec<Memory>, StoreError> {
        let mut statement =
            StatementBuilder::of(&format!("SELECT {COLUMNS} FROM memories m WHERE "));
        statement.text("m.space = ?", space.as_str());
        statement.text(" AND m.thread_id = ?", thread_id.as_str());
        statement.push(" AND m.type = 'message' AND m.superseded_by IS NULL");
        let (edge, beyond, order) = direction(page.newest_first);
        if let Some((turn, seq)) = page.from {
            statement.number(&format!(" AND m.turn_index {edge} ?"), turn);
            statement.number(&format!(" AND (m.turn_index {beyond} ?"), turn);
            statement.number(&format!(" OR m.seq {beyond} ?)"), seq);
        }

        let order = format!(" ORDER BY m.turn_index{order}, m.seq{order}");
        statement.limit(&order, page.limit);
        self.read_all("list_messages", || self.put_together(&statement, true))
            .await
    }

    /// The messages of a thread in its newest turns, oldest first.
    pub async fn list_last_turns(
        &self,
        space: &Space,
        thread_id: &ThreadId,
        from_turn: i64,
    ) -> Result<Vec<Memory>, StoreError> {
        let mut statement =
            StatementBuilder::of(&format!("SELECT {COLUMNS} FROM memories m WHERE "));
        statement.text("m.space = ?", space.as_str());
        statement.text(" AND m.thread_id = ?", thread_id.as_str());
        statement.number(" AND m.turn_index >= ?", from_turn);
        statement
            .push(" AND m.type = 'message' AND m.role <> 'system' ORDER BY m.turn_index, m.seq");
        self.read_all("list_last_turns", || self.put_together(&statement, true))
            .await
    }
}

/// How a page compares with the place where it begins, and how it is sorted.
fn direction(newest_first: bool) -> (&'static str, &'static str, &'static str) {
    if newest_first {
        ("<=", "<", " DESC")
    } else {
        (">=", ">", "")
    }
}

impl StatementBuilder {
    /// The conditions of a filter on memories `m`.
    fn memories(&mut self, filter: &MemoryFilter) {
        if let Some(user_id) = &filter.user_id {
            self.text(" AND m.user_id = ?", user_id);
        }

        if let Some(thread_id) = &filter.thread_id {
            self.text(" AND m.thread_id = ?", thread_id.as_str());
        }

        if !filter.kinds.is_empty() {
            let kinds: Vec<String> = filter
                .kinds
                .iter()
                .map(|kind| format!("'{kind}'"))
                .collect();
            self.push(&format!(" AND m.type IN ({})", kinds.join(", ")));
        }

        if let Some(tag) = &filter.tag {
            self.push(" AND EXISTS (SELECT 1 FROM memory_tags t WHERE t.space = m.space AND t.memory_id = m.id");
            self.text(" AND t.tag = ?)", tag);
        }

        if let Some(topic) = &filter.topic {
            self.push(" AND EXISTS (SELECT 1 FROM memory_topics t WHERE t.space = m.space AND t.memory_id = m.id");
            self.text(" AND t.topic = ?)", topic);
        }

        if let Some(category) = &filter.category {
            self.text(" AND m.category = ?", category);
        }

        if let Some(state) = filter.enrichment_state {
            self.text(" AND m.enrichment_state = ?", state.into_str());
        }

        if let Some(pinned) = filter.pinned {
            self.number(" AND m.pinned = ?", i64::from(pinned));
        }

        if let Some(important) = filter.important {
            self.number(" AND m.important = ?", i64::from(important));
        }

        match filter.as_of {
            Some(moment) => {
                self.number(" AND m.created_at <= ?", moment.as_micros());
                self.number(
                    " AND (m.superseded_at IS NULL OR m.superseded_at > ?)",
                    moment.as_micros(),
                );
            }
            None if filter.superseded => {}
            None => self.push(" AND m.superseded_by IS NULL"),
        }
    }
}

/// Pairs of a turn and a number, as [`Store::list_turn_seqs`] joins them.
fn read_pairs(text: &str) -> Vec<(i64, i64)> {
    text.split(JOINT)
        .filter_map(|pair| {
            let (turn, seq) = pair.split_once(':')?;
            Some((turn.parse().ok()?, seq.parse().ok()?))
        })
        .collect()
}

impl Stored for MemoryOutline {
    const COLUMNS: &'static str = "seq, id, user_id, thread_id, type, turn_index, superseded_by, superseded_at, created_at, \
                                   labels_json, pinned, category";

    fn read(row: &AnyRow) -> Result<Self, StoreError> {
        let labels: Labels = get(row, "labels_json")?;
        let kind: MemoryKind = get(row, "type")?;
        let category: Option<String> = get(row, "category")?;
        let is_preference = category.as_deref() == Some(USER_PREFERENCE);
        Ok(Self {
            lasting: kind.is_statement() || get(row, "pinned")? || is_preference,
            seq: get(row, "seq")?,
            id: get(row, "id")?,
            user_id: get(row, "user_id")?,
            thread_id: get(row, "thread_id")?,
            kind,
            turn_index: get(row, "turn_index")?,
            tags: labels.tags,
            speaker: labels.speaker,
            superseded: get::<Option<String>>(row, "superseded_by")?.is_some(),
            superseded_at: get(row, "superseded_at")?,
            created_at: get(row, "created_at")?,
        })
    }
}
