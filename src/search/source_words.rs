//! The words about a source: its name, what is said about it, and what it is filed under. Searches
//! find its chunks by these words too.

use memoir_index::terms::{ChunkTerms, of_source};
use memoir_text::text::basename;

use crate::model::source::{Source, own_path};

/// Maximum characters of the ending of a file's name.
const MAX_ENDING_CHARS: usize = 5;

/// What is said about a source, and what is derived from its text.
#[derive(Debug, Clone, Copy)]
pub struct SourceWords<'w> {
    pub source: &'w Source,
    /// Title, author, topic, note and provider of a version, see [`said`].
    pub said: &'w str,
    /// The text of its helper, or nothing.
    pub helper: &'w str,
    /// The names from level 1 to the leaf of each of its chunks.
    pub paths: &'w [Vec<String>],
}

impl SourceWords<'_> {
    /// Their terms. A helper and categories repeat words of a short text, which count there already:
    /// `only` has the tokens of the chunk of such a text.
    pub fn terms(&self, only: Option<&str>) -> ChunkTerms {
        let name = name_words(self.source);
        let said = format!("{name} {} {}", self.said, self.source.tags.join(" "));
        let filed = shared_path(self.paths).join(" ");
        let derived = format!("{} {filed}", self.helper);
        of_source(&said, &derived, only.unwrap_or_default())
    }
}

/// Joins what a version says about its source.
pub fn said<'w>(facts: impl IntoIterator<Item = Option<&'w str>>) -> String {
    facts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// The words of a source's name and path. The ending of a file's name says nothing about it, nor
/// does a path that was made for a source without one.
fn name_words(source: &Source) -> String {
    let (filename, path) = (source.filename.as_str(), source.path.as_str());
    let stem = |name: &str| match name.rsplit_once('.') {
        Some((stem, ending)) if !stem.is_empty() && ending.len() <= MAX_ENDING_CHARS => {
            stem.to_owned()
        }
        _ => name.to_owned(),
    };

    if path == own_path(&source.id, filename) {
        stem(filename)
    } else if basename(path) == filename {
        stem(path)
    } else {
        format!("{} {}", stem(filename), stem(path))
    }
}

/// The categories, from level 1 down, that all chunks are filed under: for a short text the whole
/// path, for a long one what it is about as a whole.
fn shared_path(paths: &[Vec<String>]) -> &[String] {
    let Some((first, others)) = paths.split_first() else {
        return &[];
    };
    let shared = |other: &Vec<String>| {
        let pairs = first.iter().zip(other);
        pairs.take_while(|(one, two)| one == two).count()
    };
    let levels = others.iter().map(shared).min().unwrap_or(first.len());

    &first[..levels]
}

#[cfg(test)]
mod tests {
    use super::shared_path;

    #[test]
    fn the_levels_that_all_chunks_share() {
        let path = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let one = path(&["Home", "Heating", "Boiler"]);
        let two = path(&["Home", "Heating", "Stove"]);
        let far = path(&["Law", "Heating", "Boiler"]);

        assert_eq!(shared_path(std::slice::from_ref(&one)), one);
        assert_eq!(shared_path(&[one.clone(), two.clone()]), &one[..2]);
        assert!(shared_path(&[one, two, far]).is_empty());
        assert!(shared_path(&[]).is_empty());
    }
}
