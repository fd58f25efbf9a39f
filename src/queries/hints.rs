//! What is known of the contents of categories when a model selects among them: the embedded model
//! uses it, a small language model sees the names that fit best, others see all of them.

use std::collections::HashMap;
use std::sync::Arc;

use super::QueryError;
use super::auto::ranking::RankedChunk;
use super::auto::searching::search_here;
use super::finder::Live;
use crate::categories::samples::Samples;
use crate::llm::Hint;
use crate::model::category::CategoryPath;

/// How much the second best chunk of a category counts: the scores of a search are close together.
const SECOND_SHARE: f64 = 0.01;

/// Options that a small language model sees.
const MAX_SHOWN: usize = 8;
/// Results of the search that tell where to walk.
const MAX_RESULTS: usize = 60;

/// What is known of categories besides their names.
pub enum Hints {
    Nothing,
    /// Some chunks of each.
    Samples(Arc<Samples>),
    /// Where a search found the query.
    Matches(Matches),
    /// Only the names that a search finds most relevant are shown.
    Best(Matches),
}

impl Hints {
    /// Options in the order in which they are shown, without those that are not.
    pub fn shown<T>(&self, mut options: Vec<T>, id: impl Fn(&T) -> i64) -> Vec<T> {
        if let Self::Best(matches) = self {
            let score = |option: &T| matches.of(id(option));
            options.sort_by(|one, other| score(other).total_cmp(&score(one)));
            options.truncate(MAX_SHOWN);
        }
        options
    }

    /// The hint for a selection among these categories.
    pub fn of(&self, categories: &[i64]) -> Hint {
        match self {
            Self::Nothing | Self::Best(_) => Hint::default(),
            Self::Samples(samples) => Hint::samples(samples.of_each(categories)),
            Self::Matches(matches) => Hint::found(matches.of_each(categories)),
        }
    }
}

/// What categories contain, if the embedded model selects: where a search finds the query, or, if it
/// finds nothing or fails, samples.
pub async fn of(live: &Live<'_>) -> Result<Hints, QueryError> {
    let few = live.selects_from_few();
    if live.language_model_selects() && !few {
        return Ok(Hints::Nothing);
    }

    // Without the search, the walk still has samples and names.
    let matches = search(live)
        .await
        .inspect_err(|error| tracing::warn!(%error, "cannot search for categories to walk to"));
    match matches {
        Ok(matches) if few => Ok(Hints::Best(matches)),
        Err(_) if few => Ok(Hints::Best(Matches::default())),
        Ok(matches) if !matches.is_empty() => Ok(Hints::Matches(matches)),
        _ => Ok(Hints::Samples(live.inner.samples.of(live.space).await?)),
    }
}

async fn search(live: &Live<'_>) -> Result<Matches, QueryError> {
    let chunks = search_here(live, MAX_RESULTS).await?;
    let mut leaves: Vec<i64> = chunks.iter().map(|chunk| chunk.leaf).collect();
    leaves.sort_unstable();
    leaves.dedup();
    leaves.retain(|leaf| *leaf != 0);

    let paths = live
        .inner
        .store
        .find_category_paths(live.space, &leaves, live.scope.as_of)
        .await?;
    Ok(Matches::new(&chunks, &paths))
}

/// By category, on whatever level: how well the best chunks below it match the query, 0 to 1.
#[derive(Default)]
pub struct Matches {
    scores: HashMap<i64, f32>,
}

impl Matches {
    /// From the results of a search, best first, and the paths of their leaves.
    pub fn new(chunks: &[RankedChunk], paths: &HashMap<i64, CategoryPath>) -> Self {
        let mut below: HashMap<i64, Vec<f64>> = HashMap::new();
        for chunk in chunks {
            for (category, _) in paths.get(&chunk.leaf).into_iter().flatten() {
                below.entry(*category).or_default().push(chunk.search);
            }
        }

        // Many fair chunks do not make up for a good one, but of two equals the one with more wins.
        #[expect(clippy::cast_possible_truncation, reason = "at most 1")]
        let score = |scores: &[f64]| {
            let second = scores.get(1).copied().unwrap_or(0.0);
            ((1.0 - SECOND_SHARE) * scores[0] + SECOND_SHARE * second).clamp(0.0, 1.0) as f32
        };
        let scores = below.iter();
        let scores = scores
            .map(|(category, found)| (*category, score(found)))
            .collect();
        Self { scores }
    }

    pub fn is_empty(&self) -> bool {
        self.scores.is_empty()
    }

    fn of_each(&self, categories: &[i64]) -> Arc<[f32]> {
        categories
            .iter()
            .map(|category| self.of(*category))
            .collect()
    }

    fn of(&self, category: i64) -> f32 {
        self.scores.get(&category).copied().unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn categories_above_the_best_chunks_are_ahead() {
        let chunk = |leaf, search| RankedChunk {
            chunk_id: 1,
            leaf,
            result: 0,
            search,
            pick: 0.0,
            tokens: 1,
        };
        let path = |ids: [i64; 2]| ids.map(|id| (id, id.to_string())).to_vec();
        let paths = HashMap::from([
            (11, path([1, 11])),
            (12, path([1, 12])),
            (21, path([2, 21])),
        ]);

        let found = Matches::new(&[chunk(11, 0.8), chunk(21, 0.8), chunk(12, 0.4)], &paths);
        let scores = found.of_each(&[1, 11, 2, 12, 3]);
        assert!(scores.is_sorted_by(|one, other| one >= other), "{scores:?}");
        assert!(scores[0] > scores[2] && scores[4] == 0.0, "{scores:?}");
    }
}
