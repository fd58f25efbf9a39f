//! What is found for a task: one pass over what is stored, the audit of the headers, a second pass if the
//! scope has changed, and the contradictions in what was found.

use super::Composing;
use crate::llm::tasks::shape::Shaped;
use crate::workbench::WorkbenchError;
use crate::workbench::condenser::CondensedContext;
use crate::workbench::contradictions::{self, Known};
use crate::workbench::pass::{Pass, PassResult};
use crate::workbench::shaper::{self, AuditReport};
use crate::workbench::stage::{AUDIT, CONDENSE, NLI, RERANK, RETRIEVE};
use crate::workbench::transparency;

/// Tokens that headers may take.
const HEADER_TOKENS: usize = 400;

/// What was found for the task.
#[derive(Default)]
pub(super) struct Findings {
    /// The pass that counts.
    pub result: PassResult,
    pub report: AuditReport,
    pub reruns: u8,
    /// Whether the first pass counts although there was a second one.
    pub reverted: bool,
}

impl Composing<'_> {
    /// Everything between the files and the builder.
    pub(super) async fn find(&mut self, shaped: &mut Shaped) -> Result<Findings, WorkbenchError> {
        if self.input.lock {
            for stage in [RETRIEVE, RERANK, NLI, CONDENSE, AUDIT] {
                self.trace.skipped(stage, 1, "exact file lock");
            }
            return Ok(Findings::default());
        }

        let task = self.input.task.clone();
        let first = self.pass(1, &task).await?;
        let report = self.audit(shaped, &first.context).await?;
        if !report.scope_changed || !self.workspace.agents.retrieve {
            return Ok(Findings {
                result: first,
                report,
                ..Findings::default()
            });
        }

        let query = [&task, &shaped.intent, &shaped.domain, &shaped.deliverable];
        let query = query.into_iter().chain(&shaped.artifacts).cloned();
        let query = query.collect::<Vec<_>>().join("\n");
        let second = self.pass(2, &query).await?;
        let reverted = second.is_fallback || second.context.is_empty();
        let (mut counting, other) = if reverted {
            (first, second)
        } else {
            (second, first)
        };

        let why = if reverted {
            counting
                .notes
                .push("the second pass found nothing usable, so the first one counts".to_owned());
            "found only by the second pass, which was reverted"
        } else {
            "not found again after the change of scope"
        };
        counting.notes.extend(other.notes);
        counting.candidates = transparency::merged(counting.candidates, other.candidates, why);
        Ok(Findings {
            result: counting,
            report,
            reruns: 1,
            reverted,
        })
    }

    async fn pass(&mut self, number: u8, query: &str) -> Result<PassResult, WorkbenchError> {
        let ceiling = usize::try_from(self.workspace.ceilings.tokens).unwrap_or(usize::MAX);
        let pass = Pass {
            tools: &self.tools,
            workspace: &self.workspace,
            pool: &self.pool,
            files: &self.files,
            statements: &self.history.statements(),
            kind: self.input.search_type.kind(),
            number,
            max_tokens: ceiling.saturating_sub(self.base_tokens + HEADER_TOKENS),
        };
        pass.run(query, &mut self.trace).await
    }

    /// The second pass of the shaper (A2): the audit.
    async fn audit(
        &mut self,
        shaped: &mut Shaped,
        context: &CondensedContext,
    ) -> Result<AuditReport, WorkbenchError> {
        if !self.workspace.agents.audit {
            self.trace.skipped(AUDIT, 1, "switched off");
            return Ok(AuditReport::default());
        }

        let limit_ms = self.workspace.timeouts.condense_ms;
        let work = Box::pin(shaper::audit(&self.tools, &self.anchors, shaped, context));
        let fallback = |_: &str| (None, "headers unchanged");
        let wanted = self.trace.run(AUDIT, 1, limit_ms, work, fallback).await?;
        Ok(wanted.map_or_else(AuditReport::default, |wanted| {
            shaper::apply(shaped, &wanted, context)
        }))
    }

    /// Compares what was found with the files, with itself and with the conversation.
    pub(super) async fn contradict(
        &mut self,
        found: &mut PassResult,
    ) -> Result<(), WorkbenchError> {
        let changed_at = contradictions::changed_at(&self.tools, &found.context).await?;
        let known = Known {
            files: &self.files,
            changed_at: &changed_at,
        };
        let conflicts = contradictions::find(&mut found.context, &mut self.history, &known);
        for conflict in conflicts {
            if !found.conflicts.iter().any(|one| one.is_between(&conflict)) {
                found.conflicts.push(conflict);
            }
        }
        self.speak();
        Ok(())
    }
}
