//! What a reader needs besides the text of a chunk: the heading above it, the words that matched,
//! and the sentences that an answer rests on.

use super::QueryRun;
use crate::queries::QueryError;
use crate::queries::candidates::LeafReader;
use crate::queries::citations::resolve;
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

    /// Resolves the chunk numbers in an answer.
    pub(super) fn cite(&mut self, answer: &str) {
        let (citations, mut unknown) = resolve(answer, &self.ask.query, &self.result.chunks);
        self.result.citations = citations;
        for memory in &mut self.result.memories {
            memory.cited = memory.number.is_some_and(|number| unknown.remove(&number));
        }

        let unknown = unknown.len();
        if unknown > 0 {
            let message = format!(
                "the answer names {unknown} chunk number(s) that it was not given; they are not \
                 among the citations"
            );
            self.result.warn("unknown_citations", message);
        }
    }
}
