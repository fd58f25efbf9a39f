//! What a model says that names without a list: the subject of each chunk, and names that are folded
//! onto the categories that exist.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memoir_text::text::name_key;
use serde_json::Value;

use super::folding::{Candidate, GivenName, Vectors, fold};
use crate::categories::samples::Samples;
use crate::categories::tree::{Node, Tree};

/// Subjects of this text that are kept of a category.
const MAX_FILED: usize = 8;

pub struct FreeNaming {
    samples: Arc<Samples>,
    said: Mutex<Said>,
}

#[derive(Default)]
struct Said {
    /// By chunk.
    subjects: BTreeMap<usize, Arc<str>>,
    /// Subjects of this text, by the categories that their chunks were filed below.
    filed: HashMap<Node, Vec<Arc<str>>>,
    /// Former names of stored categories, below the parents that were read.
    former: HashMap<(i64, String), i64>,
    vectors: Vectors,
}

impl FreeNaming {
    pub fn new(samples: Arc<Samples>) -> Self {
        Self {
            samples,
            said: Mutex::default(),
        }
    }

    /// Notes what a chunk is about.
    pub fn note(&self, ordinal: usize, subject: &str) {
        self.said().subjects.insert(ordinal, subject.into());
    }

    /// Notes the subjects of a saved answer.
    pub fn note_saved(&self, saved: &Value) {
        for chunk in saved["chunks"].as_array().into_iter().flatten() {
            let ordinal = chunk[0].as_u64().and_then(|at| usize::try_from(at).ok());
            if let (Some(ordinal), Some(subject)) = (ordinal, chunk[2].as_str()) {
                self.note(ordinal, subject);
            }
        }
    }

    /// What a chunk is about.
    pub fn subject(&self, ordinal: usize) -> Option<Arc<str>> {
        self.said().subjects.get(&ordinal).cloned()
    }

    /// Notes former names below stored parents, and the categories that had them.
    pub fn note_former(&self, names: Vec<((i64, String), i64)>) {
        self.said().former.extend(names);
    }

    /// The category that a name of a chunk means, created if necessary; where a limit forbids that,
    /// the nearest one. `None` if there is none.
    pub fn choose(&self, tree: &mut Tree, parent: Node, name: &str, chunk: usize) -> Option<Node> {
        let node = self.meant(tree, parent, name, chunk)?;
        let mut said = self.said();
        if let Some(subject) = said.subjects.get(&chunk).cloned() {
            let filed = said.filed.entry(node).or_default();
            if filed.len() < MAX_FILED {
                filed.push(subject);
            }
        }

        Some(node)
    }

    fn meant(&self, tree: &mut Tree, parent: Node, name: &str, chunk: usize) -> Option<Node> {
        let known = tree.choose_existing(parent, name);
        if let Some(node) = known.or_else(|| self.formerly(tree, parent, name)) {
            return Some(node);
        }

        let subject = self.subject(chunk);
        let given = GivenName {
            name,
            subject: subject.as_deref(),
            level: tree.level(parent) + 1,
        };
        let offered: Vec<Node> = tree.offered(parent).collect();
        let candidates = offered.iter().map(|node| self.candidate(tree, *node));
        let candidates: Vec<Candidate> = candidates.collect();
        let must_fit = !tree.may_create(parent);
        let meant = fold(&given, &candidates, must_fit, &mut self.said().vectors);
        match meant {
            Some(at) => tree.choose(parent, &candidates[at].name),
            None => tree.choose(parent, name),
        }
    }

    /// The category that had a name before.
    fn formerly(&self, tree: &mut Tree, parent: Node, name: &str) -> Option<Node> {
        let key = (tree.stored(parent)?, name_key(name));
        let id = self.said().former.get(&key).copied()?;
        let present = tree
            .offered(parent)
            .find(|node| tree.stored(*node) == Some(id))?;
        let present = tree.name(present).to_owned();
        tree.choose(parent, &present)
    }

    fn candidate(&self, tree: &Tree, node: Node) -> Candidate {
        let stored = tree.stored(node).map(|id| self.samples.told(id));
        let mut told = stored.unwrap_or_default();
        told.extend(self.said().filed.get(&node).into_iter().flatten().cloned());
        Candidate {
            name: tree.name(node).to_owned(),
            told,
        }
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
