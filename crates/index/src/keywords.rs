//! Keyword score: BM25 over memoir's own terms, with the standard k1 and b. The score is the same
//! on every engine, because it depends only on four facts that each can provide: the chunks in the
//! space, their mean length, the number of chunks with a term, and the candidate's stored tokens.

use std::collections::HashMap;

use super::terms::{QueryTerm, for_each_token, token};

/// How quickly repetitions of a term stop counting (Robertson's usual value).
pub const K1: f64 = 1.2;
/// How much a longer chunk must repeat a term (usual value).
pub const B: f64 = 0.75;

/// What the ranking needs to know about a space.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Collection {
    /// Chunks that may be found.
    pub chunks: u64,
    /// Mean of their `ChunkTerms::length`.
    pub mean_length: f64,
}

impl Collection {
    /// From a number of chunks and the sum of their lengths.
    pub fn of(chunks: u64, total_length: u64) -> Self {
        Self {
            chunks,
            mean_length: if chunks == 0 {
                0.0
            } else {
                float(total_length) / float(chunks)
            },
        }
    }
}

/// A query ready for scoring.
#[derive(Debug)]
pub struct KeywordQuery {
    terms: Vec<Weighted>,
    by_token: HashMap<String, usize>,
    /// The damping of length 0, and of each further term.
    damping: (f64, f64),
    /// The highest score that any chunk could reach.
    most: f64,
}

/// A term of the query with its weight.
#[derive(Debug, Clone, PartialEq)]
pub struct Weighted {
    pub term: String,
    /// Chunks that contain it.
    pub chunks: u64,
    /// Occurrences in the query × inverse document frequency.
    pub weight: f64,
}

/// Inverse document frequency in the form that is never negative, so that in a space of three
/// chunks a term in all of them still counts.
pub fn idf(chunks: u64, with_term: u64) -> f64 {
    let with_term = with_term.min(chunks);
    (1.0 + (float(chunks - with_term) + 0.5) / (float(with_term) + 0.5)).ln()
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
fn float(count: u64) -> f64 {
    count as f64
}

/// What a term of this weight adds to the score of a chunk with this many occurrences.
#[inline]
pub fn part(weight: f64, count: u32, damping: f64) -> f64 {
    let count = f64::from(count);
    if count > 0.0 {
        weight * count / (count + damping)
    } else {
        0.0
    }
}

impl KeywordQuery {
    /// `with_term[i]` is the number of chunks of the collection that contain `terms[i]`.
    pub fn new(terms: &[QueryTerm], with_term: &[u64], collection: Collection) -> Self {
        let terms: Vec<Weighted> = terms
            .iter()
            .zip(with_term)
            .map(|(asked, &with)| Weighted {
                term: asked.term.clone(),
                chunks: with,
                weight: f64::from(asked.count) * idf(collection.chunks, with),
            })
            .collect();

        let by_token = terms
            .iter()
            .enumerate()
            .map(|(n, t)| (token(&t.term), n))
            .collect();

        let most = terms.iter().map(|term| term.weight * (K1 + 1.0)).sum();
        let damping = (K1 * (1.0 - B), K1 * B / collection.mean_length.max(1.0));
        Self {
            terms,
            by_token,
            damping,
            most,
        }
    }

    /// The terms with their weights, in query order.
    pub fn terms(&self) -> &[Weighted] {
        &self.terms
    }

    /// Scores a chunk from its stored tokens and length.
    pub fn score(&self, tokens: &str, length: u32) -> f64 {
        let mut counts = vec![0_u32; self.terms.len()];
        for_each_token(tokens, |token, count| {
            if let Some(term) = self.by_token.get(token) {
                counts[*term] = count;
            }
        });

        let damping = self.damping(length);
        counts
            .iter()
            .enumerate()
            .map(|(term, count)| self.part(term, *count, damping))
            .sum()
    }

    /// The damping by the length of a chunk.
    #[inline]
    pub fn damping(&self, length: u32) -> f64 {
        self.damping.0 + self.damping.1 * f64::from(length)
    }

    /// The highest value of a term.
    pub fn weight(&self, term: usize) -> f64 {
        self.terms[term].weight * (K1 + 1.0)
    }

    /// What a term adds to the score of a chunk with this many occurrences.
    pub fn part(&self, term: usize, count: u32, damping: f64) -> f64 {
        part(self.weight(term), count, damping)
    }

    /// A score as a share of the highest that any chunk could reach: 0 to 1, and comparable between
    /// queries.
    pub fn share(&self, score: f64) -> f64 {
        if self.most > 0.0 {
            (score / self.most).min(1.0)
        } else {
            0.0
        }
    }

    /// The share of the query's terms that a chunk contains, rare ones counting more: `has` tells
    /// which, and `fields` is what its source adds to its score, at most half of each term.
    pub fn covered(&self, has: impl Fn(usize) -> bool, fields: f64) -> f64 {
        let held: f64 = (0..self.terms.len())
            .filter(|term| has(*term))
            .map(|term| self.weight(term))
            .sum();

        self.share(held + 2.0 * fields)
    }

    /// Which terms are among the stored tokens of a chunk.
    pub fn terms_among(&self, tokens: &str) -> Vec<bool> {
        let mut among = vec![false; self.terms.len()];
        for_each_token(tokens, |token, _| {
            if let Some(term) = self.by_token.get(token) {
                among[*term] = true;
            }
        });

        among
    }

    /// Indexes of the terms that any chunk contains, rarest first.
    pub fn by_rarity(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.terms.len())
            .filter(|&n| self.terms[n].chunks > 0)
            .collect();
        order.sort_by_key(|&n| (self.terms[n].chunks, n));
        order
    }

    /// Indexes of the terms to search the engine for: rarest first, as many as together match at
    /// most `most` chunks, and always the rarest. Chunks with only the most common terms hardly
    /// ever rank first, and ranking all of them is what makes a keyword search slow; the caller
    /// checks whether they could.
    pub fn rarest(&self, most: u64) -> Vec<usize> {
        let mut order = self.by_rarity();
        let mut matched = 0u64;
        let fits = order.iter().take_while(|&&n| {
            matched = matched.saturating_add(self.terms[n].chunks);
            matched <= most
        });

        let kept = fits.count().max(1);
        order.truncate(kept);
        order
    }
}

