//! The hierarchy as a plan: the stored categories, and what a source would add to them, within the
//! limits (`choosing`).

mod choosing;

use std::collections::HashMap;

use memoir_text::text::name_key;

use super::Taxonomy;
use super::level_room::LevelRoom;
use crate::model::category::{Category, CategoryOption, NamedBy, NewCategory};

/// A node of a [`Tree`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node(usize);

/// Above level 1.
pub const ROOT: Node = Node(0);

#[derive(Debug, Clone)]
struct Entry {
    parent: Node,
    level: i64,
    name: String,
    key: String,
    /// Its id, if it is stored.
    stored: Option<i64>,
    children: Vec<Node>,
    assured: bool,
    /// The deepest level below it, itself included.
    reach: i64,
    /// It reserves room on the levels from this one to the last; if it reserves none, this is the
    /// level after the last.
    holds_from: i64,
}

#[derive(Debug, Clone)]
pub struct Tree {
    taxonomy: Taxonomy,
    entries: Vec<Entry>,
    by_key: HashMap<(Node, String), Node>,
    by_id: HashMap<i64, Node>,
    places: LevelRoom,
}

impl Tree {
    pub fn new(taxonomy: Taxonomy) -> Self {
        let root = Entry {
            parent: ROOT,
            level: 0,
            name: String::new(),
            key: String::new(),
            stored: Some(0),
            children: Vec::new(),
            assured: true,
            reach: 0,
            holds_from: taxonomy.depth() + 1,
        };
        Self {
            places: LevelRoom::new(taxonomy.clone()),
            taxonomy,
            entries: vec![root],
            by_key: HashMap::new(),
            by_id: HashMap::from([(0, ROOT)]),
        }
    }

    /// A tree for writing: anything planned is accepted where there is space, in whatever order it
    /// is written.
    pub fn to_write(taxonomy: Taxonomy) -> Self {
        let mut tree = Self::new(taxonomy);
        tree.places.keep_none();
        tree
    }

    /// Adds stored categories, parents before children; known ones stay.
    pub fn load(&mut self, stored: &[Category]) {
        for category in stored {
            self.load_one(category.id, category.parent_id.unwrap_or(0), &category.name);
        }
    }

    /// Adds stored categories as walks read them, parents before children; known ones stay.
    pub fn load_options(&mut self, stored: &[CategoryOption]) {
        for option in stored {
            self.load_one(option.id, option.parent_id, &option.name);
        }
    }

    /// The parent of a category on level 1 is 0.
    fn load_one(&mut self, id: i64, parent_id: i64, name: &str) {
        let Some(parent) = self.by_id.get(&parent_id).copied() else {
            return;
        };
        let key = (parent, name_key(name));
        let node = match self.by_key.get(&key) {
            // Planned here, but created by another job in the meantime.
            Some(node) => *node,
            None => self.add(parent, name, key.1),
        };

        self.entries[node.0].stored = Some(id);
        self.by_id.insert(id, node);
        if self.entries[node.0].level >= self.taxonomy.depth() {
            self.mark_assured(node);
        }
    }

    fn add(&mut self, parent: Node, name: &str, key: String) -> Node {
        let node = Node(self.entries.len());
        let level = self.entries[parent.0].level + 1;
        self.by_key.insert((parent, key.clone()), node);
        self.entries[parent.0].children.push(node);
        self.places.take(level);
        let (name, children, holds_from) = (name.to_owned(), Vec::new(), self.beyond());
        let (stored, assured) = (None, false);

        self.entries.push(Entry {
            parent,
            level,
            name,
            key,
            stored,
            children,
            assured,
            reach: level,
            holds_from,
        });

        let mut above = parent;
        while self.entries[above.0].reach < level {
            self.entries[above.0].reach = level;
            above = self.entries[above.0].parent;
        }

        node
    }

    fn mark_assured(&mut self, mut node: Node) {
        while !self.entries[node.0].assured {
            self.entries[node.0].assured = true;
            node = self.entries[node.0].parent;
        }
    }

    /// The level after the last one.
    fn beyond(&self) -> i64 {
        self.taxonomy.depth() + 1
    }

    /// The number of existing or planned categories.
    pub fn len(&self) -> usize {
        self.entries.len() - 1
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Names from level 1 down.
    pub fn path(&self, mut node: Node) -> Vec<String> {
        let mut path = Vec::new();
        while node != ROOT {
            path.push(self.entries[node.0].name.clone());
            node = self.entries[node.0].parent;
        }

        path.reverse();
        path
    }

    /// The name of a node; nothing for the root.
    pub fn name(&self, node: Node) -> &str {
        &self.entries[node.0].name
    }

    /// The level of a node; 0 for the root.
    pub fn level(&self, node: Node) -> i64 {
        self.entries[node.0].level
    }

    pub fn parent(&self, node: Node) -> Node {
        self.entries[node.0].parent
    }

    /// The id of a stored category; 0 for the root.
    pub fn stored(&self, node: Node) -> Option<i64> {
        self.entries[node.0].stored
    }

    /// Whether something must be created.
    pub fn has_new(&self) -> bool {
        self.entries[1..].iter().any(|entry| entry.stored.is_none())
    }

    /// What must be created on a level whose parents are stored.
    pub fn new_on(&self, level: i64, named_by: NamedBy) -> Vec<NewCategory> {
        let new = self
            .entries
            .iter()
            .filter(|entry| entry.level == level && entry.stored.is_none());
        new.map(|entry| NewCategory {
            parent_id: self.stored(entry.parent).filter(|id| *id != 0),
            level,
            name: entry.name.clone(),
            name_key: entry.key.clone(),
            named_by,
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::Timestamp;

    pub(super) fn tree(depth: u64, limits: &serde_json::Value, scope: &str) -> Tree {
        let settings = serde_json::json!({
            "hierarchy_depth": depth, "max_children": 2, "max_categories_default": 128,
            "max_categories_per_level": limits, "limit_scope": scope, "second_look": true,
            "leaf_target": 48, "children_target": 60, "auto_care": "auto",
        });
        Tree::new(Taxonomy::new(&serde_json::from_value(settings).unwrap()))
    }

    pub(super) fn stored(id: i64, parent_id: Option<i64>, level: i64, name: &str) -> Category {
        let created_at = Timestamp::from_micros(0);
        Category {
            id,
            parent_id,
            level,
            name: name.to_owned(),
            chunk_count: 0,
            created_at,
        }
    }

    #[test]
    fn a_category_created_in_the_meantime_is_reused() {
        let mut tree = tree(2, &serde_json::json!({}), "level");
        let a = tree.choose(ROOT, "A").unwrap();
        tree.load(&[stored(5, None, 1, "a")]);
        assert_eq!(tree.stored(a), Some(5));

        assert!(tree.new_on(1, NamedBy::Model).is_empty());
    }
}
