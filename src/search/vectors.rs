//! Exact semantic search: all vectors of a space in memory, one pass per query. The order is the
//! same for the same vectors on every machine (fixed order of additions, ties by row), memory stays
//! within one block of the float32 size, and nothing is approximated.
//!
//! Memory bandwidth is the limit, so each float is stored as two halves in two arrays. The upper
//! halves (sign, exponent, seven bits) give a cosine with an error of at most `DOUBT`; only rows
//! that may be among the best are computed from both.

use std::num::NonZero;
use std::thread::available_parallelism;

pub use crate::base::vector_bytes::{from_bytes, to_bytes};

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

        let block = self.open_block();
        for value in unit(vector) {
            let [a, b, c, d] = value.to_be_bytes();
            block.upper.push(u16::from_be_bytes([a, b]));
            block.lower.push(u16::from_be_bytes([c, d]));
        }

        self.rows += 1;
        true
    }

    /// Adds a row of another matrix. `false`, and nothing added, if there is no such row or its
    /// length differs.
    pub fn push_row(&mut self, other: &Self, row: usize) -> bool {
        let Some((upper, lower)) = other.halves(row).filter(|_| other.dims == self.dims) else {
            return false;
        };

        let block = self.open_block();
        block.upper.extend_from_slice(upper);
        block.lower.extend_from_slice(lower);
        self.rows += 1;
        true
    }

    /// The block of the next row.
    fn open_block(&mut self) -> &mut Block {
        let number = self.rows / self.rows_per_block;
        if number == self.blocks.len() {
            // Later blocks will be filled; the only one of a small matrix grows as needed.
            let floats = if number == 0 {
                0
            } else {
                self.rows_per_block * self.dims
            };
            self.blocks.push(Block {
                upper: Vec::with_capacity(floats),
                lower: Vec::with_capacity(floats),
            });
        }

        &mut self.blocks[number]
    }

    /// Releases memory reserved for growth.
    pub fn settle(&mut self) {
        for block in &mut self.blocks {
            block.upper.shrink_to_fit();
            block.lower.shrink_to_fit();
        }
    }

    pub fn dims(&self) -> usize {
        self.dims
    }

    fn halves(&self, row: usize) -> Option<(&[u16], &[u16])> {
        let at = (row % self.rows_per_block) * self.dims;
        let block = self.blocks.get(row / self.rows_per_block)?;
        Some((
            block.upper.get(at..at + self.dims)?,
            block.lower.get(at..at + self.dims)?,
        ))
    }

    /// The vector of a row.
    pub fn row(&self, row: usize) -> Option<Vec<f32>> {
        let (upper, lower) = self.halves(row)?;
        let floats = upper.iter().zip(lower);
        Some(floats.map(|(upper, lower)| whole(*upper, *lower)).collect())
    }

    /// Cosine of one row with a query of length 1.
    pub fn cosine(&self, query: &[f32], row: usize) -> Option<f32> {
        let (upper, lower) = self.halves(row)?;
        Some(dot_both(query, upper, lower))
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
        query: &[f32],
        block: usize,
        best: &mut Best,
        matrix: usize,
        wanted: impl Fn(usize, usize) -> bool,
    ) {
        let first = block * self.rows_per_block;
        for (row, upper) in (first..).zip(self.blocks[block].upper.chunks_exact(self.dims)) {
            if dot_upper(query, upper) + DOUBT > best.bar
                && wanted(matrix, row)
                && let Some(cosine) = self.cosine(query, row)
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

    let query: Vec<f32> = unit(query).collect();
    let fitting = || {
        let numbered = matrices.iter().enumerate();
        numbered.filter(|(_, matrix)| matrix.dims == query.len())
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
            .min(MOST_THREADS)
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
                matrix: 0,
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
    fn several_matrices_are_searched_as_one() {
        let whole = filled(900, 37);
        let (mut first, mut second) = (Matrix::new(37), Matrix::new(37));
        for row in 0..900 {
            let part = if row < 500 { &mut first } else { &mut second };
            assert!(part.push_row(&whole, row));
        }

        assert!(!first.push_row(&whole, 900) && !Matrix::new(3).push_row(&whole, 0));
        let query = whole.row(700).unwrap();
        let near = nearest_in(&[&first, &second], &query, 50, |_, _| true);
        let rows = near.iter().map(|hit| hit.row + 500 * hit.matrix);
        let wanted = whole.nearest(&query, 50, |_| true);
        assert!(rows.eq(wanted.iter().map(|hit| hit.row)));
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
