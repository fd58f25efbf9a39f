//! Pseudo-random numbers that can be reproduced.

/// A generator with a seed.
pub struct Dice(pub u64);

impl Dice {
    /// With the seed in `MEMOIR_TEST_SEED`, or one that is printed.
    pub fn new(test: &str) -> Self {
        let seed = super::database::variable("MEMOIR_TEST_SEED").and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(|| u64::from(std::process::id()) ^ 0x9E37_79B9_7F4A_7C15);
        eprintln!("{test}: MEMOIR_TEST_SEED={seed}");
        Self(seed)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    /// An index into a list of this length.
    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap()
    }
}
