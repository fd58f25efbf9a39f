//! Which categories may be chosen or created in a tree, within the limits.
//!
//! A limit counts over a whole level, so a new category high up could end without room for a leaf
//! below it. Hence every chosen category is *assured*: it has a leaf below it, or it reserves room
//! for one category on every level that its longest branch does not reach. Its first chosen child
//! takes over what it reserves.

use std::collections::{BTreeMap, BTreeSet};

use memoir_text::text::name_key;

use super::{Node, ROOT, Tree};
use crate::config::taxonomy::LimitScope;

impl Tree {
    /// The first level without room for a new subject, and its limit.
    pub fn full_level(&self) -> Option<(i64, i64)> {
        self.places.full_level()
    }

    /// Parents above these leaves that have as many children as the limit allows, and the limit;
    /// none if limits count per level.
    pub fn full_parents(&self, leaves: &[Node]) -> BTreeMap<Node, i64> {
        let mut full = BTreeMap::new();
        if self.taxonomy.scope() == LimitScope::Level {
            return full;
        }

        let mut seen = BTreeSet::new();
        for leaf in leaves {
            let mut node = *leaf;
            while node != ROOT {
                node = self.parent(node);
                if !seen.insert(node) {
                    break;
                }

                let limit = self.taxonomy.limit(self.entries[node.0].level + 1);
                if !self.may_create(node) {
                    full.insert(node, limit);
                }
            }
        }

        full
    }

    /// Whether at least half of the categories of a level exist.
    pub fn is_half_full(&self, level: i64) -> bool {
        self.places.is_half_full(level)
    }

    /// Whether categories with leaves get no more of them: the rest is reserved for new subjects.
    pub fn keeps_the_rest(&self) -> bool {
        self.places.keeps_the_rest()
    }

    /// Passes what a parent reserves to a child, from the level that the child needs; the rest is
    /// reserved again or released.
    fn pass_on(&mut self, parent: Node, child: Node, needs_from: i64) {
        if self.taxonomy.scope() == LimitScope::Level {
            let held_from = self.entries[parent.0].holds_from;
            self.places.hold(needs_from..held_from);
            self.places.give_back(held_from..needs_from);
            self.entries[parent.0].holds_from = self.beyond();

            self.entries[child.0].holds_from = needs_from;
        }
        self.mark_assured(child);
    }

    /// The categories that may be chosen below a parent, oldest first.
    pub fn offered(&self, parent: Node) -> impl Iterator<Item = Node> {
        self.entries[parent.0]
            .children
            .iter()
            .copied()
            .filter(move |node| self.can_be_assured(parent, *node))
    }

    /// Whether there is, or can be, a leaf below a child.
    fn can_be_assured(&self, parent: Node, child: Node) -> bool {
        let entry = &self.entries[child.0];
        entry.assured
            || self
                .places
                .has_room(entry.reach + 1..self.entries[parent.0].holds_from)
    }

    /// Their names.
    pub fn options(&self, parent: Node) -> Vec<String> {
        self.offered(parent)
            .map(|node| self.entries[node.0].name.clone())
            .collect()
    }

    /// Whether a new category may be created below a parent.
    pub fn may_create(&self, parent: Node) -> bool {
        let entry = &self.entries[parent.0];
        match self.taxonomy.scope() {
            LimitScope::Level => {
                let has_some = parent != ROOT
                    && entry
                        .children
                        .iter()
                        .any(|child| self.entries[child.0].assured);

                let levels = entry.level + 1..entry.holds_from;
                if has_some {
                    self.places.has_room_beside(levels)
                } else {
                    self.places.has_room(levels)
                }
            }
            LimitScope::Parent => {
                i64::try_from(entry.children.len()).unwrap_or(i64::MAX)
                    < self.taxonomy.limit(entry.level + 1)
            }
        }
    }

    /// The category of this name below a parent, if there is one; `None` also if the limits leave no
    /// space below it.
    pub fn choose_existing(&mut self, parent: Node, name: &str) -> Option<Node> {
        if self.by_key.contains_key(&(parent, name_key(name))) {
            return self.choose(parent, name);
        }
        None
    }

