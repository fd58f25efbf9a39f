//! Files chunks level by level, those of a short text after a first call that files most of them
//! (`shortlist`): batches of one parent see the categories that earlier ones created,
//! parents run in parallel, and once nothing new is created the calls go out in growing waves.
//!
//! Every answer is saved under a name that follows from the source and the earlier answers, so a
//! restarted job continues without repeating calls. This module, not the model, decides which names
//! fit the limits: a chunk for whose new category there is no room is classified again with a
//! closed list.

mod classifying;
pub(super) mod folding;
mod free_naming;
mod shortlist;

pub use free_naming::FreeNaming;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use memoir_embedded_model::SourceOutline;
use memoir_text::hash::sha256_hex;
use memoir_text::text::name_key;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::chunker::TextChunk;
use super::filed_so_far::FiledSoFar;
use super::nearest_leaves::NearestLeaves;
use super::saver::Saver;
use super::shared_calls::BatchMember;
use crate::base::clock::Clock;
use crate::base::ids::JobId;
use crate::base::problems;
use crate::categories::Taxonomy;
use crate::categories::tree::{Node, Tree};
use crate::jobs::{Failure, JobError};
use crate::llm::{Llm, Session};

/// How often one run retries a batch for whose chunks there is no room; the second time, the closed
/// list settles it.
const MAX_ASKS: usize = 5;

/// What filing a source needs.
pub struct Filing<'a> {
    pub llm: &'a Llm,
    pub session: &'a Session,
    /// Where a short text shares calls with others of its request, and its job.
    pub member: Option<(&'a BatchMember<'a>, &'a JobId)>,
    pub saver: &'a Saver<'a>,
    pub clock: &'a dyn Clock,
    pub taxonomy: &'a Taxonomy,
    /// If the model names categories without a list.
    pub free: Option<FreeNaming>,
    /// For a short text that one call may file.
    pub nearest: Option<NearestLeaves<'a>>,
    pub source: FiledText<'a>,
    pub calls: Calls,
    pub tree: Mutex<Tree>,
    /// What categories contain, if the model uses it.
    pub filed_so_far: Option<Mutex<FiledSoFar>>,
    /// By parent: chunks that had to take an existing category, because there was no room for a new
    /// one.
    pub forced: Mutex<BTreeMap<Node, usize>>,
}

/// The text that is filed.
pub struct FiledText<'a> {
    pub text: &'a str,
    pub chunks: &'a [TextChunk],
    /// Where they belong by the title and headings of the text, if the model uses that.
    pub outline: &'a SourceOutline,
    pub helper: Option<Arc<str>>,
    /// What prompts show if there is no helper.
    pub title: Option<Arc<str>>,
    pub batch_size: usize,
}

/// The calls of one job.
pub struct Calls {
    /// Concurrent calls, which is also the largest wave.
    concurrency: usize,
    places: Semaphore,
    seq: AtomicI64,
    /// After a failed call no other starts, but running ones may finish, because they are paid for.
    failure: Mutex<Option<JobError>>,
}

impl Calls {
    /// `seq` is the number of the first call.
    pub fn new(concurrency: usize, seq: i64) -> Self {
        Self {
            concurrency,
            places: Semaphore::new(concurrency),
            seq: AtomicI64::new(seq),
            failure: Mutex::default(),
        }
    }
}

/// Chunks under one parent.
struct Group {
    parent: Node,
    ordinals: Vec<usize>,
}

/// A batch within its group.
struct Call<'g> {
    level: i64,
    parent: Node,
    ordinals: &'g [usize],
    step: String,
    /// What to choose from instead of the children of the parent.
    shortlist: Option<Arc<[String]>>,
}

