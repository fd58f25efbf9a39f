//! Exact semantic search: all vectors of a space in memory, one pass per query. The order is the
//! same for the same vectors on every machine (fixed order of additions, ties by row), and memory
//! stays within one block of their stored size.
//!
//! Vectors are stored as 16-bit integers (`vector_bytes`). Memory bandwidth is the limit, so
//! each integer is kept as two bytes in two arrays. The upper bytes give a cosine with a known
//! maximum error; only rows that may be among the best are computed from both.

use std::num::NonZero;
use std::thread::available_parallelism;

pub use super::vector_bytes::{from_bytes, integers, to_bytes};

/// Numbers per block: 2 MiB. Growing by blocks keeps memory near the size of the data, where one
/// growing vector could take twice as much.
const BLOCK: usize = 1 << 20;
/// Running sums of a dot product: enough for the widest registers, added up in a fixed order.
const LANES: usize = 16;
/// Half of what a lower byte can be: the upper byte alone leaves the number unknown by so much.
const HALF_STEP: i16 = 128;
/// The query's numbers, from -1 to 1, are multiplied by this and rounded for the first pass. The sum
/// of products then fits 32 bits for vectors of up to 900,000 numbers.
const QUERY_SCALE: f32 = 16_384.0;
/// More than the rounding of floats can add to an error, for each of the numbers of a vector.
const ROUNDING: f32 = 1e-7;

/// With fewer rows than this, a second thread would start too late to help.
const ALONE: usize = 20_000;
/// More threads would only wait for memory.
const MAX_THREADS: usize = 4;

/// Unit vectors of one length, numbered from 0.
#[derive(Debug)]
pub struct Matrix {
    dims: usize,
    rows: usize,
    rows_per_block: usize,
    blocks: Vec<Block>,
}

/// Numbers are `256 × upper + lower`.
#[derive(Debug, Default)]
struct Block {
    upper: Vec<i8>,
    lower: Vec<u8>,
    /// One divided by the length of each vector; 0 for one without direction.
    factors: Vec<f32>,
}

/// A query of length 1, as both passes need it.
struct Query {
    exact: Vec<f32>,
    rounded: Vec<i16>,
    /// What the lower bytes add, if each is half a step.
    middle: f32,
    /// The maximum error of the first pass: this much times the factor of the row, and this much.
    doubt: (f32, f32),
}

/// A row and its cosine with the query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    /// Which of several matrices it belongs to.
    pub matrix: usize,
    pub row: usize,
    pub cosine: f32,
}

impl Matrix {
    pub fn new(dims: usize) -> Self {
        let dims = dims.max(1);
        Self {
            dims,
            rows: 0,
            rows_per_block: (BLOCK / dims).max(1),
            blocks: Vec::new(),
        }
    }

    pub fn len(&self) -> usize {
        self.rows
    }

    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Bytes allocated for vectors, including spare capacity.
    pub fn bytes(&self) -> usize {
        let bytes = |block: &Block| {
            block.upper.capacity() + block.lower.capacity() + block.factors.capacity() * 4
        };
        self.blocks.iter().map(bytes).sum()
    }

    /// Adds a vector, scaled to length 1, as the next row. `false`, and nothing added, if it has
    /// the wrong length.
    pub fn push(&mut self, vector: &[f32]) -> bool {
        self.push_bytes(&to_bytes(vector))
    }

    /// Adds a vector as it is stored.
    pub fn push_bytes(&mut self, bytes: &[u8]) -> bool {
        let Some((scale, numbers)) = integers(bytes).filter(|(_, all)| all.len() == self.dims)
        else {
            return false;
        };

        let square = |number: &[u8; 2]| f64::from(i16::from_le_bytes(*number)).powi(2);
        let length = numbers.iter().map(square).sum::<f64>().sqrt();
        #[expect(clippy::cast_possible_truncation, reason = "at most 1")]
        let factor = if length > 0.0 && scale.is_finite() && scale > 0.0 {
            (1.0 / length) as f32
        } else {
            0.0
        };

        let block = self.open_block();
        block.factors.push(factor);
        let upper = numbers.iter().map(|[_, upper]| i8::from_le_bytes([*upper]));
        block.upper.extend(upper);
        block.lower.extend(numbers.iter().map(|[lower, _]| *lower));

        self.rows += 1;
        true
    }

    /// Adds a row of another matrix. `false`, and nothing added, if there is no such row or its
    /// length differs.
    pub fn push_row(&mut self, other: &Self, row: usize) -> bool {
        let Some((upper, lower, factor)) = other.parts(row).filter(|_| other.dims == self.dims)
        else {
            return false;
        };

        let block = self.open_block();
        block.upper.extend_from_slice(upper);
        block.lower.extend_from_slice(lower);
        block.factors.push(factor);
        self.rows += 1;
        true
    }

