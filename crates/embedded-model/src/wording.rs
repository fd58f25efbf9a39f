//! Word-by-word similarity of texts: for every word of one text, the nearest word of the other. The
//! mean of all words shows what two texts are about; this shows whether they are about the same
//! things. Guarantees a symmetric similarity, and that each pair of words is compared only once,
//! however many texts a text is compared with.

use super::sketch::Sketch;
use super::table;

/// A text that is compared with many others.
pub struct Wording<'a> {
    text: &'a Sketch,
    /// For every possible row of the table, its position in `seen`, counted from 1; 0 if it was not
    /// seen yet.
    met: Vec<u16>,
    seen: Vec<Seen>,
    /// Similarity of each word seen to each word of the text.
    near: Vec<f32>,
    /// For each word of the text, the highest similarity so far to a word of the other text.
    best: Vec<f32>,
}

/// A word of other texts.
struct Seen {
    /// Where its part of `near` begins.
    from: usize,
    /// Similarity to the nearest word of the text.
    best: f32,
}

impl<'a> Wording<'a> {
    pub fn new(text: &'a Sketch) -> Self {
        let best = vec![0.0; text.words.len()];
        Self {
            text,
            met: vec![0; usize::from(u16::MAX) + 1],
            seen: Vec::new(),
            near: Vec::new(),
            best,
        }
    }

    /// 1 for equal words, about 0.3 for unrelated texts; 0 if one has no words.
    pub fn likeness(&mut self, other: &Sketch) -> f32 {
        if self.text.words.is_empty() || other.words.is_empty() {
            return 0.0;
        }

        self.best.fill(-1.0);
        let mut back = 0.0;
        for word in &other.words {
            let at = self.meet(word.row);
            let seen = &self.seen[at];
            back += word.part * seen.best;
            for (best, near) in self.best.iter_mut().zip(&self.near[seen.from..]) {
                *best = best.max(*near);
            }
        }

        let there: f32 = self
            .text
            .words
            .iter()
            .zip(&self.best)
            .map(|(word, best)| word.part * best)
            .sum();

        f32::midpoint(there, back)
    }

    fn meet(&mut self, row: u16) -> usize {
        let known = usize::from(self.met[usize::from(row)]);
        if known > 0 {
            return known - 1;
        }

        let from = self.near.len();
        self.near.extend(
            self.text
                .words
                .iter()
                .map(|word| table::nearness(word.row, row)),
        );

        let best = self.near[from..].iter().copied().fold(-1.0, f32::max);
        self.seen.push(Seen { from, best });
        self.met[usize::from(row)] = u16::try_from(self.seen.len()).unwrap_or_default();
        self.seen.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::super::sketch::sketch;
    use super::*;

    fn likeness(a: &str, b: &str) -> f32 {
        Wording::new(&sketch(a)).likeness(&sketch(b))
    }

    #[test]
    fn similar_words_count_like_equal_ones() {
        let stolen = "My card was stolen";
        assert!((likeness(stolen, stolen) - 1.0).abs() < 1e-4);
        assert!(
            likeness(stolen, "Somebody robbed me of my card")
                > likeness(stolen, "Which currencies do you hold?")
        );
    }

    #[test]
    fn the_comparison_is_symmetric_and_caching_changes_nothing() {
        let texts = [
            "My card was stolen",
            "Where is my card?",
            "Is the exchange rate fair?",
            "",
        ];
        for a in texts {
            let sketch_a = sketch(a);
            let mut many = Wording::new(&sketch_a);
            for b in texts {
                let there = many.likeness(&sketch(b));
                assert!((there - likeness(b, a)).abs() < 1e-5, "{a} / {b}");
                assert!(there.to_bits() == likeness(a, b).to_bits(), "{a} / {b}");
            }
        }
    }
}
