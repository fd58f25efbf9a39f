//! Writes a planned source in one short, fenced transaction: readers never see half of it, and a
//! failed write leaves nothing. With `transaction_scope: "batch"`, each batch of chunks is such a
//! transaction, including its search data; the version becomes current with the last one, so a
//! failed or cancelled job hides nothing.

mod balance;
mod chunks;
mod moves;
mod pins;
mod renames;
mod source;
mod words;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;

use super::filing_permit::FilingPermit;
use super::request::Order;
use super::write_error::{During, WriteError, held};
use crate::base::clock::Timestamp;
use crate::base::fail_point::fail_point;
use crate::categories::Taxonomy;
use crate::jobs::{Ended, JobContext, JobError, Jobs};
use crate::model::call::CallContext;
use crate::model::category::{LeafGrowth, NamedBy};
use crate::model::chunk::{Move, NewChunk};
use crate::model::contextual_helper::{HelperOrigin, NewHelper};
use crate::model::job::{Record, WRITTEN};
use crate::model::llm_call::LlmCall;
use crate::model::source::Source;
use crate::model::source_version::{SourceVersion, VersionFacts};
use crate::search::prepare::Prepared;
use crate::sources::Sources;
use crate::store::{NewVersion, Store, StoreError, Tx};
use balance::Growth;

/// Maximum chunks from which a text is put together when it is read.
const MAX_JOINED: usize = 100;

/// Everything to write.
pub struct Draft<'d> {
    pub order: &'d Order,
    pub facts: VersionFacts,
    /// What is said about the source: title, author, topic, note, provider.
    pub words: String,
    /// The text of its helper, or nothing.
    pub helper_words: String,
    /// Chunks in the order of the text, without their category.
    pub chunks: Vec<NewChunk<'d>>,
    /// The names from level 1 to the leaf of each planned chunk.
    pub paths: Vec<Vec<String>>,
    /// What each planned chunk is about, if the model said so.
    pub subjects: Vec<Option<Arc<str>>>,
    /// Chunks of other sources that move to another category.
    pub moves: Vec<Move>,
    /// A helper that is not stored yet.
    pub helper: Option<NewHelper>,
    /// An earlier version with the same content, whose chunks are shared.
    pub same: Option<SourceVersion>,
    /// What makes it searchable.
    pub searched: Option<SearchableChunks<'d>>,
}

impl Draft<'_> {
    /// Whether the text is stored elsewhere: with the version that has the same content, or as the
    /// filed chunks, which are written in the same transaction. A long text is stored twice, so
    /// that it can be read at once.
    fn shares_text(&self, whole: bool) -> bool {
        if self.same.is_some() {
            return true;
        }

        let joined = || self.chunks.iter().flat_map(|chunk| chunk.text.bytes());
        whole
            && self.order.is_filed()
            && self.chunks.len() <= MAX_JOINED
            && joined().eq(self.order.text.bytes())
    }
}

/// The chunks that searches find.
pub struct SearchableChunks<'d> {
    pub profile: &'static str,
    /// The model of their vectors, if they have any.
    pub model: Option<String>,
    /// Those that are not filed as well.
    pub chunks: Vec<NewChunk<'d>>,
    pub prepared: Prepared,
}

/// What was written of a source so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Written {
    pub source_id: String,
    pub version_id: i64,
    pub version: i64,
    pub chunks: i64,
    pub categories: i64,
    pub helper_version: Option<i64>,
    /// Whether a helper was generated that replaces an earlier one.
    pub helper_regenerated: bool,
    /// Chunks that are cut for search, including those that are filed as well.
    #[serde(default)]
    pub searched: i64,
    /// Chunks of other sources that moved to another category.
    #[serde(default)]
    pub moved: Vec<Move>,
    /// Categories that got another name.
    #[serde(default)]
    pub renamed: Vec<Renamed>,
}

/// A category that got another name.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Renamed {
    pub category_id: i64,
    pub from: String,
    pub to: String,
}

/// The result of the job, made of what was written.
pub type JobResult<'r> = dyn Fn(&Written) -> Value + Sync + 'r;

/// A part of a draft.
struct Part<'p> {
    /// Its chunks.
    range: Range<usize>,
    /// What the parts before it wrote.
    so_far: Option<&'p Written>,
    /// Only for the last part, which ends the job.
    result: Option<&'p JobResult<'p>>,
}

/// What the last part has to know to complete a version.
struct Completion {
    /// Whether parts of it were written before, each in a transaction of its own.
    in_parts: bool,
    /// Whether the source is new.
    is_new: bool,
    /// The chunks in each category, if known.
    counts: Option<BTreeMap<i64, i64>>,
}

impl Part<'_> {
    fn is_last(&self) -> bool {
        self.result.is_some()
    }
}

