//! The steps of a selection. Each looks at the items that are still kept, best first, and drops some
//! for a reason.

use std::borrow::Cow;

use memoir_policy::steps::deduplicate::FirstOfKey;

use super::Item;

/// The items that are kept.
pub fn kept<T, S>(items: &[Item<T, S>]) -> impl Iterator<Item = &Item<T, S>> {
    items.iter().filter(|item| item.is_kept())
}

/// Drops the items for which there is a reason.
pub fn drop_each<T, S, R: Into<Cow<'static, str>>>(
    items: &mut [Item<T, S>],
    step: &'static str,
    mut reason: impl FnMut(&Item<T, S>) -> Option<R>,
) {
    for item in items.iter_mut().filter(|item| item.is_kept()) {
        if let Some(reason) = reason(item) {
            item.drop(step, reason);
        }
    }
}

/// Drops the items that repeat a better one: `identify` returns the key that equal texts share, and
/// the id.
pub fn drop_repeated<T, S>(
    items: &mut [Item<T, S>],
    step: &'static str,
    reason: &'static str,
    identify: impl Fn(&T) -> (String, String),
) {
    let mut seen = FirstOfKey::default();
    for item in items.iter_mut().filter(|item| item.is_kept()) {
        let (key, id) = identify(&item.found);
        if let Some(first) = seen.before(&key, &id) {
            item.drop(step, reason);
            item.decision.repeats = Some(first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_see_only_what_is_kept() {
        let mut items: Vec<Item<&str, i32>> = [("a", 3), ("b", 1), ("b", 2), ("b", 4)]
            .into_iter()
            .map(|(text, score)| Item::new(text, score))
            .collect();

        drop_each(&mut items, "score", |item| {
            (item.scores < 2).then_some("low")
        });
        let identify = |text: &&str| ((*text).to_owned(), (*text).to_owned());
        drop_repeated(&mut items, "repeats", "duplicate", identify);

        let reasons: Vec<&str> = items.iter().map(|item| &*item.decision.reason).collect();
        assert_eq!(reasons, ["", "low", "", "duplicate"]);
        assert_eq!(items[3].decision.repeats.as_deref(), Some("b"));
        assert_eq!(kept(&items).count(), 2);
    }
}
