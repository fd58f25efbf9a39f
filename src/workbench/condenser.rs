//! The condenser (A4): turns chunks into facts, constraints and open issues. A fact without a
//! citation never leaves this file; if the model's answer cannot be used, the chunks themselves are
//! used instead.

use std::collections::HashSet;

use memoir_text::framing::{fenced, unfenced};
use memoir_text::headings::trail_within;
use memoir_text::text::one_line;
use serde::Serialize;
use utoipa::ToSchema;

use super::WorkbenchError;
use super::candidate::{Candidate, to_judge};
use super::contradictions;
use super::safety::neutralise;
use super::stage::Tools;
use crate::base::ids::SourceId;
use crate::llm::tasks::condense::{Condense, Condensed};
use crate::retrieval::carrying_sentence;
use crate::retrieval::fit::{Budget, fit};
use crate::retrieval::select::kept;

/// Why a chunk is dropped that does not fit.
const OVER_CEILING: &str = "over the token ceiling";
/// What is said of a chunk that is kept and of which nothing is in the prompt.
const UNUSED: &str = "nothing in it was needed for the prompt";
/// Tokens for the id and the citation of a fact.
const FRAME_TOKENS: usize = 20;

/// The condensed context: the block `S_ctx`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct CondensedContext {
    /// What the chunks state; each with at least one citation.
    pub facts: Vec<CitedFact>,
    /// Rules, limits and requirements that the chunks state.
    pub constraints: Vec<CitedConstraint>,
    /// What the chunks leave open.
    pub open_issues: Vec<OpenIssueText>,
}

/// A fact and the chunks that state it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct CitedFact {
    pub id: String,
    pub text: String,
    /// Ids of chunks; at least one.
    #[schema(min_items = 1)]
    pub citations: Vec<i64>,
    /// Where the cited sentences stand, in the order of `citations`.
    pub places: Vec<CitedPlace>,
    /// What contradicts it and counts more, as the prompt says it; null if nothing does.
    pub conflict: Option<String>,
}

/// A constraint and the chunks that state it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct CitedConstraint {
    pub text: String,
    /// Ids of chunks.
    pub citations: Vec<i64>,
    /// Where the cited sentences stand, in the order of `citations`.
    pub places: Vec<CitedPlace>,
    /// What contradicts it and counts more, as the prompt says it; null if nothing does.
    pub conflict: Option<String>,
}

/// Where a cited sentence stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct CitedPlace {
    pub chunk_id: i64,
    #[schema(value_type = String)]
    pub source_id: SourceId,
    pub path: String,
    pub version: i64,
    /// The headings above the sentence, highest first, separated by ` › `; null if there is none.
    pub heading: Option<String>,
}

/// A question that the chunks leave open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct OpenIssueText {
    pub text: String,
}

impl CondensedContext {
    pub fn is_empty(&self) -> bool {
        self.facts.is_empty() && self.constraints.is_empty() && self.open_issues.is_empty()
    }

    /// The chunks that are cited.
    pub fn cited(&self) -> HashSet<i64> {
        self.places().map(|place| place.chunk_id).collect()
    }

    /// Keeps so many facts, and returns the others. What another fact contradicts goes before that
    /// fact does: its mark names the other.
    pub fn keep_facts(&mut self, most: usize) -> Vec<CitedFact> {
        let mut order: Vec<usize> = (0..self.facts.len()).collect();
        order.sort_by_key(|place| contradictions::gives_way(&self.facts[*place]));
        let kept: HashSet<usize> = order.into_iter().take(most).collect();

        let all = std::mem::take(&mut self.facts).into_iter().enumerate();
        let (kept, left_out): (Vec<_>, Vec<_>) = all.partition(|(place, _)| kept.contains(place));
        self.facts = kept.into_iter().map(|(_, fact)| fact).collect();
        left_out.into_iter().map(|(_, fact)| fact).collect()
    }

    /// Where everything stands that is cited.
    pub fn places(&self) -> impl Iterator<Item = &CitedPlace> {
        let facts = self.facts.iter().flat_map(|fact| &fact.places);
        facts.chain(self.constraints.iter().flat_map(|one| &one.places))
    }
}

/// Condenses the candidates that are kept.
///
/// # Errors
/// The model's, also if its answer violates the schema or leaves a fact without a citation.
pub async fn condense(
    tools: &Tools<'_>,
    query: &str,
    candidates: &[Candidate],
) -> Result<(Option<CondensedContext>, String), WorkbenchError> {
    let task = Condense {
        query: query.into(),
        chunks: to_judge(candidates),
    };
    let answered = tools.llm.ask(tools.session, task).await?;
    let adapter = answered.model();
    Ok((Some(checked(answered.value, candidates)), adapter))
}

