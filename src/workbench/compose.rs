//! Composes a prompt: the shaper states what the task asks for, files are injected, one pass finds
//! and condenses facts, the shaper audits the headers, a change of scope allows one more pass, and
//! the builder puts the blocks into their order.

mod finding;

use std::sync::Arc;
use std::time::Instant;

use memoir_text::tokens::TokenCounter;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::builder::{self, Block, Parts};
use super::ceiling::PromptEstimate;
use super::condenser::{self, CondensedContext};
use super::eligibility::{self, Pool};
use super::files::{self, InjectedFile};
use super::history::{self, History, ThreadOf};
use super::input::ComposeInput;
use super::pass::PassResult;
use super::runs::PromptRun;
use super::shaper::{self, AuditReport, Headers};
use super::stage::{BUILD, FILES, SHAPE, Tools, Trace, TraceEntry};
use super::target::{self, Compiled, Target};
use super::transparency::{self, Transparency};
use super::workspace::Workspace;
use super::{Workbench, WorkbenchError};
use crate::base::clock::milliseconds_since;
use crate::llm::Session;
use crate::llm::tasks::shape::{Anchors, Shaped};
use finding::Findings;

/// A composed prompt, with a reason for everything in it.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = ComposedPromptResponse)]
pub struct ComposedPrompt {
    pub run_id: String,
    /// The version of the workspace that was used.
    pub workspace_version: i64,
    /// The whole prompt.
    pub prompt: String,
    /// Its blocks, in the order of their authority; empty ones are omitted.
    pub blocks: Vec<Block>,
    /// The injected files.
    pub files: Vec<InjectedFile>,
    /// The condensed context: what the chunks say about the task, with citations.
    pub s_ctx: CondensedContext,
    /// Whether `s_ctx` contains the chunks themselves, because they were not condensed.
    pub s_ctx_fallback: bool,
    /// How often retrieval ran again after a change of scope: 0 or 1.
    pub reruns: u8,
    /// Whether the result of the first pass is used, because the second one found nothing usable.
    pub reverted: bool,
    pub headers: Headers,
    pub audit: AuditReport,
    pub transparency: Transparency,
    pub estimate: PromptEstimate,
    /// The stages in the order in which they ran.
    pub trace: Vec<TraceEntry>,
    pub target: Target,
    /// The system prompt, for targets that have a separate one; null for the others.
    pub system: Option<Value>,
    /// The messages for the target; null for `text`.
    pub messages: Option<Value>,
    /// Tokens before the task block. A provider's cache can reuse them as long as the inputs do not
    /// change.
    pub cache_prefix_tokens: usize,
    pub timings: PromptTimings,
}

/// Timings in milliseconds.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub struct PromptTimings {
    pub total_ms: f64,
    /// Time taken by models.
    pub provider_ms: f64,
    /// All other time.
    pub own_ms: f64,
}

impl PromptTimings {
    /// The time since a run began.
    fn since(begun: Instant, session: &Session) -> Self {
        let provider_ms: f64 = session.calls().iter().map(|call| call.latency_ms).sum();
        let total_ms = milliseconds_since(begun);
        Self {
            total_ms,
            provider_ms,
            own_ms: (total_ms - provider_ms).max(0.0),
        }
    }
}

/// The parts of a prompt that is within its ceilings.
struct Built {
    headers: Headers,
    blocks: Vec<Block>,
    prompt: String,
    estimate: PromptEstimate,
    compiled: Compiled,
}

/// A run in progress.
struct Composing<'a> {
    tools: Tools<'a>,
    input: &'a ComposeInput,
    workspace: Workspace,
    files: Vec<InjectedFile>,
    history: History,
    /// The lines of the conversation in the prompt.
    spoken: Vec<String>,
    pool: Pool,
    anchors: Arc<Anchors>,
    trace: Trace<'a>,
    /// Tokens of the parts that do not depend on what is found.
    base_tokens: usize,
}

impl Workbench {
    /// Composes a prompt, unless the run is cancelled.
    ///
    /// # Errors
    /// [`WorkbenchError::Invalid`], [`WorkbenchError::OverCeiling`], [`WorkbenchError::Cancelled`],
    /// a source or thread that is not found, a cap, or the store's.
    pub async fn compose(
        &self,
        session: &Session,
        run: &PromptRun,
        input: &ComposeInput,
    ) -> Result<ComposedPrompt, WorkbenchError> {
        // The state of all stages together is too large for the caller's own future.
        run.unless_cancelled(Box::pin(self.compose_all(session, run, input)))
            .await
    }

