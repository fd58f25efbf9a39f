//! The three stages that choose memories for a context, as statements: the current thread, the
//! user's other threads, and what always matters.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::candidates::{Bound, StatementBuilder};
use super::dialect::BindAll as _;
use super::memories::COLUMNS;
use super::rows::Stored as _;
use super::{Store, StoreError};
use crate::base::clock::Timestamp;
use crate::base::ids::{Space, ThreadId};
use crate::model::memory::Memory;

/// What a stage looks for.
#[derive(Debug, Clone, Default)]
pub struct StageQuery<'q> {
    pub user_id: &'q str,
    pub thread_id: Option<&'q ThreadId>,
    pub topics: &'q [String],
    pub category: Option<&'q str>,
    pub entity_values: &'q [String],
    pub since: Option<Timestamp>,
    /// A message that is not part of its own context.
    pub exclude: Option<&'q str>,
    pub limit: usize,
}

/// Seconds after which a promoted memory is long-term.
const DAY_MICROS: i64 = 86_400_000_000;

impl Store {
    /// Stage 1: the current thread. Messages that wait for their classification pass the filter of
    /// topics, so that a conversation never loses its last minutes.
    pub async fn list_current_thread(
        &self,
        space: &Space,
        query: &StageQuery<'_>,
        now: Timestamp,
    ) -> Result<Vec<Memory>, StoreError> {
        let Some(thread_id) = query.thread_id else {
            return Ok(Vec::new());
        };

        let mut inner = StatementBuilder::of("SELECT m.seq, ");
        inner.score(space, query, "8.0");
        inner.number(
            " + CASE WHEN m.category = 'user_preference' THEN 1.0 WHEN m.created_at > ? THEN 5.0",
            now.as_micros() - DAY_MICROS,
        );
        inner.number(
            " WHEN m.tier <> 'long_term' AND m.created_at > ? THEN 3.0 ELSE 1.0 END",
            now.as_micros() - 30 * DAY_MICROS,
        );
        inner.text(
            " AS score FROM memories m WHERE m.space = ?",
            space.as_str(),
        );
        inner.text(" AND m.user_id = ?", query.user_id);
        inner.text(" AND m.thread_id = ?", thread_id.as_str());
        inner.stage_filter(query, " OR m.enrichment_state = 'pending'");
        self.fetch_stage("list_current_thread", inner, query.limit)
            .await
    }

    /// Stage 2: the user's other threads.
    pub async fn list_other_threads(
        &self,
        space: &Space,
        query: &StageQuery<'_>,
    ) -> Result<Vec<Memory>, StoreError> {
        let mut inner = StatementBuilder::of("SELECT m.seq, ");
        if query.topics.is_empty() {
            // Names every value, so that the index serves the time range too.
            inner.score(space, query, "12.0");
            inner.text(
                " AS score FROM memories m WHERE m.space = ?",
                space.as_str(),
            );
            inner.text(
                " AND m.user_id = ? AND m.has_topics IN (0, 1)",
                query.user_id,
            );
        } else {
            // Begins with the user's memories of these topics, so all of them get the points.
            inner.push("10.0 + ");
            inner.score_without_topics(space, query, "12.0");
            inner.push(" AS score FROM (");
            inner.topical(space, query);
            inner.push(") t");
            let on = "m.space = ? AND m.id = t.memory_id";
            let memories = self.dialect().look_up("memories", "m", on);
            inner.text(&memories, space.as_str());
            inner.push(" WHERE m.has_topics = 1");
        }

        match query.thread_id {
            Some(thread_id) => inner.text(" AND m.thread_id <> ?", thread_id.as_str()),
            None => inner.push(" AND m.thread_id IS NOT NULL"),
        }

        inner.common_filter(query);
        self.fetch_stage("list_other_threads", inner, query.limit)
            .await
    }

    /// Stage 3: important long-term memories and preferences.
    pub async fn list_expansion(
        &self,
        space: &Space,
        query: &StageQuery<'_>,
        now: Timestamp,
    ) -> Result<Vec<Memory>, StoreError> {
        let mut statement =
            StatementBuilder::of(&format!("SELECT {COLUMNS} FROM memories m WHERE "));
        statement.text("m.space = ?", space.as_str());
        statement.text(" AND m.user_id = ?", query.user_id);
        statement.push(" AND m.tier = 'long_term' AND m.superseded_by IS NULL");
        statement.push(
            " AND (m.category = 'user_preference' OR ((m.importance > 0.8 OR m.access_count > 10)",
        );
        statement.number(" AND m.created_at <= ?))", now.as_micros() - DAY_MICROS);
        if let Some(id) = query.exclude {
            statement.text(" AND m.id <> ?", id);
        }

        // A missing importance is first, as on PostgreSQL, which the other engines would put last.
        let order = " ORDER BY (m.importance IS NULL) DESC, m.importance DESC, m.access_count DESC, m.created_at DESC, \
                     m.id DESC";
        statement.limit(order, query.limit);
        self.read_all("list_expansion", || self.put_together(&statement, true))
            .await
    }

