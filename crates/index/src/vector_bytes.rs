//! Vectors as they are stored: a scale as float32, then one 16-bit integer per number, both
//! little-endian. A number is its integer × the scale ÷ 32,767. This halves their size; a cosine
//! changes by less than 0.0001.

const MAX_NUMBER: f32 = 32_767.0;

/// The bytes of a vector.
pub fn to_bytes(vector: &[f32]) -> Vec<u8> {
    let scale = vector
        .iter()
        .map(|value| value.abs())
        .filter(|value| value.is_finite())
        .fold(0.0, f32::max);
    let factor = if scale > 0.0 { MAX_NUMBER / scale } else { 0.0 };

    let mut bytes = Vec::with_capacity(4 + 2 * vector.len());
    bytes.extend(scale.to_le_bytes());
    for value in vector {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "rounded and in range; what is not a number becomes 0"
        )]
        let number = (value * factor).round().clamp(-MAX_NUMBER, MAX_NUMBER) as i16;
        bytes.extend(number.to_le_bytes());
    }

    bytes
}

/// A stored vector.
pub fn from_bytes(bytes: &[u8]) -> Vec<f32> {
    let Some((scale, numbers)) = integers(bytes) else {
        return Vec::new();
    };

    let factor = scale / MAX_NUMBER;
    numbers
        .iter()
        .map(|number| f32::from(i16::from_le_bytes(*number)) * factor)
        .collect()
}

/// The scale of a stored vector, and the bytes of its integers.
pub fn integers(bytes: &[u8]) -> Option<(f32, &[[u8; 2]])> {
    let (scale, numbers) = bytes.split_first_chunk()?;
    Some((f32::from_le_bytes(*scale), numbers.as_chunks().0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_comes_back_almost_as_it_was() {
        for vector in [
            vec![],
            vec![0.0, 0.0],
            vec![0.5, -0.25, 1e-6],
            vec![-3e5, 7.0, 1e5],
            (0_u8..=255).map(|n| f32::from(n) / 100.0 - 1.3).collect(),
        ] {
            let most = vector
                .iter()
                .fold(0.0_f32, |most, value| most.max(value.abs()));
            let bytes = to_bytes(&vector);
            assert_eq!(bytes.len(), 4 + 2 * vector.len());
            let back = from_bytes(&bytes);
            assert_eq!(back.len(), vector.len());
            for (value, back) in vector.iter().zip(&back) {
                assert!((value - back).abs() <= most / 65_000.0, "{value} {back}");
            }
        }

        let odd = from_bytes(&to_bytes(&[f32::NAN, f32::INFINITY, 1.0]));
        assert_eq!(odd, [0.0, 1.0, 1.0]);
        assert!(from_bytes(&[1, 2, 3]).is_empty());
    }
}
