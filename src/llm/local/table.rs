//! The static word-vector table, read in place from the bytes in the binary.
//! Promises: no copy of the table, rows of exactly `DIMS` values, and sums
//! that do not depend on anything but the row numbers and their order.

use std::sync::OnceLock;

/// Columns of the table, and so the length of every vector of this model.
pub const DIMS: usize = 256;

static BYTES: &[u8] = include_bytes!("../../../assets/word-vectors/vectors.bin");
const HEADER: usize = 16;

/// A vector under construction or finished; always `DIMS` long.
pub type Vector = [f32; DIMS];

/// The zero vector: what a text without known tokens gets.
pub const ZERO: Vector = [0.0; DIMS];

/// Number of rows the file really holds; 0 when the asset is not of the known form.
pub fn rows() -> usize {
    static ROWS: OnceLock<usize> = OnceLock::new();
    *ROWS.get_or_init(|| {
        let known = BYTES.starts_with(b"MEMV") && word(4) == 1 && word(12) as usize == DIMS;
        let rows = word(8) as usize;
        if known && BYTES.len() == HEADER + rows * (4 + DIMS) { rows } else { 0 }
    })
}

fn word(at: usize) -> u32 {
    BYTES.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
}

/// Adds `weight` times row `id` to `sum`. Unknown rows add nothing.
pub fn add_row(sum: &mut Vector, id: u16, weight: f32) {
    let (id, rows) = (usize::from(id), rows());
    if id >= rows {
        return;
    }
    let factor = weight * f32::from_bits(word(HEADER + 4 * id));
    let start = HEADER + 4 * rows + id * DIMS;
    for (value, byte) in sum.iter_mut().zip(&BYTES[start..start + DIMS]) {
        *value += factor * f32::from(byte.cast_signed());
    }
}

/// Inner product. Eight running sums let the compiler use wide registers.
pub fn dot(a: &Vector, b: &Vector) -> f32 {
    let mut lanes = [0.0f32; 8];
    for (x, y) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
        for lane in 0..8 {
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

/// Scales to length 1; the zero vector stays as it is.
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
    fn the_asset_is_whole() {
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
    fn a_unit_vector_has_length_one() {
        let mut sum = ZERO;
        add_row(&mut sum, 1488, 1.0);
        let v = unit(sum);
        assert!((dot(&v, &v) - 1.0).abs() < 1e-5);
    }
}
