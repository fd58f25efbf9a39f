//! Groups texts by what they are about, with the embedded model: the same texts always give the same
//! groups.

use memoir_embedded_model::EmbeddedModel;

/// Rounds after which groups hardly change.
const ROUNDS: usize = 12;

type Vector = Vec<f32>;

/// The group of each text, out of at most `groups`; numbers may be missing.
pub(super) fn group(texts: &[&str], groups: usize) -> Vec<usize> {
    let vectors: Vec<Vector> = texts
        .iter()
        .map(|text| EmbeddedModel::embed(text))
        .collect();
    let mut centres = seeds(&vectors, groups);
    let mut chosen = vec![0; vectors.len()];
    for _ in 0..ROUNDS {
        let next: Vec<usize> = vectors.iter().map(|one| nearest(one, &centres).0).collect();
        let is_stable = next == chosen;
        chosen = next;
        if is_stable {
            break;
        }

        for (number, centre) in centres.iter_mut().enumerate() {
            let own = vectors.iter().zip(&chosen);
            let own = own.filter(|(_, group)| **group == number);
            if let Some(mean) = mean(own.map(|(vector, _)| vector)) {
                *centre = mean;
            }
        }
    }

    chosen
}

/// Texts that are as far from each other as possible, starting with the one nearest the mean.
fn seeds(vectors: &[Vector], groups: usize) -> Vec<Vector> {
    let Some(middle) = mean(vectors.iter()) else {
        return Vec::new();
    };
    let mut newest = nearest(&middle, vectors).0;
    let mut seeds = vec![vectors[newest].clone()];
    // How similar each text is to the seed nearest to it.
    let mut best = vec![f32::MIN; vectors.len()];
    while seeds.len() < groups.min(vectors.len()) {
        for (best, vector) in best.iter_mut().zip(vectors) {
            *best = best.max(similarity(vector, &vectors[newest]));
        }

        let places = 0..vectors.len();
        newest = places
            .min_by(|a, b| best[*a].total_cmp(&best[*b]))
            .unwrap_or_default();
        seeds.push(vectors[newest].clone());
    }

    seeds
}

/// The most similar of these, the first of equals, and how similar it is.
fn nearest(vector: &[f32], others: &[Vector]) -> (usize, f32) {
    let mut best = (0, f32::MIN);
    for (number, other) in others.iter().enumerate() {
        let similarity = similarity(vector, other);
        if similarity > best.1 {
            best = (number, similarity);
        }
    }

    best
}

fn similarity(one: &[f32], other: &[f32]) -> f32 {
    one.iter().zip(other).map(|(a, b)| a * b).sum()
}

/// Their mean, of length 1.
fn mean<'v>(vectors: impl Iterator<Item = &'v Vector>) -> Option<Vector> {
    let sum = vectors.fold(None, |sum: Option<Vector>, vector| {
        Some(match sum {
            Some(sum) => sum.iter().zip(vector).map(|(a, b)| a + b).collect(),
            None => vector.clone(),
        })
    })?;
    let length = sum.iter().map(|x| x * x).sum::<f32>().sqrt();
    Some(if length > 0.0 {
        sum.iter().map(|x| x / length).collect()
    } else {
        sum
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_about_the_same_go_together() {
        let texts = [
            "The boiler was serviced and the radiator is warm.",
            "We booked a flight and a hotel for the holiday.",
            "The plumber repaired the heating and the boiler.",
            "The train ticket and the hotel of our journey.",
        ];
        let found = group(&texts, 2);
        assert_eq!(found[0], found[2]);
        assert_eq!(found[1], found[3]);
        assert_ne!(found[0], found[1]);
        assert_eq!(group(&texts, 2), found);
        assert_eq!(group(&[], 2), [] as [usize; 0]);
        assert_eq!(group(&texts[..1], 3), [0]);
    }
}