/// Writes parts of drafts.
pub struct Writer<'w> {
    pub store: &'w Store,
    pub jobs: &'w Jobs,
    pub sources: &'w Sources,
    pub taxonomy: &'w Taxonomy,
    pub context: &'w JobContext,
    /// The free calls of the job, which are written when it ends.
    pub calls: &'w [LlmCall],
    /// Who names the categories that are created.
    pub named_by: NamedBy,
    /// Left with the commit.
    pub permit: Option<&'w FilingPermit>,
}

impl Writer<'_> {
    /// Writes the chunks of a range, and what comes before and after them; the last part ends the
    /// job with a result.
    pub async fn write(
        &self,
        draft: &Draft<'_>,
        range: Range<usize>,
        so_far: Option<&Written>,
        result: Option<&JobResult<'_>>,
    ) -> Result<Written, WriteError> {
        let part = Part {
            range,
            so_far,
            result,
        };

        let ending = match result {
            Some(_) => Some(self.context.ending().await),
            None => None,
        };

        let written = self
            .store
            .retry_as("write_ingestion", || {
                self.write_once(draft, &part, ending.as_ref())
            })
            .await;

        let uncertain = matches!(
            &written,
            Err(WriteError::Store {
                error: StoreError::Uncertain { .. },
                ..
            })
        );

        if let (Err(_), false, Some(ending)) = (&written, uncertain, ending) {
            ending.give_back();
        }

        written
    }

    /// The transaction of a part.
    async fn write_once(
        &self,
        draft: &Draft<'_>,
        part: &Part<'_>,
        ending: Option<&Ended<'_>>,
    ) -> Result<Written, WriteError> {
        let (mut tx, source, mut written, call) = self.begin(draft, part).await?;
        let (source, is_new) = source;
        // Only now: from here until the commit, all writers of the space wait.
        self.lock_space(&mut tx, &call).await?;
        let mut counts = None;
        let mut growth = Growth::default();
        if draft.same.is_none() && draft.order.is_filed() {
            counts = Some(
                self.write_chunks(
                    &mut tx,
                    draft,
                    part.range.clone(),
                    (&mut written, &mut growth),
                    &call,
                )
                .await?,
            );
        }

        if draft.same.is_none() {
            self.write_searched(
                &mut tx,
                draft,
                &part.range,
                part.is_last(),
                &mut written,
                &call,
            )
            .await?;
        }

        if part.is_last() {
            self.write_words(&mut tx, draft, &source, &written, &call)
                .await?;
            let in_parts = part.so_far.is_some();
            let completion = Completion {
                in_parts,
                is_new,
                counts: counts.filter(|_| !in_parts),
            };
            let grown = self
                .complete(&mut tx, draft, &source, completion, &mut written, &call)
                .await?;

            // Last, so that the previous version of this source stays where it was.
            let others = self
                .move_others(&mut tx, draft, &mut written, &call)
                .await?;
            growth.note_leaves(&others, self.taxonomy);
            self.rename_grown(&mut tx, &grown, &mut written, &call)
                .await?;
            growth.note_leaves(&grown, self.taxonomy);
        }

        let queued = self.queue_balancing(&mut tx, &growth, &call).await?;

        fail_point!("in_transaction");
        match part.result.zip(ending) {
            Some((result, ending)) => {
                let ended = ending
                    .finish_about(&mut tx, &written.source_id, result(&written), self.calls)
                    .await;
                held(ended.during("end the job", "jobs")?)?;
            }
            None => self.mark(&mut tx, &part.range, &written).await?,
        }

        fail_point!("before_commit");
        let leave = || {
            if let (true, Some(permit)) = (part.is_last(), self.permit) {
                permit.release();
            }
        };
        let committed = tx.commit_and_then(leave).await;
        committed.during("commit", "chunks")?;
        if queued {
            self.jobs.announce();
        }
        fail_point!("after_commit");
        Ok(written)
    }

    /// Begins the transaction with the source: the one of the parts before, or a new version of it.
    /// Also returns whether the source is new.
    async fn begin(
        &self,
        draft: &Draft<'_>,
        part: &Part<'_>,
    ) -> Result<(Tx, (Source, bool), Written, CallContext), WriteError> {
        let mut call = self.context.call_now();
        if let Some(at) = draft.order.at {
            call.now = Timestamp::from_micros(at);
        }

        let name = match part.so_far {
            Some(_) => None,
            None => self.name(draft.order).await?,
        };

        let mut tx = self.store.begin().await.during("begin", "sources")?;
        let (source, written, call) = match part.so_far {
            Some(written) => (
                (self.held_source(&mut tx, written).await?, false),
                written.clone(),
                call,
            ),
            None => {
                self.write_head(&mut tx, draft, name, part.is_last(), &call)
                    .await?
            }
        };

        Ok((tx, source, written, call))
    }

    async fn lock_space(&self, tx: &mut Tx, call: &CallContext) -> Result<(), WriteError> {
        let space = &call.space;
        tx.lock_chunks(space)
            .await
            .during("lock the space", "counters")?;
        tx.settle_depth(space, self.taxonomy.depth(), call.now)
            .await
            .during("store the depth", "settings")
    }

    /// Records with the job that a part is written, in the same transaction.
    async fn mark(
        &self,
        tx: &mut Tx,
        range: &Range<usize>,
        written: &Written,
    ) -> Result<(), WriteError> {
        let record = Record::step(
            part_name(range.start),
            serde_json::to_value(written).unwrap_or_default(),
        );
        held(
            self.context
                .record_in(tx, record)
                .await
                .during("store the checkpoint", "job_checkpoints")?,
        )
    }

    /// The source and its new version, which is invisible until it is complete; and the call at
    /// the version's time.
    async fn write_head(
        &self,
        tx: &mut Tx,
        draft: &Draft<'_>,
        name: Option<String>,
        whole: bool,
        call: &CallContext,
    ) -> Result<((Source, bool), Written, CallContext), WriteError> {
        let space = &call.space;
        let (source, is_new) = self.source(tx, draft.order, name, call).await?;

        // After the lock of the source, which a deletion takes as well.
        if let Some(same) = &draft.same
            && !tx
                .has_source_version(space, same.id)
                .await
                .during("find the earlier version", "source_versions")?
        {
            // Deleted meanwhile: there is nothing left to share, and the next run files the text.
            return Err(WriteError::Job(JobError::Interrupted));
        }

        let (version, now) = if is_new {
            (1, call.now)
        } else {
            self.next_version(tx, &source.id, draft.order, call).await?
        };
        // The last version may be newer than this moment.
        let call = call.at(now);
        let new = NewVersion {
            source_id: &source.id,
            version,
            content: if draft.shares_text(whole) {
                ""
            } else {
                &draft.order.text
            },
            facts: &draft.facts,
            content_version_id: draft.same.as_ref().map(|same| same.id),
        };

        let added = if whole {
            tx.add_source_version(space, new, call.now).await
        } else {
            tx.begin_source_version(space, new, call.now).await
        };

        let version_id = added.during("add the version", "source_versions")?;
        let written = Written {
            source_id: source.id.to_string(),
            version_id,
            version,
            ..Written::default()
        };

        Ok(((source, is_new), written, call))
    }

    /// Makes the version current, unless a newer one exists, and adds its helper; the previous
    /// version no longer counts. Returns the leaves with new chunks.
    async fn complete(
        &self,
        tx: &mut Tx,
        draft: &Draft<'_>,
        source: &Source,
        completion: Completion,
        written: &mut Written,
        call: &CallContext,
    ) -> Result<Vec<LeafGrowth>, WriteError> {
        let Completion {
            in_parts,
            is_new,
            counts,
        } = completion;
        let space = &call.space;
        let mut grown = Vec::new();
        if in_parts {
            let added = tx
                .add_document_version(space, &source.id, written.version_id)
                .await;
            added.during("complete the version", "document_versions")?;
        }

        let content = draft
            .same
            .as_ref()
            .map_or(written.version_id, |same| same.id);

        let before = if is_new {
            None
        } else {
            let found = tx.find_current_content(space, &source.id).await;
            found.during("find the current version", "sources")?
        };

        if source.latest_version < written.version {
            if before != Some(content) {
                self.count(tx, before, -1).await?;
                grown = match counts {
                    Some(counts) => self.add_counts(tx, &counts).await?,
                    None => self.count(tx, Some(content), 1).await?,
                };
            }

            let updated = tx
                .update_latest_version(space, &source.id, written.version, content, call.now)
                .await;
            updated.during("make it the latest version", "sources")?;
            if in_parts || draft.same.is_some() {
                // Its entries may be in an index already.
                let told = tx.add_search_change(space, source.id.as_str()).await;
                told.during("tell searches", "search_changes")?;
            }
        }

        let current = if is_new {
            None
        } else {
            let found = tx.find_helper_origin(space, &source.id).await;
            found.during("find the helper", "contextual_helpers")?
        };

        // A helper that the user wrote meanwhile stays current.
        let outranked = current == Some(HelperOrigin::User) && !draft.order.regenerate_helper;
        // The helper of a superseded text describes a version that is not read any more.
        let outranked = outranked || (current.is_some() && source.latest_version > written.version);
        let stored = |helper: &&NewHelper| helper.origin == HelperOrigin::User || !outranked;

        if let Some(helper) = draft.helper.as_ref().filter(stored) {
            let added = tx.add_helper(space, &source.id, helper, call.now).await;
            written.helper_version = Some(added.during("add the helper", "contextual_helpers")?);
            written.helper_regenerated =
                helper.origin == HelperOrigin::Generated && current.is_some();
        }

        Ok(grown)
    }
}

/// The name of the step that records that the part starting at this chunk is written.
pub fn part_name(start: usize) -> String {
    format!("{WRITTEN}{start}")
}
