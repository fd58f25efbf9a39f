//! The retriever: the chunks of the pool that are nearest to the task. Duplicates of injected files
//! and of each other are dropped here, and instructions are taken out of the texts.

use memoir_index::{Filter, Hit, Kind, OwnerKind};
use memoir_policy::steps::deduplicate;

use super::WorkbenchError;
use super::candidate::{Assessment, Candidate};
use super::eligibility::Pool;
use super::files::InjectedFile;
use super::safety::neutralise;
use super::stage::Tools;
use crate::retrieval::hydrate;
use crate::retrieval::select::{drop_each, drop_repeated};
use crate::search::EntryQuery;

/// Maximum characters of what is searched for, and of what candidates are ranked and judged by.
pub const MAX_QUERY_CHARS: usize = 10_000;
/// The stage that decides here.
const STEP: &str = "retrieve";

/// What to search for.
pub struct Wanted<'a> {
    pub query: &'a str,
    pub kind: Kind,
    pub k: usize,
    pub pass: u8,
}

/// Finds the candidates, best first. Returns them and the embedding model.
///
/// # Errors
/// The embedding model's, or the store's.
pub async fn retrieve(
    tools: &Tools<'_>,
    wanted: &Wanted<'_>,
    pool: &Pool,
    files: &[InjectedFile],
) -> Result<(Vec<Candidate>, String), WorkbenchError> {
    let model = |model: Option<String>| model.unwrap_or_else(|| "keywords".to_owned());
    if pool.is_empty() {
        return Ok((Vec::new(), model(None)));
    }

    let query: String = wanted.query.chars().take(MAX_QUERY_CHARS).collect();
    let found = match &pool.groups {
        None => {
            let asked = (query.as_str(), wanted.kind, wanted.k);
            let search = tools.search;
            search.rank_chunks(tools.session, asked, &pool.scope).await
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
            tools.search.find(tools.session, entries, filter).await
        }
    };

    let found = found?;
    let candidates = candidates(tools, found.hits, wanted.pass, files).await?;
    Ok((candidates, model(found.model)))
}

async fn candidates(
    tools: &Tools<'_>,
    hits: Vec<Hit>,
    pass: u8,
    files: &[InjectedFile],
) -> Result<Vec<Candidate>, WorkbenchError> {
    let found = hits.into_iter().map(|hit| (hit.owner.id, hit)).collect();
    let items = hydrate(tools.store, &tools.call().space, None, found).await?;
    let assessed = (1..).zip(items).map(|(rank, item)| {
        let mut item = item.scored(|_, hit: Hit| Assessment {
            rank,
            score: hit.score,
            semantic: hit.semantic,
            rerank_score: None,
            verdict: None,
            changed_at: None,
            neutralised: Vec::new(),
            pass,
        });
        item.keep(STEP, "strong semantic match");
        item
    });

    let mut candidates: Vec<Candidate> = assessed.collect();
    drop_each(&mut candidates, STEP, |one| {
        let mut files = files.iter();
        let is_injected = files.any(|file| file.compared.contains(&one.found.text));
        is_injected.then_some("duplicate of ❖ FILES")
    });
    drop_repeated(
        &mut candidates,
        STEP,
        "duplicate of a better chunk",
        |one| (deduplicate::key(&one.text), one.id.to_string()),
    );
    for candidate in &mut candidates {
        let safe = neutralise(&candidate.found.text);
        candidate.found.text = safe.text.into();
        candidate.scores.neutralised = safe.removed;
    }

    Ok(candidates)
}
