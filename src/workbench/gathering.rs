//! One pass of retriever, reranker, entailment gate and condenser. Each stage has a time limit and a
//! fallback, so that a pass always ends with a context, which may be empty.

use std::time::Instant;

use super::WorkbenchError;
use super::candidate::Candidate;
use super::condenser::{self, CondensedContext};
use super::eligibility::Pool;
use super::entailment::{self, Conflict, Verdicts};
use super::files::InjectedFile;
use super::history::Statement;
use super::reranker;
use super::retriever::{self, Retrieved, Wanted};
use super::stage::{CONDENSE, NLI, Outcome, RERANK, RETRIEVE, StageName, Tools, Trace, within};
use super::workspace::Workspace;
use crate::retrieval::select::kept;
use crate::search::Kind;

/// What a pass starts from.
pub struct Gathering<'a> {
    pub tools: &'a Tools<'a>,
    pub workspace: &'a Workspace,
    pub pool: &'a Pool,
    pub files: &'a [InjectedFile],
    pub statements: &'a [Statement],
    pub kind: Kind,
    pub pass: u8,
    /// Tokens that the context may take.
    pub room: usize,
}

/// What a pass has found.
#[derive(Debug, Default)]
pub struct Gathered {
    pub candidates: Vec<Candidate>,
    pub context: CondensedContext,
    /// Whether the chunks themselves are the context.
    pub is_fallback: bool,
    pub conflicts: Vec<Conflict>,
    pub notes: Vec<String>,
}

impl Gathering<'_> {
    /// Runs the pass.
    ///
    /// # Errors Errors that no fallback should hide: a cap, an unknown model, the store's.
    pub async fn run(&self, query: &str, trace: &mut Trace) -> Result<Gathered, WorkbenchError> {
        let mut gathered = Gathered::default();
        self.retrieve(query, trace, &mut gathered).await?;

        let query = reranker::query_text(query);
        self.rerank(&query, trace, &mut gathered).await?;
        self.judge(&query, trace, &mut gathered).await?;
        self.condense(&query, trace, &mut gathered).await?;
        Ok(gathered)
    }

    async fn retrieve(
        &self,
        query: &str,
        trace: &mut Trace,
        gathered: &mut Gathered,
    ) -> Result<(), WorkbenchError> {
        if !self.workspace.agents.retrieve {
            trace.skipped(RETRIEVE, self.pass, "switched off");
            return Ok(());
        }

        let begun = Instant::now();
        let wanted = Wanted {
            query,
            kind: self.kind,
            k: usize::try_from(self.workspace.settings.top_k).unwrap_or(usize::MAX),
            pass: self.pass,
        };
        let work = retriever::retrieve(self.tools, &wanted, self.pool, self.files);
        let outcome = match within(self.workspace.timeouts.retrieval_ms, work).await? {
            Ok(Retrieved { candidates, model }) => {
                Outcome::of(candidates, model.unwrap_or_else(|| "keywords".to_owned()))
            }
            Err(reason) => {
                gathered.notes.push(format!(
                    "retrieval failed, so only ❖ FILES are used: {reason}"
                ));
                Outcome::fallen_back(Vec::new(), "❖ FILES only", reason)
            }
        };
        gathered.candidates = trace.ran(RETRIEVE, self.pass, begun, outcome, self.tools.session);
        Ok(())
    }

    /// Whether a stage has nothing to do; if so, the trace says so.
    fn is_idle(&self, stage: StageName, on: bool, gathered: &Gathered, trace: &mut Trace) -> bool {
        let why = if !on {
            "switched off"
        } else if kept(&gathered.candidates).next().is_none() {
            "there are no chunks"
        } else {
            return false;
        };
        trace.skipped(stage, self.pass, why);
        true
    }

    async fn rerank(
        &self,
        query: &str,
        trace: &mut Trace,
        gathered: &mut Gathered,
    ) -> Result<(), WorkbenchError> {
        if self.is_idle(RERANK, self.workspace.agents.rerank, gathered, trace) {
            return Ok(());
        }

        let begun = Instant::now();
        let work = reranker::rank(self.tools, query, &gathered.candidates);
        let outcome = match within(self.workspace.timeouts.rerank_ms, work).await? {
            Ok(ranking) => reranker::reorder(&mut gathered.candidates, ranking),
            Err(reason) => {
                let note =
                    format!("the reranker failed, so the order of the search stays: {reason}");
                gathered.notes.push(note);
                Outcome::fallen_back((), "order of the search", reason)
            }
        };
        trace.ran(RERANK, self.pass, begun, outcome, self.tools.session);
        Ok(())
    }

    async fn judge(
        &self,
        query: &str,
        trace: &mut Trace,
        gathered: &mut Gathered,
    ) -> Result<(), WorkbenchError> {
        if self.is_idle(NLI, self.workspace.agents.nli, gathered, trace) {
            return Ok(());
        }

        let begun = Instant::now();
        let statements = self.statements.to_vec();
        let statements =
            entailment::counter_evidence(self.tools, statements, &mut gathered.candidates).await?;
        let work = entailment::judge(self.tools, query, &statements, &gathered.candidates);
        let outcome = match within(self.workspace.timeouts.nli_ms, work).await? {
            Ok(mut verdicts) => {
                let adapter = std::mem::take(&mut verdicts.adapter);
                Outcome::of(verdicts, adapter)
            }
            Err(reason) => {
                let note = format!("the entailment gate failed, so it keeps every chunk: {reason}");
                gathered.notes.push(note);
                Outcome::fallen_back(Verdicts::default(), "lexical", reason)
            }
        };

        let verdicts = trace.ran(NLI, self.pass, begun, outcome, self.tools.session);
        gathered.conflicts = entailment::decide(
            &mut gathered.candidates,
            &verdicts,
            self.workspace.settings.theta,
            &statements,
            self.files,
        );
        Ok(())
    }

    async fn condense(
        &self,
        query: &str,
        trace: &mut Trace,
        gathered: &mut Gathered,
    ) -> Result<(), WorkbenchError> {
        let on = self.workspace.agents.condense;
        if self.is_idle(CONDENSE, on, gathered, trace) {
            if !on && kept(&gathered.candidates).next().is_some() {
                self.use_chunks(gathered);
            }
            return Ok(());
        }

        let begun = Instant::now();
        let work = condenser::condense(self.tools, query, &gathered.candidates);
        let outcome = match within(self.workspace.timeouts.condense_ms, work).await? {
            Ok((context, adapter)) => {
                gathered.context = context;
                Outcome::of((), adapter)
            }
            Err(reason) => {
                let note = format!("the condenser failed, so the chunks are used: {reason}");
                gathered.notes.push(note);
                self.use_chunks(gathered);
                Outcome::fallen_back((), "cited chunks", reason)
            }
        };
        trace.ran(CONDENSE, self.pass, begun, outcome, self.tools.session);
        Ok(())
    }

    fn use_chunks(&self, gathered: &mut Gathered) {
        gathered.is_fallback = true;
        gathered.context =
            condenser::chunks_instead(self.tools, &mut gathered.candidates, self.room);
    }
}
