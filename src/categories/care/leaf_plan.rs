//! How a leaf is split: a section of one source by position, other chunks by what they are about. Where
//! that does not tell them apart, they are split by position as well, so that every leaf can be split.

use std::collections::{BTreeMap, HashSet};

use super::free_names::FreeNames;
use super::grouping;
use super::split::SplitPart;
use crate::model::chunk::Chunk;

/// Characters of each chunk that are compared.
const CHARS: usize = 600;
/// A smaller group stays.
const MIN_GROUP: usize = 3;

/// A leaf with what is known about it.
pub(super) struct LeafToSplit {
    pub name: String,
    /// In the order of ingestion.
    pub chunks: Vec<Chunk>,
    /// Those that may leave.
    pub movable: HashSet<i64>,
    pub names: FreeNames,
    pub target: usize,
}

impl LeafToSplit {
    /// The chunks that leave, with the names of their leaves.
    pub fn plan(mut self) -> Vec<SplitPart> {
        let mut sources = self.chunks.iter().map(|chunk| &chunk.source_id);
        let first = sources.next();
        let of_one_source = sources.all(|id| Some(id) == first);
        let movable: Vec<&Chunk> = self
            .chunks
            .iter()
            .filter(|chunk| self.movable.contains(&chunk.id))
            .collect();

        let too_many = 2 * self.target;
        if of_one_source && movable.len() > too_many {
            let ids: Vec<i64> = movable.iter().map(|chunk| chunk.id).collect();
            return by_position(&self.name, &ids, self.target, &mut self.names);
        }

        let groups = movable.len().div_ceil(self.target).max(2);
        // Groups that are found first may be few texts that are unlike all others.
        for groups in [groups, 2 * groups] {
            let mut names = self.names.clone();
            let parts = by_subject(&movable, groups, &mut names);
            let leaving: usize = parts.iter().map(|part| part.members.len()).sum();
            // Otherwise many splits would each take a few.
            let staying = movable.len() - leaving;
            if movable.len() <= too_many || staying * 4 <= movable.len() * 3 {
                return parts;
            }
        }

        let ids: Vec<i64> = movable.iter().map(|chunk| chunk.id).collect();
        by_position(&self.name, &ids, self.target, &mut self.names)
    }
}

fn by_subject(chunks: &[&Chunk], groups: usize, names: &mut FreeNames) -> Vec<SplitPart> {
    let texts: Vec<String> = chunks.iter().map(|chunk| beginning(chunk)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut parts = Vec::new();
    for group in leaving(&texts, groups) {
        let own: Vec<&str> = group.iter().map(|at| texts[*at]).collect();
        if let Some(name) = names.take_for(&own) {
            let members = group.iter().map(|at| chunks[*at].id).collect();
            parts.push(SplitPart { name, members });
        }
    }

    parts
}

/// The places of the texts of each group but the largest one, largest group first.
pub(super) fn leaving(texts: &[&str], groups: usize) -> Vec<Vec<usize>> {
    let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (place, group) in grouping::group(texts, groups).into_iter().enumerate() {
        members.entry(group).or_default().push(place);
    }

    let mut members: Vec<Vec<usize>> = members.into_values().collect();
    // Stable: of equal groups, the first stays.
    members.sort_by_key(|group| std::cmp::Reverse(group.len()));
    let leaving = members.into_iter().skip(1);
    leaving.filter(|group| group.len() >= MIN_GROUP).collect()
}

/// Equal parts of about the target in their order; the first one stays.
pub(super) fn by_position(
    name: &str,
    members: &[i64],
    target: usize,
    names: &mut FreeNames,
) -> Vec<SplitPart> {
    let parts = members.len().div_ceil(target.max(1)).max(1);
    let size = members.len().div_ceil(parts).max(1);
    let leaving = members.chunks(size).skip(1);
    leaving
        .map(|some| SplitPart {
            name: names.take_number(name),
            members: some.to_vec(),
        })
        .collect()
}

fn beginning(chunk: &Chunk) -> String {
    let heading = chunk.heading.as_deref().unwrap_or_default();
    let text = format!("{heading}\n{}", chunk.text);
    text.chars().take(CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::Timestamp;
    use crate::base::ids::SourceId;
    use crate::model::chunk::TAXONOMY;

    fn leaf(texts: &[String], sources: usize) -> LeafToSplit {
        let sources: Vec<SourceId> = (0..sources).map(|_| SourceId::new()).collect();
        let chunk = |(id, text): (i64, &String)| Chunk {
            id,
            ordinal: id,
            profile: TAXONOMY.to_owned(),
            text: text.clone(),
            token_count: 1,
            start_char: 0,
            end_char: 1,
            heading: None,
            category_id: Some(1),
            category_path: Vec::new(),
            source_id: sources[usize::try_from(id).unwrap() % sources.len()].clone(),
            source_version: 1,
            created_at: Timestamp::from_micros(id),
        };
        let chunks: Vec<Chunk> = (0..).zip(texts).map(chunk).collect();
        LeafToSplit {
            name: "Chapter 1".to_owned(),
            movable: chunks.iter().map(|chunk| chunk.id).collect(),
            chunks,
            names: FreeNames::beside(["Chapter 1"].into_iter()),
            target: 10,
        }
    }

    #[test]
    fn equal_texts_are_split_by_position() {
        let texts = vec!["The same again.".to_owned(); 35];
        let parts = leaf(&texts, 5).plan();
        let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(names, ["Chapter 1 (2)", "Chapter 1 (3)", "Chapter 1 (4)"]);
        let members: Vec<i64> = parts.iter().flat_map(|part| part.members.clone()).collect();
        assert_eq!(members, (9..35).collect::<Vec<i64>>());
    }

    #[test]
    fn a_section_of_one_source_keeps_its_order() {
        let texts: Vec<String> = (0..30)
            .map(|at| {
                let about = if at % 2 == 0 { "boiler" } else { "flight" };
                format!("The {about} number {at}.")
            })
            .collect();
        let parts = leaf(&texts, 1).plan();
        assert_eq!(parts[0].name, "Chapter 1 (2)");
        assert_eq!(parts[0].members, (10..20).collect::<Vec<i64>>());
        assert_eq!(parts[1].members, (20..30).collect::<Vec<i64>>());
    }

    #[test]
    fn what_may_not_leave_stays() {
        let texts = vec!["The same again.".to_owned(); 35];
        let mut leaf = leaf(&texts, 5);
        leaf.movable.retain(|id| *id < 2);
        assert_eq!(leaf.plan(), []);
    }
}