    async fn compose_all(
        &self,
        session: &Session,
        run: &PromptRun,
        input: &ComposeInput,
    ) -> Result<ComposedPrompt, WorkbenchError> {
        let begun = Instant::now();
        let stored = self.workspaces.current(session.call()).await?;
        let workspace = input.effective(stored.workspace)?;
        if let Some(model) = &input.model {
            self.llm.check_model(model)?;
        }

        let model = self
            .llm
            .target_name(super::ceiling::SEND, input.model.as_deref())?;
        let tools = self.tools(session, Some(&model));
        let mut composing = Composing::prepare(tools, input, workspace).await?;
        let files_ms = begun.elapsed();
        let mut shaped = composing.shape().await?;
        composing.trace_files(files_ms);

        let mut findings = composing.find(&mut shaped).await?;
        composing.contradict(&mut findings.result).await?;
        let built = composing.build(&shaped, &mut findings.result)?;
        let used = composing.history.reused();
        self.conversation.count_uses(session.call(), &used).await;

        let (run_id, version) = (run.id.to_string(), stored.version);
        let timings = PromptTimings::since(begun, session);
        Ok(composing.finish(findings, built, run_id, version, timings))
    }

    pub(super) fn tools<'a>(&'a self, session: &'a Session, model: Option<&str>) -> Tools<'a> {
        Tools {
            store: &self.store,
            llm: &self.llm,
            search: &self.search,
            sources: &self.sources,
            conversation: &self.conversation,
            adapters: &self.adapters,
            session,
            counter: TokenCounter::for_model(model),
        }
    }
}

impl<'a> Composing<'a> {
    /// Reads everything that needs no model, and rejects a prompt that cannot fit.
    async fn prepare(
        tools: Tools<'a>,
        input: &'a ComposeInput,
        workspace: Workspace,
    ) -> Result<Self, WorkbenchError> {
        let (scope, off) = eligibility::check(input.scope(), &input.off_source_ids)?;
        let injected = if workspace.agents.files {
            let limits = files::Limits::of(&workspace);
            let owner = files::Owner {
                call: tools.call(),
                user_id: input.user_id.as_deref(),
            };
            files::inject(tools.sources, owner, &input.files, limits, tools.counter).await?
        } else {
            Vec::new()
        };
        let mut composing = Self {
            trace: Trace::new(tools.session),
            pool: eligibility::pool(&tools, scope, off).await?,
            tools,
            input,
            workspace,
            files: injected,
            history: History::default(),
            spoken: Vec::new(),
            anchors: Arc::default(),
            base_tokens: 0,
        };

        composing.check_base()?;
        composing.read_history().await?;
        composing.check_base()?;
        composing.anchors = Arc::new(Anchors {
            task: input.task.as_str().into(),
            project_memory: composing.workspace.project_memory.as_str().into(),
            pinned: composing
                .history
                .pinned
                .as_ref()
                .map(|one| one.content.as_str().into()),
            window: History::spoken(&composing.history.window),
            episodes: History::spoken(&composing.history.episodes),
            files: composing
                .files
                .iter()
                .map(|file| file.path.clone())
                .collect(),
        });
        Ok(composing)
    }

    async fn read_history(&mut self) -> Result<(), WorkbenchError> {
        let Some(thread_id) = self.input.thread_id.as_deref() else {
            return Ok(());
        };
        if !self.workspace.agents.memory {
            return Ok(());
        }

        let thread = ThreadOf {
            thread_id,
            user_id: self.input.user_id.as_deref(),
            task: &self.input.task,
            locked: self.input.lock,
            timeout_ms: self.workspace.timeouts.retrieval_ms,
            shown: self.workspace.settings.include_recent_history,
        };
        let settings = &self.workspace.settings;
        self.history =
            history::read(&self.tools, &thread, settings, &self.pool, &self.files).await?;

        // What was said leaves half of the room to what is found.
        let ceiling = usize::try_from(self.workspace.ceilings.tokens).unwrap_or(usize::MAX);
        let room = ceiling.saturating_sub(self.base_tokens) / 2;
        self.history.fit(room, self.tools.counter);
        self.speak();
        Ok(())
    }

    /// Renders the conversation.
    fn speak(&mut self) {
        if self.workspace.settings.include_recent_history {
            self.spoken = self.history.lines();
        }
    }

    /// Rejects a prompt that is over a ceiling even if nothing is found, before any model is
    /// called.
    fn check_base(&mut self) -> Result<(), WorkbenchError> {
        let (context, headers) = (CondensedContext::default(), Headers::default());
        let blocks = builder::build(&self.parts(&context, &headers));
        self.base_tokens = self.tools.counter.count(&builder::text(&blocks));
        self.estimate(self.base_tokens)?.check()?;
        Ok(())
    }

    fn estimate(&self, tokens: usize) -> Result<PromptEstimate, WorkbenchError> {
        let model = self.input.model.as_deref();
        let counted = (tokens, self.tools.counter.is_exact());
        PromptEstimate::of(self.tools.llm, model, counted, &self.workspace.ceilings)
    }

