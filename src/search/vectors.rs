//! Exact semantic search: all vectors of a space in memory, one pass per query. The order is the
//! same for the same vectors on every machine (fixed order of additions, ties by row), memory stays
//! within one block of the float32 size, and nothing is approximated.
//!
//! Memory bandwidth is the limit, so each float is stored as two halves in two arrays. The upper
//! halves (sign, exponent, seven bits) give a cosine with an error of at most `DOUBT`; only rows
//! that may be among the best are computed from both.

use std::num::NonZero;
use std::ops::Range;
use std::thread::available_parallelism;

/// Floats per block: 4 MiB. Growing by blocks keeps memory near the size of the data, where one
/// growing vector could take twice as much.
const BLOCK: usize = 1 << 20;
/// Running sums of a dot product: enough for the widest registers, added up in a fixed order.
const LANES: usize = 16;
/// Cutting a float to its upper half changes it by less than 2^-7 of itself, so a product of two
/// unit vectors by less than 2^-7; the rest covers rounding.
const DOUBT: f32 = 1.0 / 128.0 + 1e-4;

/// With fewer rows than this, a second thread would start too late to help.
const ALONE: usize = 20_000;
/// More threads would only wait for memory.
const MOST_THREADS: usize = 4;

/// Unit vectors of one length, numbered from 0.
#[derive(Debug)]
pub struct Matrix {
    dims: usize,
    rows: usize,
    rows_per_block: usize,
    blocks: Vec<Block>,
}

#[derive(Debug)]
struct Block {
    upper: Vec<u16>,
    lower: Vec<u16>,
}

/// A row and its cosine with the query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
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
        self.blocks
            .iter()
            .map(|block| (block.upper.capacity() + block.lower.capacity()) * size_of::<u16>())
            .sum()
    }

    /// Adds a vector, scaled to length 1, as the next row. `false`, and nothing added, if it has
    /// the wrong length.
    pub fn push(&mut self, vector: &[f32]) -> bool {
        if vector.len() != self.dims {
            return false;
        }

        if self.rows.is_multiple_of(self.rows_per_block) {
            let floats = self.rows_per_block * self.dims;
            self.blocks.push(Block {
                upper: Vec::with_capacity(floats),
                lower: Vec::with_capacity(floats),
            });
        }

        if let Some(block) = self.blocks.last_mut() {
            for value in unit(vector) {
                let [a, b, c, d] = value.to_be_bytes();
                block.upper.push(u16::from_be_bytes([a, b]));
                block.lower.push(u16::from_be_bytes([c, d]));
            }
            self.rows += 1;
        }

        true
    }

    /// Removes a row by moving the last one into its place; a caller that keeps row names does the
    /// same (`Vec::swap_remove`).
    pub fn swap_remove(&mut self, row: usize) {
        if row >= self.rows {
            return;
        }

        let Some(block) = self.blocks.last_mut() else {
            return;
        };
        let keep = block.upper.len() - self.dims;
        let (upper, lower) = (block.upper.split_off(keep), block.lower.split_off(keep));
        if keep == 0 {
            self.blocks.pop();
        }

        self.rows -= 1;
        if row < self.rows {
            let at = (row % self.rows_per_block) * self.dims;
            let block = &mut self.blocks[row / self.rows_per_block];
            block.upper[at..at + self.dims].copy_from_slice(&upper);
            block.lower[at..at + self.dims].copy_from_slice(&lower);
        }
    }

    /// The vector of a row.
    pub fn row(&self, row: usize) -> Option<Vec<f32>> {
        let at = (row % self.rows_per_block) * self.dims;
        let block = self.blocks.get(row / self.rows_per_block)?;
        let (upper, lower) = (
            block.upper.get(at..at + self.dims)?,
            block.lower.get(at..at + self.dims)?,
        );

        Some(
            upper
                .iter()
                .zip(lower)
                .map(|(upper, lower)| whole(*upper, *lower))
                .collect(),
        )
    }

    /// Cosine of one row with a query of length 1.
    pub fn cosine(&self, query: &[f32], row: usize) -> Option<f32> {
        let at = (row % self.rows_per_block) * self.dims;
        let block = self.blocks.get(row / self.rows_per_block)?;
        Some(dot_both(
            query,
            block.upper.get(at..at + self.dims)?,
            block.lower.get(at..at + self.dims)?,
        ))
    }

    /// The `k` nearest rows among those that `wanted` accepts, nearest first; ties go to the lower
    /// row. A query of the wrong length or without direction finds nothing.
    pub fn nearest(
        &self,
        query: &[f32],
        k: usize,
        wanted: impl Fn(usize) -> bool + Sync,
    ) -> Vec<Hit> {
        if query.len() != self.dims || k == 0 || query.iter().all(|v| *v == 0.0) {
            return Vec::new();
        }

        let query: Vec<f32> = unit(query).collect();
        let threads = if self.rows < ALONE {
            1
        } else {
            available_parallelism()
                .map_or(1, NonZero::get)
                .min(MOST_THREADS)
        };

        let share = self.blocks.len().div_ceil(threads).max(1);
        let scan = |part: usize| {
            let (from, to) = (part * share, ((part + 1) * share).min(self.blocks.len()));
            self.scan(&query, from..to.max(from), k, &wanted)
        };

        let mut best = Best::new(k, self.rows);
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads)
                .map(|part| scope.spawn(move || scan(part)))
                .collect();
            best.hits = scan(0);
            for other in others {
                best.hits.extend(other.join().unwrap_or_default());
            }
        });

        best.finish()
    }

    /// The nearest rows of some blocks.
    fn scan(
        &self,
        query: &[f32],
        blocks: Range<usize>,
        k: usize,
        wanted: impl Fn(usize) -> bool,
    ) -> Vec<Hit> {
        let mut best = Best::new(k, self.rows);
        for number in blocks {
            let first = number * self.rows_per_block;
            for (row, upper) in (first..).zip(self.blocks[number].upper.chunks_exact(self.dims)) {
                if dot_upper(query, upper) + DOUBT > best.bar
                    && wanted(row)
                    && let Some(cosine) = self.cosine(query, row)
                    && cosine > best.bar
                {
                    best.add(Hit { row, cosine });
                }
            }
        }

        best.finish()
    }
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
    b.cosine.total_cmp(&a.cosine).then(a.row.cmp(&b.row))
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