    /// What lasts about a user: pinned memories first, then preferences, then important facts, each
    /// the most important and newest first. How often a memory was delivered does not count.
    pub async fn list_lasting(
        &self,
        space: &Space,
        user_id: &str,
        limit: usize,
    ) -> Result<Vec<Memory>, StoreError> {
        let mut inner = StatementBuilder::of(
            "SELECT m.seq, 4.0 * m.pinned + CASE WHEN m.category = 'user_preference' OR m.type = 'preference' \
             THEN 2.0 ELSE 0.0 END + CASE WHEN m.important = 1 THEN 1.0 ELSE COALESCE(m.own_importance, 0.5) END AS score",
        );
        inner.text(" FROM memories m WHERE m.space = ?", space.as_str());
        inner.text(" AND m.user_id = ?", user_id);
        inner.push(
            " AND m.tier = 'long_term' AND m.superseded_by IS NULL AND (m.type IN ('fact', 'preference') \
             OR m.pinned = 1 OR m.category = 'user_preference')",
        );
        self.fetch_stage("list_lasting", inner, limit).await
    }

    async fn fetch_stage(
        &self,
        name: &'static str,
        inner: StatementBuilder,
        limit: usize,
    ) -> Result<Vec<Memory>, StoreError> {
        let mut statement = StatementBuilder::of(&format!(
            "SELECT {COLUMNS} FROM ({} ORDER BY score DESC, m.created_at DESC, m.id DESC LIMIT {limit}) r \
             JOIN memories m ON m.seq = r.seq ORDER BY r.score DESC, m.created_at DESC, m.id DESC",
            inner.sql
        ));
        statement.values = inner.values;
        self.retry(name, || async {
            let rows = self.fetch_all(self.put_together(&statement, true)).await?;
            rows.iter().map(Memory::read).collect()
        })
        .await
    }

    /// The titles of threads, by id.
    pub async fn list_thread_titles(
        &self,
        space: &Space,
        ids: &[&str],
    ) -> Result<HashMap<String, Option<String>>, StoreError> {
        if ids.is_empty() {
            return Ok(HashMap::new());
        }

        let sql = "SELECT id, title FROM threads WHERE space = ? AND id IN (??)";
        let titles = self.read_all("list_thread_titles", || {
            let query = self.dialect().query_list(sql, ids.len());
            query.bind(space.as_str()).bind_all(ids.iter().copied())
        });
        Ok(titles.await?.into_iter().collect())
    }
}

impl StatementBuilder {
    /// The score of a memory `m`, but for its tier.
    fn score(&mut self, space: &Space, query: &StageQuery<'_>, entity_points: &str) {
        if !query.topics.is_empty() {
            self.push("CASE WHEN ");
            self.has_topic(query.topics);
            self.push(" THEN 10.0 ELSE 0.0 END + ");
        }

        self.score_without_topics(space, query, entity_points);
    }

    fn score_without_topics(&mut self, space: &Space, query: &StageQuery<'_>, entity_points: &str) {
        self.push("COALESCE(m.importance * 10.0, 5.0)");
        if let Some(category) = query.category {
            self.text(
                " + CASE WHEN m.category = ? THEN 5.0 ELSE 0.0 END",
                category,
            );
        }

        if !query.entity_values.is_empty() {
            // Read once, because many memories are compared.
            self.text(
                " + CASE WHEN m.id IN (SELECT e.memory_id FROM memory_entities e WHERE e.space = ?",
                space.as_str(),
            );
            self.text(" AND e.user_id = ? AND e.value IN (", query.user_id);
            self.list(query.entity_values);
            let _ = write!(self.sql, ")) THEN {entity_points} ELSE 0.0 END");
        }
    }

    fn stage_filter(&mut self, query: &StageQuery<'_>, or: &str) {
        self.common_filter(query);
        if !query.topics.is_empty() {
            self.push(" AND (");
            self.has_topic(query.topics);
            let _ = write!(self.sql, "{or})");
        }
    }

    fn common_filter(&mut self, query: &StageQuery<'_>) {
        self.push(" AND m.superseded_by IS NULL");
        if let Some(id) = query.exclude {
            self.text(" AND m.id <> ?", id);
        }

        if let Some(since) = query.since {
            self.number(" AND m.created_at >= ?", since.as_micros());
        }
    }

    /// The ids of the user's memories that have one of the topics: one range of the index for each.
    fn topical(&mut self, space: &Space, query: &StageQuery<'_>) {
        for (place, topic) in query.topics.iter().enumerate() {
            self.push(if place == 0 { "" } else { " UNION " });
            self.text(
                "SELECT memory_id FROM memory_topics WHERE space = ?",
                space.as_str(),
            );
            self.text(" AND user_id = ?", query.user_id);
            self.text(" AND topic = ?", topic);
        }
    }

    fn has_topic(&mut self, topics: &[String]) {
        self.push("EXISTS (SELECT 1 FROM memory_topics t WHERE t.space = m.space AND t.memory_id = m.id AND t.topic IN (");
        self.list(topics);
        self.push("))");
    }

    fn list(&mut self, values: &[String]) {
        self.push(&vec!["?"; values.len()].join(", "));
        self.values
            .extend(values.iter().map(|value| Bound::Text(value.clone())));
    }
}
