//! The static word-vector table, read in place from the bytes in the binary. Guarantees no copy of
//! the table, rows of exactly `DIMS` values, and sums that depend only on the row numbers and their
//! order.

use std::sync::OnceLock;

/// Number of columns of the table, and the length of every vector of this model.
pub const DIMS: usize = 256;

static BYTES: &[u8] = include_bytes!("../word-vectors/vectors.bin");
const HEADER: usize = 16;

/// Number of values that are processed at once.
const LANES: usize = 8;

/// A vector under construction or finished; always `DIMS` long.
pub type Vector = [f32; DIMS];

/// The zero vector, for a text without known tokens.
pub const ZERO: Vector = [0.0; DIMS];

/// Number of rows in the file; 0 if it does not have the expected format.
pub fn rows() -> usize {
    static ROWS: OnceLock<usize> = OnceLock::new();
    *ROWS.get_or_init(|| {
        let known = BYTES.starts_with(b"MEMV") && word(4) == 1 && word(12) as usize == DIMS;
        let rows = word(8) as usize;
        if known && BYTES.len() == HEADER + rows * (4 + DIMS) {
            rows
        } else {
            0
        }
    })
}

fn word(at: usize) -> u32 {
    BYTES
        .get(at..at + 4)
        .and_then(|b| b.try_into().ok())
        .map_or(0, u32::from_le_bytes)
}

/// Adds `weight` times row `id` to `sum`. Unknown rows add nothing.
pub fn add_row(sum: &mut Vector, id: u16, weight: f32) {
    let Some(row) = row(id) else { return };
    let factor = weight * f32::from_bits(word(HEADER + 4 * usize::from(id)));
    for (value, byte) in sum.iter_mut().zip(row) {
        *value += factor * f32::from(byte.cast_signed());
    }
}

/// The length of row `id`: informative words have long rows, grammar words short ones. 0 for
/// unknown rows.
pub fn length(id: u16) -> f32 {
    lengths().get(usize::from(id)).map_or(0.0, |length| {
        length * f32::from_bits(word(HEADER + 4 * usize::from(id)))
    })
}

/// Cosine of the angle between two rows.
pub fn nearness(a: u16, b: u16) -> f32 {
    let (Some(x), Some(y)) = (row(a), row(b)) else {
        return 0.0;
    };
    let lengths = lengths()[usize::from(a)] * lengths()[usize::from(b)];
    if lengths > 0.0 {
        whole_dot(x, y) / lengths
    } else {
        0.0
    }
}

/// The quantised values of a row.
fn row(id: u16) -> Option<&'static [u8]> {
    let (id, rows) = (usize::from(id), rows());
    let start = HEADER + 4 * rows + id * DIMS;
    (id < rows).then(|| &BYTES[start..start + DIMS])
}

#[expect(
    clippy::cast_precision_loss,
    reason = "at most 256 products of 127 by 127"
)]
fn whole_dot(a: &[u8], b: &[u8]) -> f32 {
    let product = |(x, y): (&u8, &u8)| i32::from(x.cast_signed()) * i32::from(y.cast_signed());
    a.iter().zip(b).map(product).sum::<i32>() as f32
}

/// The lengths of all quantised rows.
fn lengths() -> &'static [f32] {
    static LENGTHS: OnceLock<Vec<f32>> = OnceLock::new();
    LENGTHS.get_or_init(|| {
        (0..=u16::MAX)
            .map_while(row)
            .map(|row| whole_dot(row, row).sqrt())
            .collect()
    })
}

/// Inner product. Eight running sums let the compiler use wide registers.
#[inline]
pub fn dot(a: &Vector, b: &Vector) -> f32 {
    let (a, b) = (a.as_chunks::<LANES>().0, b.as_chunks::<LANES>().0);
    let mut lanes = [0.0f32; LANES];
    for (x, y) in a.iter().zip(b) {
        for lane in 0..LANES {
            lanes[lane] += x[lane] * y[lane];
        }
    }

    lanes.iter().sum()
}

/// Adds `weight` times `part` to `sum`.
pub fn add(sum: &mut Vector, part: &Vector, weight: f32) {
    for (value, other) in sum.iter_mut().zip(part) {
        *value += weight * other;
    }
}

/// Scales to length 1; the zero vector stays unchanged.
pub fn unit(mut vector: Vector) -> Vector {
    let length = dot(&vector, &vector).sqrt();
    if length > 1e-12 {
        for value in &mut vector {
            *value /= length;
        }
    }

    vector
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_asset_is_complete() {
        assert_eq!(rows(), 29_528);
    }

    #[test]
    fn unknown_rows_and_zero_vectors_are_harmless() {
        let mut sum = ZERO;
        add_row(&mut sum, u16::MAX, 1.0);
        assert!(sum.iter().all(|v| *v == 0.0));
        assert!(unit(ZERO).iter().all(|v| *v == 0.0));
    }

    #[test]
    fn comparing_rows_equals_comparing_vectors() {
        let vector = |id| {
            let mut sum = ZERO;
            add_row(&mut sum, id, 1.0);
            sum
        };

        for (a, b) in [(1488, 1488), (1488, 2000), (29_527, 5)] {
            let (x, y) = (vector(a), vector(b));
            assert!(
                (nearness(a, b) - dot(&unit(x), &unit(y))).abs() < 1e-5,
                "{a} {b}"
            );

            assert!(
                (length(a) - dot(&x, &x).sqrt()).abs() < 1e-3 * length(a),
                "{a}"
            );
        }

        assert!(nearness(u16::MAX, 1) == 0.0 && length(u16::MAX) == 0.0);
    }

    #[test]
    fn a_unit_vector_has_length_one() {
        let mut sum = ZERO;
        add_row(&mut sum, 1488, 1.0);
        let v = unit(sum);
        assert!((dot(&v, &v) - 1.0).abs() < 1e-5);
    }
}
