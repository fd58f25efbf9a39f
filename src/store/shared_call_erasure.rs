//! Erases what a model said about a text in a call that is recorded with another job: short texts share
//! calls (`ingestion::shared_calls`).
//!
//! Not every call names all the jobs that shared it, so the outputs of all calls are removed that a job
//! may have shared: those of jobs of its user that ran at the same time.

use std::collections::BTreeMap;

use super::dialect::BindAll as _;
use super::text_uses::count;
use super::{StoreError, Tx};
use crate::base::ids::{JobId, Space};
use crate::model::erasure::RowCounts;
use crate::model::job::{LINGERS, SHARES_CALLS};

/// Jobs in one statement.
const PART: usize = 50;
/// Times of a user that are looked up one by one; more are taken as one long time.
const MAX_TIMES: usize = 50;

/// From the creation of a job to its end, in microseconds.
type Lifetime = (i64, i64);

impl Tx {
    /// Removes the outputs of calls that these jobs may have shared.
    pub async fn clear_shared_calls(
        &mut self,
        space: &Space,
        ids: &[JobId],
        counts: &mut RowCounts,
    ) -> Result<(), StoreError> {
        let mut times: BTreeMap<String, Vec<Lifetime>> = BTreeMap::new();
        for some in ids.chunks(PART) {
            let sql = "SELECT user_id, created_at, finished_at FROM jobs WHERE space = ? AND group_size IN (?, ?) AND id IN (??)";
            let query = self.dialect().query_list(sql, some.len());
            let query = query
                .bind(space.as_str())
                .bind(SHARES_CALLS)
                .bind(LINGERS)
                .bind_all(some.iter().map(|id| id.as_str().to_owned()));
            for (user, from, to) in self.read_all::<(String, i64, Option<i64>)>(query).await? {
                let lifetime = (from, to.unwrap_or(i64::MAX));
                times.entry(user).or_default().push(lifetime);
            }
        }

        for (user, lifetimes) in times {
            for (from, to) in merged(lifetimes) {
                let sql = "SELECT id FROM jobs WHERE space = ? AND user_id = ? AND group_size IN (?, ?) \
                           AND created_at <= ? AND (finished_at IS NULL OR finished_at >= ?)";
                let query = self.sql(sql).bind(space.as_str()).bind(user.clone());
                let query = query.bind(SHARES_CALLS).bind(LINGERS).bind(to).bind(from);
                let others: Vec<String> = self.read_values(query).await?;
                let cleared = self.clear_outputs(space, "job", &others).await?;
                count(counts, "llm_calls", cleared);
            }
        }

        Ok(())
    }
}

/// Times that overlap as one, in order.
fn merged(mut lifetimes: Vec<Lifetime>) -> Vec<Lifetime> {
    lifetimes.sort_unstable();
    let mut merged: Vec<Lifetime> = Vec::new();
    for (from, to) in lifetimes {
        match merged.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => merged.push((from, to)),
        }
    }

    match merged.as_slice() {
        [first, .., last] if merged.len() > MAX_TIMES => vec![(first.0, last.1)],
        _ => merged,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_overlap_are_one() {
        let times = vec![(5, 9), (1, 3), (2, 4), (9, 12), (20, i64::MAX)];
        assert_eq!(merged(times), [(1, 4), (5, 12), (20, i64::MAX)]);
        let many = (0..200).map(|n| (n * 10, n * 10 + 1)).collect();
        assert_eq!(merged(many), [(0, 1991)]);
        assert_eq!(merged(Vec::new()), []);
    }
}
