//! Samples of what each category contains, for the embedded model; other models use only the name.
//! Cached between jobs and reloaded after writes to the space, but not so often that reloading
//! takes most of the time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hashlink::LruCache;
use memoir_embedded_model::{CategoryContents, SampleText};
use memoir_text::text::char_count;

use crate::base::ids::Space;
use crate::model::category::Category;
use crate::store::{CategoryFilter, CategoryPage, Sample, Store, StoreError};

/// How many of the first and of the latest chunks are shown, and how much of each. The first ones
/// are always among them: the embedded model relies on at least four of them as long as they exist
/// (`llm::local::frame`).
pub const FIRST: usize = 4;
pub const LATEST: usize = 12;
pub const CHARS: usize = 600;
/// Chunks of each leaf that are read, and maximum chunks of a category shown for a query.
pub const READ: usize = 28;
const SPREAD: usize = 64;
/// Subjects kept of a category, and characters of a text that stand for one.
const TOLD: usize = 8;
const TOLD_CHARS: usize = 120;
/// In a larger space only names are used, because reading would take too long.
const MAX_CHUNKS: i64 = 200_000;
/// Maximum cached spaces.
const MAX_SPACES: usize = 16;
/// Spaces whose samples are read at the same time.
const READERS: usize = 8;
/// Reading takes at most this share of the time.
const SHARE: u32 = 20;
/// No reading is used for longer, however long it took: the process may have been frozen meanwhile.
const LONGEST: Duration = Duration::from_mins(1);

/// The contents of the categories of one space, by id.
#[derive(Debug, Default)]
pub struct Samples {
    contents: HashMap<i64, CategoryContents>,
    /// What chunks below a category are about, if the model that filed them said so.
    subjects: HashMap<i64, Vec<Arc<str>>>,
    /// Only of leaves.
    filed: HashMap<i64, Vec<Sample>>,
    /// By chunk, so that what is known about a text outlives the next reading.
    texts: HashMap<i64, Arc<SampleText>>,
}

impl Samples {
    pub fn get(&self, category: i64) -> Option<&CategoryContents> {
        self.contents.get(&category)
    }

    /// What chunks below a category are about: their subjects, or how they begin.
    pub fn told(&self, category: i64) -> Vec<Arc<str>> {
        if let Some(subjects) = self.subjects.get(&category) {
            return subjects.clone();
        }

        let samples = self.get(category).map(|contents| &contents.samples);
        let begun = samples.into_iter().flatten().take(TOLD);
        begun.map(|text| beginning(text)).collect()
    }

    /// What each of these categories contains, in order.
    pub fn whole_of_each(&self, categories: &[i64]) -> Arc<[CategoryContents]> {
        categories
            .iter()
            .map(|id| self.get(*id).cloned().unwrap_or_default())
            .collect()
    }

    /// What a walk uses of the contents of each of these categories: all but the samples, which are
    /// not copied.
    pub fn of_each(&self, categories: &[i64]) -> Arc<[CategoryContents]> {
        let shown = |contents: &CategoryContents| CategoryContents {
            count: contents.count,
            samples: Vec::new(),
            spread: Arc::clone(&contents.spread),
        };

        categories
            .iter()
            .map(|id| self.get(*id).map(shown).unwrap_or_default())
            .collect()
    }

    /// Chunks of a leaf whose complete text is known, oldest first.
    pub fn filed(&self, leaf: i64) -> &[Sample] {
        self.filed.get(&leaf).map_or(&[], Vec::as_slice)
    }
}

/// Caches samples by space; cheap to clone.
#[derive(Clone)]
pub struct SampleCache {
    store: Store,
    cached: Arc<Mutex<LruCache<Space, CachedSamples>>>,
    /// Held while the samples of a space are read, so that many jobs read them once.
    reading: Arc<[tokio::sync::Mutex<()>; READERS]>,
}

#[derive(Clone)]
struct CachedSamples {
    samples: Arc<Samples>,
    /// The space's write counter when it was read.
    writes: i64,
    read: Instant,
    took: Duration,
}

impl CachedSamples {
    /// Whether they are current, or were read just now for their size.
    fn will_do(&self, writes: i64) -> bool {
        let pause = self.took.saturating_mul(SHARE).min(LONGEST);
        self.writes == writes || self.read.elapsed() < pause
    }
}

/// Which lock stands for a space.
fn reader(space: &Space) -> usize {
    let bytes = space.as_str().bytes().map(usize::from);
    bytes.fold(0, |sum: usize, byte| {
        sum.wrapping_mul(31).wrapping_add(byte)
    }) % READERS
}

impl SampleCache {
    pub fn new(store: Store) -> Self {
        Self {
            store,
            cached: Arc::new(Mutex::new(LruCache::new(MAX_SPACES))),
            reading: Arc::default(),
        }
    }

    /// The samples of a space, current or slightly outdated.
    pub async fn of(&self, space: &Space) -> Result<Arc<Samples>, StoreError> {
        let writes = self.store.find_chunk_writes(space).await?;
        if let Some(cached) = self.known(space).filter(|cached| cached.will_do(writes)) {
            return Ok(cached.samples);
        }

        let _reading = self.reading[reader(space)].lock().await;
        let known = self.known(space);
        if let Some(cached) = known.clone().filter(|cached| cached.will_do(writes)) {
            return Ok(cached.samples);
        }

        let began = Instant::now();
        let known = known.map(|cached| cached.samples).unwrap_or_default();
        // Without samples the model uses the names, which is better than not filing.
        let samples = self.read(space, &known).await.inspect_err(
            |error| tracing::warn!(%error, "cannot read sample chunks of the categories"),
        );

        let samples = Arc::new(samples.unwrap_or_default());
        let fresh = CachedSamples {
            samples: Arc::clone(&samples),
            writes,
            read: Instant::now(),
            took: began.elapsed(),
        };

        self.cached
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(space.clone(), fresh);
        Ok(samples)
    }