    /// The block of the next row.
    fn open_block(&mut self) -> &mut Block {
        let number = self.rows / self.rows_per_block;
        if number == self.blocks.len() {
            // Later blocks will be filled; the only one of a small matrix grows as needed.
            let rows = if number == 0 { 0 } else { self.rows_per_block };
            self.blocks.push(Block {
                upper: Vec::with_capacity(rows * self.dims),
                lower: Vec::with_capacity(rows * self.dims),
                factors: Vec::with_capacity(rows),
            });
        }

        &mut self.blocks[number]
    }

    /// Releases memory reserved for growth.
    pub fn settle(&mut self) {
        for block in &mut self.blocks {
            block.upper.shrink_to_fit();
            block.lower.shrink_to_fit();
            block.factors.shrink_to_fit();
        }
    }

    pub fn dims(&self) -> usize {
        self.dims
    }

    fn parts(&self, row: usize) -> Option<(&[i8], &[u8], f32)> {
        let place = row % self.rows_per_block;
        let at = place * self.dims;
        let block = self.blocks.get(row / self.rows_per_block)?;
        Some((
            block.upper.get(at..at + self.dims)?,
            block.lower.get(at..at + self.dims)?,
            *block.factors.get(place)?,
        ))
    }

    /// The vector of a row.
    pub fn row(&self, row: usize) -> Option<Vec<f32>> {
        let (upper, lower, factor) = self.parts(row)?;
        let numbers = upper.iter().zip(lower);
        let numbers = numbers.map(|(upper, lower)| whole(*upper, *lower) * factor);
        Some(numbers.collect())
    }

    /// Cosine of one row with a query of length 1.
    pub fn cosine(&self, query: &[f32], row: usize) -> Option<f32> {
        let (upper, lower, factor) = self.parts(row)?;
        Some(dot_whole(query, upper, lower) * factor)
    }

    /// The `k` nearest rows among those that `wanted` accepts, nearest first; ties go to the lower
    /// row. A query of the wrong length or without direction finds nothing.
    pub fn nearest(
        &self,
        query: &[f32],
        k: usize,
        wanted: impl Fn(usize) -> bool + Sync,
    ) -> Vec<Hit> {
        nearest_in(&[self], query, k, |_, row| wanted(row))
    }

    /// Adds the nearest rows of a block.
    fn scan(
        &self,
        query: &Query,
        block: usize,
        best: &mut Best,
        matrix: usize,
        wanted: impl Fn(usize, usize) -> bool,
    ) {
        let first = block * self.rows_per_block;
        let Block { upper, factors, .. } = &self.blocks[block];
        let rows = upper.chunks_exact(self.dims).zip(factors);
        for (row, (upper, factor)) in (first..).zip(rows) {
            if query.most(upper, *factor) > best.bar
                && wanted(matrix, row)
                && let Some(cosine) = self.cosine(&query.exact, row)
                && cosine > best.bar
            {
                best.add(Hit {
                    matrix,
                    row,
                    cosine,
                });
            }
        }
    }
}

/// The `k` nearest rows of several matrices among those that `wanted` accepts by matrix and row,
/// nearest first; ties go to the earlier matrix and the lower row.
pub fn nearest_in(
    matrices: &[&Matrix],
    query: &[f32],
    k: usize,
    wanted: impl Fn(usize, usize) -> bool + Sync,
) -> Vec<Hit> {
    if k == 0 || query.iter().all(|value| *value == 0.0) {
        return Vec::new();
    }

    let query = Query::new(query);
    let fitting = || {
        let numbered = matrices.iter().enumerate();
        numbered.filter(|(_, matrix)| matrix.dims == query.exact.len())
    };

    let rows: usize = fitting().map(|(_, matrix)| matrix.rows).sum();
    let blocks: Vec<(usize, usize)> = fitting()
        .flat_map(|(number, matrix)| (0..matrix.blocks.len()).map(move |block| (number, block)))
        .collect();

    let threads = if rows < ALONE {
        1
    } else {
        available_parallelism()
            .map_or(1, NonZero::get)
            .min(MAX_THREADS)
    };

    let scan = |blocks: &[(usize, usize)]| {
        let mut best = Best::new(k, rows);
        for (number, block) in blocks {
            matrices[*number].scan(&query, *block, &mut best, *number, &wanted);
        }
        best.finish()
    };

    let mut parts = blocks.chunks(blocks.len().div_ceil(threads).max(1));
    let first = parts.next().unwrap_or_default();
    let mut best = Best::new(k, rows);
    std::thread::scope(|scope| {
        let others: Vec<_> = parts.map(|part| scope.spawn(move || scan(part))).collect();
        best.hits = scan(first);
        for other in others {
            best.hits.extend(other.join().unwrap_or_default());
        }
    });

    best.finish()
}

