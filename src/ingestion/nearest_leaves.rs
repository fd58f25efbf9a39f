//! The leaves that are nearest to a text by keyword search, for the first call of a short text.
//! Never by vectors: filing does not depend on them.

use std::collections::HashSet;

use memoir_index::Kind;

use super::embedding::into_job_error;
use crate::jobs::JobError;
use crate::llm::Session;
use crate::model::call::CallContext;
use crate::model::category::CategoryPath;
use crate::model::scope::QueryScope;
use crate::search::Search;
use crate::store::Store;

/// Leaves that are offered.
const MAX_LEAVES: usize = 12;
/// Maximum results of the search, and how many of them are mapped to their leaves at once.
const MAX_RESULTS: usize = 200;
const AT_ONCE: usize = 50;
/// Characters of a text that are searched for.
const MAX_CHARS: usize = 2000;

pub struct NearestLeaves<'w> {
    pub search: &'w Search,
    pub store: &'w Store,
    pub call: CallContext,
    /// The level of leaves.
    pub depth: usize,
}

impl NearestLeaves<'_> {
    /// The names above and of each leaf, nearest first.
    ///
    /// # Errors
    /// The store's.
    pub async fn find(
        &self,
        title: Option<&str>,
        text: &str,
    ) -> Result<Vec<Vec<String>>, JobError> {
        let leaves = self.leaves(&searched(title, text)).await?;
        let space = &self.call.space;
        let paths = self.store.find_category_paths(space, &leaves, None);
        let mut paths = paths.await?;
        let names = |path: CategoryPath| path.into_iter().map(|(_, name)| name).collect();
        Ok(leaves
            .iter()
            .filter_map(|leaf| paths.remove(leaf))
            .filter(|path| path.len() == self.depth)
            .map(names)
            .collect())
    }

    async fn leaves(&self, text: &str) -> Result<Vec<i64>, JobError> {
        let (session, scope) = (
            Session::of_caller(self.call.unpaid()),
            QueryScope::default(),
        );
        let asked = (text, Kind::Keyword, MAX_RESULTS);
        let found = self.search.rank_chunks(&session, asked, &scope).await;
        let found = found.map_err(into_job_error)?;

        let (mut seen, mut leaves) = (HashSet::new(), Vec::new());
        for hits in found.hits.chunks(AT_ONCE) {
            let ids: Vec<i64> = hits.iter().map(|hit| hit.owner.id).collect();
            let cuts = self.search.cuts();
            let filed = cuts.filed(self.store, &self.call.space, &ids, None).await?;

            let ranges = ids.iter().filter_map(|id| filed.get(id)).flatten();
            leaves.extend(
                ranges
                    .map(|range| range.leaf)
                    .filter(|leaf| *leaf != 0 && seen.insert(*leaf)),
            );
            if leaves.len() >= MAX_LEAVES {
                break;
            }
        }

        leaves.truncate(MAX_LEAVES);
        Ok(leaves)
    }
}

/// The words to search for: of the title and of the beginning of the text.
fn searched(title: Option<&str>, text: &str) -> String {
    let title = title.unwrap_or_default();
    format!("{title}\n{text}").chars().take(MAX_CHARS).collect()
}
