//! Which memories wait for their classification, and which job asks for it.

use sqlx::Row as _;

use super::dialect::BindAll as _;
use super::memories::COLUMNS;
use super::rows::{Stored as _, get, row};
use super::{Store, StoreError, Tx};
use crate::base::clock::Timestamp;
use crate::base::ids::{JobId, Space};
use crate::model::memory::Memory;
use crate::model::vocabulary::{Suggestion, SuggestionKind};

/// Characters of an example.
const EXAMPLE_CHARS: usize = 100;
/// Examples of a suggestion.
const EXAMPLES: usize = 20;

/// That a memory `m` was classified with another version of the vocabulary. The state is part of an
/// expression, so that no database reads and sorts all memories of a state instead of those of the
/// next users.
const CLASSIFIED_BEFORE: &str =
    "COALESCE(m.enrichment_state, '') = 'done' AND COALESCE(m.vocabulary_version, '') <> ?";

/// What a user said, and how it was classified.
#[derive(Debug)]
pub struct Said {
    pub seq: i64,
    pub id: String,
    /// Its beginning.
    pub content: String,
    pub confidence: Option<String>,
    pub suggested_topic: Option<String>,
    pub vocabulary_version: Option<String>,
    pub enrichment_model: Option<String>,
}

row! {
    Said as "m." { seq, id, confidence, suggested_topic, vocabulary_version, enrichment_model }
    from row "SUBSTR(m.content, 1, 2000) AS content" { content: get(row, "content")? }
}

impl Store {
    /// The last messages of a user's own, newest first.
    pub async fn list_said(
        &self,
        space: &Space,
        user_id: &str,
        limit: usize,
    ) -> Result<Vec<Said>, StoreError> {
        let sql = format!(
            "SELECT {} FROM memories m WHERE m.space = ? AND m.user_id = ? AND m.type = 'message' AND m.role = 'user' \
             ORDER BY m.created_at DESC, m.seq DESC LIMIT {limit}",
            Said::COLUMNS
        );
        self.read_all("list_said", || {
            let query = self.composed(&sql);
            query.bind(space.as_str()).bind(user_id.to_owned())
        })
        .await
    }

    /// The ids of memories that were classified with another version of the vocabulary, each with its
    /// user: user by user from the given one on, and the newest of each first.
    pub async fn list_classified_before(
        &self,
        space: &Space,
        version: &str,
        from_user: &str,
        limit: usize,
    ) -> Result<Vec<(String, String)>, StoreError> {
        let sql = format!(
            "SELECT m.id, m.user_id FROM memories m WHERE m.space = ? AND m.user_id >= ? AND {CLASSIFIED_BEFORE} \
             ORDER BY m.user_id, m.created_at DESC LIMIT {limit}"
        );
        self.read_all("list_classified_before", || {
            let query = self.composed(&sql).bind(space.as_str());
            query.bind(from_user.to_owned()).bind(version.to_owned())
        })
        .await
    }

    /// The frequent suggestions of a space, most frequent first.
    pub async fn list_suggestions(
        &self,
        space: &Space,
        kind: SuggestionKind,
        min_frequency: i64,
        limit: usize,
    ) -> Result<Vec<Suggestion>, StoreError> {
        let column = column(kind);
        let sql = format!(
            "SELECT {column} AS suggestion, COUNT(*) AS frequency FROM memories WHERE space = ? AND confidence = 'low' \
             AND {column} IS NOT NULL GROUP BY {column} HAVING COUNT(*) >= ? ORDER BY COUNT(*) DESC, {column} LIMIT {limit}"
        );
        self.retry("list_suggestions", || async {
            let query = self.composed(&sql);
            let rows = self
                .fetch_all(query.bind(space.as_str()).bind(min_frequency))
                .await?;
            let mut found: Vec<Suggestion> = Vec::new();
            for row in rows {
                found.push(Suggestion {
                    suggestion: row.try_get("suggestion")?,
                    frequency: row.try_get("frequency")?,
                    examples: Vec::new(),
                });
            }

            self.read_examples(space, column, &mut found).await?;
            Ok(found)
        })
        .await
    }

