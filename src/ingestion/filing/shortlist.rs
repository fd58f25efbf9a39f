//! Where the filing of a short text begins: one call offers the leaves that are nearest to it, the
//! categories of level 1, and neither. A chosen leaf ends the filing of a chunk; a category of level
//! 1 and neither of them leave the rest to the levels. A model that names freely is offered nothing: it
//! names all levels at once.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::{Call, Filing, layer_name, read_layer};
use crate::categories::tree::{Node, ROOT};
use crate::jobs::JobError;
use crate::llm::tasks::shortlist;

impl Filing<'_> {
    /// The category from which each chunk of a window is filed on: for chunks of a short text the
    /// one that the model chose, for all others the root.
    pub(super) async fn starts<F>(
        &self,
        window: Range<usize>,
        load: &impl Fn(Vec<Node>) -> F,
    ) -> Result<Vec<Node>, JobError>
    where
        F: Future<Output = Result<(), JobError>>,
    {
        let mut starts = vec![ROOT; window.len()];
        if self.nearest.is_none() {
            return Ok(starts);
        }

        load(vec![ROOT]).await?;
        let ordinals: Vec<usize> = window.clone().collect();
        for (index, some) in ordinals.chunks(self.source.batch_size).enumerate() {
            let step = format!("file/{}/{}/{index}", window.start, shortlist::LEVEL);
            for (ordinal, entry) in self.choose_entries(step, some).await? {
                if let Some(start) = starts.get_mut(ordinal.wrapping_sub(window.start)) {
                    *start = self.descend(&entry, ordinal, load).await?;
                }
            }
        }

        Ok(starts)
    }

    /// The entry of the shortlist for each chunk, from saved answers and from the model; nothing if
    /// there is nothing to choose from yet.
    async fn choose_entries(
        &self,
        step: String,
        ordinals: &[usize],
    ) -> Result<BTreeMap<usize, String>, JobError> {
        let (mut chosen, mut layer) = (BTreeMap::new(), 0);
        while let Some(saved) = self.saver.saved(&layer_name(&step, layer)) {
            self.note_subjects(&saved);
            chosen.extend(read_layer(&saved));
            layer += 1;
        }

        self.saver.count(decisions(&chosen)).await;
        let left: Vec<usize> = ordinals
            .iter()
            .copied()
            .filter(|ordinal| !chosen.contains_key(ordinal))
            .collect();
        if left.is_empty() {
            return Ok(chosen);
        }

        let entries = self.entries(&left).await?;
        if entries.is_empty() && self.free.is_none() {
            return Ok(chosen);
        }

        let call = Call {
            level: shortlist::LEVEL,
            parent: ROOT,
            ordinals,
            step,
            shortlist: Some(entries),
        };
        chosen.extend(self.ask(&call, &left, layer).await?);
        Ok(chosen)
    }

    /// The shortlist for chunks; empty in a space without categories, and for a model that names freely.
    async fn entries(&self, ordinals: &[usize]) -> Result<Arc<[String]>, JobError> {
        let top = self.tree().options(ROOT);
        let needs_none = top.is_empty() || self.free.is_some();
        let Some(nearest) = self.nearest.as_ref().filter(|_| !needs_none) else {
            return Ok([].into());
        };

        let texts: Vec<&str> = ordinals
            .iter()
            .map(|ordinal| self.chunk(*ordinal))
            .collect();
        let title = self.source.title.as_deref();
        let leaves = nearest.find(title, &texts.join("\n")).await?;
        let mut entries: Vec<String> = leaves.iter().map(|path| shortlist::entry(path)).collect();
        // With a hierarchy of one level, they are leaves themselves.
        let top: Vec<String> = top
            .into_iter()
            .filter(|name| !entries.contains(name))
            .collect();
        entries.extend(top);
        entries.push(shortlist::NONE.to_owned());
        Ok(entries.into())
    }

    /// Follows an entry down as far as its categories exist, because others may have moved or removed
    /// some; or, if the model names freely, as far as there is room.
    async fn descend<F>(
        &self,
        entry: &str,
        chunk: usize,
        load: &impl Fn(Vec<Node>) -> F,
    ) -> Result<Node, JobError>
    where
        F: Future<Output = Result<(), JobError>>,
    {
        let mut node = ROOT;
        for name in shortlist::names(entry) {
            load(vec![node]).await?;
            let child = {
                let mut tree = self.tree();
                match &self.free {
                    Some(free) => free.choose(&mut tree, node, name, chunk),
                    None => tree.choose_existing(node, name),
                }
            };
            let Some(child) = child else { break };
            node = child;
        }

        Ok(node)
    }
}

/// How many levels these entries settle.
pub(super) fn decisions(chosen: &BTreeMap<usize, String>) -> usize {
    let levels = chosen.values().map(|entry| shortlist::names(entry).len());
    levels.sum()
}