impl Filing<'_> {
    /// Files one window; returns each chunk's leaf. `load` adds the children of parents to the
    /// tree.
    ///
    /// # Errors
    /// The first failure of a model, once all running calls have ended.
    pub async fn file<F>(
        &self,
        window: Range<usize>,
        load: impl Fn(Vec<Node>) -> F,
    ) -> Result<Vec<Node>, JobError>
    where
        F: Future<Output = Result<(), JobError>>,
    {
        let mut chosen = self.starts(window.clone(), &load).await?;
        for level in 1..=self.taxonomy.depth() {
            let mut groups: BTreeMap<Node, Vec<usize>> = BTreeMap::new();
            for (parent, ordinal) in chosen.iter().zip(window.clone()) {
                // Others are filed further down already.
                if self.tree().level(*parent) == level - 1 {
                    groups.entry(*parent).or_default().push(ordinal);
                }
            }

            if groups.is_empty() {
                continue;
            }

            load(groups.keys().copied().collect()).await?;
            let mut groups: Vec<Group> = groups
                .into_iter()
                .map(|(parent, ordinals)| Group { parent, ordinals })
                .collect();

            // The longest first, because everything waits for it.
            groups
                .sort_by_key(|group| (std::cmp::Reverse(group.ordinals.len()), group.ordinals[0]));
            let mut running: FuturesUnordered<_> = groups
                .iter()
                .map(|group| self.file_group(level, group, window.start))
                .collect();

            let mut failure = None;
            while let Some(filed) = running.next().await {
                match filed {
                    Ok(filed) => {
                        for (ordinal, node) in filed {
                            chosen[ordinal - window.start] = node;
                        }
                    }
                    Err(error) => failure = failure.or(Some(error)),
                }
            }

            if let Some(error) = failure {
                return Err(self.failure().take().unwrap_or(error));
            }
        }

        Ok(chosen)
    }

    async fn file_group(
        &self,
        level: i64,
        group: &Group,
        window: usize,
    ) -> Result<Vec<(usize, Node)>, JobError> {
        let name = self.group_name(level, group.parent, window);
        let calls = group
            .ordinals
            .chunks(self.source.batch_size)
            .enumerate()
            .map(|(index, ordinals)| Call {
                level,
                parent: group.parent,
                ordinals,
                step: format!("{name}/{index}"),
                shortlist: None,
            });

        let calls: Vec<Call<'_>> = calls.collect();
        let mut filed = Vec::with_capacity(group.ordinals.len());
        let (mut at, mut wave) = (0, 1);

        while at < calls.len() {
            let some = &calls[at..calls.len().min(at + wave)];
            let mut news = false;
            let mut failure = None;

            for answered in join_all(some.iter().map(|call| self.file_batch(call))).await {
                match answered {
                    Ok((nodes, made)) => {
                        news |= made;
                        filed.extend(nodes);
                    }
                    Err(error) => failure = failure.or(Some(error)),
                }
            }

            if let Some(error) = failure {
                return Err(error);
            }

            at += some.len();
            wave = if news {
                1
            } else {
                (wave * 2).min(self.calls.concurrency)
            };
        }

        Ok(filed)
    }

    /// The name of a group, equal in every run of the job: the window, the level, and the names above.
    fn group_name(&self, level: i64, parent: Node, window: usize) -> String {
        // By key: another job may have stored a name in another spelling meanwhile.
        let path = self
            .tree()
            .path(parent)
            .iter()
            .map(|name| name_key(name))
            .collect::<Vec<_>>()
            .join("\n");
        format!(
            "file/{window}/{level}/{}",
            &sha256_hex(path.as_bytes())[..16]
        )
    }

    /// Files a batch, from saved answers and from the model; returns whether it created a category.
    async fn file_batch(&self, call: &Call<'_>) -> Result<(Vec<(usize, Node)>, bool), JobError> {
        let closed = !self.tree().may_create(call.parent);
        let mut decided: BTreeMap<usize, String> = BTreeMap::new();
        // Classified again, because there was no room for the new category.
        let mut again: BTreeSet<usize> = BTreeSet::new();
        let mut layer = 0;
        while let Some(saved) = self.saver.saved(&layer_name(&call.step, layer)) {
            self.note_subjects(&saved);
            for (ordinal, name) in read_layer(&saved) {
                if decided.insert(ordinal, name).is_some() {
                    again.insert(ordinal);
                }
            }

            layer += 1;
        }

        if layer > 0 {
            self.saver.count(decided.len()).await;
        }

        let (mut made, mut asked) = (false, 0);
        loop {
            let (filed, left) = self.settle(call, &decided, &mut made);
            again.extend(left.iter().filter(|ordinal| decided.contains_key(ordinal)));
            if left.is_empty() {
                self.count_forced(call, &filed, |ordinal| closed || again.contains(&ordinal));
                if let Some(mut filed_so_far) = self.filed_so_far() {
                    for (ordinal, node) in &filed {
                        filed_so_far.put(*node, self.chunk(*ordinal));
                    }
                }
                return Ok((filed, made));
            }

            if asked >= MAX_ASKS {
                return Err(unsettled(&left));
            }

            decided.extend(self.ask(call, &left, layer).await?);
            (layer, asked) = (layer + 1, asked + 1);
        }
    }

    /// Applies decisions to the tree, in the order of the source; returns the chunks without a
    /// decision or without room.
    fn settle(
        &self,
        call: &Call<'_>,
        decided: &BTreeMap<usize, String>,
        made: &mut bool,
    ) -> (Vec<(usize, Node)>, Vec<usize>) {
        let mut tree = self.tree();
        let before = tree.len();
        let (mut filed, mut left) = (Vec::new(), Vec::new());

        for ordinal in call.ordinals {
            let node = decided
                .get(ordinal)
                .and_then(|name| self.choose(&mut tree, call.parent, name, *ordinal));
            match node {
                Some(node) => filed.push((*ordinal, node)),
                None => left.push(*ordinal),
            }
        }

        *made |= tree.len() > before;
        (filed, left)
    }

    /// The category that a name means below a parent, created if the limits leave room for it.
    fn choose(&self, tree: &mut Tree, parent: Node, name: &str, chunk: usize) -> Option<Node> {
        match &self.free {
            Some(free) => free.choose(tree, parent, name, chunk),
            None => tree.choose(parent, name),
        }
    }

    fn note_subjects(&self, saved: &Value) {
        if let Some(free) = &self.free {
            free.note_saved(saved);
        }
    }

    /// What a chunk is about, if the model said so.
    pub fn subject(&self, ordinal: usize) -> Option<Arc<str>> {
        self.free.as_ref()?.subject(ordinal)
    }

    /// Counts the chunks that could take only an existing category, unless that is the one which the
    /// outline names.
    fn count_forced(
        &self,
        call: &Call<'_>,
        filed: &[(usize, Node)],
        had_no_choice: impl Fn(usize) -> bool,
    ) {
        let bound: Vec<&(usize, Node)> = filed
            .iter()
            .filter(|(ordinal, _)| had_no_choice(*ordinal))
            .collect();
        if bound.is_empty() {
            return;
        }

        let tree = self.tree();
        let as_outlined = |ordinal: usize, node: Node| {
            let outlined = self.outlined_name(call.level, ordinal).map(name_key);
            outlined.is_some_and(|outlined| {
                tree.path(node)
                    .last()
                    .is_some_and(|name| name_key(name) == outlined)
            })
        };
        let forced = bound
            .into_iter()
            .filter(|(ordinal, node)| !as_outlined(*ordinal, *node))
            .count();
        drop(tree);

        if forced > 0 {
            let mut all = self.forced.lock().unwrap_or_else(PoisonError::into_inner);
            *all.entry(call.parent).or_default() += forced;
        }
    }

    fn failure(&self) -> MutexGuard<'_, Option<JobError>> {
        self.calls
            .failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn chunk(&self, ordinal: usize) -> &str {
        &self.source.text[self.source.chunks[ordinal].range.clone()]
    }

    fn filed_so_far(&self) -> Option<MutexGuard<'_, FiledSoFar>> {
        self.filed_so_far
            .as_ref()
            .map(|filed_so_far| filed_so_far.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn layer_name(step: &str, layer: usize) -> String {
    format!("{step}/{layer}")
}

/// An answer as it is saved; the number keeps the order of the log when the job runs again.
fn write_layer(
    seq: i64,
    answers: &BTreeMap<usize, String>,
    subject: impl Fn(usize) -> Option<Arc<str>>,
) -> Value {
    let chunks: Vec<Value> = answers
        .iter()
        .map(|(ordinal, name)| match subject(*ordinal) {
            Some(subject) => json!([ordinal, name, &*subject]),
            None => json!([ordinal, name]),
        })
        .collect();
    json!({"seq": seq, "chunks": chunks})
}

fn read_layer(saved: &Value) -> impl Iterator<Item = (usize, String)> {
    saved["chunks"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|pair| {
            let ordinal = usize::try_from(pair[0].as_u64()?).ok()?;
            Some((ordinal, pair[1].as_str()?.to_owned()))
        })
}

fn unsettled(ordinals: &[usize]) -> JobError {
    let chunks: Vec<usize> = ordinals.iter().map(|ordinal| ordinal + 1).collect();
    JobError::retry(
        Failure::new(
            problems::CATEGORY_LIMIT,
            format!("no category has room for the chunks {chunks:?}"),
        )
        .fix("Raise the limit (taxonomy.max_children, or taxonomy.max_categories_default with limits per level) and restart, then POST /v1/jobs/{id}/retry."),
    )
}
