//! Names for categories that a split creates: what their texts have in common, or a number after the
//! former name, such as "Chapter 1 (2)".

use std::collections::HashSet;

use memoir_embedded_model::EmbeddedModel;
use memoir_text::text::{category_name, name_fault, name_key};

/// Texts that name a group.
const NAMING: usize = 40;
/// Maximum characters before a number.
const MAX_BASE: usize = 90;

/// The names that siblings do not have.
#[derive(Debug, Clone, Default)]
pub(super) struct FreeNames {
    taken: HashSet<String>,
}

impl FreeNames {
    pub fn beside<'n>(siblings: impl Iterator<Item = &'n str>) -> Self {
        Self {
            taken: siblings.map(name_key).collect(),
        }
    }

    /// A name that these texts have in common; none if siblings have all of them.
    pub fn take_for(&mut self, texts: &[&str]) -> Option<String> {
        let some: Vec<&str> = texts.iter().take(NAMING).copied().collect();
        let mut names = EmbeddedModel::names_for(&some);
        // The last one would fit anything.
        names.pop();
        let names = names.iter().map(|name| category_name(name));
        let mut fitting = names.filter(|name| name_fault(name).is_none());
        let name = fitting.find(|name| !self.taken.contains(&name_key(name)))?;

        self.taken.insert(name_key(&name));
        Some(name)
    }

    /// The name with the first free number.
    pub fn take_number(&mut self, name: &str) -> String {
        let base: String = without_number(name).chars().take(MAX_BASE).collect();
        let mut number = 2_usize;
        loop {
            let numbered = category_name(&format!("{base} ({number})"));
            if self.taken.insert(name_key(&numbered)) {
                return numbered;
            }
            number += 1;
        }
    }
}

/// A name without the number that an earlier split gave it.
fn without_number(name: &str) -> &str {
    let number = name
        .strip_suffix(')')
        .and_then(|open| open.rsplit_once(" ("));
    match number {
        Some((base, digits))
            if !base.is_empty()
                && !digits.is_empty()
                && digits.bytes().all(|one| one.is_ascii_digit()) =>
        {
            base
        }
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_those_that_exist() {
        let mut names = FreeNames::beside(["Chapter 1", "chapter 1 (2)"].into_iter());
        assert_eq!(names.take_number("Chapter 1"), "Chapter 1 (3)");
        assert_eq!(names.take_number("Chapter 1 (2)"), "Chapter 1 (4)");
        assert_eq!(
            names.take_number("Sonnets (selection)"),
            "Sonnets (selection) (2)"
        );
        assert_eq!(names.take_number("()"), "() (2)");

        let long = "x".repeat(100);
        assert!(name_fault(&names.take_number(&long)).is_none());
    }

    #[test]
    fn a_name_is_given_once() {
        let texts = ["The boiler is cold.", "The boiler was repaired."];
        let mut names = FreeNames::default();
        let first = names.take_for(&texts);
        assert!(first.is_some());
        assert_ne!(first, names.take_for(&texts));
    }
}
