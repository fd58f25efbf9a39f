//! Short texts of one request and user share model calls: the chunks of several texts are classified
//! in one call, level by level, and one call writes several helpers. Short texts that come one by one
//! share the calls that classify, if they come while others of their space, user and key linger.
//!
//! Each job keeps its own steps, retries and fence. A shared call is paid by one of the jobs; the
//! batches of the others name it. A text that a shared call leaves without an answer gets a call of
//! its own, so a failed or cancelled job affects no other.

mod gatherer;
mod stages;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use gatherer::{CallAnswers, Gatherer};
use memoir_text::text::{name_key, one_line};
use stages::{Member, Stages};

use super::filing::folding::{Candidate, GivenName, fold_together};
use crate::base::ids::JobId;
use crate::contextual_helpers::{ContextualHelpers, SourceHead};
use crate::llm::tasks::classify::{ClassifiedChunk, Classify};
use crate::llm::tasks::helper_many::MAX_DOCUMENTS;
use crate::llm::tasks::shortlist;
use crate::llm::{Llm, Session};
use crate::model::contextual_helper::NewHelper;
use crate::model::llm_call::LlmCall;

/// Chunks of a text that shares calls. Longer texts fill calls of their own.
pub const MAX_CHUNKS: usize = 2;
/// The order of stages: the helper, then the levels, of which the first is that of a shortlist.
const HELPER: usize = 1;
const FIRST_LEVEL: usize = HELPER + 1;

/// The batches of all requests whose texts are being ingested; cheap to clone.
#[derive(Clone, Default)]
pub struct SharedCalls {
    batches: Arc<Mutex<HashMap<String, Weak<RequestBatch>>>>,
}

/// Where the texts of one request meet.
pub struct RequestBatch {
    stages: Stages,
    concurrency: usize,
    helpers: Gatherer<SourceHead, NewHelper>,
    /// A model that cannot write several helpers at once is not asked again.
    one_by_one: AtomicBool,
    /// By level and parent.
    levels: Mutex<HashMap<String, Arc<Level>>>,
}

/// The place of one text in its batch, from before its first call to its end.
pub struct BatchMember<'r> {
    batch: &'r RequestBatch,
    member: Member<'r>,
}

struct Level {
    gatherer: Gatherer<Classify, SharedAnswer>,
    /// Names that earlier calls have given to new categories.
    made: Mutex<Vec<String>>,
    /// Names that a model gave without seeing the others.
    given: Mutex<Vec<Candidate>>,
}

/// What a shared call decided about the chunks of one text.
pub struct SharedAnswer {
    pub chunks: Vec<ClassifiedChunk>,
    pub retries: usize,
    pub latency_ms: f64,
    /// The job that the call is recorded with.
    pub paid_by: JobId,
}

impl SharedCalls {
    /// The batch of a request, which lasts as long as somebody is in it; or, with a time to linger,
    /// the one that is still open to texts of this name.
    pub fn batch(
        &self,
        name: &str,
        linger: Option<Duration>,
        concurrency: usize,
    ) -> Arc<RequestBatch> {
        let mut batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
        let known = batches.get(name).and_then(Weak::upgrade);
        if let Some(batch) = known.filter(|batch| batch.stages.is_open()) {
            return batch;
        }

        batches.retain(|_, batch| batch.strong_count() > 0);
        let batch = Arc::new(RequestBatch {
            stages: Stages::new(linger),
            concurrency,
            helpers: Gatherer::new(HELPER, MAX_DOCUMENTS, concurrency),
            one_by_one: AtomicBool::new(false),
            levels: Mutex::default(),
        });

        batches.insert(name.to_owned(), Arc::downgrade(&batch));
        batch
    }
}

impl RequestBatch {
    /// A place for a text; others wait for it until it is dropped.
    pub fn enter(&self) -> BatchMember<'_> {
        BatchMember {
            batch: self,
            member: self.stages.join(),
        }
    }

    fn level(&self, task: &Classify, most: usize) -> Arc<Level> {
        let parent: Vec<String> = task.parent.iter().map(|name| name_key(name)).collect();
        let key = format!("{}\n{}", task.level, parent.join("\n"));
        let stage = usize::try_from(task.level).map_or(usize::MAX, |level| FIRST_LEVEL + level);
        let mut levels = self.levels.lock().unwrap_or_else(PoisonError::into_inner);
        let level = levels.entry(key).or_insert_with(|| {
            Arc::new(Level {
                gatherer: Gatherer::new(stage, most, self.concurrency),
                made: Mutex::default(),
                given: Mutex::default(),
            })
        });

        Arc::clone(level)
    }
}