impl Query {
    fn new(query: &[f32]) -> Self {
        let exact: Vec<f32> = unit(query).collect();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            reason = "rounded and in range; no vector has a million numbers"
        )]
        let (rounded, root): (Vec<i16>, f32) = (
            exact
                .iter()
                .map(|value| (value * QUERY_SCALE).round() as i16)
                .collect(),
            (exact.len() as f32).sqrt(),
        );
        let half = f32::from(HALF_STEP);
        let all: f64 = exact.iter().map(|value| f64::from(*value)).sum();
        let absolute: f64 = exact.iter().map(|value| f64::from(value.abs())).sum();
        // The rounded numbers are off by at most a half each, and the upper bytes of a row are not
        // much longer than the row, whose highest number is 32,767.
        let rounding = root / 2.0 / QUERY_SCALE * (1.0 + root / half);
        Self {
            exact,
            rounded,
            middle: half * narrow(all),
            doubt: (
                half * narrow(absolute),
                rounding + ROUNDING * (100.0 + root * root),
            ),
        }
    }

    /// The highest cosine that a row may have, by its upper bytes.
    #[inline]
    fn most(&self, upper: &[i8], factor: f32) -> f32 {
        let products = self.rounded.iter().zip(upper);
        let products = products.map(|(asked, upper)| i32::from(*asked) * i32::from(*upper));
        #[expect(clippy::cast_precision_loss, reason = "less than the doubt")]
        let dot = products.sum::<i32>() as f32 * (256.0 / QUERY_SCALE);
        (dot + self.middle + self.doubt.0) * factor + self.doubt.1
    }
}

#[expect(clippy::cast_possible_truncation, reason = "rounded")]
fn narrow(value: f64) -> f32 {
    value as f32
}

/// The best `k` so far, unsorted, with capacity for twice as many: cheaper than a heap, because
/// most rows fail the threshold.
struct Best {
    k: usize,
    hits: Vec<Hit>,
    bar: f32,
}

impl Best {
    fn new(k: usize, rows: usize) -> Self {
        Self {
            k,
            hits: Vec::with_capacity(2 * k.min(rows)),
            bar: f32::NEG_INFINITY,
        }
    }

    fn add(&mut self, hit: Hit) {
        self.hits.push(hit);
        if self.hits.len() >= 2 * self.k {
            self.hits.select_nth_unstable_by(self.k - 1, better);
            self.hits.truncate(self.k);

            // Later rows lose ties, so they must exceed the worst one kept.
            self.bar = self.hits[self.k - 1].cosine;
        }
    }

    fn finish(mut self) -> Vec<Hit> {
        self.hits.sort_unstable_by(better);
        self.hits.truncate(self.k);
        self.hits
    }
}

fn better(a: &Hit, b: &Hit) -> std::cmp::Ordering {
    b.cosine
        .total_cmp(&a.cosine)
        .then((a.matrix, a.row).cmp(&(b.matrix, b.row)))
}

/// Inner product; sixteen independent sums let the compiler use wide registers.
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0f32; LANES];
    let ((a, more), (b, others)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (x, y) in a.iter().zip(b) {
        for lane in 0..LANES {
            sums[lane] += x[lane] * y[lane];
        }
    }

    total(sums) + more.iter().zip(others).map(|(x, y)| x * y).sum::<f32>()
}

/// The dot product with the integers of a row.
fn dot_whole(a: &[f32], upper: &[i8], lower: &[u8]) -> f32 {
    let mut sums = [0.0f32; LANES];
    let (a, more) = a.as_chunks::<LANES>();
    let ((upper, other_upper), (lower, other_lower)) =
        (upper.as_chunks::<LANES>(), lower.as_chunks::<LANES>());

    for ((x, y), z) in a.iter().zip(upper).zip(lower) {
        for lane in 0..LANES {
            sums[lane] += x[lane] * whole(y[lane], z[lane]);
        }
    }

    let rest = more
        .iter()
        .zip(other_upper.iter().zip(other_lower))
        .map(|(x, (y, z))| x * whole(*y, *z));

    total(sums) + rest.sum::<f32>()
}

#[inline]
fn whole(upper: i8, lower: u8) -> f32 {
    f32::from(i16::from(upper) << 8 | i16::from(lower))
}

#[inline]
fn total(mut sums: [f32; LANES]) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }

    sums[0]
}

/// The vector scaled to length 1; one without direction becomes zeros.
pub fn unit(vector: &[f32]) -> impl Iterator<Item = f32> + '_ {
    let length = dot(vector, vector).sqrt();
    let factor = if length.is_finite() && length > 1e-12 {
        1.0 / length
    } else {
        0.0
    };

    vector
        .iter()
        .map(move |value| if factor > 0.0 { value * factor } else { 0.0 })
}

#[cfg(test)]
mod tests;
