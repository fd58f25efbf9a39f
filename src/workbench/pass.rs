//! One pass of retriever, reranker, entailment gate and condenser. Each stage has a time limit and a
//! fallback, so that a pass always ends with a context, which may be empty.

use memoir_index::Kind;

use super::WorkbenchError;
use super::candidate::Candidate;
use super::condenser::{self, CondensedContext};
use super::conflict::Conflict;
use super::eligibility::Pool;
use super::entailment::{self, Labels};
use super::files::InjectedFile;
use super::history::Statement;
use super::reranker;
use super::retriever::{self, Wanted};
use super::stage::{CONDENSE, NLI, RERANK, RETRIEVE, StageName, Tools, Trace};
use super::workspace::Workspace;
use crate::retrieval::select::kept;

/// What a pass starts from.
pub struct Pass<'a> {
    pub tools: &'a Tools<'a>,
    pub workspace: &'a Workspace,
    pub pool: &'a Pool,
    pub files: &'a [InjectedFile],
    pub statements: &'a [Statement],
    pub kind: Kind,
    pub number: u8,
    /// Tokens that the context may take.
    pub max_tokens: usize,
}

/// What a pass has found.
#[derive(Debug, Default)]
pub struct PassResult {
    pub candidates: Vec<Candidate>,
    pub context: CondensedContext,
    /// Whether the chunks themselves are the context.
    pub is_fallback: bool,
    pub conflicts: Vec<Conflict>,
    pub notes: Vec<String>,
}

impl Pass<'_> {
    /// Runs the pass.
    ///
    /// # Errors
    /// Errors that no fallback should hide: a cap, an unknown model, the store's.
    pub async fn run(
        &self,
        query: &str,
        trace: &mut Trace<'_>,
    ) -> Result<PassResult, WorkbenchError> {
        let mut result = PassResult::default();
        self.retrieve(query, trace, &mut result).await?;

        let query = reranker::query_text(query);
        self.rerank(&query, trace, &mut result).await?;
        self.judge(&query, trace, &mut result).await?;
        self.condense(&query, trace, &mut result).await?;
        Ok(result)
    }

    async fn retrieve(
        &self,
        query: &str,
        trace: &mut Trace<'_>,
        result: &mut PassResult,
    ) -> Result<(), WorkbenchError> {
        if !self.workspace.agents.retrieve {
            trace.skipped(RETRIEVE, self.number, "switched off");
            return Ok(());
        }

        let wanted = Wanted {
            query,
            kind: self.kind,
            k: usize::try_from(self.workspace.settings.top_k).unwrap_or(usize::MAX),
            pass: self.number,
        };
        let work = Box::pin(retriever::retrieve(
            self.tools, &wanted, self.pool, self.files,
        ));
        let limit_ms = self.workspace.timeouts.retrieval_ms;
        let found = trace.run(RETRIEVE, self.number, limit_ms, work, |reason| {
            let note = format!("retrieval failed, so only ❖ FILES are used: {reason}");
            result.notes.push(note);
            (Vec::new(), "❖ FILES only")
        });
        result.candidates = found.await?;
        Ok(())
    }

    /// Whether a stage has nothing to do; if so, the trace says so.
    fn is_idle(
        &self,
        stage: StageName,
        on: bool,
        result: &PassResult,
        trace: &mut Trace<'_>,
    ) -> bool {
        let why = if !on {
            "switched off"
        } else if kept(&result.candidates).next().is_none() {
            "there are no chunks"
        } else {
            return false;
        };
        trace.skipped(stage, self.number, why);
        true
    }

    async fn rerank(
        &self,
        query: &str,
        trace: &mut Trace<'_>,
        result: &mut PassResult,
    ) -> Result<(), WorkbenchError> {
        if self.is_idle(RERANK, self.workspace.agents.rerank, result, trace) {
            return Ok(());
        }

        let work = Box::pin(reranker::rank(self.tools, query, &result.candidates));
        let limit_ms = self.workspace.timeouts.rerank_ms;
        let ranked = trace.run(RERANK, self.number, limit_ms, work, |reason| {
            let note = format!("the reranker failed, so the order of the search stays: {reason}");
            result.notes.push(note);
            (None, "order of the search")
        });
        if let Some(scores) = ranked.await? {
            reranker::reorder(&mut result.candidates, &scores);
        }
        Ok(())
    }

    async fn judge(
        &self,
        query: &str,
        trace: &mut Trace<'_>,
        result: &mut PassResult,
    ) -> Result<(), WorkbenchError> {
        if self.is_idle(NLI, self.workspace.agents.nli, result, trace) {
            return Ok(());
        }

        let statements = self.statements.to_vec();
        let statements =
            entailment::counter_evidence(self.tools, statements, &mut result.candidates).await?;
        let work = Box::pin(entailment::judge(
            self.tools,
            query,
            &statements,
            &result.candidates,
        ));
        let limit_ms = self.workspace.timeouts.nli_ms;
        let judged = trace.run(NLI, self.number, limit_ms, work, |reason| {
            let note = format!("the entailment gate failed, so it keeps every chunk: {reason}");
            result.notes.push(note);
            (Labels::new(), "lexical")
        });

        let labels = judged.await?;
        result.conflicts = entailment::decide(
            &mut result.candidates,
            &labels,
            self.workspace.settings.theta,
            &statements,
            self.files,
        );
        Ok(())
    }

    async fn condense(
        &self,
        query: &str,
        trace: &mut Trace<'_>,
        result: &mut PassResult,
    ) -> Result<(), WorkbenchError> {
        let on = self.workspace.agents.condense;
        if self.is_idle(CONDENSE, on, result, trace) {
            if !on && kept(&result.candidates).next().is_some() {
                self.use_chunks(result);
            }
            return Ok(());
        }

        let work = Box::pin(condenser::condense(self.tools, query, &result.candidates));
        let limit_ms = self.workspace.timeouts.condense_ms;
        let condensed = trace.run(CONDENSE, self.number, limit_ms, work, |reason| {
            let note = format!("the condenser failed, so the chunks are used: {reason}");
            result.notes.push(note);
            (None, "cited chunks")
        });
        match condensed.await? {
            Some(context) => {
                condenser::mark_unused(&context, &mut result.candidates);
                result.context = context;
            }
            None => self.use_chunks(result),
        }
        Ok(())
    }

    fn use_chunks(&self, result: &mut PassResult) {
        result.is_fallback = true;
        result.context =
            condenser::chunks_instead(self.tools, &mut result.candidates, self.max_tokens);
    }
}