impl BatchMember<'_> {
    /// Whether its text came alone.
    pub fn lingers(&self) -> bool {
        self.batch.stages.lingers()
    }

    /// A helper from a shared call; `None`: write it alone.
    pub async fn describe(
        &self,
        helpers: &ContextualHelpers,
        session: &Session,
        head: SourceHead,
    ) -> Option<NewHelper> {
        let batch = self.batch;
        if self.lingers() || batch.one_by_one.load(Ordering::Relaxed) {
            return None;
        }

        let call = async |heads: Vec<SourceHead>| {
            let answers = helpers.generate_many(session, heads).await;
            if answers.iter().all(Option::is_none) {
                batch.one_by_one.store(true, Ordering::Relaxed);
            }

            // The helpers of other texts do not depend on these.
            CallAnswers {
                answers,
                news: false,
            }
        };

        let place = (&batch.stages, &self.member);
        batch.helpers.ask(place, head, 1, call).await
    }

    /// The categories of a text's chunks from a shared call; `None`: ask alone. `most`: chunks of
    /// one call.
    pub async fn classify(
        &self,
        llm: &Llm,
        (session, job): (&Session, &JobId),
        task: Classify,
        most: usize,
    ) -> Option<SharedAnswer> {
        let level = self.batch.level(&task, most);
        let weight = task.chunks.len();
        let call = async |tasks: Vec<Classify>| level.classify(llm, (session, job), &tasks).await;
        let place = (&self.batch.stages, &self.member);
        level.gatherer.ask(place, task, weight, call).await
    }
}

impl Level {
    async fn classify(
        &self,
        llm: &Llm,
        (session, job): (&Session, &JobId),
        tasks: &[Classify],
    ) -> CallAnswers<SharedAnswer> {
        let nothing = || CallAnswers {
            answers: tasks.iter().map(|_| None).collect(),
            news: false,
        };

        let joined = {
            let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
            join(tasks, &made)
        };
        let Some(joined) = joined else {
            return nothing();
        };

        let (free_names, level) = (joined.free_names, i64::from(joined.level).max(1));
        let offered: HashSet<String> = joined.categories.iter().cloned().collect();
        let Ok(answered) = llm.ask_partly(session, joined).await else {
            return nothing();
        };

        let mut found: HashMap<i64, ClassifiedChunk> = HashMap::new();
        let chunks = answered.value.into_iter().flat_map(|output| output.chunks);
        for chunk in chunks {
            found.insert(chunk.id, chunk);
        }

        if free_names {
            self.fold(level, &mut found);
        }

        let mut news: Vec<String> = Vec::new();
        // Whoever names freely sees no names.
        let named = found.values().filter(|_| !free_names);
        for name in named.map(|chunk| &chunk.category) {
            if !offered.contains(name) && !news.contains(name) {
                news.push(name.clone());
            }
        }

        // In an order that does not depend on the map.
        news.sort_unstable();
        let is_new = !news.is_empty();
        self.made
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(news);

        CallAnswers {
            answers: split(tasks, &found, &answered.calls, job),
            news: is_new,
        }
    }
}

impl Level {
    /// Makes one of the names that mean the same: no text of this call sees what the others were given.
    fn fold(&self, level: i64, found: &mut HashMap<i64, ClassifiedChunk>) {
        let mut chunks: Vec<&mut ClassifiedChunk> = found.values_mut().collect();
        chunks.sort_by_key(|chunk| chunk.id);
        let given: Vec<GivenName<'_>> = chunks
            .iter()
            .map(|chunk| GivenName {
                name: &chunk.category,
                subject: chunk.subject.as_deref(),
                level,
            })
            .collect();
        let names = {
            let mut known = self.given.lock().unwrap_or_else(PoisonError::into_inner);
            fold_together(&given, &mut known)
        };
        for (chunk, name) in chunks.into_iter().zip(names) {
            chunk.category = name;
        }
    }
}

/// One task for the chunks of all, numbered from 1, with the categories of all.
fn join(tasks: &[Classify], made: &[String]) -> Option<Classify> {
    let first = tasks.first()?;
    let (mut seen, mut categories) = (HashSet::new(), Vec::new());
    let known = tasks.iter().flat_map(|task| task.categories.iter());
    for name in known.chain(made) {
        if seen.insert(name_key(name)) {
            categories.push(name.clone());
        }
    }

    if first.is_shortlist() {
        categories.sort_by_key(|entry| shortlist::order(entry));
    }

    let chunks = tasks.iter().flat_map(|task| task.chunks.iter());
    Some(Classify {
        contextual_helper: join_helpers(tasks).map(Into::into),
        is_title: false,
        helpers: tasks
            .iter()
            .filter(|task| !task.is_title)
            .filter_map(|task| task.contextual_helper.clone())
            .collect(),
        categories: categories.into(),
        may_create: tasks.iter().all(|task| task.may_create),
        chunks: (1..)
            .zip(chunks)
            .map(|(id, (_, text))| (id, Arc::clone(text)))
            .collect(),
        ..first.clone()
    })
}