#[cfg(test)]
mod tests {
    use super::super::terms;
    use super::*;

    const SPACE: Collection = Collection {
        chunks: 100,
        mean_length: 4.0,
    };

    fn query(text: &str, with: &[u64]) -> KeywordQuery {
        KeywordQuery::new(&terms::of_query(text), with, SPACE)
    }

    fn score(query: &KeywordQuery, text: &str) -> f64 {
        let chunk = terms::of_chunk(text);
        query.score(&chunk.tokens, chunk.length)
    }

    #[test]
    fn computes_bm25() {
        let asked = query("wings", &[10]);
        let found = score(&asked, "a wing and another wing for Robin Hood");
        let idf = (1.0f64 + 90.5 / 10.5).ln();
        let wanted = idf * 2.0 * 2.2 / (2.0 + 1.2 * (0.25 + 0.75 * 5.0 / 4.0));
        assert!((found - wanted).abs() < 1e-12);

        assert!((asked.share(found) - wanted / (idf * 2.2)).abs() < 1e-12);
    }

    #[test]
    fn rare_terms_short_chunks_and_repeats_count_more() {
        let asked = query("common rare", &[90, 1]);
        let worth = |text| score(&asked, text);
        assert!(worth("rare thing") > worth("common thing"));
        assert!(worth("rare thing") > worth("rare thing among lengthy unrelated remarks"));
        assert!(worth("rare rare thing x") > worth("rare thing x y"));

        assert!(worth("nothing of it").abs() < f64::EPSILON);
    }

    #[test]
    fn a_term_in_every_chunk_still_matches() {
        assert!(idf(3, 3) > 0.0);
        assert!(idf(3, 9) > 0.0);
        assert!(idf(0, 0) > 0.0);
    }

    #[test]
    fn a_share_never_exceeds_one() {
        let asked = query("wing wing dove", &[5, 7]);
        let found = asked.share(score(&asked, &"wing dove ".repeat(100)));
        assert!(found > 0.5 && found < 1.0);
    }

    #[test]
    fn the_rarest_terms_are_selected_for_the_engine() {
        let asked = query("alpha beta gamma delta", &[40, 0, 5, 30]);
        assert_eq!(asked.rarest(100), vec![2, 3, 0]);
        assert_eq!(asked.rarest(40), vec![2, 3]);
        assert_eq!(asked.rarest(1), vec![2]);

        assert!(query("beta", &[0]).rarest(10).is_empty());
    }
}
