//! Writes a planned source in one short, fenced transaction: readers never see half of it, and a
//! failed write leaves nothing. With `transaction_scope: "batch"`, each batch of chunks is such a
//! transaction, including its search data; the version becomes current with the last one, so a
//! failed or cancelled job hides nothing.

mod moves;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde_json::{Value, json};

use super::request::Order;
use super::write_error::{During, WriteError, held};
use crate::base::clock::Timestamp;
use crate::base::fail_point::fail_point;
use crate::base::ids::SourceId;
use crate::base::words::telling;
use crate::categories::Taxonomy;
use crate::categories::tree::{ROOT, Tree};
use crate::config::taxonomy::LimitScope;
use crate::jobs::{JobContext, JobError};
use crate::model::chunk::{Move, NewChunk, TAXONOMY};
use crate::model::contextual_helper::{HelperOrigin, NewHelper};
use crate::model::job::{Record, WRITTEN};
use crate::model::source::Source;
use crate::model::source_version::{SourceVersion, VersionFacts};
use crate::search::prepare::Prepared;
use crate::sources::Sources;
use crate::store::{NewVersion, Store, StoreError, Tx};

/// Everything to write.
pub struct Draft<'d> {
    pub order: &'d Order,
    pub facts: VersionFacts,
    /// The words by which the source can be found.
    pub words: &'d [String],
    /// Chunks in the order of the text, without their category.
    pub chunks: Vec<NewChunk<'d>>,
    /// The names from level 1 to the leaf of each planned chunk.
    pub paths: Vec<Vec<String>>,
    /// Chunks of other sources that move to another category.
    pub moves: Vec<Move>,
    /// A helper that is not stored yet.
    pub helper: Option<NewHelper>,
    /// An earlier version with the same content, whose chunks are shared.
    pub same: Option<SourceVersion>,
    /// What makes it searchable.
    pub searched: Option<Searched<'d>>,
}

/// The chunks that searches find.
pub struct Searched<'d> {
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
    /// Chunks only for search.
    #[serde(default)]
    pub searched: i64,
    /// Chunks of other sources that moved to another category.
    #[serde(default)]
    pub moved: Vec<Move>,
}

/// Writes parts of drafts.
pub struct Writer<'w> {
    pub store: &'w Store,
    pub sources: &'w Sources,
    pub taxonomy: &'w Taxonomy,
    pub context: &'w JobContext,
}