/// The same with the upper halves of the second vector's floats.
fn dot_upper(a: &[f32], upper: &[u16]) -> f32 {
    let mut sums = [0.0f32; LANES];
    let ((a, more), (upper, others)) = (a.as_chunks::<LANES>(), upper.as_chunks::<LANES>());
    for (x, y) in a.iter().zip(upper) {
        for lane in 0..LANES {
            sums[lane] += x[lane] * whole(y[lane], 0);
        }
    }

    total(sums)
        + more
            .iter()
            .zip(others)
            .map(|(x, y)| x * whole(*y, 0))
            .sum::<f32>()
}

/// The same with both halves: what [`dot`] returns for the complete vector.
fn dot_both(a: &[f32], upper: &[u16], lower: &[u16]) -> f32 {
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
fn whole(upper: u16, lower: u16) -> f32 {
    f32::from_bits(u32::from(upper) << 16 | u32::from(lower))
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

/// The bytes of a vector as they are stored: float32, little-endian.
pub fn to_bytes(vector: &[f32]) -> Vec<u8> {
    vector
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

/// A stored vector.
pub fn from_bytes(bytes: &[u8]) -> Vec<f32> {
    bytes
        .chunks_exact(4)
        .map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]]))
        .collect()
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
mod tests {
    use super::*;

    fn filled(rows: u16, dims: usize) -> Matrix {
        let mut matrix = Matrix::new(dims);
        let mut state = 7u32;
        for _ in 0..rows {
            let vector: Vec<f32> = (0..dims)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    f32::from(u16::try_from(state >> 16).unwrap_or(0)) / 32_768.0 - 1.0
                })
                .collect();
            assert!(matrix.push(&vector));
        }

        matrix
    }

    #[test]
    fn the_nearest_equal_those_of_a_full_sort() {
        let matrix = filled(900, 37);
        let query = matrix.row(5).unwrap();
        let mut all: Vec<Hit> = (0..900)
            .map(|row| Hit {
                row,
                cosine: matrix.cosine(&query, row).unwrap(),
            })
            .collect();

        all.sort_by(better);
        let near = matrix.nearest(&query, 10, |_| true);
        assert!(
            near.iter()
                .zip(&all)
                .all(|(found, wanted)| found.row == wanted.row)
        );

        assert!(near.len() == 10 && near[0].row == 5 && (near[0].cosine - 1.0).abs() < 1e-5);
        assert!(
            matrix
                .nearest(&query, 2_000, |row| row > 5)
                .iter()
                .all(|hit| hit.row > 5)
        );
    }

    #[test]
    fn the_error_of_the_upper_halves_stays_within_the_bound() {
        let matrix = filled(300, 256);
        let query = matrix.row(9).unwrap();
        for row in 0..300 {
            let upper: Vec<u16> = matrix
                .row(row)
                .unwrap()
                .iter()
                .map(|v| (v.to_bits() >> 16).try_into().unwrap())
                .collect();
            assert!(
                (dot_upper(&query, &upper) - matrix.cosine(&query, row).unwrap()).abs() < DOUBT
            );
        }
    }

    #[test]
    fn ties_go_to_the_lower_row() {
        let mut matrix = Matrix::new(2);
        for _ in 0..50 {
            matrix.push(&[1.0, 1.0]);
        }

        let near = matrix.nearest(&[1.0, 0.0], 3, |_| true);
        assert!(near.iter().map(|hit| hit.row).eq(0..3));
    }

    #[test]
    fn rows_can_be_removed() {
        let mut matrix = filled(3, 4);
        let last = matrix.row(2).unwrap();
        matrix.swap_remove(0);
        assert!(matrix.len() == 2 && matrix.row(0).unwrap() == last);
        for row in [9, 1, 0] {
            matrix.swap_remove(row);
        }

        assert!(matrix.is_empty() && matrix.nearest(&last, 3, |_| true).is_empty());
        assert!(matrix.push(&last));
    }

    #[test]
    fn odd_vectors_are_harmless() {
        let mut matrix = Matrix::new(2);
        assert!(!matrix.push(&[1.0]) && matrix.push(&[0.0, 0.0]));
        assert!(matrix.push(&[f32::NAN, 1.0]));
        assert!(matrix.push(&[3.0, 4.0]));
        assert!(matrix.nearest(&[1.0], 5, |_| true).is_empty());
        assert!(matrix.nearest(&[0.0, 0.0], 5, |_| true).is_empty());

        assert_eq!(matrix.nearest(&[3.0, 4.0], 5, |_| true)[0].row, 2);
    }

    #[test]
    fn memory_stays_near_the_data() {
        assert!(filled(20_000, 64).bytes() <= 20_000 * 64 * 4 + BLOCK * 4);
    }
}
