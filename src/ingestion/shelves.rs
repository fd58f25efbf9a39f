//! What a document that is being filed has put where so far, over what was there before; for the embedded model.

use std::collections::HashMap;
use std::sync::Arc;

use crate::categories::samples::{CHARS, FIRST, LATEST, Samples};
use crate::categories::tree::{Node, Tree};
use crate::model::category::CategoryContents;

/// What this document has put where so far, over what was there before.
#[derive(Default)]
pub struct Shelves {
    stored: Arc<Samples>,
    own: HashMap<Node, Vec<Arc<str>>>,
}

impl Shelves {
    pub fn over(stored: Arc<Samples>) -> Self {
        Self { stored, own: HashMap::new() }
    }

    /// Puts a passage into a category.
    pub fn put(&mut self, node: Node, text: &Arc<str>) {
        self.own.entry(node).or_default().push(Arc::clone(text));
    }

    /// What lies in the categories that may be chosen below a parent, in their order.
    pub fn below(&self, parent: Node, tree: &Tree) -> Arc<[CategoryContents]> {
        tree.offered(parent).map(|node| self.contents(node, tree)).collect()
    }

    fn contents(&self, node: Node, tree: &Tree) -> CategoryContents {
        let stored = tree.stored(node).and_then(|id| self.stored.get(&id));
        let mut contents = stored.cloned().unwrap_or_default();
        let own = self.own.get(&node).map_or(&[][..], Vec::as_slice);
        contents.count += own.len();
        let cut = |text: &Arc<str>| -> Arc<str> {
            let end = text.char_indices().nth(CHARS).map_or(text.len(), |(at, _)| at);
            if end == text.len() { Arc::clone(text) } else { text[..end].into() }
        };
        contents.samples.extend(own.iter().rev().take(FIRST + LATEST).rev().map(cut));
        if contents.samples.len() > FIRST + LATEST {
            contents.samples.drain(FIRST..contents.samples.len() - LATEST);
        }
        contents
    }
}
