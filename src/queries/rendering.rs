//! What a response shows of the chunks that were found.

use memoir_index::highlight::Highlighter;

use super::auto::decide::{Confidence, NEAREST};
use super::result::{Highlight, QueryChunk, QueryResult, UsedChunk};
use super::steps::{QueryContext, QueryItem};
use super::traversal::Path;

/// Chunks with the ranks that follow those of earlier pages.
pub fn chunks<'i>(
    items: impl Iterator<Item = &'i QueryItem>,
    paths: &[Path],
    returned: i64,
) -> Vec<QueryChunk> {
    let chunk = |(rank, item): (i64, &QueryItem)| {
        let (chunk, path) = (&item.found, &paths[item.scores.path]);
        QueryChunk {
            chunk_id: chunk.id,
            rank,
            relevance: item.scores.relevance,
            text_content: chunk.text.to_string(),
            category_path: path.names.clone(),
            ranked_relevance: path.ranked_relevance(),
            path_relevance: path.relevance(),
            created_at: chunk.created_at.to_string(),
            source_id: chunk.source_id.to_string(),
            source_version: chunk.source_version,
            filename: chunk.filename.clone(),
            path: chunk.path.clone(),
            heading: chunk.heading.clone(),
            highlights: Vec::new(),
            start_char: chunk.start_char,
            end_char: chunk.end_char,
        }
    };

    (returned + 1..).zip(items).map(chunk).collect()
}

/// The chunks that an answer is based on.
pub fn used(chunks: &[QueryChunk]) -> Vec<UsedChunk> {
    let used = chunks.iter().map(|chunk| UsedChunk {
        chunk_id: chunk.chunk_id,
        category_path: chunk.category_path.clone(),
    });
    used.collect()
}

/// Marks the words of the query in the chunks of the result.
pub fn highlight(query: &QueryContext<'_>, result: &mut QueryResult) {
    let highlighter = Highlighter::new(&query.settings.query);
    for chunk in result.chunks.iter_mut().chain(&mut result.nearest) {
        let ranges = highlighter.ranges(&chunk.text_content).into_iter();
        chunk.highlights = ranges
            .map(|(start, end)| Highlight { start, end })
            .collect();
    }
}

/// The model found no answer in the chunks, so they are only the nearest ones.
pub fn show_as_nearest(result: &mut QueryResult) {
    result.nearest = result.chunks.iter().take(NEAREST).cloned().collect();
    result.found = false;
    if result.confidence.is_some() {
        result.confidence = Some(Confidence::Low.into_str().to_owned());
    }
}

/// Shows only the paths of used chunks, with their number; the receipt keeps all that were read.
/// `used` are the indexes of the paths of the used chunks.
pub fn show_used_paths(result: &mut QueryResult, used: &[usize]) {
    let mut place = 0;
    result.paths.retain_mut(|path| {
        let count = used.iter().filter(|one| **one == place).count();
        path.chunk_count = i64::try_from(count).unwrap_or(i64::MAX);
        place += 1;
        count > 0
    });
}