    fn known(&self, space: &Space) -> Option<CachedSamples> {
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        cached.get(space).cloned()
    }

    async fn read(&self, space: &Space, known: &Samples) -> Result<Samples, StoreError> {
        let (filter, page) = (CategoryFilter::default(), CategoryPage::default());
        let categories = self.store.list_categories(space, &filter, &page).await?;
        let roots = categories.iter().filter(|category| category.level == 1);
        if roots.map(|category| category.chunk_count).sum::<i64>() > MAX_CHUNKS {
            return Ok(Samples::default());
        }

        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let samples = self
            .store
            .list_samples(space, count(FIRST), count(READ), count(CHARS))
            .await?;

        Ok(gather(&categories, samples, known))
    }
}

/// Keeps the first and the latest.
pub fn thin<T>(samples: &mut Vec<T>) {
    if samples.len() > FIRST + LATEST {
        samples.drain(FIRST..samples.len() - LATEST);
    }
}

/// A sample below a category: when it was created, its id, its text.
type Below = (i64, i64, Arc<SampleText>);

/// The samples of leaves, and of their ancestors.
fn gather(categories: &[Category], samples: Vec<Sample>, known: &Samples) -> Samples {
    let texts: HashMap<i64, Arc<SampleText>> = samples
        .iter()
        .map(|sample| {
            let same = known.texts.get(&sample.id).cloned();
            let same = same.filter(|same| same.text == sample.text);
            let text = same.unwrap_or_else(|| Arc::new(SampleText::new(Arc::clone(&sample.text))));
            (sample.id, text)
        })
        .collect();

    let mut below = below(categories, &samples, &texts);
    let contents = categories.iter().map(|category| {
        let texts = below.remove(&category.id).unwrap_or_default();
        (category.id, contents(category, texts))
    });

    Samples {
        contents: contents.collect(),
        subjects: subjects(categories, &samples),
        filed: filed(samples),
        texts,
    }
}

/// The samples below each category, on whatever level.
fn below(
    categories: &[Category],
    samples: &[Sample],
    texts: &HashMap<i64, Arc<SampleText>>,
) -> HashMap<i64, Vec<Below>> {
    let parents: HashMap<i64, Option<i64>> = categories
        .iter()
        .map(|category| (category.id, category.parent_id))
        .collect();

    let mut below: HashMap<i64, Vec<Below>> = HashMap::new();
    for sample in samples {
        let Some(text) = texts.get(&sample.id) else {
            continue;
        };

        let mut category = Some(sample.category_id);
        while let Some(id) = category {
            below.entry(id).or_default().push((
                sample.created_at.as_micros(),
                sample.id,
                Arc::clone(text),
            ));
            category = parents.get(&id).copied().flatten();
        }
    }

    below
}

/// The first subjects below each category, on whatever level.
fn subjects(categories: &[Category], samples: &[Sample]) -> HashMap<i64, Vec<Arc<str>>> {
    let parents: HashMap<i64, Option<i64>> = categories
        .iter()
        .map(|category| (category.id, category.parent_id))
        .collect();

    let mut subjects: HashMap<i64, Vec<Arc<str>>> = HashMap::new();
    for sample in samples {
        let Some(subject) = &sample.subject else {
            continue;
        };

        let mut category = Some(sample.category_id);
        while let Some(id) = category {
            let told = subjects.entry(id).or_default();
            if told.len() < TOLD {
                told.push(Arc::clone(subject));
            }
            category = parents.get(&id).copied().flatten();
        }
    }

    subjects
}

fn beginning(text: &str) -> Arc<str> {
    let end = text.char_indices().nth(TOLD_CHARS);
    text[..end.map_or(text.len(), |(at, _)| at)].into()
}

/// The samples of each leaf that are known whole, oldest first.
fn filed(samples: Vec<Sample>) -> HashMap<i64, Vec<Sample>> {
    let mut filed: HashMap<i64, Vec<Sample>> = HashMap::new();
    for sample in samples {
        // A text of the maximum length read may be longer.
        if char_count(&sample.text) < CHARS {
            filed.entry(sample.category_id).or_default().push(sample);
        }
    }

    for filed in filed.values_mut() {
        filed.sort_by_key(|sample| (sample.created_at, sample.id));
    }

    filed
}

/// What is shown of a category.
fn contents(category: &Category, mut texts: Vec<Below>) -> CategoryContents {
    texts.sort_by_key(|(moment, id, _)| (*moment, *id));
    let step = texts.len().div_ceil(SPREAD).max(1);
    let spread = texts
        .iter()
        .step_by(step)
        .map(|(_, _, text)| Arc::clone(text))
        .collect();

    thin(&mut texts);
    CategoryContents {
        count: usize::try_from(category.chunk_count).unwrap_or(0),
        samples: texts
            .into_iter()
            .map(|(_, _, text)| Arc::clone(&text.text))
            .collect(),
        spread,
    }
}
