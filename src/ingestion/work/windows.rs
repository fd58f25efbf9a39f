//! Files a text window by window and writes it; once more if others have filled the hierarchy
//! meanwhile.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::json;

use super::IngestionWork;
use crate::base::fail_point::fail_point;
use crate::base::problems;
use crate::categories::samples::Samples;
use crate::categories::tree::{Node, Tree};
use crate::ingestion::cut_text::{CutText, count};
use crate::ingestion::filed_so_far::FiledSoFar;
use crate::ingestion::filing::{Calls, FiledText, Filing, FreeNaming};
use crate::ingestion::filing_permit::FilingPermit;
use crate::ingestion::helper::title;
use crate::ingestion::hierarchy::fullness;
use crate::ingestion::nearest_leaves::NearestLeaves;
use crate::ingestion::saver::Saver;
use crate::ingestion::second_look::SecondLook;
use crate::ingestion::shared_calls::BatchMember;
use crate::ingestion::write_error::WriteError;
use crate::ingestion::writing::{Draft, Written, part_name};
use crate::jobs::{Failure, JobContext, JobError};
use crate::llm::Session;
use crate::model::job::Record;

/// How often a source is filed again because others filled the hierarchy before it was written.
const MAX_REFILINGS: usize = 5;
/// From this many chunks on, a space whose chunks are nearly all in one leaf raises a warning.
const ONE_LEAF_AFTER: i64 = 30;
/// From this many chunks on, the write is reported before it begins: on SQLite nothing else can be
/// written until it ends.
const LONG_WRITE: usize = 200;

impl IngestionWork {
    /// Files every chunk and writes everything.
    pub(super) async fn file_and_write(
        &self,
        context: &JobContext,
        (session, member): (&Session, Option<&BatchMember<'_>>),
        (document, by_one_call): (&CutText, bool),
        draft: &mut Draft<'_>,
        helper: Option<Arc<str>>,
    ) -> Result<Written, JobError> {
        let (total, depth) = (document.chunks.len(), self.settings.taxonomy.depth());
        let saver = Saver::new(context, &self.llm, session, count(total), depth);
        let mut filing = Filing {
            llm: &self.llm,
            session,
            member: member.map(|member| (member, context.id())),
            saver: &saver,
            clock: context.clock(),
            taxonomy: &self.settings.taxonomy,
            free: None,
            nearest: by_one_call.then(|| self.nearest_leaves(context)),
            source: FiledText {
                text: &draft.order.text,
                chunks: &document.chunks,
                outline: &document.outline,
                helper,
                title: by_one_call
                    .then(|| title(draft.order))
                    .flatten()
                    .map(Arc::from),
                batch_size: draft.order.batch_size,
            },
            calls: Calls::new(self.settings.max_concurrency, next_seq(context)),
            tree: Mutex::new(Tree::new(self.settings.taxonomy.clone())),
            filed_so_far: None,
            forced: Mutex::default(),
        };

        for _ in 0..MAX_REFILINGS {
            // An earlier round may have left its place.
            let permit = if self.llm.files_for_free(session) {
                Some(FilingPermit::wait(&self.filing_permits).await?)
            } else {
                None
            };

            draft.paths.clear();
            draft.subjects.clear();
            saver.restart().await;
            let samples = self.reload(context, session, &mut filing).await?;
            let windows = Windows {
                work: self,
                context,
                session,
                filing: &filing,
                samples,
                total,
                permit: permit.as_ref(),
            };

            match windows.run(draft).await {
                Ok(Some(written)) => return Ok(written),
                Ok(None) => break,
                Err(WriteError::NoRoom) => {}
                Err(error) => return Err(error.into_job_error(context.attempt())),
            }
        }

        Err(JobError::retry(Failure::new(
            problems::CATEGORY_LIMIT,
            "other jobs repeatedly filled up the hierarchy before this source could be stored",
        )))
    }

    fn nearest_leaves(&self, context: &JobContext) -> NearestLeaves<'_> {
        NearestLeaves {
            search: &self.search,
            store: &self.store,
            call: context.call_now(),
            depth: usize::try_from(self.settings.taxonomy.depth()).unwrap_or(usize::MAX),
        }
    }

