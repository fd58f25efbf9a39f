//! Rewrites the stored terms of a space after a change of the rules that make them
//! (`TERMS_VERSION`): those of chunks, of what is said about sources, and of memories, a part at a
//! time. Until it is done, a keyword search compares the new terms of its query with old ones, so it
//! may miss words that the two versions treat differently; search by meaning is not affected. What
//! is said about an older version of a source takes in the source's tags and helper of now. An
//! interrupted job resumes after the last part that it wrote; texts and messages may be written
//! meanwhile.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt as _};
use memoir_index::OwnerKind;
use memoir_index::terms::{Analyzer, ChunkTerms, TERMS_VERSION};
use serde_json::json;

use super::Search;
use super::cache::blocking;
use super::source_words::{SourceWords, said};
use crate::base::clock::Timestamp;
use crate::base::fail_point::fail_point;
use crate::base::ids::{SourceId, Space};
use crate::jobs::{JobContext, JobError, Jobs, JobsError, Outcome, Work};
use crate::model::job::Record;
use crate::model::source::Source;
use crate::store::{EntryTerms, StoreError, VersionEntry};

/// The name of this kind of job.
const KIND: &str = "reindex";
/// Entries read and written together.
const PART: usize = 200;
/// Chunks first: the words about a source depend on the terms of its only chunk.
const KINDS: [(OwnerKind, &str); 3] = [
    (OwnerKind::Chunk, "chunks"),
    (OwnerKind::Source, "sources"),
    (OwnerKind::Memory, "memories"),
];

/// Runs the job.
#[derive(Clone)]
pub struct ReindexWork {
    search: Search,
}

impl Work for ReindexWork {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn run(&self, context: JobContext) -> BoxFuture<'static, Result<Outcome, JobError>> {
        let search = self.search.clone();
        async move { search.reindex(&context).await }.boxed()
    }
}

impl Search {
    /// The job that rewrites the terms of a space.
    pub fn reindex_work(&self) -> Arc<ReindexWork> {
        Arc::new(ReindexWork {
            search: self.clone(),
        })
    }

    /// Queues a job for every space whose terms have another version.
    ///
    /// # Errors
    /// The queue's.
    pub async fn queue_reindexing(&self, jobs: &Jobs, now: Timestamp) -> Result<(), JobsError> {
        let store = &self.inner.store;
        store.settle_terms_versions(now).await?;
        for (space, old) in store.list_other_terms_versions(TERMS_VERSION).await? {
            let request = json!({"from": old, "to": TERMS_VERSION});
            self.queue_once(jobs, &space, KIND, &request, now).await?;
        }

        Ok(())
    }

    async fn reindex(&self, context: &JobContext) -> Result<Outcome, JobError> {
        let request = context.take_request();
        if request["to"].as_i64().is_some_and(|to| to > TERMS_VERSION) {
            // Queued by a later build, which knows these terms.
            return Err(JobError::Away);
        }

        let mut done: HashMap<&str, usize> = HashMap::new();
        let mut changed = 0;
        for (kind, name) in KINDS {
            let mut after = last_saved(context, kind);
            while let Some(terms) = self.next_terms(context.space(), kind, after).await? {
                after = terms.last().map_or(after, |last| last.entry_id);
                changed += self.rewrite(context, kind, &terms).await?;
                fail_point!("after_reindexed_part");

                *done.entry(name).or_default() += terms.len();
                context.note_progress();
                let mut progress = json!(done);
                progress["version"] = json!(TERMS_VERSION);
                context.report("indexing", progress);
            }
        }

        self.switch(context).await?;
        let mut result = json!(done);
        result["changed"] = json!(changed);
        result["version"] = json!(TERMS_VERSION);
        Ok(Outcome::Done(result))
    }

    /// The terms of the next entries; `None` after the last one.
    async fn next_terms(
        &self,
        space: &Space,
        kind: OwnerKind,
        after: i64,
    ) -> Result<Option<Vec<EntryTerms>>, JobError> {
        let store = &self.inner.store;
        let terms = if kind == OwnerKind::Source {
            let entries = store.list_version_entries(space, after, PART).await?;
            self.terms_of_sources(space, entries).await?
        } else {
            let texts = store.list_entry_texts(space, kind, after, PART).await?;
            blocking(move || {
                let mut analyzer = Analyzer::default();
                let texts = texts.iter();
                let terms = texts.map(|one| {
                    let heading = one.heading.as_deref().unwrap_or_default();
                    entry_terms(one.entry_id, analyzer.chunk_under(&one.text, heading))
                });
                terms.collect::<Vec<_>>()
            })
            .await?
        };

        Ok((!terms.is_empty()).then_some(terms))
    }