/// The helpers of all texts, each once and with the numbers of its chunks.
fn join_helpers(tasks: &[Classify]) -> Option<String> {
    let mut parts: Vec<(String, Vec<String>)> = Vec::new();
    let mut next = 1;
    for task in tasks {
        let last = next + task.chunks.len();
        let chunks = (next..last).map(|id| id.to_string());
        if let Some(helper) = task.contextual_helper.as_deref().map(one_line) {
            match parts.iter_mut().find(|(known, _)| *known == helper) {
                Some((_, known)) => known.extend(chunks),
                None => parts.push((helper, chunks.collect())),
            }
        }

        next = last;
    }

    let count = tasks.len();
    let of_all = |chunks: &[String]| chunks.len() + 1 == next;
    match parts.as_slice() {
        [] => None,
        [(helper, chunks)] if count > 1 && of_all(chunks) => Some(format!(
            "The chunks come from {count} separate texts. Each of them: {helper}"
        )),
        parts => {
            let each = parts
                .iter()
                .map(|(helper, chunks)| format!("Chunk {}: {helper}", chunks.join(", ")));
            Some(format!(
                "The chunks come from {count} separate texts. {}",
                each.collect::<Vec<_>>().join(" ")
            ))
        }
    }
}

/// Each text's own part of the answer, under its own numbers.
fn split(
    tasks: &[Classify],
    found: &HashMap<i64, ClassifiedChunk>,
    calls: &[LlmCall],
    job: &JobId,
) -> Vec<Option<SharedAnswer>> {
    let mut numbers = 1..;
    let each = tasks.iter().map(|task| {
        let own = task.chunks.iter().map(|(id, _)| *id);
        let chunks: Vec<ClassifiedChunk> = own
            .zip(numbers.by_ref())
            .filter_map(|(id, number)| {
                let chunk = found.get(&number)?.clone();
                Some(ClassifiedChunk { id, ..chunk })
            })
            .collect();

        (chunks.len() == task.chunks.len()).then(|| SharedAnswer {
            chunks,
            retries: calls.len().saturating_sub(1),
            latency_ms: calls.iter().map(|call| call.latency_ms).sum(),
            paid_by: job.clone(),
        })
    });

    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::Hint;

    fn task(helper: Option<&str>, categories: &[&str], chunks: &[(i64, &str)]) -> Classify {
        Classify {
            contextual_helper: helper.map(Into::into),
            is_title: false,
            free_names: false,
            helpers: Vec::new(),
            level: 1,
            depth: 3,
            parent: [].into(),
            categories: categories.iter().map(|name| (*name).to_owned()).collect(),
            may_create: true,
            chunks: chunks
                .iter()
                .map(|(id, text)| (*id, (*text).into()))
                .collect(),
            hint: Hint::default(),
        }
    }

    #[test]
    fn a_helper_that_all_texts_share_appears_once() {
        let note = || task(Some("A note."), &[], &[(1, "a")]);
        let joined = join(&[note(), note()], &[]).unwrap();
        assert_eq!(
            joined.contextual_helper.as_deref(),
            Some("The chunks come from 2 separate texts. Each of them: A note.")
        );
        assert_eq!(joined.helpers.len(), 2);

        let other = task(None, &[], &[(1, "b")]);
        let joined = join(&[note(), other, note()], &[]).unwrap();
        assert_eq!(
            joined.contextual_helper.as_deref(),
            Some("The chunks come from 3 separate texts. Chunk 1, 3: A note.")
        );
    }

    #[test]
    fn texts_are_joined_and_split_by_their_own_numbers() {
        let tasks = [
            task(Some("About a cat."), &["Animals"], &[(1, "a"), (2, "b")]),
            task(None, &["animals", "Tax"], &[(1, "c")]),
            task(Some("About\na tax."), &[], &[(1, "d")]),
        ];

        let joined = join(&tasks, &["Music".to_owned()]).unwrap();
        assert_eq!(joined.ids(), [1, 2, 3, 4]);
        assert_eq!(&*joined.categories, ["Animals", "Tax", "Music"]);
        assert_eq!(
            joined.contextual_helper.as_deref(),
            Some(
                "The chunks come from 3 separate texts. Chunk 1, 2: About a cat. Chunk 4: About a tax."
            )
        );

        // Chunk 2 has no answer, so its text gets none.
        let found = [(1, "A"), (3, "C"), (4, "D")];
        let chunk = |(id, name): (i64, &str)| (id, ClassifiedChunk::new(id, name.to_owned()));
        let found = found.map(chunk).into();
        let job = JobId::from_stored("job".to_owned());
        let answers: Vec<Option<Vec<(i64, String)>>> = split(&tasks, &found, &[], &job)
            .into_iter()
            .map(|answer| {
                let chunks = answer?.chunks.into_iter();
                Some(chunks.map(|chunk| (chunk.id, chunk.category)).collect())
            })
            .collect();

        assert_eq!(
            answers,
            [
                None,
                Some(vec![(1, "C".to_owned())]),
                Some(vec![(1, "D".to_owned())])
            ]
        );
    }

    use crate::llm::Task as _;
}