/// The model's answer, made safe for a prompt: neutralised, each entry on one line, and without
/// facts that cite no kept chunk, even if an earlier check accepted them.
fn checked(condensed: Condensed, candidates: &[Candidate]) -> CondensedContext {
    let known: HashSet<i64> = kept(candidates).map(|one| one.found.id).collect();
    let cited = |citations: Vec<i64>| -> Vec<i64> {
        let only = citations.into_iter().filter(|id| known.contains(id));
        only.collect()
    };
    let safe = |text: &str| one_line(&neutralise(text).text);
    let fact_text = |text: &str| match unfenced(text) {
        Some(code) => fenced(&neutralise(code).text),
        None => safe(text),
    };

    let facts = condensed.facts.into_iter().map(|fact| {
        let citations = cited(fact.citations);
        CitedFact {
            id: fact.id.0,
            places: places(&fact.text, &citations, candidates),
            text: fact_text(&fact.text),
            citations,
            conflict: None,
        }
    });
    let constraints = condensed.constraints.into_iter().map(|one| {
        let citations = cited(one.citations);
        CitedConstraint {
            places: places(&one.text, &citations, candidates),
            text: safe(&one.text),
            citations,
            conflict: None,
        }
    });
    let open_issues = condensed.open_issues.into_iter().map(|one| OpenIssueText {
        text: safe(&one.text),
    });
    CondensedContext {
        facts: facts.filter(|fact| !fact.citations.is_empty()).collect(),
        constraints: constraints.collect(),
        open_issues: open_issues.collect(),
    }
}

/// Where the sentences stand that carry a statement, one in each cited chunk.
fn places(text: &str, citations: &[i64], candidates: &[Candidate]) -> Vec<CitedPlace> {
    let chunk = |id: &i64| candidates.iter().find(|one| one.found.id == *id);
    let place = |candidate: &Candidate| {
        let chunk = &candidate.found;
        let (_, start) = carrying_sentence(&chunk.text, text, "");
        let start = usize::try_from(start).unwrap_or(0);
        CitedPlace {
            chunk_id: chunk.id,
            source_id: chunk.source_id.clone(),
            path: chunk.path.clone(),
            version: chunk.source_version,
            heading: trail_within(chunk.heading.as_deref(), &chunk.text, start),
        }
    };
    citations.iter().filter_map(chunk).map(place).collect()
}

/// Says of the chunks of which the context has nothing that they are kept and not used.
pub fn mark_unused(context: &CondensedContext, candidates: &mut [Candidate]) {
    let cited = context.cited();
    let unused = candidates
        .iter_mut()
        .filter(|one| !cited.contains(&one.found.id));
    for candidate in unused.filter(|one| one.is_kept()) {
        candidate.keep("condense", UNUSED);
    }
}

/// The chunks themselves, best first, each cited, as far as they fit into so many tokens. What does
/// not fit is dropped.
pub fn chunks_instead(
    tools: &Tools<'_>,
    candidates: &mut [Candidate],
    most_tokens: usize,
) -> CondensedContext {
    fit(
        candidates,
        "condense",
        OVER_CEILING,
        Budget::in_order(most_tokens),
        |one| tools.counter.count(&one.found.text) + FRAME_TOKENS,
    );

    let facts = (1..).zip(kept(candidates)).map(|(number, one)| CitedFact {
        id: format!("F{number}"),
        text: one.found.text.trim().to_owned(),
        citations: vec![one.found.id],
        places: vec![CitedPlace {
            chunk_id: one.found.id,
            source_id: one.found.source_id.clone(),
            path: one.found.path.clone(),
            version: one.found.source_version,
            heading: one.found.heading.clone(),
        }],
        conflict: None,
    });
    CondensedContext {
        facts: facts.collect(),
        ..CondensedContext::default()
    }
}

/// Keeps so many facts, because the prompt is over its ceiling with more. A chunk that is not cited
/// any more is dropped.
pub fn shorten(context: &mut CondensedContext, candidates: &mut [Candidate], facts: usize) {
    let dropped = context.keep_facts(facts);
    let dropped: HashSet<i64> = dropped
        .into_iter()
        .flat_map(|fact| fact.citations)
        .collect();

    let cited = context.cited();
    for candidate in candidates {
        let id = candidate.found.id;
        if dropped.contains(&id) && !cited.contains(&id) {
            candidate.drop("condense", OVER_CEILING);
        }
    }
}
