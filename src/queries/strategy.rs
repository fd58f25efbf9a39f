//! How many categories are selected on each level: a total per level, at least one.

use crate::config::query::StrategyName;

/// A strategy with its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Strategy {
    pub name: StrategyName,
    pub n: u64,
    pub n2: u64,
    pub per_level_max: u64,
}

impl Strategy {
    /// The default of a strategy for level 1.
    pub fn own_n(name: StrategyName) -> u64 {
        match name {
            StrategyName::OneShot => 1,
            StrategyName::Auto | StrategyName::WideBranch => 3,
            StrategyName::ZoomIn | StrategyName::BranchOut => 6,
        }
    }

    /// Maximum categories selected on a level, counted from 1; there may be fewer options.
    pub fn n(self, level: i64) -> usize {
        let deeper = u64::try_from(level - 1).unwrap_or(0);
        let step = self.n2.saturating_mul(deeper);
        let n = match self.name {
            StrategyName::OneShot => 1,
            StrategyName::Auto | StrategyName::WideBranch => self.n,
            StrategyName::ZoomIn => self.n.saturating_sub(step),
            StrategyName::BranchOut => self.n.saturating_add(step).min(self.per_level_max),
        };

        usize::try_from(n.max(1)).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(name: StrategyName, n: u64, n2: u64, per_level_max: u64, depth: i64) -> Vec<usize> {
        let strategy = Strategy {
            name,
            n,
            n2,
            per_level_max,
        };
        (1..=depth).map(|level| strategy.n(level)).collect()
    }

    #[test]
    fn every_strategy_has_its_numbers() {
        use StrategyName::{BranchOut, OneShot, WideBranch, ZoomIn};

        for (name, n, n2, most, wanted) in [
            (OneShot, 1, 2, 12, vec![1, 1, 1]),
            (OneShot, 9, 2, 12, vec![1, 1, 1]),
            (WideBranch, 3, 2, 12, vec![3, 3, 3]),
            (WideBranch, 20, 2, 12, vec![20, 20]),
            (ZoomIn, 6, 2, 12, vec![6, 4, 2]),
            (ZoomIn, 6, 2, 12, vec![6, 4, 2, 1, 1]),
            (ZoomIn, 3, 0, 12, vec![3, 3, 3]),
            (BranchOut, 6, 2, 12, vec![6, 8, 10]),
            (BranchOut, 6, 2, 7, vec![6, 7, 7]),
            (BranchOut, 6, 2, 12, vec![6, 8, 10, 12, 12]),
            (BranchOut, 6, 2, 4, vec![4, 4, 4]),
        ] {
            let depth = i64::try_from(wanted.len()).unwrap();
            assert_eq!(
                numbers(name, n, n2, most, depth),
                wanted,
                "{name:?} {n} {n2} {most}"
            );
        }

        assert_eq!(numbers(ZoomIn, u64::MAX, 2, 12, 2)[1], usize::MAX - 2);
        assert_eq!(numbers(ZoomIn, 6, u64::MAX, 12, 100)[99], 1);
    }
}
