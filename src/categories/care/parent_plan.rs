//! How a parent with too many children is split: children about the same get a new parent beside it.
//! Sections of one source stay together below theirs, and are not counted.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::free_names::FreeNames;
use super::leaf_plan::{by_position, leaving};
use super::split::SplitPart;
use crate::model::category::Category;

/// Leaves of one source from which on they are its sections.
const MIN_SECTIONS: usize = 8;

/// A parent with what is known about it.
pub(super) struct ParentToSplit {
    pub name: String,
    /// Oldest first.
    pub children: Vec<Category>,
    /// The beginning of a text of each child, where it is known.
    pub texts: HashMap<i64, String>,
    /// Children that are sections.
    pub sections: HashSet<i64>,
    pub names: FreeNames,
    pub target: usize,
}

impl ParentToSplit {
    /// The children that leave, with the names of their parents.
    pub fn plan(mut self) -> Vec<SplitPart> {
        let sections = &self.sections;
        self.children.retain(|child| !sections.contains(&child.id));
        let count = self.children.len();
        if count <= 2 * self.target {
            return Vec::new();
        }

        let texts: Vec<String> = self.children.iter().map(|child| self.text(child)).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let mut parts = Vec::new();
        for group in leaving(&texts, count.div_ceil(self.target)) {
            let own: Vec<&str> = group.iter().map(|at| texts[*at]).collect();
            if let Some(name) = self.names.take_for(&own) {
                let members = group.iter().map(|at| self.children[*at].id).collect();
                parts.push(SplitPart { name, members });
            }
        }

        let left: HashSet<i64> = parts.iter().flat_map(|part| part.members.clone()).collect();
        let staying: Vec<i64> = self.children.iter().map(|child| child.id).collect();
        let staying: Vec<i64> = staying
            .into_iter()
            .filter(|id| !left.contains(id))
            .collect();
        // Otherwise many splits would each take a few.
        if staying.len() * 4 > count * 3 {
            parts.extend(by_position(
                &self.name,
                &staying,
                self.target,
                &mut self.names,
            ));
        }

        parts
    }

    /// What a child is about.
    fn text(&self, child: &Category) -> String {
        let text = self.texts.get(&child.id).map_or("", String::as_str);
        format!("{}\n{text}", child.name)
    }
}

/// The leaves whose chunks are all of one source, if that has several such leaves.
pub(super) fn sections(of_leaves: &[(i64, String)]) -> HashSet<i64> {
    let mut sources: BTreeMap<i64, Vec<&str>> = BTreeMap::new();
    for (leaf, source) in of_leaves {
        sources.entry(*leaf).or_default().push(source);
    }

    let mut own: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    for (leaf, sources) in sources {
        if let [source] = sources[..] {
            own.entry(source).or_default().push(leaf);
        }
    }

    let sections = own.into_values().filter(|own| own.len() >= MIN_SECTIONS);
    sections.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::Timestamp;

    fn parent(names: &[String], sections: &[i64]) -> ParentToSplit {
        let child = |(id, name): (i64, &String)| Category {
            id,
            parent_id: Some(1000),
            level: 3,
            name: name.clone(),
            chunk_count: 1,
            created_at: Timestamp::from_micros(id),
        };
        ParentToSplit {
            name: "Home".to_owned(),
            children: (0..).zip(names).map(child).collect(),
            texts: HashMap::new(),
            sections: sections.iter().copied().collect(),
            names: FreeNames::beside(["Home"].into_iter()),
            target: 5,
        }
    }

    #[test]
    fn children_about_the_same_get_a_parent() {
        let names: Vec<String> = (0..20)
            .map(|at| {
                let about = ["Boiler repair", "Hotel and flight"][at % 2];
                format!("{about} {at}")
            })
            .collect();
        let parts = parent(&names, &[]).plan();
        assert!(!parts.is_empty());
        for part in &parts {
            let odd = part.members.iter().filter(|id| **id % 2 == 1).count();
            assert!(odd == 0 || odd == part.members.len(), "{parts:?}");
        }

        let all: Vec<i64> = (0..20).collect();
        assert_eq!(parent(&names, &all[..10]).plan(), []);
    }

    #[test]
    fn equal_children_are_split_by_position() {
        let names = vec!["Same".to_owned(); 23];
        let parts = parent(&names, &[]).plan();
        assert_eq!(parts[0].name, "Home (2)");
        assert_eq!(
            parts.iter().map(|part| part.members.len()).sum::<usize>(),
            18
        );
    }

    #[test]
    fn many_leaves_of_one_source_are_its_sections() {
        let mut leaves: Vec<(i64, String)> = (0..8).map(|at| (at, "book".to_owned())).collect();
        leaves.push((8, "book".to_owned()));
        leaves.push((8, "note".to_owned()));
        leaves.push((9, "note".to_owned()));
        let found = sections(&leaves);
        assert_eq!(found, (0..8).collect());
        assert!(sections(&leaves[1..]).is_empty());
    }
}
