//! The token budget of a product.

use super::Item;

/// Tokens that are left for items, which are offered best first.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    left: usize,
    /// Whether nothing fits any more after the first item that does not.
    in_order: bool,
    full: bool,
}

impl Budget {
    /// Nothing fits after the first item that does not: a larger budget adds items and removes none.
    #[must_use]
    pub fn in_order(tokens: usize) -> Self {
        Self {
            left: tokens,
            in_order: true,
            full: false,
        }
    }

    /// Whatever fits is taken, also after an item that does not.
    #[must_use]
    pub fn with_gaps(tokens: usize) -> Self {
        Self {
            in_order: false,
            ..Self::in_order(tokens)
        }
    }

    /// The tokens that no item has taken.
    #[must_use]
    pub fn left(&self) -> usize {
        self.left
    }

    /// Takes the tokens of an item, if they fit.
    pub fn take(&mut self, tokens: usize) -> bool {
        let fits = !self.full && tokens <= self.left;
        if fits {
            self.left -= tokens;
        } else {
            self.full = self.in_order;
        }

        fits
    }
}

/// Drops the kept items that do not fit.
pub fn fit<T, S>(
    items: &mut [Item<T, S>],
    step: &'static str,
    reason: &'static str,
    mut budget: Budget,
    tokens: impl Fn(&Item<T, S>) -> usize,
) {
    for item in items.iter_mut().filter(|item| item.is_kept()) {
        if !budget.take(tokens(item)) {
            item.drop(step, reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_ends_at_the_first_that_does_not_fit_or_goes_on() {
        let taken = |mut budget: Budget| [6, 5, 4].map(|tokens| budget.take(tokens));
        assert_eq!(taken(Budget::in_order(10)), [true, false, false]);
        assert_eq!(taken(Budget::with_gaps(10)), [true, false, true]);
    }
}