    /// The category of this name below a parent, created if necessary; `None` if the limits leave
    /// no space for it.
    pub fn choose(&mut self, parent: Node, name: &str) -> Option<Node> {
        let key = name_key(name);
        if let Some(node) = self.by_key.get(&(parent, key.clone())).copied() {
            if !self.can_be_assured(parent, node) {
                return None;
            }

            if !self.entries[node.0].assured {
                self.pass_on(parent, node, self.entries[node.0].reach + 1);
            }

            return Some(node);
        }

        if !self.may_create(parent) {
            return None;
        }

        let node = self.add(parent, name, key);
        // It exists, and needs room on the levels below its own.
        self.pass_on(parent, node, self.entries[node.0].level + 1);
        Some(node)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{stored, tree};
    use super::*;
    use crate::model::category::NamedBy;

    #[test]
    fn similar_names_match_existing_categories() {
        let mut tree = tree(2, &serde_json::json!({}), "level");
        tree.load(&[stored(7, None, 1, "Finance")]);
        let node = tree.choose(ROOT, " FINANCE ").unwrap();
        assert_eq!(
            (tree.stored(node), tree.path(node)),
            (Some(7), vec!["Finance".to_owned()])
        );

        assert!(tree.new_on(1, NamedBy::Model).is_empty());
    }

    #[test]
    fn a_full_level_gets_no_new_category() {
        let mut tree = tree(1, &serde_json::json!({"1": 2}), "level");
        assert!(tree.choose(ROOT, "A").is_some() && tree.choose(ROOT, "B").is_some());
        assert!(!tree.may_create(ROOT));
        assert_eq!(tree.choose(ROOT, "C"), None);
        assert_eq!(tree.options(ROOT), ["A", "B"]);

        assert!(tree.choose(ROOT, "b").is_some());
    }

    #[test]
    fn a_category_is_created_only_with_room_for_a_leaf_below_it() {
        let mut tree = tree(3, &serde_json::json!({"3": 2}), "level");
        let a = tree.choose(ROOT, "A").unwrap();
        let b = tree.choose(ROOT, "B").unwrap();

        // Both reserve room for one of the two leaves.
        assert!(!tree.may_create(ROOT));
        assert_eq!(tree.choose(ROOT, "C"), None);
        let aa = tree.choose(a, "AA").unwrap();
        assert!(!tree.may_create(a), "its place has passed on");
        assert!(tree.choose(aa, "leaf").is_some());
        assert_eq!(tree.choose(aa, "another"), None);
        let bb = tree.choose(b, "BB").unwrap();

        assert!(tree.choose(bb, "leaf").is_some());
    }

    #[test]
    fn some_room_is_reserved_for_new_subjects() {
        let mut tree = tree(2, &serde_json::json!({}), "level");
        let banking = tree.choose(ROOT, "Banking").unwrap();
        let made = (0..128)
            .filter(|number| tree.choose(banking, &format!("Topic {number}")).is_some())
            .count();
        assert_eq!(
            (made, tree.full_level(), tree.keeps_the_rest()),
            (112, None, true)
        );

        for number in 0..16 {
            let subject = tree.choose(ROOT, &format!("Subject {number}")).unwrap();
            assert!(tree.choose(subject, "First").is_some());
            assert_eq!(tree.choose(subject, "Second"), None);
        }

        assert_eq!(
            (tree.choose(ROOT, "One too many"), tree.full_level()),
            (None, Some((2, 128)))
        );
    }

    #[test]
    fn new_branches_have_room_when_existing_ones_have_none() {
        let mut tree = tree(3, &serde_json::json!({}), "level");
        let money = tree.choose(ROOT, "Money").unwrap();
        let cards = tree.choose(money, "Cards").unwrap();
        let leaves = (0..128)
            .filter(|number| tree.choose(cards, &format!("Topic {number}")).is_some())
            .count();
        let branches = (0..128)
            .filter(|number| tree.choose(money, &format!("Branch {number}")).is_some())
            .count();
        let roots = (0..128)
            .filter(|number| tree.choose(ROOT, &format!("Root {number}")).is_some())
            .count();

        assert_eq!((leaves, branches, roots), (112, 8, 8));
    }

    #[test]
    fn dead_ends_are_not_offered_when_the_next_level_is_full() {
        let mut tree = tree(2, &serde_json::json!({"2": 1}), "level");
        tree.load(&[
            stored(1, None, 1, "Full"),
            stored(2, None, 1, "Empty"),
            stored(3, Some(1), 2, "Leaf"),
        ]);

        assert_eq!(tree.options(ROOT), ["Full"]);
        assert_eq!(tree.choose(ROOT, "Empty"), None);
        assert!(!tree.may_create(ROOT));
        let mut roomy = super::tests::tree(2, &serde_json::json!({"2": 2}), "level");
        roomy.load(&[
            stored(1, None, 1, "Full"),
            stored(2, None, 1, "Empty"),
            stored(3, Some(1), 2, "Leaf"),
        ]);

        assert_eq!(roomy.options(ROOT), ["Full", "Empty"]);
        let empty = roomy.choose(ROOT, "Empty").unwrap();
        let full = roomy.choose(ROOT, "Full").unwrap();
        assert!(!roomy.may_create(full) && roomy.may_create(empty));

        assert!(roomy.choose(empty, "Its own").is_some());
    }

    #[test]
    fn branches_that_end_early_need_room_only_below_their_end() {
        // Created by a user: two levels are full, and only leaves are missing.
        let by_hand = [
            stored(1, None, 1, "A"),
            stored(2, None, 1, "B"),
            stored(3, Some(1), 2, "x"),
            stored(4, Some(2), 2, "y"),
        ];

        let mut full = tree(3, &serde_json::json!({"1": 2, "2": 2}), "level");
        full.load(&by_hand);
        assert_eq!(full.options(ROOT), ["A", "B"]);
        let a = full.choose(ROOT, "A").unwrap();
        assert_eq!(
            (full.options(a), full.may_create(a)),
            (vec!["x".to_owned()], false)
        );

        let x = full.choose(a, "x").unwrap();
        assert!(full.choose(x, "leaf").is_some());

        // With room for a single leaf, the first one gets it.
        let mut tight = tree(3, &serde_json::json!({"3": 1}), "level");
        tight.load(&by_hand);
        let a = tight.choose(ROOT, "A").unwrap();
        assert_eq!(tight.choose(ROOT, "B"), None);
        let x = tight.choose(a, "x").unwrap();

        assert!(tight.choose(x, "leaf").is_some());
        assert_eq!(tight.choose(x, "another"), None);

        // A child with a shorter branch needs more.
        let mut deep = tree(3, &serde_json::json!({"2": 2, "3": 1}), "level");
        deep.load(&[stored(1, None, 1, "A"), stored(3, Some(1), 2, "x")]);
        let a = deep.choose(ROOT, "A").unwrap();
        let new = deep.choose(a, "new").unwrap();
        assert!(deep.choose(new, "leaf").is_some());

        assert_eq!(deep.choose(a, "x"), None, "the only leaf is elsewhere");
    }

    #[test]
    fn a_limit_per_parent_counts_only_its_children() {
        let mut tree = tree(3, &serde_json::json!({}), "parent");
        let mut leaves = Vec::new();
        for parent in ["A", "B"] {
            let node = tree.choose(ROOT, parent).unwrap();
            let below = tree.choose(node, "below").unwrap();
            leaves.extend(["one", "two"].map(|leaf| tree.choose(below, leaf).unwrap()));
            assert_eq!(tree.choose(below, "three"), None);
            assert!(tree.may_create(node));
        }

        assert_eq!(tree.choose(ROOT, "C"), None);
        let full = tree.full_parents(&leaves);
        let paths: Vec<String> = full.keys().map(|node| tree.path(*node).join("/")).collect();
        assert_eq!(paths, ["", "A/below", "B/below"]);
        assert!(full.values().all(|limit| *limit == 2));
        assert!(tree.full_parents(&[]).is_empty());
    }
}
