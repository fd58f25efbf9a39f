//! What a reader needs besides the text of a chunk: the heading above it, the words that matched,
//! and the sentences that an answer rests on.

use super::QueryRun;
use crate::queries::QueryError;
use crate::queries::candidates::LeafReader;
use crate::queries::citations::{Citation, resolve};
use crate::queries::result::{Highlight, QueryChunk};
use crate::search::highlight::Highlighter;

impl QueryRun<'_> {
    /// Adds headings and highlights to the chunks of the result.
    pub(super) async fn complete_chunks(&mut self) -> Result<(), QueryError> {
        let mut chunks = std::mem::take(&mut self.result.chunks);
        let mut nearest = std::mem::take(&mut self.result.nearest);
        let highlighter = Highlighter::new(&self.ask.query);
        let wanted: Vec<i64> = chunks
            .iter()
            .chain(&nearest)
            .map(|chunk| chunk.chunk_id)
            .collect();

        let (LeafReader::Stored { space, .. } | LeafReader::Recorded { space, .. }) =
            &self.leaf_reader;
        let headings = self.inner.store.list_chunk_headings(space, &wanted).await?;
        let complete = |chunk: &mut QueryChunk| {
            chunk.heading = headings.get(&chunk.chunk_id).cloned();
            let range = |(start, end)| Highlight { start, end };
            let ranges = highlighter.ranges(&chunk.text_content);
            chunk.highlights = ranges.into_iter().map(range).collect();
        };

        chunks.iter_mut().for_each(complete);
        nearest.iter_mut().for_each(complete);
        (self.result.chunks, self.result.nearest) = (chunks, nearest);
        Ok(())
    }

    /// Resolves the numbers in an answer.
    pub(super) fn cite(&mut self, answer: &str) {
        let (chunks, memories) = (&self.result.chunks, &self.result.memories);
        let (citations, unknown) = resolve(answer, &self.ask.query, chunks, memories);
        for memory in &mut self.result.memories {
            let is_it = |one: &Citation| one.memory_id.as_ref() == Some(&memory.memory_id);
            memory.cited = citations.iter().any(is_it);
        }

        self.result.citations = citations;
        let unknown = unknown.len();
        if unknown > 0 {
            let message = format!(
                "the answer cites {unknown} number(s) of chunks or memories that its prompt does not \
                 contain; they are left out of the citations"
            );
            self.result.warn("unknown_citations", message);
        }
    }
}
