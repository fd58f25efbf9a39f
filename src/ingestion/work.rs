//! The job of an ingestion, from the text to its rows. Running it again from any point repeats no
//! call and no write.

mod windows;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _};
use memoir_text::text::char_count;
use serde::Deserialize as _;
use serde_json::json;
use tokio::sync::Semaphore;

use super::IngestionSettings;
use super::cut_text::CutText;
use super::embedding::Embedding;
use super::filing_permit::FilingPermit;
use super::helper::{HelperOutcome, HelperStep};
use super::request::Order;
use super::result;
use super::shared_calls::{self, BatchMember, RequestBatch, SharedCalls};
use super::write_error::WriteError;
use super::writing::{Draft, SearchableChunks, Writer, Written, part_name};
use crate::base::fail_point::fail_point;
use crate::base::ids::SourceId;
use crate::base::problems;
use crate::categories::options::OptionCache;
use crate::categories::samples::SampleCache;
use crate::categories::tree_cache::TreeCache;
use crate::config::ingestion::FilingMode;
use crate::contextual_helpers::ContextualHelpers;
use crate::jobs::{Failure, JobContext, JobError, Jobs, Outcome, Work};
use crate::llm::{Llm, Session};
use crate::model::chunk::TAXONOMY;
use crate::model::source_version::SourceVersion;
use crate::search::Search;
use crate::sources::Sources;
use crate::store::Store;

/// The name of this kind of job.
pub const KIND: &str = "ingestion";
/// Chunks written after which PostgreSQL's statistics are updated again.
const ANALYZE_AFTER: i64 = 2000;

/// Runs ingestions.
#[derive(Clone)]
pub struct IngestionWork {
    pub(super) store: Store,
    pub(super) jobs: Jobs,
    pub(super) llm: Llm,
    pub(super) search: Search,
    pub(super) sources: Sources,
    pub(super) helpers: ContextualHelpers,
    pub(super) settings: Arc<IngestionSettings>,
    pub(super) samples: SampleCache,
    /// The hierarchy, if limits count per level.
    pub(super) trees: TreeCache,
    /// The children of each parent, if limits count per parent.
    pub(super) options: OptionCache,
    /// Limits how many texts are cut at once: one per core.
    pub(super) cutting_permits: Arc<Semaphore>,
    /// Limits how many texts the embedded model files at once.
    pub(super) filing_permits: Arc<Semaphore>,
    pub(super) unanalyzed: Arc<AtomicI64>,
    pub(super) shared_calls: SharedCalls,
}

impl Work for IngestionWork {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn run(&self, context: JobContext) -> BoxFuture<'static, Result<Outcome, JobError>> {
        let work = self.clone();
        let run = async move {
            let outcome = work.ingest(&context).await;
            if outcome.is_err() {
                // The calls of a failed job can be seen with its end, too.
                let _ = work.llm.flush().await;
            }

            outcome
        };
        run.boxed()
    }
}

