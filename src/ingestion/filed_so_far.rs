//! Where the running ingestion has filed chunks so far, in addition to what was filed before; for
//! the embedded model.

use std::collections::HashMap;
use std::sync::Arc;

use memoir_embedded_model::CategoryContents;

use crate::categories::samples::{CHARS, Samples, thin};
use crate::categories::tree::{Node, Tree};

/// Where this ingestion has filed chunks so far, in addition to what was filed before.
#[derive(Default)]
pub struct FiledSoFar {
    stored: Arc<Samples>,
    own: HashMap<Node, FiledChunks>,
}

/// The number of chunks filed in a category, and the first and the latest of them.
#[derive(Default)]
struct FiledChunks {
    count: usize,
    samples: Vec<Arc<str>>,
}

impl FiledSoFar {
    pub fn over(stored: Arc<Samples>) -> Self {
        Self {
            stored,
            own: HashMap::new(),
        }
    }

    /// Files a chunk in a category.
    pub fn put(&mut self, node: Node, text: &str) {
        let own = self.own.entry(node).or_default();
        own.count += 1;
        let end = text
            .char_indices()
            .nth(CHARS)
            .map_or(text.len(), |(at, _)| at);

        own.samples.push(text[..end].into());
        thin(&mut own.samples);
    }

    /// What the categories below a parent contain, in their order.
    pub fn below(&self, parent: Node, tree: &Tree) -> Arc<[CategoryContents]> {
        tree.offered(parent)
            .map(|node| self.contents(node, tree))
            .collect()
    }

    fn contents(&self, node: Node, tree: &Tree) -> CategoryContents {
        let stored = tree.stored(node).and_then(|id| self.stored.get(id));
        let mut contents = stored.cloned().unwrap_or_default();
        if let Some(own) = self.own.get(&node) {
            contents.count += own.count;
            contents.samples.extend(own.samples.iter().cloned());
        }

        thin(&mut contents.samples);
        contents
    }
}