impl Writer<'_> {
    /// Writes the chunks of a range, and what comes before and after them; the last part ends the
    /// job with a result.
    pub async fn write(
        &self,
        draft: &Draft<'_>,
        range: Range<usize>,
        so_far: Option<&Written>,
        result: Option<&(dyn Fn(&Written) -> Value + Sync)>,
    ) -> Result<Written, WriteError> {
        let ending = if result.is_some() {
            Some(self.context.ending().await)
        } else {
            None
        };

        let written = self.store.retry_as("write_ingestion", || async {
            let now = draft
                .order
                .at
                .map_or_else(|| self.context.clock().now(), Timestamp::from_micros);

            let name = if so_far.is_none() {
                self.name(draft.order).await?
            } else {
                None
            };

            let mut tx = self.store.begin().await.during("begin", "sources")?;
            let (source, mut written, now) = match so_far {
                Some(written) => (
                    self.held_source(&mut tx, written).await?,
                    written.clone(),
                    now,
                ),
                None => {
                    self.write_head(&mut tx, draft, name, result.is_some(), now)
                        .await?
                }
            };

            if result.is_some() {
                self.write_words(&mut tx, draft, &source).await?;
            }

            // Only now: from here until the commit, all writers of the space wait.
            let space = self.context.space();
            tx.lock_chunks(space)
                .await
                .during("lock the space", "counters")?;
            tx.settle_depth(space, self.taxonomy.depth(), now)
                .await
                .during("store the depth", "settings")?;
            let mut counts = None;

            if draft.same.is_none() && draft.order.is_filed() {
                counts = Some(
                    self.write_chunks(&mut tx, draft, range.clone(), &mut written, now)
                        .await?,
                );
            }

            if draft.same.is_none() {
                self.write_searched(&mut tx, draft, &range, result.is_some(), &mut written, now)
                    .await?;
            }

            if result.is_some() {
                let counts = counts.filter(|_| so_far.is_none());
                self.complete(
                    &mut tx,
                    draft,
                    &source,
                    (so_far.is_some(), counts),
                    &mut written,
                    now,
                )
                .await?;

                // Last, so that the previous version of this source stays where it was.
                self.move_others(&mut tx, draft, &mut written).await?;
            }

            fail_point!("in_transaction");
            match result.zip(ending.as_ref()) {
                Some((result, ending)) => {
                    let ended = ending
                        .finish_about(&mut tx, &written.source_id, result(&written))
                        .await;
                    held(ended.during("end the job", "jobs")?)?;
                }
                None => self.mark(&mut tx, &range, &written).await?,
            }

            fail_point!("before_commit");
            tx.commit().await.during("commit", "chunks")?;
            fail_point!("after_commit");
            Ok(written)
        });

        let written = written.await;
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

    /// The words by which the source can be found.
    async fn write_words(
        &self,
        tx: &mut Tx,
        draft: &Draft<'_>,
        source: &Source,
    ) -> Result<(), WriteError> {
        let mut words = telling(&source.filename);
        words.extend(draft.words.iter().cloned());
        tx.add_document_words(self.context.space(), source, &words)
            .await
            .during("add keywords", "document_words")
    }

    /// The source and its new version, which is invisible until it is complete; and the version's
    /// time.
    async fn write_head(
        &self,
        tx: &mut Tx,
        draft: &Draft<'_>,
        name: Option<String>,
        whole: bool,
        now: Timestamp,
    ) -> Result<(Source, Written, Timestamp), WriteError> {
        let space = self.context.space();
        let source = self.source(tx, draft.order, name, now).await?;

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

        let (version, now) = self.next_version(tx, &source.id, draft.order, now).await?;
        let new = NewVersion {
            source_id: &source.id,
            version,
            content: &draft.order.text,
            facts: &draft.facts,
            content_version_id: draft.same.as_ref().map(|same| same.id),
        };

        let added = if whole {
            tx.add_source_version(space, new, now).await
        } else {
            tx.begin_source_version(space, new, now).await
        };

        let version_id = added.during("add the version", "source_versions")?;
        let written = Written {
            source_id: source.id.to_string(),
            version_id,
            version,
            ..Written::default()
        };

        Ok((source, written, now))
    }

    /// Makes the version current, unless a newer one exists, and adds its helper; the previous
    /// version no longer counts. `counts` are the chunks in each category, if known.
    async fn complete(
        &self,
        tx: &mut Tx,
        draft: &Draft<'_>,
        source: &Source,
        (in_parts, counts): (bool, Option<BTreeMap<i64, i64>>),
        written: &mut Written,
        now: Timestamp,
    ) -> Result<(), WriteError> {
        let space = self.context.space();
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

        let before = tx
            .find_current_content(space, &source.id)
            .await
            .during("find the current version", "sources")?;

        if source.latest_version < written.version {
            if before != Some(content) {
                self.count(tx, before, -1).await?;
                match counts {
                    Some(counts) => self.add_counts(tx, &counts).await?,
                    None => self.count(tx, Some(content), 1).await?,
                }
            }

            let updated = tx
                .update_latest_version(space, &source.id, written.version, content, now)
                .await;
            updated.during("make it the latest version", "sources")?;
            if in_parts || draft.same.is_some() {
                // Its entries may be in an index already.
                let told = tx.add_search_change(space, source.id.as_str()).await;
                told.during("tell searches", "search_changes")?;
            }
        }

        let current = tx.find_helper_origin(space, &source.id).await;
        let current = current.during("find the helper", "contextual_helpers")?;

        // A helper that the user wrote meanwhile stays current.
        let outranked = current == Some(HelperOrigin::User) && !draft.order.regenerate_helper;
        // The helper of a superseded text describes a version that is not read any more.
        let outranked = outranked || (current.is_some() && source.latest_version > written.version);
        let stored = |helper: &&NewHelper| helper.origin == HelperOrigin::User || !outranked;

        if let Some(helper) = draft.helper.as_ref().filter(stored) {
            let added = tx.add_helper(space, &source.id, helper, now).await;
            written.helper_version = Some(added.during("add the helper", "contextual_helpers")?);
        }

        Ok(())
    }

    /// Adds the chunks of a version to the counts of their categories, or subtracts them.
    async fn count(
        &self,
        tx: &mut Tx,
        version_id: Option<i64>,
        sign: i64,
    ) -> Result<(), WriteError> {
        let Some(version_id) = version_id else {
            return Ok(());
        };
        let space = self.context.space();
        let counts = tx
            .count_version_chunks(space, version_id)
            .await
            .during("count chunks", "chunks")?;

        self.add_counts(
            tx,
            &counts
                .into_iter()
                .map(|(id, count)| (id, sign * count))
                .collect(),
        )
        .await
    }

    async fn add_counts(&self, tx: &mut Tx, counts: &BTreeMap<i64, i64>) -> Result<(), WriteError> {
        tx.add_chunk_counts(self.context.space(), counts)
            .await
            .during("count chunks", "categories")
    }

    /// Returns the counts by category.
    async fn write_chunks(
        &self,
        tx: &mut Tx,
        draft: &Draft<'_>,
        range: Range<usize>,
        written: &mut Written,
        now: Timestamp,
    ) -> Result<BTreeMap<i64, i64>, WriteError> {
        let space = self.context.space();
        let (leaves, made) = self.resolve(tx, &draft.paths[range.clone()], now).await?;
        let mut chunks = Vec::with_capacity(range.len());

        for (chunk, leaf) in draft.chunks[range].iter().zip(leaves) {
            chunks.push(NewChunk {
                category_id: leaf,
                ..*chunk
            });
        }

        let source_id = SourceId::from_stored(written.source_id.clone());
        let added = tx
            .add_chunks(space, &source_id, written.version_id, &chunks, now)
            .await;
        added.during("add chunks", "chunks")?;
        written.chunks += i64::try_from(chunks.len()).unwrap_or(i64::MAX);
        written.categories += made;
        let mut counts = BTreeMap::new();

        for chunk in &chunks {
            *counts.entry(chunk.category_id).or_insert(0) += 1;
        }

        Ok(counts)
    }

    /// Writes the search entries of a range of chunks. Chunks that are only searched are written
    /// with the last part.
    async fn write_searched(
        &self,
        tx: &mut Tx,
        draft: &Draft<'_>,
        range: &Range<usize>,
        last: bool,
        written: &mut Written,
        now: Timestamp,
    ) -> Result<(), WriteError> {
        let Some(searched) = &draft.searched else {
            return Ok(());
        };
        let filed = searched.profile == TAXONOMY;
        if !filed && !last {
            return Ok(());
        }

        let space = self.context.space();
        let source_id = SourceId::from_stored(written.source_id.clone());
        if !searched.chunks.is_empty() {
            let added = tx
                .add_retrieval_chunks(space, &source_id, written.version_id, &searched.chunks, now)
                .await;
            added.during("add chunks to search", "chunks")?;
        }

        let chunks = (&source_id, written.version_id, searched.profile);
        let indexed = if filed {
            searched
                .prepared
                .write_part(tx, space, chunks, range.clone(), now)
                .await
        } else {
            searched.prepared.write(tx, space, chunks, now).await
        };

        if !indexed.during("index chunks", "search_entries")? {
            // The space has switched to another embedding model: the next run uses that one.
            return Err(WriteError::Job(JobError::Interrupted));
        }

        written.searched += i64::try_from(searched.chunks.len()).unwrap_or(i64::MAX);
        Ok(())
    }

    /// The ids of the leaves of these paths, created where missing; and how many were created.
    async fn resolve(
        &self,
        tx: &mut Tx,
        paths: &[Vec<String>],
        now: Timestamp,
    ) -> Result<(Vec<i64>, i64), WriteError> {
        let space = self.context.space();
        let mut tree = Tree::to_write(self.taxonomy.clone());
        if self.taxonomy.scope() == LimitScope::Level {
            let all = tx
                .list_categories(space)
                .await
                .during("read the hierarchy", "categories")?;
            tree.load(&all);
        }

        let mut nodes = vec![ROOT; paths.len()];
        let mut made = 0;
        for level in 1..=self.taxonomy.depth() {
            if self.taxonomy.scope() == LimitScope::Parent {
                let parents: BTreeSet<i64> =
                    nodes.iter().filter_map(|node| tree.stored(*node)).collect();
                let parents: Vec<i64> = parents.into_iter().collect();
                tree.load(
                    &tx.list_children(space, &parents)
                        .await
                        .during("read the hierarchy", "categories")?,
                );
            }

            let place = usize::try_from(level - 1).unwrap_or(0);
            for (node, path) in nodes.iter_mut().zip(paths) {
                *node = tree
                    .choose(*node, path.get(place).map_or("", String::as_str))
                    .ok_or(WriteError::NoRoom)?;
            }

            let new = tree.new_on(level);
            if new.is_empty() {
                continue;
            }

            made += i64::try_from(new.len()).unwrap_or(i64::MAX);
            tx.add_categories(space, &new, now)
                .await
                .during("add categories", "categories")?;
            let parents: BTreeSet<i64> = new
                .iter()
                .map(|category| category.parent_id.unwrap_or(0))
                .collect();

            let parents: Vec<i64> = parents.into_iter().collect();
            tree.load(
                &tx.list_children(space, &parents)
                    .await
                    .during("read the hierarchy", "categories")?,
            );
        }

        let ids: Option<Vec<i64>> = nodes.into_iter().map(|node| tree.stored(node)).collect();
        ids.map(|ids| (ids, made)).ok_or_else(|| WriteError::Store {
            operation: "add categories",
            table: "categories",
            error: StoreError::Broken {
                cause: "a new category is missing".to_owned(),
            },
        })
    }
}

/// The name of the step that records that the part starting at this chunk is written.
pub fn part_name(start: usize) -> String {
    format!("{WRITTEN}{start}")
}

/// The result of a job, including which chunks of other sources it moved.
pub fn result(
    written: &Written,
    spent: crate::model::llm_call::Spent,
    shared: Option<i64>,
) -> Value {
    let moved = |chunk_move: &Move| json!({"chunk_id": chunk_move.chunk_id, "from": chunk_move.from, "to": chunk_move.to});
    json!({
        "source_id": written.source_id, "version": written.version, "chunks_written": written.chunks,
        "retrieval_chunks_written": written.searched,
        "categories_created": written.categories, "helper_version": written.helper_version,
        "shares_chunks_of_version": shared, "llm_calls": spent.calls, "tokens": spent.tokens, "cost_usd": spent.usd,
        "moved": written.moved.iter().map(moved).collect::<Vec<_>>(),
    })
}
