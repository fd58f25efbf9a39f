//! Measures for filing: labelled files, purity, NMI, k-means and a seeded shuffle.
//! Everything is deterministic for a given seed.
#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "counts of some thousand texts"
)]

use std::collections::HashMap;

pub struct Text {
    pub text: String,
    pub path: Vec<String>,
}

pub fn load(path: &str) -> Vec<Text> {
    let all = std::fs::read_to_string(path).unwrap_or_default();
    all.lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .map(|v| Text {
            text: v["text"]
                .as_str()
                .unwrap_or("")
                .chars()
                .take(2000)
                .collect(),
            path: v["path"].as_array().map_or(vec![], |p| {
                p.iter()
                    .filter_map(|s| s.as_str().map(String::from))
                    .collect()
            }),
        })
        .collect()
}

pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);

        z ^ (z >> 31)
    }
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
    pub fn order(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            order.swap(i, (self.next() % (i as u64 + 1)) as usize);
        }

        order
    }
}

/// Numbers labels in order of appearance.
pub fn number<S: AsRef<str>>(labels: &[S]) -> Vec<usize> {
    let mut known: HashMap<&str, usize> = HashMap::new();
    labels
        .iter()
        .map(|l| {
            let n = known.len();
            *known.entry(l.as_ref()).or_insert(n)
        })
        .collect()
}

/// (purity, NMI, groups) of `found` against `truth`.
pub fn score(found: &[usize], truth: &[usize]) -> (f64, f64, usize) {
    let n = found.len() as f64;
    let mut joint: HashMap<(usize, usize), f64> = HashMap::new();
    let (mut a, mut b): (HashMap<usize, f64>, HashMap<usize, f64>) =
        (HashMap::new(), HashMap::new());

    for (f, t) in found.iter().zip(truth) {
        *joint.entry((*f, *t)).or_default() += 1.0;
        *a.entry(*f).or_default() += 1.0;
        *b.entry(*t).or_default() += 1.0;
    }

    let mut best: HashMap<usize, f64> = HashMap::new();
    let mut information = 0.0;
    for ((f, t), c) in &joint {
        let e = best.entry(*f).or_default();
        *e = e.max(*c);
        information += c / n * (c * n / (a[f] * b[t])).ln();
    }

    let entropy = |m: &HashMap<usize, f64>| -m.values().map(|c| c / n * (c / n).ln()).sum::<f64>();
    let mean = f64::midpoint(entropy(&a), entropy(&b));
    (
        best.values().sum::<f64>() / n,
        if mean > 0.0 { information / mean } else { 0.0 },
        a.len(),
    )
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0f32; 8];
    for (x, y) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
        for i in 0..8 {
            lanes[i] += x[i] * y[i];
        }
    }

    lanes.iter().sum()
}

/// Spherical k-means, k-means++ seeded, best of `restarts`.
pub fn kmeans(points: &[Vec<f32>], k: usize, restarts: u64) -> Vec<usize> {
    let mut best = (f32::MIN, vec![]);
    for r in 0..restarts {
        let (fit, groups) = kmeans_once(points, k, &mut Random(1000 + r));
        if fit > best.0 {
            best = (fit, groups);
        }
    }

    best.1
}

fn kmeans_once(points: &[Vec<f32>], k: usize, random: &mut Random) -> (f32, Vec<usize>) {
    let mut centres: Vec<Vec<f32>> = vec![points[random.next() as usize % points.len()].clone()];
    let mut near: Vec<f32> = points
        .iter()
        .map(|p| (1.0 - dot(p, &centres[0])).max(0.0))
        .collect();

    while centres.len() < k {
        let total: f64 = near.iter().map(|d| f64::from(*d)).sum();
        let mut at = random.unit() * total;
        let mut pick = points.len() - 1;

        for (i, d) in near.iter().enumerate() {
            at -= f64::from(*d);
            if at <= 0.0 {
                pick = i;
                break;
            }
        }

        let c = points[pick].clone();
        for (d, p) in near.iter_mut().zip(points) {
            *d = d.min((1.0 - dot(p, &c)).max(0.0));
        }

        centres.push(c);
    }

    let mut groups = vec![0; points.len()];
    let mut fit = 0.0;
    for _ in 0..40 {
        let mut moved = false;
        fit = 0.0;
        for (g, p) in groups.iter_mut().zip(points) {
            let (mut b, mut s) = (0, f32::MIN);
            for (j, c) in centres.iter().enumerate() {
                let d = dot(p, c);
                if d > s {
                    (b, s) = (j, d);
                }
            }

            fit += s;
            moved |= *g != b;
            *g = b;
        }

        if !moved {
            break;
        }

        for (j, c) in centres.iter_mut().enumerate() {
            let mut sum = vec![0.0f32; c.len()];
            let mut any = false;
            for (g, p) in groups.iter().zip(points) {
                if *g == j {
                    any = true;
                    for (a, b) in sum.iter_mut().zip(p) {
                        *a += b;
                    }
                }
            }

            let length = dot(&sum, &sum).sqrt();
            if any && length > 0.0 {
                *c = sum.into_iter().map(|v| v / length).collect();
            }
        }
    }

    (fit, groups)
}
