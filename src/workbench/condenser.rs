//! The condenser (A4): turns chunks into facts, constraints and open issues. A fact without a
//! citation never leaves this file; if the model's answer cannot be used, the chunks themselves are
//! used instead.

use std::collections::HashSet;

use serde::Serialize;
use utoipa::ToSchema;

use super::WorkbenchError;
use super::candidate::{Candidate, judged};
use super::safety::neutralise;
use super::stage::Tools;
use crate::llm::tasks::condense::{Condense, Condensed};
use crate::retrieval::fit::{Budget, fit};
use crate::retrieval::select::kept;

/// Why a chunk is dropped that does not fit.
const OVER_CEILING: &str = "over the token ceiling";
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
}

/// A constraint and the chunks that state it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct CitedConstraint {
    pub text: String,
    /// Ids of chunks.
    pub citations: Vec<i64>,
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
        let facts = self.facts.iter().flat_map(|fact| &fact.citations);
        let constraints = self.constraints.iter().flat_map(|one| &one.citations);
        facts.chain(constraints).copied().collect()
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
        chunks: judged(candidates),
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
    let safe = |text: &str| {
        let safe = neutralise(text).text;
        safe.split_whitespace().collect::<Vec<_>>().join(" ")
    };

    let facts = condensed.facts.into_iter().map(|fact| CitedFact {
        id: fact.id.0,
        text: safe(&fact.text),
        citations: cited(fact.citations),
    });
    let constraints = condensed
        .constraints
        .into_iter()
        .map(|one| CitedConstraint {
            text: safe(&one.text),
            citations: cited(one.citations),
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
    });
    CondensedContext {
        facts: facts.collect(),
        ..CondensedContext::default()
    }
}

/// Keeps so many facts, because the prompt is over its ceiling with more. A chunk that is not cited
/// any more is dropped.
pub fn shorten(context: &mut CondensedContext, candidates: &mut [Candidate], facts: usize) {
    let dropped = context.facts.split_off(facts.min(context.facts.len()));
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
