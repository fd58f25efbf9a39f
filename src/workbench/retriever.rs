//! The retriever: the chunks of the pool that are nearest to the task. Duplicates of injected files
//! and of each other are dropped here, and instructions are taken out of the texts.

use std::collections::HashMap;

use super::WorkbenchError;
use super::candidate::Candidate;
use super::eligibility::Pool;
use super::files::InjectedFile;
use super::safety::neutralise;
use super::stage::Tools;
use crate::model::search::{Found, OwnerKind};
use crate::policy::steps::deduplicate::{self, FirstOfKey};
use crate::search::{EntryQuery, Filter, Hit, Kind, SearchError};

/// Maximum characters of what is searched for.
const MAX_QUERY_CHARS: usize = 10_000;

/// What to search for.
pub struct Wanted<'a> {
    pub query: &'a str,
    pub kind: Kind,
    pub k: usize,
    pub pass: u8,
}

/// The chunks found, and the embedding model.
pub struct Retrieved {
    pub candidates: Vec<Candidate>,
    pub model: Option<String>,
}

/// Finds the candidates, best first.
///
/// # Errors
/// The embedding model's, or the store's.
pub async fn retrieve(
    tools: &Tools<'_>,
    wanted: &Wanted<'_>,
    pool: &Pool,
    files: &[InjectedFile],
) -> Result<Retrieved, WorkbenchError> {
    if pool.is_empty() {
        return Ok(Retrieved {
            candidates: Vec::new(),
            model: None,
        });
    }

    let query: String = wanted.query.chars().take(MAX_QUERY_CHARS).collect();
    let (session, space) = (tools.session, tools.space);
    let found = match &pool.groups {
        None => {
            let asked = (query.as_str(), wanted.kind, wanted.k);
            tools
                .search
                .rank_chunks(session, space, asked, &pool.scope)
                .await
        }
        Some(groups) => {
            let entries = EntryQuery {
                owner_kind: OwnerKind::Chunk,
                text: &query,
                kind: wanted.kind,
                k: wanted.k,
                min_score: None,
                by_group: false,
                scope: Some(&pool.scope),
                group: None,
            };
            let filter = Filter {
                groups: Some(groups.clone()),
                ..Filter::default()
            };
            tools.search.find(session, space, entries, filter).await
        }
    };

    let found = found.map_err(|error| match error {
        SearchError::Llm(error) => WorkbenchError::Llm(error),
        SearchError::Store(error) => WorkbenchError::Store(error),
        SearchError::Invalid(errors) => WorkbenchError::Invalid(errors),
    })?;
    let read = read(tools, found.hits).await?;

    Ok(Retrieved {
        candidates: candidates(tools, read, wanted.pass, files).await?,
        model: found.model,
    })
}

/// The chunks of the hits, in their order.
async fn read(tools: &Tools<'_>, hits: Vec<Hit>) -> Result<Vec<(Hit, Found)>, WorkbenchError> {
    let ids: Vec<i64> = hits.iter().map(|hit| hit.owner.id).collect();
    let found = tools.store.list_found(tools.space, &ids).await?;
    let mut found: HashMap<i64, Found> = found.into_iter().map(|one| (one.chunk_id, one)).collect();
    let each = hits.into_iter();
    Ok(each
        .filter_map(|hit| Some((hit, found.remove(&hit.owner.id)?)))
        .collect())
}

async fn candidates(
    tools: &Tools<'_>,
    read: Vec<(Hit, Found)>,
    pass: u8,
    files: &[InjectedFile],
) -> Result<Vec<Candidate>, WorkbenchError> {
    let ids: Vec<i64> = read.iter().map(|(_, found)| found.chunk_id).collect();
    let headings = tools.store.list_chunk_headings(tools.space, &ids).await?;
    let mut seen = FirstOfKey::default();
    let mut candidates = Vec::with_capacity(read.len());
    for (rank, (hit, found)) in (1..).zip(read) {
        let safe = neutralise(&found.text);
        let mut candidate = Candidate {
            chunk_id: found.chunk_id,
            heading: headings.get(&found.chunk_id).cloned(),
            text: safe.text.into(),
            neutralised: safe.removed,
            rank,
            score: hit.score,
            semantic: hit.semantic,
            rerank_score: None,
            verdict: None,
            changed_at: None,
            pass,
            kept: true,
            reason: String::new(),
            stage: "retrieve",
            found,
        };

        candidate.keep_at("retrieve", "strong semantic match");
        let key = deduplicate::key(&candidate.found.text);
        if files
            .iter()
            .any(|file| file.compared.contains(&candidate.found.text))
        {
            candidate.drop_at("retrieve", "duplicate of ❖ FILES");
        } else if seen.before(&key, &rank.to_string()).is_some() {
            candidate.drop_at("retrieve", "duplicate of a better chunk");
        }
        candidates.push(candidate);
    }

    Ok(candidates)
}