impl IngestionWork {
    async fn ingest(&self, context: &JobContext) -> Result<Outcome, JobError> {
        let order = Arc::new(Order::deserialize(context.take_request()).map_err(|error| {
            JobError::fail(Failure::new(problems::INVALID_REQUEST, error.to_string()))
        })?);

        if order.nul_removed > 0 {
            let message = format!(
                "{} U+0000 characters were removed from the text",
                order.nul_removed
            );
            context.warn("nul_removed", &message);
        }

        // Before anything takes time, so that the others wait for it.
        let batch = self.batch(context, &order);
        let member = batch.as_ref().map(|batch| batch.enter());
        let session = self
            .llm
            .job_session(context.call_now(), context.id(), context.is_first_run())
            .await?
            .with_model(order.model.clone());
        let session = self.llm.keep_free_calls(session);

        context.report("chunking", json!({"characters": char_count(&order.text)}));
        let model = order
            .model
            .clone()
            .unwrap_or_else(|| self.llm.model_of("classify").to_owned());

        let outlined = self.llm.files_by_samples(&session);
        let taxonomy = &self.settings.taxonomy;
        // Concurrent texts are cut one after another: the first is filed and written while the
        // others are cut.
        let permit = self
            .cutting_permits
            .acquire()
            .await
            .map_err(|_| JobError::Interrupted)?;

        let job = context.id().to_string();
        let document = CutText::cut(&order, model, taxonomy, job, outlined).await?;
        let same = self.same_content(context, &order, &document).await?;
        if let Some(version) = self.unchanged(context, &order, same.as_ref()).await? {
            return Ok(Outcome::Done(result::unchanged(version)));
        }

        let short = document.short_chunk(order.chunk_min_tokens);
        if let Some(message) = short.filter(|_| order.is_filed() && same.is_none()) {
            context.warn("below_min_tokens", &message);
        }

        let searched = match &same {
            None => self.searched(context, &session, &order, &document).await?,
            Some(_) => None,
        };

        drop(permit);
        // Only filing needs a helper.
        let needless = same.is_some() || !order.is_filed();
        let is_short = document.chunks.len() <= shared_calls::MAX_CHUNKS;
        let by_one_call = is_short && self.files_by_one_call(&session, &order);
        let is_brief = by_one_call && document.is_brief();
        let member =
            member.filter(|member| is_short && !needless && (is_brief || !member.lingers()));
        let (helper, store_helper) = match self
            .describing(context, member.as_ref())
            .describe(&session, &order, &document, (needless, is_brief))
            .await?
        {
            HelperOutcome::By(helper, new) => (Some(helper), new),
            HelperOutcome::NotNeeded => (None, false),
            HelperOutcome::Awaited => return Ok(Outcome::AwaitInput(json!({"step": "fields"}))),
        };

        fail_point!("after_helper");
        let mut draft = Draft {
            order: &order,
            facts: document.facts.clone(),
            words: document.words.clone(),
            helper_words: helper
                .as_ref()
                .map_or_else(String::new, |helper| helper.text.clone()),
            chunks: document.chunks(&order.text),
            paths: Vec::new(),
            subjects: Vec::new(),
            moves: Vec::new(),
            helper: helper.clone().filter(|_| store_helper),
            searched,
            same,
        };

        if let Some(searched) = &mut draft.searched {
            self.embed_outside(context, &session, (&order, &document), searched)
                .await?;
        }

        let written = if draft.same.is_some() || !order.is_filed() {
            self.write_last(context, &session, &draft, 0..0, (None, None))
                .await
                .map_err(|e| e.into_job_error(context.attempt()))?
        } else {
            let helper = helper
                .map(|helper| helper.text)
                .filter(|text| !text.is_empty())
                .map(Arc::from);
            self.file_and_write(
                context,
                (&session, member.as_ref()),
                (&document, by_one_call),
                &mut draft,
                helper,
            )
            .await?
        };

        self.analyze(written.chunks + written.searched).await;
        Ok(Outcome::Finished)
    }

    /// The latest version of the source, if it has this content and only a change is wanted.
    async fn unchanged(
        &self,
        context: &JobContext,
        order: &Order,
        same: Option<&SourceVersion>,
    ) -> Result<Option<i64>, JobError> {
        let Some(same) = same.filter(|_| order.if_changed) else {
            return Ok(None);
        };

        let id = SourceId::from_stored(order.source_id.clone());
        let newest = self.store.find_newest_version(context.space(), &id).await?;
        let shares = |newest: &SourceVersion| {
            newest.id == same.id || newest.content_version_id == Some(same.id)
        };
        Ok(newest.filter(shares).map(|newest| newest.version))
    }

    /// The earlier version of the source with the same content, unless it is to be filed again.
    async fn same_content(
        &self,
        context: &JobContext,
        order: &Order,
        document: &CutText,
    ) -> Result<Option<SourceVersion>, JobError> {
        // Once parts are written, the job continues with them.
        if order.force || context.saved(&part_name(0)).is_some() {
            return Ok(None);
        }

        let id = SourceId::from_stored(order.source_id.clone());
        let facts = &document.facts;
        let profile = if order.is_filed() {
            Some(TAXONOMY)
        } else {
            order.searched_profile()
        };

        let (sha256, key) = (&facts.sha256, &facts.settings_key);
        Ok(self
            .store
            .find_same_content(context.space(), &id, sha256, key, profile)
            .await?)
    }

