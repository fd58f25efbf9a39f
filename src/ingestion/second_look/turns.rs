//! Which chunks to re-examine when new ones arrive. The first texts of a space are filed when there
//! are few others; once there are more, some of them fit better elsewhere.
//!
//! No history is stored: multiples of the golden ratio, of which every run is evenly spread, give
//! all available chunks (`samples`: the first and the latest of each leaf) a turn about equally
//! often.

/// Chunks re-examined for each new one, below a parent with few children. Each is compared with the
/// samples of up to `MANY` of them, so fewer are re-examined where there are more: the cost of a text
/// does not grow with the hierarchy.
const FOR_EACH: usize = 8;
const FEW: usize = 8;
const MANY: usize = 24;
/// Maximum re-examined for one source.
pub const MAX_TURNS: usize = 200;
/// Minimum chunks below a parent before any of them is re-examined.
pub const ENOUGH: usize = 50;

/// The fractional part of the golden ratio, times 2^64.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The distinct indexes of the next chunks to re-examine, out of this many, for the space's
/// `write`-th source with `new` chunks, below a parent with so many children.
pub fn turns(write: u64, new: usize, out_of: usize, children: usize) -> Vec<usize> {
    let mut places: Vec<usize> = Vec::new();
    let all = new.saturating_mul(FOR_EACH * FEW);
    let all = all.div_ceil(children.clamp(FEW, MANY));
    for turn in 0..all.min(MAX_TURNS).min(out_of) {
        let at = write
            .wrapping_mul(MAX_TURNS as u64)
            .wrapping_add(turn as u64)
            .wrapping_mul(GOLDEN);

        let place = (u128::from(at) * out_of as u128) >> 64;
        let place = usize::try_from(place).unwrap_or(0);
        if !places.contains(&place) {
            places.push(place);
        }
    }

    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chunk_is_examined_in_turn() {
        for out_of in [1, 7, 100, 2_310] {
            let mut seen = vec![0; out_of];
            for write in 0..out_of as u64 {
                for place in turns(write, 1, out_of, 1) {
                    seen[place] += 1;
                }
            }

            let (least, most) = (seen.iter().min().unwrap(), seen.iter().max().unwrap());
            assert!(
                *least >= 1 && (out_of < 8 || *most <= 20),
                "of {out_of}: {least} to {most}"
            );
        }
    }

    #[test]
    fn a_large_source_examines_a_limited_number_of_chunks() {
        assert_eq!(turns(3, 1_000_000, 100_000, 1).len(), MAX_TURNS);
        assert!(turns(3, 1_000, 5, 1).len() <= 5);
        assert!(turns(3, 1, 0, 1).is_empty() && turns(3, 0, 5, 1).is_empty());
    }

    #[test]
    fn fewer_are_examined_where_there_are_many_categories() {
        let examined = |children| turns(3, 1, 1_000, children).len();
        assert_eq!([1, 8, 16, 24, 200].map(examined), [8, 8, 4, 3, 3]);
    }
}
