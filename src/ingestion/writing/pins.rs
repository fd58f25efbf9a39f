//! A chunk stays where a person has put it when its source is ingested again: it is recognised by equal
//! text.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use super::{Draft, Writer, Written};
use crate::base::ids::SourceId;
use crate::ingestion::write_error::{During as _, WriteError};
use crate::store::Tx;

impl Writer<'_> {
    /// The paths of a range of chunks, with those that a person chose instead of planned ones; and the
    /// positions of these chunks.
    pub(super) async fn respect_pins<'p>(
        &self,
        tx: &mut Tx,
        draft: &'p Draft<'_>,
        range: Range<usize>,
        written: &Written,
    ) -> Result<(Cow<'p, [Vec<String>]>, Vec<i64>), WriteError> {
        let planned = &draft.paths[range.clone()];
        if written.version <= 1 {
            return Ok((planned.into(), Vec::new()));
        }

        let source_id = SourceId::from_stored(written.source_id.clone());
        let space = self.context.space();
        let texts = tx.list_pinned_texts(space, &source_id).await;
        let texts: HashMap<String, i64> = texts
            .during("read moved chunks", "chunk_placements")?
            .into_iter()
            .collect();
        if texts.is_empty() {
            return Ok((planned.into(), Vec::new()));
        }

        let leaves: Vec<i64> = texts.values().copied().collect();
        let chosen = tx.list_paths(space, &leaves).await;
        let chosen = chosen.during("read the hierarchy", "categories")?;
        let (mut paths, mut ordinals) = (planned.to_vec(), Vec::new());
        for (path, chunk) in paths.iter_mut().zip(&draft.chunks[range]) {
            let leaf = texts.get(chunk.text);
            if let Some(own) = leaf.and_then(|leaf| chosen.get(leaf)) {
                path.clone_from(own);
                ordinals.push(chunk.ordinal);
            }
        }

        Ok((paths.into(), ordinals))
    }
}