    async fn terms_of_sources(
        &self,
        space: &Space,
        entries: Vec<VersionEntry>,
    ) -> Result<Vec<EntryTerms>, StoreError> {
        if entries.is_empty() {
            return Ok(Vec::new());
        }

        let store = &self.inner.store;
        let mut ids: Vec<SourceId> = entries.iter().map(|one| one.source_id.clone()).collect();
        ids.sort_unstable();
        ids.dedup();
        let sources = store.list_sources_by_id(space, &ids).await?;
        let sources: HashMap<&SourceId, &Source> =
            sources.iter().map(|source| (&source.id, source)).collect();

        let versions: Vec<i64> = entries.iter().map(|one| one.version_id).collect();
        let leaves = store.list_version_leaves(space, &versions).await?;
        let all: Vec<i64> = leaves.values().flatten().copied().collect();
        let paths = store.find_category_paths(space, &all, None).await?;
        let places: Vec<(i64, &SourceId)> = entries
            .iter()
            .map(|one| (one.version_id, &one.source_id))
            .collect();
        let only = store.list_only_tokens(space, &places).await?;

        let mut terms = Vec::with_capacity(entries.len());
        for entry in &entries {
            let Some(source) = sources.get(&entry.source_id) else {
                // Deleted meanwhile; the entry too, so what is written for it changes nothing.
                terms.push(entry_terms(entry.entry_id, Analyzer::default().chunk("")));
                continue;
            };
            let helper = store.find_helper(space, &entry.source_id).await?;
            let names = |leaf: &i64| {
                let path = paths.get(leaf)?;
                Some(path.iter().map(|(_, name)| name.clone()).collect())
            };
            let filed = leaves.get(&entry.version_id);
            let filed: Vec<Vec<String>> = filed.into_iter().flatten().filter_map(names).collect();
            let words = SourceWords {
                source,
                said: &said_about(entry),
                helper: helper
                    .as_ref()
                    .map_or("", |helper| helper.helper.text.as_str()),
                paths: &filed,
            };
            let only = only.get(&entry.version_id).map(String::as_str);
            terms.push(entry_terms(entry.entry_id, words.terms(only)));
        }

        Ok(terms)
    }

    /// Writes terms of entries that still exist; returns how many changed.
    async fn rewrite(
        &self,
        context: &JobContext,
        kind: OwnerKind,
        terms: &[EntryTerms],
    ) -> Result<usize, JobError> {
        let (store, space) = (&self.inner.store, context.space());
        let last = terms.last().map_or(0, |last| last.entry_id);
        let written = store.retry("rewrite_terms", || async {
            let mut tx = store.begin().await?;
            let changed = tx.update_entry_terms(space, kind, terms).await?;
            let step = Record::step(format!("{}{last}", step_of(kind)), json!(terms.len()));
            let ours = context.record_in(&mut tx, step).await?;
            if ours {
                tx.commit().await?;
            }

            Ok(ours.then_some(changed))
        });

        written.await?.ok_or(JobError::LeaseLost)
    }

    /// The space now has these terms, and every index in memory is loaded again.
    async fn switch(&self, context: &JobContext) -> Result<(), JobError> {
        let (store, space) = (&self.inner.store, context.space());
        let switched = store.retry("switch_terms", || async {
            let mut tx = store.begin().await?;
            tx.lock_chunks(space).await?;
            tx.update_terms_version(space, TERMS_VERSION, context.clock().now())
                .await?;
            tx.count_chunk_reset(space).await?;
            tx.commit().await
        });

        Ok(switched.await?)
    }
}

fn entry_terms(entry_id: i64, terms: ChunkTerms) -> EntryTerms {
    EntryTerms {
        entry_id,
        length: i64::from(terms.length),
        tokens: terms.tokens,
    }
}

fn said_about(entry: &VersionEntry) -> String {
    let facts = [
        entry.metadata["title"].as_str(),
        entry.metadata["author"].as_str(),
        entry.topic.as_deref(),
        entry.note.as_deref(),
        entry.provider.as_deref(),
    ];
    said(facts)
}

/// How the names of the finished steps of a kind begin; the last entry of the part follows.
fn step_of(kind: OwnerKind) -> String {
    format!("reindexed/{TERMS_VERSION}/{}/", kind.into_str())
}

fn last_saved(context: &JobContext, kind: OwnerKind) -> i64 {
    let step = step_of(kind);
    let saved = context.read_saved(|name, _| name.strip_prefix(&step)?.parse().ok());
    saved.into_iter().max().unwrap_or(0)
}
