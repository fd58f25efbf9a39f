//! A fast fingerprint of a text, for caches. Guarantees equal fingerprints for equal texts on every
//! run, but does not resist deliberate collisions; at worst, colliding texts are filed alike.

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Adds a text to a fingerprint; start with any number.
pub fn mix(start: u64, text: &str) -> u64 {
    let (words, rest) = text.as_bytes().as_chunks::<8>();
    let mut state = step(start, text.len() as u64);
    for word in words {
        state = step(state, u64::from_le_bytes(*word));
    }

    let mut last = [0u8; 8];
    last[..rest.len()].copy_from_slice(rest);
    state = step(state, u64::from_le_bytes(last));
    state ^ (state >> 32)
}

fn step(state: u64, word: u64) -> u64 {
    (state.rotate_left(23) ^ word).wrapping_mul(FACTOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_and_every_boundary_changes_the_hash() {
        let texts = [
            "",
            "a",
            "b",
            "aa",
            "12345678",
            "123456789",
            "12345679",
            "x2345678",
        ];

        for (at, a) in texts.iter().enumerate() {
            assert!(texts[..at].iter().all(|b| mix(0, a) != mix(0, b)), "{a}");
        }

        assert_ne!(mix(mix(0, "ab"), "c"), mix(mix(0, "a"), "bc"));
        assert_eq!(mix(7, "same"), mix(7, "same"));
    }
}
