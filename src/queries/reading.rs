//! Reads the chunks of a query, of whole leaves or ranked one by one, and reports their paths.

use std::collections::HashMap;
use std::time::Instant;

use super::QueryError;
use super::auto::ranking::{self, RankedChunk, RankedText};
use super::cursor::LeafCursor;
use super::input::Mode;
use super::leaves::Leaves;
use super::receipt::Receipt;
use super::result::{LeafRead, PathError, QueryPath};
use super::steps::{ChunkRank, Progress, QueryContext, QueryItem};
use super::traversal::{Path, Reason};
use crate::base::clock::milliseconds_since;
use crate::model::chunk::SourceChunk;
use crate::retrieval::Item;

/// Reads the chunks of leaves, and reports each leaf.
pub async fn read_leaves(
    query: &QueryContext<'_>,
    progress: &mut Progress,
    paths: Vec<Path>,
) -> Result<Vec<QueryItem>, QueryError> {
    let Progress { result, receipt } = progress;
    result.paths = paths.iter().map(QueryPath::from).collect();
    receipt.paths = paths;
    if receipt.paths.is_empty() {
        return Err(QueryError::NoChunks);
    }

    let after = query.after();
    let leaves = query.finder.leaf_chunks(&receipt.paths, after).await?;
    let counts = leaves.counts();
    let first = after.map_or(0, |after| after.path);
    for (place, path) in receipt.paths.iter().enumerate().skip(first) {
        let chunk_count = counts[place];
        result.paths[place].chunk_count = chunk_count;
        result.retrievals.push(LeafRead {
            category_id: path.leaf(),
            path: path.names.clone(),
            chunk_count,
            latency_ms: leaves.latencies[place],
        });

        if leaves.empty[place] {
            result.path_errors.push(PathError {
                path: path.names.clone(),
                code: "no_chunks_found".to_owned(),
                message: "the category contains no chunks that match the filters".to_owned(),
            });
            result.drop_path(path, Reason::Empty);
        } else if chunk_count == 0 && leaves.next.is_some() && query.settings.mode == Mode::Answer {
            // Earlier paths have used up the limit, so none of its chunks can be in the answer.
            result.drop_path(path, Reason::Limited);
        }
    }

    let Leaves { items, next, .. } = leaves;
    note_read(receipt, &items);
    receipt.next.clone_from(&next);
    if let Some(next) = next {
        let cursor = LeafCursor::new(query.settings, &receipt.paths, next);
        result.next_cursor = Some(cursor.encode());
        let limit = query.settings.limit;
        let message =
            format!("only the first {limit} chunks were read; use next_cursor to get the others");
        result.warn("limited", message);
    }

    if items.is_empty() {
        Err(QueryError::NoChunks)
    } else {
        Ok(items)
    }
}

/// Reads the ranked chunks, puts them in the order of their relevance, and finds their paths.
pub async fn read_ranked(
    query: &QueryContext<'_>,
    progress: &mut Progress,
    read: Vec<RankedChunk>,
    carried: &HashMap<i64, f64>,
) -> Result<Vec<QueryItem>, QueryError> {
    let begun = Instant::now();
    let found = query.finder.hydrate(read).await?;
    progress.auto().read = found.iter().map(|item| item.scores).collect();

    let texts: Vec<RankedText<'_>> = found
        .iter()
        .map(|item| RankedText {
            chunk: item.scores,
            text: &item.found.text,
            about: item.found.about(),
        })
        .collect();
    let relevances = if carried.is_empty() {
        ranking::relevances(&query.settings.query, &texts)
    } else {
        let relevance = |one: &RankedText<'_>| carried.get(&one.chunk.chunk_id).copied();
        texts
            .iter()
            .map(|text| relevance(text).unwrap_or(0.0))
            .collect()
    };
    let latency_ms = milliseconds_since(begun);

    // Stable: of equals, the one found first.
    let mut ranked: Vec<(Item<SourceChunk, RankedChunk>, f64)> =
        found.into_iter().zip(relevances).collect();
    ranked.sort_by(|(_, one), (_, other)| other.total_cmp(one));

    // The leaves in the order of their best chunks.
    let mut leaves: Vec<i64> = Vec::new();
    let mut items: Vec<QueryItem> = Vec::with_capacity(ranked.len());
    for (item, relevance) in ranked {
        let leaf = item.scores.leaf;
        let path = leaves.iter().position(|one| *one == leaf);
        let path = path.unwrap_or_else(|| {
            leaves.push(leaf);
            leaves.len() - 1
        });
        items.push(item.scored(|_, _| ChunkRank {
            path,
            relevance,
            ..ChunkRank::default()
        }));
    }

    let known = query.finder.leaf_paths(&leaves).await?;
    let count = i64::try_from(leaves.len()).unwrap_or(i64::MAX);
    let path = |(place, leaf): (i64, &i64)| {
        let (ids, names) = known.get(leaf).cloned().unwrap_or_default();
        Path {
            ranks: vec![(count - place, count); ids.len()],
            ids,
            names,
            chunk_ids: Vec::new(),
        }
    };

    let Progress { result, receipt } = progress;
    receipt.paths = (0..).zip(&leaves).map(path).collect();
    result.paths = receipt.paths.iter().map(QueryPath::from).collect();
    note_read(receipt, &items);
    let mut latency_ms = Some(latency_ms);
    for (shown, path) in result.paths.iter_mut().zip(&receipt.paths) {
        shown.chunk_count = i64::try_from(path.chunk_ids.len()).unwrap_or(i64::MAX);
        result.retrievals.push(LeafRead {
            category_id: path.leaf(),
            path: path.names.clone(),
            chunk_count: shown.chunk_count,
            latency_ms: latency_ms.take().unwrap_or(0.0),
        });
    }

    Ok(items)
}

/// Notes which chunks were read from which path.
fn note_read(receipt: &mut Receipt, items: &[QueryItem]) {
    for item in items {
        receipt.paths[item.scores.path]
            .chunk_ids
            .push(item.found.id);
    }
}