    /// Reads the hierarchy as it is now, and what its categories contain, if the model uses that.
    async fn reload(
        &self,
        context: &JobContext,
        session: &Session,
        filing: &mut Filing<'_>,
    ) -> Result<Option<Arc<Samples>>, JobError> {
        filing.tree = Mutex::new(self.load_tree(context).await?);
        filing.forced = Mutex::default();
        let names_freely = self.llm.names_freely(session);
        if !names_freely && !self.llm.files_by_samples(session) {
            return Ok(None);
        }

        let samples = self.samples.of(context.space()).await?;
        if names_freely {
            filing.free = Some(FreeNaming::new(samples));
            return Ok(None);
        }

        filing.filed_so_far = Some(Mutex::new(FiledSoFar::over(Arc::clone(&samples))));
        Ok(Some(samples))
    }
}

/// The number after the last batch that an earlier run saved.
fn next_seq(context: &JobContext) -> i64 {
    let saved = context.read_saved(|_, value| value["seq"].as_i64());
    saved.into_iter().max().unwrap_or(0) + 1
}

/// One try to file and write all windows of a text.
struct Windows<'w> {
    work: &'w IngestionWork,
    context: &'w JobContext,
    session: &'w Session,
    filing: &'w Filing<'w>,
    /// What categories contain, if the model uses it.
    samples: Option<Arc<Samples>>,
    /// All chunks of the text.
    total: usize,
    permit: Option<&'w FilingPermit>,
}