    /// Fills in the examples of all suggestions, in one round trip.
    async fn read_examples(
        &self,
        space: &Space,
        column: &str,
        found: &mut [Suggestion],
    ) -> Result<(), StoreError> {
        if found.is_empty() {
            return Ok(());
        }

        let marks = vec!["?"; found.len()].join(", ");
        let sql = format!(
            "SELECT DISTINCT {column} AS suggestion, SUBSTR(content, 1, {EXAMPLE_CHARS}) AS example FROM memories \
             WHERE space = ? AND confidence = 'low' AND {column} IN ({marks}) ORDER BY 1, 2"
        );
        let query = self.composed(&sql).persistent(false);
        let query = query
            .bind(space.as_str())
            .bind_all(found.iter().map(|one| one.suggestion.clone()));
        for row in self.fetch_all(query).await? {
            let (name, example): (String, String) =
                (row.try_get("suggestion")?, row.try_get("example")?);
            if let Some(one) = found.iter_mut().find(|one| one.suggestion == name)
                && one.examples.len() < EXAMPLES
            {
                one.examples.push(example);
            }
        }

        Ok(())
    }
}

impl Tx {
    /// Claims memories for a job: its own first, then others of the same thread that no job has
    /// asked about. The job that waits for those will find nothing to do.
    pub async fn claim_pending(
        &mut self,
        space: &Space,
        job: &JobId,
        most: usize,
    ) -> Result<Vec<Memory>, StoreError> {
        let own = format!(
            "SELECT {COLUMNS} FROM memories m WHERE m.space = ? AND m.enrichment_job = ? AND m.enrichment_state = 'pending' \
             ORDER BY m.seq LIMIT {most}"
        );
        let own = self.dialect().query_for_update(&own);
        let rows = self
            .fetch_all(own.bind(space.as_str()).bind(job.as_str().to_owned()))
            .await?;
        let mut claimed: Vec<Memory> = rows.iter().map(Memory::read).collect::<Result<_, _>>()?;
        let Some(thread_id) = claimed.first().and_then(|one| one.thread_id.clone()) else {
            return self.begin_enrichment(space, job, claimed).await;
        };

        let room = most - claimed.len();
        if room > 0 {
            let others = format!(
                "SELECT {COLUMNS} FROM memories m WHERE m.space = ? AND m.thread_id = ? AND m.enrichment_state = 'pending' \
                 AND m.enrichment_begun = 0 AND (m.enrichment_job IS NULL OR m.enrichment_job <> ?) ORDER BY m.seq LIMIT {room}"
            );
            let others = self.dialect().query_for_update(&others);
            let others = others.bind(space.as_str()).bind(thread_id.to_string());
            for row in self.fetch_all(others.bind(job.as_str().to_owned())).await? {
                claimed.push(Memory::read(&row)?);
            }
        }

        self.begin_enrichment(space, job, claimed).await
    }

    /// How many memories wait for a job to classify them.
    pub async fn count_pending_of(
        &mut self,
        space: &Space,
        job: &JobId,
    ) -> Result<i64, StoreError> {
        let sql = "SELECT COUNT(*) AS number FROM memories WHERE space = ? AND enrichment_job = ? \
                   AND enrichment_state = 'pending'";
        let query = self.sql(sql).bind(space.as_str()).bind(job.as_str());
        let row = self.fetch_optional(query).await?;
        Ok(row.map_or(Ok(0), |row| row.try_get("number"))?)
    }

    /// Leaves the memories that wait for a job to another one, or to the next one of their thread.
    pub async fn update_enrichment_job(
        &mut self,
        space: &Space,
        from: &JobId,
        to: Option<&JobId>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let update = "UPDATE memories SET enrichment_job = ?, enrichment_begun = 0, updated_at = ? \
                      WHERE space = ? AND enrichment_job = ? AND enrichment_state = 'pending'";
        let update = self
            .sql(update)
            .bind(to.map(|job| job.as_str().to_owned()))
            .bind(now.as_micros())
            .bind(space.as_str())
            .bind(from.as_str());
        self.execute(update).await.map(|_| ())
    }

