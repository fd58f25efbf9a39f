//! Finds jobs by the filters of a request: kind, source, error and time.

use super::candidates::StatementBuilder;
use super::dialect::like_text;
use super::{Store, StoreError, row_limit};
use crate::base::ids::{JobId, Space};
use crate::model::job::{JobFilter, JobState};

/// A job `j` whose source has a newer text, written or queued: if it ran now, the older text would
/// replace it.
const SUPERSEDED: &str = "EXISTS (SELECT 1 FROM jobs o WHERE o.space = j.space AND o.source_id = j.source_id \
                          AND o.source_seq > j.source_seq AND o.state IN ('running', 'succeeded'))";

impl StatementBuilder {
    /// The conditions of a filter on jobs `j`, except for their state.
    pub(super) fn jobs(&mut self, filter: &JobFilter) {
        if let Some(kind) = &filter.kind {
            self.text(" AND j.kind = ?", kind);
        }

        if let Some(source_id) = &filter.source_id {
            self.text(" AND j.source_id = ?", source_id);
        }

        if let Some(code) = &filter.code {
            // As the store writes it. A quote inside a text is escaped with a backslash, so nothing
            // else looks like this.
            let code = like_text(code);
            self.text(
                " AND j.error_json LIKE ? ESCAPE '!'",
                format!("%\"code\":\"{code}\"%"),
            );
        }

        for (condition, moment) in [
            (" AND j.created_at >= ?", filter.created.after),
            (" AND j.created_at < ?", filter.created.before),
            (" AND j.finished_at >= ?", filter.finished.after),
            (" AND j.finished_at < ?", filter.finished.before),
        ] {
            if let Some(moment) = moment {
                self.number(condition, moment.as_micros());
            }
        }
    }

    fn jobs_in(space: &Space, state: JobState, filter: &JobFilter) -> Self {
        let mut statement = Self::default();
        statement.text("SELECT j.id FROM jobs j WHERE j.space = ?", space.as_str());
        statement.text(" AND j.state = ?", state.into_str());
        statement.jobs(filter);

        statement
    }
}

impl Store {
    /// Jobs in a state that match the rest of a filter, in queue order, up to `most`; `current`:
    /// without superseded ones.
    pub async fn list_matching_jobs(
        &self,
        space: &Space,
        state: JobState,
        filter: &JobFilter,
        current: bool,
        most: usize,
    ) -> Result<Vec<JobId>, StoreError> {
        let mut statement = StatementBuilder::jobs_in(space, state, filter);
        if current {
            statement.push(&format!(" AND NOT {SUPERSEDED}"));
        }

        statement.number(" ORDER BY j.turn LIMIT ?", row_limit(most));

        self.read_values("list_matching_jobs", || {
            self.put_together(&statement, false)
        })
        .await
    }

    /// How many jobs in a state that match the rest of a filter are superseded, counted up to
    /// `most`.
    pub async fn count_superseded_jobs(
        &self,
        space: &Space,
        state: JobState,
        filter: &JobFilter,
        most: usize,
    ) -> Result<i64, StoreError> {
        let mut statement = StatementBuilder::jobs_in(space, state, filter);
        statement
            .sql
            .insert_str(0, "SELECT COUNT(*) AS jobs FROM (");
        statement.push(&format!(" AND {SUPERSEDED}"));
        statement.number(" LIMIT ?) AS superseded", row_limit(most));

        let jobs = self.read_value("count_superseded_jobs", || {
            self.put_together(&statement, false)
        });
        Ok(jobs.await?.unwrap_or(0))
    }
}