impl Windows<'_> {
    /// Returns what was written; `None` if there was nothing to write.
    async fn run(&self, draft: &mut Draft<'_>) -> Result<Option<Written>, WriteError> {
        let (mut written, mut leaves) = (None, Vec::with_capacity(self.total));
        for start in (0..self.total).step_by(draft.order.window) {
            let range = start..self.total.min(start + draft.order.window);
            let last = range.end == self.total;

            leaves.extend(self.file(range.clone(), draft).await?);
            fail_point!("after_filing");
            if last {
                self.warn_if_full(&leaves);
                self.leave_without_news();
                self.warn_if_one_leaf(&leaves).await?;
                self.look_again(&leaves, draft).await?;
            }

            self.write(draft, range, last, &mut written).await?;
        }

        Ok(written)
    }

    /// Chooses a leaf for each chunk of a window.
    async fn file(
        &self,
        range: Range<usize>,
        draft: &mut Draft<'_>,
    ) -> Result<Vec<Node>, JobError> {
        let load = |parents: Vec<Node>| self.load(parents);
        let leaves = self.filing.file(range.clone(), load).await?;

        let tree = self.tree();
        draft
            .paths
            .extend(leaves.iter().map(|leaf| tree.path(*leaf)));
        drop(tree);
        let subjects = range.map(|ordinal| self.filing.subject(ordinal));
        draft.subjects.extend(subjects);
        Ok(leaves)
    }

    /// Adds the children of parents to the tree; for a model that names freely, also their former
    /// names.
    async fn load(&self, parents: Vec<Node>) -> Result<(), JobError> {
        let (work, context, tree) = (self.work, self.context, &self.filing.tree);
        if let Some(free) = &self.filing.free {
            let ids: Vec<i64> = {
                let tree = self.tree();
                parents.iter().filter_map(|one| tree.stored(*one)).collect()
            };
            free.note_former(work.store.list_aliases_below(context.space(), &ids).await?);
        }

        work.load_children(context, tree, parents).await
    }

    /// If no category is created, the next text need not wait to see its categories.
    fn leave_without_news(&self) {
        if let Some(permit) = self.permit.filter(|_| !self.tree().has_new()) {
            permit.release();
        }
    }

    fn warn_if_full(&self, leaves: &[Node]) {
        let forced = self.filing.forced.lock();
        let forced = forced.unwrap_or_else(PoisonError::into_inner).clone();
        for (code, message) in fullness(&self.tree(), self.filing.taxonomy, leaves, &forced) {
            let space = self.context.space().as_str();
            // Without the message: it names a category, and names come from texts.
            tracing::warn!(job_id = %self.context.id(), space, code, "the hierarchy is full");
            self.context.warn(code, &message);
        }
    }

    /// A model that files nearly everything in one leaf is of little use. The embedded model files a
    /// store of one subject so on purpose.
    async fn warn_if_one_leaf(&self, leaves: &[Node]) -> Result<(), JobError> {
        if self.samples.is_some() {
            return Ok(());
        }

        let (store, depth) = (&self.work.store, self.filing.taxonomy.depth());
        let stored = store.find_largest_leaf(self.context.space(), depth).await?;
        let (before, id, most) = stored.unwrap_or_default();
        let mut own: BTreeMap<Node, i64> = BTreeMap::new();
        for leaf in leaves {
            *own.entry(*leaf).or_default() += 1;
        }

        let tree = self.tree();
        let largest = own
            .into_iter()
            .map(|(leaf, new)| {
                let same = tree.stored(leaf).is_some_and(|stored| stored == id);
                (new + if same { most } else { 0 }, leaf)
            })
            .max();

        let total = before + count(leaves.len());
        let Some((held, leaf)) = largest.filter(|_| total >= ONE_LEAF_AFTER) else {
            return Ok(());
        };
        if held * 10 >= total * 9 {
            let model = self.work.llm.model_of("classify");
            let path = tree.path(leaf).join(" / ");
            let message = format!(
                "{held} of {total} chunks are filed under one leaf, {path:?}, by the model {model:?}: \
                 use a more capable model for llm.models.classify, or shorten the contextual helper"
            );
            self.context.warn("one_leaf", &message);
        }

        Ok(())
    }

    /// Re-examines filed chunks of other sources.
    async fn look_again(&self, leaves: &[Node], draft: &mut Draft<'_>) -> Result<(), JobError> {
        // The categories of a source with an outline contain nothing else.
        let Some(samples) = self
            .samples
            .as_ref()
            .filter(|_| !self.filing.source.outline.has_own_category)
        else {
            return Ok(());
        };
        let looking = SecondLook {
            store: &self.work.store,
            llm: &self.work.llm,
            session: self.session,
            space: self.context.space(),
            taxonomy: self.filing.taxonomy,
        };

        draft.moves = looking.look(&self.filing.tree, leaves, samples).await?;
        Ok(())
    }

    /// Writes a filed window; a source that is written whole waits for the last one.
    async fn write(
        &self,
        draft: &Draft<'_>,
        range: Range<usize>,
        last: bool,
        written: &mut Option<Written>,
    ) -> Result<(), WriteError> {
        let (context, total) = (self.context, self.total);
        if last {
            context.report("committing", json!({"chunks": total}));
        }

        match (draft.order.whole, last) {
            (false, _) => self.write_batches(draft, range, last, written).await,
            (true, false) => Ok(()),
            (true, true) => {
                if total > LONG_WRITE && !context.write_reports().await {
                    return Err(JobError::LeaseLost.into());
                }

                let writing = self.work.write_last(
                    context,
                    self.session,
                    draft,
                    0..total,
                    (None, self.permit),
                );
                *written = Some(writing.await?);
                Ok(())
            }
        }
    }

    /// Writes each batch of a window separately; written batches stay.
    async fn write_batches(
        &self,
        draft: &Draft<'_>,
        window: Range<usize>,
        last: bool,
        written: &mut Option<Written>,
    ) -> Result<(), WriteError> {
        let context = self.context;
        for start in window.clone().step_by(draft.order.batch_size) {
            let range = start..window.end.min(start + draft.order.batch_size);
            let saved = context
                .saved(&part_name(start))
                .and_then(|saved| serde_json::from_value(saved).ok());
            if let Some(saved) = saved {
                *written = Some(saved);
                continue;
            }

            if last && range.end == window.end {
                *written = Some(
                    self.work
                        .write_last(
                            context,
                            self.session,
                            draft,
                            range,
                            (written.as_ref(), self.permit),
                        )
                        .await?,
                );
                continue;
            }

            let done = self
                .work
                .writer(context, self.session, None)
                .write(draft, range, written.as_ref(), None)
                .await?;

            context.remember(&Record::step(
                part_name(start),
                serde_json::to_value(&done).unwrap_or_default(),
            ));

            *written = Some(done);
        }
        Ok(())
    }

    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.filing
            .tree
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
