//! Where the chunks of a source belong, by what the source itself says: its collection or subject,
//! its title, its sections. Guarantees equal outlines for equal sources, one path per chunk, and no
//! path for a brief text without structure, which is filed by its subject.

use std::ops::Range;

use memoir_text::headings::Heading;

use super::collection;
use super::names;
use super::sections;
use super::title;

/// Chunks from which on a source without headings has a category of its own.
const LONG: usize = 5;
/// Words below which a text without a title is filed like a message.
const BRIEF_WORDS: usize = 80;

/// What is known about a source when its chunks are filed.
#[derive(Debug, Clone, Copy)]
pub struct OutlineInput<'a> {
    pub filename: Option<&'a str>,
    pub path: Option<&'a str>,
    /// As given by the user.
    pub title: Option<&'a str>,
    pub text: &'a str,
    pub headings: &'a [Heading],
    /// In bytes, in the order of the text.
    pub chunks: &'a [Range<usize>],
    pub depth: u32,
    /// Maximum number of sections to distinguish.
    pub most_sections: usize,
}

/// The wanted names of each chunk's categories, from level 1 on. A level without a name is chosen by
/// the chunk's own words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceOutline {
    pub paths: Vec<Vec<Option<String>>>,
    /// Whether the source has a category of its own.
    pub has_own_category: bool,
}

/// The outline of a source.
pub fn outline(input: &OutlineInput<'_>) -> SourceOutline {
    let title = title::of(input);
    let sections = sections::find(input, title.as_ref().map(|title| title.text.as_str()));
    let has_own_category =
        input.chunks.len() >= LONG || sections.len() > 1 && input.chunks.len() > 1;
    if !has_own_category {
        return SourceOutline {
            paths: brief(input, title.as_ref()),
            has_own_category,
        };
    }

    let name = title.map_or_else(|| "Untitled".to_owned(), |title| title.text);
    let above = collection::of(input, &name);
    let leaves = sections::name_chunks(input, &sections, &name);
    let path = |leaf: Vec<String>| {
        let names: Vec<String> = match input.depth {
            0 | 1 => vec![name.clone()],
            2 => vec![above.clone(), name.clone()],
            _ => [above.clone(), name.clone()]
                .into_iter()
                .chain(leaf)
                .collect(),
        };

        names.into_iter().map(Some).collect()
    };

    SourceOutline {
        paths: leaves.into_iter().map(path).collect(),
        has_own_category,
    }
}

/// Whether a title is rather the number of a scan or an order.
fn is_number(title: &str) -> bool {
    let count = |is: fn(char) -> bool| title.chars().filter(|c| is(*c)).count();
    count(char::is_numeric) > count(char::is_alphabetic)
}

/// A source of few chunks shares its upper categories with similar ones; its title, if it has one,
/// may name the leaf.
fn brief(input: &OutlineInput<'_>, title: Option<&title::Title>) -> Vec<Vec<Option<String>>> {
    let words = input.text.split_whitespace().take(BRIEF_WORDS).count();
    let titled = title.is_some_and(|title| title.is_written);
    let telling = title.is_some_and(|title| collection::is_telling(&title.text));
    if input.depth < 2 || words < BRIEF_WORDS && !titled && !telling {
        return Vec::new();
    }

    let mut path = vec![None; input.depth.min(3) as usize];
    let name = title.map_or("", |title| title.text.as_str());
    (path[0], path[1]) = collection::of_brief(input, name);
    let is_name = telling && !is_number(name);
    if (titled || is_name) && path.len() > 2 {
        path[2] = Some(name.to_owned());
    }

    // The same for all chunks, so that a source of two chunks stays together.
    if path[1].is_none() && input.chunks.len() > 1 {
        path[1] = path[0]
            .as_deref()
            .and_then(|domain| collection::subject_below(input, domain));
    }

    let same = |above: Option<&String>, name: &String| above.is_some_and(|a| names::same(a, name));
    if path.len() > 2
        && path[2]
            .as_ref()
            .is_some_and(|leaf| same(path[1].as_ref(), leaf))
    {
        path[2] = None;
    }

    vec![path; input.chunks.len()]
}
