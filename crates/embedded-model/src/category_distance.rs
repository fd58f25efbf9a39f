//! How far a text is from the texts of a category, whatever its subject. Guarantees no result for a
//! category with too few samples, and that texts which do not belong there hardly change it.

use std::sync::Arc;

use super::sketch::{Sketch, sketch};
use super::table::{self, Vector};

/// Minimum number of samples of a category for a result.
const KNOWN: usize = 12;
/// Minimum share of all texts, in percent, in the main category of a store of one subject.
const MAIN: usize = 60;
/// Minimum spread of a category, even of identical texts.
const MIN_SPREAD: f32 = 0.03;
/// Factor that makes the median absolute deviation comparable with a standard deviation.
const NORMAL: f32 = 1.4826;

/// The main category of a store of one subject, and the distance of a text from its mean, in
/// spreads above the median distance. There are `number` categories; `counts` is the number of
/// texts in each, or the number of samples is used.
pub fn main(
    number: usize,
    samples: &[Vec<&str>],
    counts: &[usize],
    text: &Sketch,
) -> Option<(usize, f32)> {
    let count = |at: usize| {
        counts
            .get(at)
            .copied()
            .unwrap_or_else(|| samples.get(at).map_or(0, Vec::len))
    };

    let total: usize = (0..number).map(count).sum();
    let main = (0..number).find(|at| 100 * count(*at) >= MAIN * total)?;
    let known = samples.get(main).filter(|texts| texts.len() >= KNOWN)?;
    Some((
        main,
        spreads(
            &known.iter().map(|text| sketch(text)).collect::<Vec<_>>(),
            text,
        ),
    ))
}

fn spreads(texts: &[Arc<Sketch>], text: &Sketch) -> f32 {
    let mut sum = table::ZERO;
    for text in texts {
        table::add(&mut sum, &text.vector, 1.0);
    }

    let near: Vec<f32> = texts.iter().map(|text| apart(&sum, &text.vector)).collect();
    let usual = median(near.clone());
    let spread = NORMAL * median(near.iter().map(|n| (n - usual).abs()).collect());
    (usual - table::dot(&table::unit(sum), &text.vector)) / spread.max(MIN_SPREAD)
}

fn median(mut values: Vec<f32>) -> f32 {
    values.sort_by(f32::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Similarity of a text to the mean of the others.
fn apart(sum: &Vector, text: &Vector) -> f32 {
    let mut others = *sum;
    table::add(&mut others, text, -1.0);
    table::dot(&table::unit(others), text)
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::*;

    #[test]
    fn identical_texts_do_not_count_as_neighbours() {
        let texts = [vec!["Payment received"; 16]];
        for (text, most) in [
            ("Payment received", 0.1),
            ("The payment was received", 12.0),
        ] {
            let (_, spreads) = main(1, &texts, &[], &sketch(text)).expect("a main category");
            assert!(spreads <= most, "{text}: {spreads}");
        }
    }

    #[test]
    fn an_unrelated_text_is_far_and_few_texts_give_no_result() {
        let texts: Vec<String> = (0..16)
            .map(|n| format!("Why was my card payment number {n} declined?"))
            .collect();
        let cards: Vec<&str> = texts.iter().map(String::as_str).collect();
        let (at, near) = main(1, from_ref(&cards), &[], &sketch("My card was declined"))
            .expect("a main category");
        let (_, far) = main(
            1,
            from_ref(&cards),
            &[],
            &sketch("The cat sleeps in the garden"),
        )
        .expect("a main category");

        assert!(at == 0 && near < far, "{near} {far}");
        assert_eq!(main(1, &[cards[..5].to_vec()], &[], &sketch("")), None);
        assert_eq!(main(2, &[cards.clone(), cards], &[], &sketch("")), None);
    }
}
