//! Queues the job that balances the hierarchy, if the source made a leaf or a list of categories too
//! large. Only what the source touched is looked at, from numbers that the write has read anyway.

use std::collections::BTreeMap;

use super::Writer;
use crate::categories::Taxonomy;
use crate::ingestion::balancing;
use crate::ingestion::write_error::{During as _, WriteError};
use crate::jobs::JobsError;
use crate::model::call::CallContext;
use crate::model::category::{Category, LeafGrowth};
use crate::store::Tx;

/// Whether something has grown too large.
#[derive(Debug, Default)]
pub(super) struct Growth {
    is_due: bool,
}

impl Growth {
    /// Leaves whose numbers of chunks have changed.
    pub fn note_leaves(&mut self, leaves: &[LeafGrowth], taxonomy: &Taxonomy) {
        self.is_due |= leaves.iter().any(|leaf| is_due(leaf, taxonomy));
    }

    /// All children of parents that have new ones.
    pub fn note_children(&mut self, children: &[Category], taxonomy: &Taxonomy) {
        let mut counts: BTreeMap<i64, i64> = BTreeMap::new();
        for child in children {
            *counts.entry(child.parent_id.unwrap_or(0)).or_default() += 1;
        }
        let mut counts = counts.into_iter();
        self.is_due |= counts.any(|(parent, count)| count > taxonomy.max_children_of(parent));
    }
}

/// Whether a leaf has become too large, or has grown by another half of its target since: one that
/// cannot be split is not looked at with every chunk.
fn is_due(leaf: &LeafGrowth, taxonomy: &Taxonomy) -> bool {
    let over = |count: i64| count - taxonomy.max_leaf();
    let step = i64::try_from(taxonomy.leaf_target() / 2).unwrap_or(i64::MAX);
    let steps = |count: i64| (over(count) - 1).div_euclid(step.max(1));
    over(leaf.after) > 0 && (over(leaf.before) <= 0 || steps(leaf.after) > steps(leaf.before))
}

impl Writer<'_> {
    /// Queues the job, unless one waits or runs; returns whether it did. The caller holds the lock of
    /// the space, as the job does while it ends, so that it misses nothing.
    pub(super) async fn queue_balancing(
        &self,
        tx: &mut Tx,
        growth: &Growth,
        call: &CallContext,
    ) -> Result<bool, WriteError> {
        if !growth.is_due || !self.taxonomy.balances_itself(self.named_by) {
            return Ok(false);
        }

        let has_job = tx.has_background_job(&call.space, balancing::KIND);
        if has_job.await.during("find a job", "jobs")? {
            return Ok(false);
        }

        let new = balancing::new_job(self.jobs.max_attempts());
        let call = self.context.call_now();
        match self.jobs.enqueue(tx, &call, &new).await {
            Ok(_) => Ok(true),
            Err(JobsError::Store(error)) => Err(error).during("queue a job", "jobs"),
            Err(error) => {
                // The next text that is filed there tries again.
                tracing::info!(%error, "cannot queue the job that balances the hierarchy");
                Ok(false)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::category::NamedBy;

    #[test]
    fn a_large_leaf_is_looked_at_each_half_target() {
        let settings = serde_json::json!({
            "hierarchy_depth": 3, "max_children": 200, "max_categories_default": 128,
            "max_categories_per_level": {}, "limit_scope": "parent", "second_look": true,
            "leaf_target": 8, "children_target": 60, "auto_care": "auto",
        });
        let taxonomy = Taxonomy::new(&serde_json::from_value(settings).unwrap());
        let leaf = |before, after| LeafGrowth {
            id: 1,
            parent_id: 0,
            path: Vec::new(),
            named_by: NamedBy::Embedded,
            before,
            after,
        };

        let due: Vec<i64> = (1..30)
            .filter(|n| is_due(&leaf(n - 1, *n), &taxonomy))
            .collect();
        assert_eq!(due, [17, 21, 25, 29]);
        assert!(is_due(&leaf(0, 20), &taxonomy));
        assert!(!is_due(&leaf(20, 18), &taxonomy) && !is_due(&leaf(17, 17), &taxonomy));
    }
}
