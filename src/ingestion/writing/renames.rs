//! Renames leaves that have grown beyond their names.
//!
//! Only the embedded model does this, and only where it gave the name itself. A leaf is looked at
//! when its number of chunks passes 2, 4, 8 and so on: the counts are known from the write anyway, so
//! that usual filing pays nothing, and a leaf of a thousand chunks has been looked at nine times.

use memoir_embedded_model::{EmbeddedModel, NewName, RenameInput};

use super::{Renamed, Writer, Written};
use crate::ingestion::write_error::{During as _, WriteError};
use crate::model::call::CallContext;
use crate::model::category::{LeafGrowth, NamedBy, Rename};
use crate::store::Tx;

/// The first number of chunks at which a leaf is looked at.
const FIRST: i64 = 2;
/// Maximum leaves that are looked at with one source: other writers wait meanwhile.
const MAX_LEAVES: usize = 4;
/// Texts of a leaf that are compared with its name, and characters of each.
const TEXTS: (i64, i32) = (40, 400);

impl Writer<'_> {
    /// Looks at the leaves that have grown enough, and renames those whose names no longer fit.
    pub(super) async fn rename_grown(
        &self,
        tx: &mut Tx,
        grown: &[LeafGrowth],
        written: &mut Written,
        call: &CallContext,
    ) -> Result<(), WriteError> {
        if self.named_by != NamedBy::Embedded {
            return Ok(());
        }

        let due = grown
            .iter()
            .filter(|leaf| leaf.named_by == NamedBy::Embedded && is_due(leaf));
        for leaf in due.take(MAX_LEAVES) {
            let Some(better) = self.better_name(tx, leaf).await? else {
                continue;
            };

            let from = leaf.path.last().map_or("", String::as_str);
            let rename = Rename {
                id: leaf.id,
                parent_id: leaf.parent_id,
                from,
                to: &better.name,
                by: NamedBy::Embedded,
                reason: Some(&better.reason),
            };

            let renamed = tx
                .rename_category(&call.space, &rename, call.now)
                .await
                .during("rename a category", "categories")?;
            if renamed.is_some() {
                written.renamed.push(Renamed {
                    category_id: leaf.id,
                    from: from.to_owned(),
                    to: better.name,
                });
            }
        }

        Ok(())
    }

    async fn better_name(
        &self,
        tx: &mut Tx,
        leaf: &LeafGrowth,
    ) -> Result<Option<NewName>, WriteError> {
        let space = self.context.space();
        let texts = tx
            .list_leaf_texts(space, leaf.id, leaf.after, TEXTS)
            .await
            .during("read a category", "chunks")?;
        let siblings = tx
            .list_children(space, &[leaf.parent_id])
            .await
            .during("read the hierarchy", "categories")?;

        let path: Vec<&str> = leaf.path.iter().map(String::as_str).collect();
        let Some((name, parents)) = path.split_last() else {
            return Ok(None);
        };
        let siblings: Vec<&str> = siblings
            .iter()
            .filter(|sibling| sibling.id != leaf.id)
            .map(|sibling| sibling.name.as_str())
            .collect();
        let texts: Vec<(&str, &str)> = texts
            .iter()
            .map(|text| (text.source_id.as_str(), text.text.as_str()))
            .collect();

        Ok(EmbeddedModel::rename(&RenameInput {
            name,
            parents,
            siblings: &siblings,
            texts: &texts,
        }))
    }
}

/// Whether the number of chunks passed a power of two. A new leaf has the name of its own chunks, which
/// may be the title of the only text in it.
fn is_due(leaf: &LeafGrowth) -> bool {
    let passed = leaf.after.max(1).ilog2() > leaf.before.max(1).ilog2();
    leaf.before > 0 && leaf.after >= FIRST && passed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leaf_is_looked_at_when_it_has_doubled() {
        let leaf = |before, after| LeafGrowth {
            id: 1,
            parent_id: 0,
            path: Vec::new(),
            named_by: NamedBy::Embedded,
            before,
            after,
        };

        let due: Vec<i64> = (1..70).filter(|n| is_due(&leaf(n - 1, *n))).collect();
        assert_eq!(due, [2, 4, 8, 16, 32, 64]);
        assert!(is_due(&leaf(5, 40)));
        assert!(!is_due(&leaf(0, 40)) && !is_due(&leaf(9, 12)) && !is_due(&leaf(16, 9)));
    }
}