    /// The terms and vectors that are computed locally.
    async fn searched<'d>(
        &self,
        context: &JobContext,
        session: &Session,
        order: &'d Order,
        document: &'d CutText,
    ) -> Result<Option<SearchableChunks<'d>>, JobError> {
        let Some(profile) = order.searched_profile() else {
            return Ok(None);
        };
        let profile = if document.is_shared {
            TAXONOMY
        } else {
            profile
        };
        let texts = document.searched_texts(order);
        let headings = document.searched_headings(order);
        let model = if order.wants_vectors() {
            Some(self.search.model_of(context.space()).await?)
        } else {
            None
        };

        let mut prepared = self.search.prepare(texts.clone(), headings).await?;
        if let Some(model) = model.as_ref().filter(|model| self.llm.embeds_here(model)) {
            prepared = prepared.with_vectors(
                model,
                &self
                    .embedding(context)
                    .embed(session, model, &texts)
                    .await?,
            );
        }

        Ok(Some(SearchableChunks {
            profile,
            model,
            chunks: document.overlapping_chunks(&order.text),
            prepared,
        }))
    }

    /// Adds the vectors of an external model. This follows the helper, so that a user who cancels
    /// there has paid for nothing else.
    async fn embed_outside(
        &self,
        context: &JobContext,
        session: &Session,
        (order, document): (&Order, &CutText),
        searched: &mut SearchableChunks<'_>,
    ) -> Result<(), JobError> {
        if let Some(model) = searched
            .model
            .as_ref()
            .filter(|model| !self.llm.embeds_here(model))
        {
            let texts = document.searched_texts(order);
            let vectors = self
                .embedding(context)
                .embed(session, model, &texts)
                .await?;

            searched.prepared =
                std::mem::take(&mut searched.prepared).with_vectors(model, &vectors);
        }

        Ok(())
    }

    fn embedding<'w>(&'w self, context: &'w JobContext) -> Embedding<'w> {
        Embedding {
            search: &self.search,
            llm: &self.llm,
            context,
        }
    }

    /// Everything that is left, and the end of the job.
    async fn write_last(
        &self,
        context: &JobContext,
        session: &Session,
        draft: &Draft<'_>,
        range: Range<usize>,
        (so_far, permit): (Option<&Written>, Option<&FilingPermit>),
    ) -> Result<Written, WriteError> {
        let calls = session.count_kept();
        if session.has_listed() {
            // With the end of the job, its calls can be seen.
            self.llm.flush().await.map_err(JobError::from)?;
        }

        let shared = draft.same.as_ref().map(|same| same.version);
        let end = |written: &Written| result::written(written, session.spent(), shared);
        let mut writer = self.writer(context, session, permit);
        writer.calls = &calls;
        let written = writer.write(draft, range, so_far, Some(&end)).await;
        written.inspect(|_| session.forget_kept())
    }

    /// Whether one call may file a short text. The embedded model has nothing to save.
    fn files_by_one_call(&self, session: &Session, order: &Order) -> bool {
        order.filing == FilingMode::Auto && !self.llm.files_for_free(session)
    }

    /// Where a text may share model calls: with others of its request and user, or with those of its
    /// space, user and key that come while it lingers.
    fn batch(&self, context: &JobContext, order: &Order) -> Option<Arc<RequestBatch>> {
        let gains = self.llm.gains_from_shared_calls(order.model.as_deref());
        if !order.is_filed() || !gains {
            return None;
        }

        let (calls, most) = (&self.shared_calls, self.settings.max_concurrency);
        let model = order.model.as_deref().unwrap_or_default();
        if let Some(name) = &order.together {
            let name = json!([name, order.user_id, model]);
            return Some(calls.batch(&name.to_string(), None, most));
        }

        let linger = Duration::from_millis(self.settings.ingestion.linger);
        let may_linger =
            order.may_linger(&self.settings.ingestion) && self.llm.may_pay_for_others();
        may_linger.then(|| {
            let key = context.call_now().budget.map(|budget| budget.key_id);
            let name = json!([context.space().as_str(), order.user_id, key, model]);
            calls.batch(&name.to_string(), Some(linger), most)
        })
    }

    fn describing<'w>(
        &'w self,
        context: &'w JobContext,
        member: Option<&'w BatchMember<'w>>,
    ) -> HelperStep<'w> {
        HelperStep {
            llm: &self.llm,
            member,
            helpers: &self.helpers,
            context,
        }
    }

    fn writer<'w>(
        &'w self,
        context: &'w JobContext,
        session: &Session,
        permit: Option<&'w FilingPermit>,
    ) -> Writer<'w> {
        Writer {
            permit,
            calls: &[],
            named_by: self.llm.names_categories_as(session),
            store: &self.store,
            jobs: &self.jobs,
            sources: &self.sources,
            taxonomy: &self.settings.taxonomy,
            context,
        }
    }

    /// Without statistics on new rows, PostgreSQL plans badly.
    async fn analyze(&self, written: i64) {
        let before = self.unanalyzed.fetch_add(written, Ordering::Relaxed);
        if before + written < ANALYZE_AFTER {
            return;
        }

        self.unanalyzed.store(0, Ordering::Relaxed);
        if let Err(error) = self.store.analyze().await {
            tracing::warn!(%error, "cannot analyse the tables");
        }
    }
}