    fn parts<'p>(&'p self, context: &'p CondensedContext, headers: &'p Headers) -> Parts<'p> {
        Parts {
            hard_rules: &self.workspace.hard_rules,
            project_memory: &self.workspace.project_memory,
            files: &self.files,
            context,
            history: &self.spoken,
            headers,
            mode: self.input.mode.as_deref(),
            task: &self.input.task,
        }
    }

    /// The first pass of the shaper (A2).
    async fn shape(&mut self) -> Result<Shaped, WorkbenchError> {
        if !self.workspace.agents.shape {
            self.trace.skipped(SHAPE, 1, "switched off");
            return Ok(Shaped::default());
        }

        let limit_ms = self.workspace.timeouts.condense_ms;
        let work = Box::pin(shaper::shape(&self.tools, &self.anchors));
        let fallback = |_: &str| (Shaped::default(), "no headers");
        self.trace.run(SHAPE, 1, limit_ms, work, fallback).await
    }

    fn trace_files(&mut self, took: std::time::Duration) {
        if !self.workspace.agents.files {
            self.trace.skipped(FILES, 1, "switched off");
            return;
        }

        let begun = Instant::now()
            .checked_sub(took)
            .unwrap_or_else(Instant::now);
        let kind = if self.input.lock {
            "exact file lock"
        } else {
            "files"
        };
        self.trace.ran(FILES, 1, begun, kind.to_owned(), None);
    }

    /// The blocks of the prompt, its text and its tokens. Contradicted facts and then the last ones
    /// give way if it is over the ceiling; the rules, files and task of the user do not.
    fn fit(&self, found: &mut PassResult, headers: &Headers) -> (Vec<Block>, String, usize) {
        let ceiling = usize::try_from(self.workspace.ceilings.tokens).unwrap_or(usize::MAX);
        let put_together = |context: &CondensedContext| {
            let blocks = builder::build(&self.parts(context, headers));
            let prompt = builder::text(&blocks);
            let tokens = self.tools.counter.count(&prompt);
            (blocks, prompt, tokens)
        };

        let all = found.context.facts.len();
        let whole = put_together(&found.context);
        if whole.2 <= ceiling || all == 0 {
            return whole;
        }

        // The most facts with which the prompt fits; none if it never does.
        let (mut fits, mut exceeds) = (0, all);
        while exceeds - fits > 1 {
            let middle = usize::midpoint(fits, exceeds);
            let mut context = found.context.clone();
            context.keep_facts(middle);
            if put_together(&context).2 <= ceiling {
                fits = middle;
            } else {
                exceeds = middle;
            }
        }

        condenser::shorten(&mut found.context, &mut found.candidates, fits);
        let left_out = all - fits;
        found.notes.push(format!(
            "{left_out} of {all} facts were left out: over the token ceiling"
        ));
        put_together(&found.context)
    }

    /// The parts of the prompt, unless it is over a ceiling.
    fn build(&mut self, shaped: &Shaped, found: &mut PassResult) -> Result<Built, WorkbenchError> {
        let begun = Instant::now();
        let headers = Headers::from(shaped);
        let (blocks, prompt, tokens) = self.fit(found, &headers);
        let estimate = self.estimate(tokens)?.check()?;
        let compiled = target::compile(&blocks, self.input.target, self.tools.counter);
        let adapter = "fixed order".to_owned();
        self.trace.ran(BUILD, 1, begun, adapter, None);
        Ok(Built {
            headers,
            blocks,
            prompt,
            estimate,
            compiled,
        })
    }

    /// The prompt with a reason for everything in it.
    fn finish(
        mut self,
        findings: Findings,
        built: Built,
        run_id: String,
        workspace_version: i64,
        timings: PromptTimings,
    ) -> ComposedPrompt {
        let found = findings.result;
        let mut notes = found.notes;
        notes.extend(self.history.note);
        notes.extend(transparency::neutralised(&found.candidates));
        let mut conflicts = found.conflicts;
        conflicts.append(&mut self.history.conflicts);
        let cited = found.context.cited();
        ComposedPrompt {
            run_id,
            workspace_version,
            prompt: built.prompt,
            blocks: built.blocks,
            files: self.files,
            transparency: Transparency {
                candidates: transparency::views(&found.candidates, &cited),
                history: self.history.items,
                conflicts,
                notes,
            },
            s_ctx: found.context,
            s_ctx_fallback: found.is_fallback,
            reruns: findings.reruns,
            reverted: findings.reverted,
            headers: built.headers,
            audit: findings.report,
            estimate: built.estimate,
            trace: self.trace.entries,
            target: self.input.target,
            system: built.compiled.system,
            messages: built.compiled.messages,
            cache_prefix_tokens: built.compiled.cache_prefix_tokens,
            timings,
        }
    }
}