    async fn begin_enrichment(
        &mut self,
        space: &Space,
        job: &JobId,
        claimed: Vec<Memory>,
    ) -> Result<Vec<Memory>, StoreError> {
        if claimed.is_empty() {
            return Ok(claimed);
        }

        let sql = "UPDATE memories SET enrichment_job = ?, enrichment_begun = 1 WHERE space = ? AND id IN (??)";
        let update = self.dialect().query_list(sql, claimed.len());
        let update = update.bind(job.as_str().to_owned()).bind(space.as_str());
        let update = claimed.iter().fold(update, |update, one| {
            update.bind(one.id.as_str().to_owned())
        });

        self.execute(update).await?;
        Ok(claimed)
    }

    /// Whether any memory was classified with another version of the vocabulary.
    pub async fn has_classified_before(
        &mut self,
        space: &Space,
        version: &str,
    ) -> Result<bool, StoreError> {
        let sql = format!(
            "SELECT m.seq FROM memories m WHERE m.space = ? AND {CLASSIFIED_BEFORE} LIMIT 1"
        );
        let query = self.composed(&sql).bind(space.as_str());
        let found = self.fetch_optional(query.bind(version.to_owned()));
        Ok(found.await?.is_some())
    }

    /// Has jobs classify memories again, each those of one user, unless they have terms of this
    /// version of the vocabulary by now. Returns how many.
    pub async fn set_pending(
        &mut self,
        space: &Space,
        version: &str,
        ids: &[String],
        jobs: &[(String, JobId)],
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let cases = vec!["WHEN ? THEN ?"; jobs.len()].join(" ");
        let marks = vec!["?"; ids.len()].join(",");
        let sql = format!(
            "UPDATE memories AS m SET enrichment_job = CASE user_id {cases} END, enrichment_begun = 0, \
             enrichment_state = 'pending', updated_at = ? WHERE m.space = ? AND {CLASSIFIED_BEFORE} AND m.id IN ({marks})"
        );
        let update = self.composed(&sql).persistent(false);
        let update = jobs.iter().fold(update, |update, (user_id, job)| {
            update.bind(user_id.clone()).bind(job.as_str().to_owned())
        });
        let update = update.bind(now.as_micros()).bind(space.as_str());
        let update = update.bind(version.to_owned());
        self.execute(update.bind_all(ids.iter().cloned())).await
    }

    /// Notes what several memories suggest as their topic.
    pub async fn suggest_topic(
        &mut self,
        space: &Space,
        ids: &[String],
        topic: Option<&String>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let sql = "UPDATE memories SET suggested_topic = ?, updated_at = ? WHERE space = ? AND id IN (??)";
        let update = self.dialect().query_list(sql, ids.len());
        let update = update
            .bind(topic.cloned())
            .bind(now.as_micros())
            .bind(space.as_str())
            .bind_all(ids.iter().cloned());
        self.execute(update).await.map(|_| ())
    }

    /// Memories that suggested a term and were classified with low confidence, by number after the
    /// given one; locked.
    pub async fn hold_suggesting(
        &mut self,
        space: &Space,
        kind: SuggestionKind,
        suggestion: &str,
        limit: usize,
    ) -> Result<Vec<Memory>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM memories m WHERE m.space = ? AND m.confidence = 'low' AND m.{} = ? \
             ORDER BY m.seq LIMIT {limit}",
            column(kind)
        );
        let query = self.dialect().query_for_update(&sql);
        let query = query.bind(space.as_str()).bind(suggestion.to_owned());
        let rows = self.fetch_all(query).await?;
        rows.iter().map(Memory::read).collect()
    }
}

fn column(kind: SuggestionKind) -> &'static str {
    match kind {
        SuggestionKind::Topic => "suggested_topic",
        SuggestionKind::Category => "suggested_category",
    }
}
