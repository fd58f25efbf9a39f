//! The sections of a source, and the names of its leaves: one for each heading, short sections
//! joined, and parts of a long text without headings named by the words that distinguish them.

use std::ops::Range;

use memoir_text::headings::Trail;

use super::distinctive_nouns::distinctive_nouns;
use super::names;
use super::outline::OutlineInput;

/// Where the first heading of a level must be for the level to divide the text: within this part
/// of it, counted in percent.
const EARLY: usize = 15;
/// Chunks of a part of a text without headings, and of a long section.
const PART: usize = 12;
const LONG_SECTION: usize = 40;
/// What stands before the first heading.
const BEFORE: &str = "Overview";
/// Maximum characters of a name joined from several.
const LONGEST: usize = 70;

/// A section: where it begins and what it is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    pub range: Range<usize>,
    pub name: String,
}

/// Some consecutive sections that share a leaf.
#[derive(Debug, Clone)]
struct Leaf {
    sections: Range<usize>,
    /// Consecutive chunks.
    chunks: Range<usize>,
}

/// The sections of a source, by its headings; none if it has none.
pub fn find(input: &OutlineInput<'_>, title: Option<&str>) -> Vec<Section> {
    let Some(level) = dividing_level(input) else {
        return Vec::new();
    };
    let heads: Vec<_> = input
        .headings
        .iter()
        .filter(|heading| heading.level <= level)
        .collect();

    let mut found: Vec<Section> = Vec::new();
    for (at, heading) in heads.iter().enumerate() {
        let end = heads
            .get(at + 1)
            .map_or(input.text.len(), |next| next.start);
        let named = section_name(&heading.text)
            .filter(|name| title.is_none_or(|title| !names::same(title, name)));
        let name = named.unwrap_or_else(|| BEFORE.to_owned());
        found.push(Section {
            range: heading.start..end,
            name,
        });
    }

    let first = found.first().map_or(0, |section| section.range.start);
    if !input.text[..first].trim().is_empty() {
        found.insert(
            0,
            Section {
                range: 0..first,
                name: BEFORE.to_owned(),
            },
        );
    }

    found
}

/// The highest level with several headings that begins early in the text.
fn dividing_level(input: &OutlineInput<'_>) -> Option<u8> {
    (1..=6).find(|level| {
        let mut of_level = input.headings.iter().filter(|h| h.level == *level);
        let first = of_level.next().map(|heading| heading.start);
        let early =
            first.is_some_and(|start| start * 100 <= input.text.len() * EARLY || start < 3_000);
        early && of_level.next().is_some()
    })
}

/// A heading as a name: capitals become title case, marks are removed.
pub fn section_name(heading: &str) -> Option<String> {
    let roman = |text: &str| text.chars().all(|c| "IVXLCDM.:".contains(c));
    let shouted = |text: &str| {
        !roman(text)
            && text.chars().filter(|c| c.is_alphabetic()).count() > 3
            && !text.chars().any(char::is_lowercase)
    };
    let (part, rest) = match heading.split_once(' ') {
        Some((part, rest)) if shouted(part) && !shouted(rest) => (capitalised(part), rest),
        Some((part, rest)) if shouted(heading) => {
            return names::title(&format!("{} {}", capitalised(part), title_case(rest)));
        }
        _ if shouted(heading) => (capitalised(heading), ""),
        _ => (String::new(), heading),
    };

    names::title(&format!("{part} {rest}"))
}

fn capitalised(word: &str) -> String {
    let lower = word.to_lowercase();
    let mut letters = lower.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

/// "THE HOUSE OF ROME" as "The House of Rome"; Roman numbers stay.
fn title_case(text: &str) -> String {
    const SMALL: [&str; 14] = [
        "a", "an", "and", "as", "at", "by", "for", "from", "in", "of", "on", "or", "the", "to",
    ];
    let words = text.split(' ').map(|word| {
        let bare = word.trim_matches(|c: char| !c.is_alphabetic());
        let roman = !bare.is_empty() && bare.chars().all(|c| "IVXLCDM".contains(c));
        let lower = word.to_lowercase();
        if roman && bare.len() < 6 && !matches!(bare, "I" | "DID" | "MIX") || bare == "I" {
            word.to_owned()
        } else if SMALL.contains(&lower.as_str()) {
            lower
        } else {
            capitalised(word)
        }
    });

    words.collect::<Vec<_>>().join(" ")
}

/// The names below the title for each chunk: its section, then the headings within it.
pub fn name_chunks(
    input: &OutlineInput<'_>,
    sections: &[Section],
    title: &str,
) -> Vec<Vec<String>> {
    if sections.len() < 2 {
        return parts(input, 0..input.chunks.len(), "");
    }

    let mut names: Vec<Vec<String>> = vec![Vec::new(); input.chunks.len()];
    let leaves = leaves(input, sections);
    let room = input.most_sections.saturating_sub(leaves.len());
    for leaf in leaves {
        let name = leaf_name(&sections[leaf.sections.clone()]);
        let name = if names::same(&name, title) {
            BEFORE.to_owned()
        } else {
            name
        };

        if leaf.sections.len() == 1 && leaf.chunks.len() > LONG_SECTION && room > 0 {
            let split = parts(input, leaf.chunks.clone(), &name);
            for (at, path) in leaf.chunks.zip(split) {
                names[at] = path;
            }
            continue;
        }

        for at in leaf.chunks {
            names[at] = vec![name.clone()];
        }
    }

    add_headings_within(input, &mut names);
    names
}

/// For hierarchies of more than three levels: the headings below the section.
fn add_headings_within(input: &OutlineInput<'_>, names: &mut [Vec<String>]) {
    let deeper = input.depth.saturating_sub(3) as usize;
    if deeper == 0 {
        return;
    }

    let mut trail = Trail::new(input.headings);
    let mut chars = 0;
    for (at, chunk) in input.chunks.iter().enumerate() {
        let above = trail.at(chars);
        let below = above.iter().skip_while(|heading| {
            section_name(&heading.text).is_none_or(|name| !names[at].contains(&name))
        });
        let found: Vec<String> = below
            .skip(1)
            .filter_map(|heading| section_name(&heading.text))
            .take(deeper)
            .collect();
        names[at].extend(found);
        chars += input.text[chunk.clone()].chars().count();
    }
}

/// The leaves: consecutive chunks of one section, joined until there are few enough.
fn leaves(input: &OutlineInput<'_>, sections: &[Section]) -> Vec<Leaf> {
    let mut leaves: Vec<Leaf> = Vec::new();
    let mut from = 0;
    for (at, chunk) in input.chunks.iter().enumerate() {
        while from + 1 < sections.len() && sections[from].range.end <= chunk.start {
            from += 1;
        }

        let (main, last) = main_section(&sections[from..], chunk);
        let (main, last) = (from + main, from + last);
        match leaves.last_mut() {
            Some(leaf) if leaf.sections.contains(&main) => leaf.chunks.end = at + 1,
            _ => leaves.push(Leaf {
                sections: main..last + 1,
                chunks: at..at + 1,
            }),
        }
    }

    // A leaf with its own chunks needs no names of sections that begin at its end.
    for leaf in leaves.iter_mut().filter(|leaf| leaf.chunks.len() > 1) {
        leaf.sections.end = leaf.sections.start + 1;
    }

    while leaves.len() > input.most_sections.max(1) {
        let weight = |at: usize| leaves[at].chunks.len() + leaves[at + 1].chunks.len();
        let Some(at) = (0..leaves.len() - 1).min_by_key(|at| weight(*at)) else {
            break;
        };
        let next = leaves.remove(at + 1);
        leaves[at].chunks.end = next.chunks.end;
        leaves[at].sections.end = next.sections.end;
    }

    leaves
}

/// The section that most of a chunk belongs to, and the last one of which it holds a good part.
fn main_section(sections: &[Section], chunk: &Range<usize>) -> (usize, usize) {
    let overlap = |section: &Section| {
        let start = section.range.start.max(chunk.start);
        section.range.end.min(chunk.end).saturating_sub(start)
    };
    let inside = sections
        .iter()
        .take_while(|section| section.range.start < chunk.end)
        .count()
        .max(1);
    let main = (0..inside)
        .rev()
        .max_by_key(|at| overlap(&sections[*at]))
        .unwrap_or(0);
    let good = |at: &usize| overlap(&sections[*at]) * 4 >= chunk.len();
    let last = (main..inside).rev().find(good).unwrap_or(main);
    (main, last.max(main))
}

/// The name of a leaf of several sections: "Chapters 3–7: The Lamp – The Whale", "Jobs, Keys".
fn leaf_name(sections: &[Section]) -> String {
    let (Some(first), Some(last)) = (sections.first(), sections.last()) else {
        return BEFORE.to_owned();
    };
    if sections.len() == 1 {
        return first.name.clone();
    }

    if let (Some(from), Some(to)) = (numbered(&first.name), numbered(&last.name))
        && from.word.eq_ignore_ascii_case(to.word)
    {
        let range = format!("{}s {}–{}", from.word, from.number, to.number);
        let named = !from.title.is_empty() && !to.title.is_empty();
        return if named {
            format!("{range}: {} – {}", from.title, to.title)
        } else {
            range
        };
    }

    let all: Vec<&str> = sections
        .iter()
        .filter(|section| section.name != BEFORE)
        .map(|section| section.name.as_str())
        .collect();
    let joined = all.join(", ");
    if joined.chars().count() <= LONGEST && all.len() <= 3 {
        return joined;
    }

    format!("{} – {}", all.first().unwrap_or(&BEFORE), last.name)
}

struct Numbered<'n> {
    word: &'n str,
    number: &'n str,
    title: &'n str,
}

/// "Chapter 3. The Lamp" in its parts.
fn numbered(name: &str) -> Option<Numbered<'_>> {
    let (word, rest) = name.split_once(' ')?;
    let known = [
        "Chapter", "Part", "Book", "Letter", "Canto", "Scene", "Act", "Section",
    ];
    let (number, title) = rest.split_once(' ').unwrap_or((rest, ""));
    let number = number.trim_end_matches(['.', ':', ',']);
    let counts = number
        .chars()
        .all(|c| c.is_ascii_digit() || "IVXLCDM".contains(c));
    (known.contains(&word) && counts && !number.is_empty()).then_some(Numbered {
        word,
        number,
        title,
    })
}

/// Parts of a long stretch without headings.
fn parts(input: &OutlineInput<'_>, chunks: Range<usize>, heading: &str) -> Vec<Vec<String>> {
    let count = chunks
        .len()
        .div_ceil(PART)
        .clamp(1, input.most_sections.max(1));
    let size = chunks.len().div_ceil(count).max(1);
    let ranges: Vec<Range<usize>> = chunks
        .clone()
        .step_by(size)
        .map(|from| from..(from + size).min(chunks.end))
        .collect();

    let text = |range: &Range<usize>| {
        let start = input.chunks[range.start].start;
        &input.text[start..input.chunks[range.end - 1].end]
    };
    let texts: Vec<&str> = ranges.iter().map(text).collect();
    let words = distinctive_nouns(&texts);
    let mut names = Vec::with_capacity(chunks.len());
    for ((number, range), words) in (1..).zip(&ranges).zip(words) {
        let name = match (heading, words.as_str()) {
            ("", "") if ranges.len() == 1 => BEFORE.to_owned(),
            ("", "") => format!("Part {number}"),
            ("", words) if ranges.len() == 1 => names::title(words).unwrap_or_default(),
            ("", words) => format!("Part {number}: {words}"),
            (heading, "") => format!("{heading}, part {number}"),
            (heading, words) => format!("{heading}: {words}"),
        };
        names.extend(range.clone().map(|_| vec![name.clone()]));
    }

    names
}

#[cfg(test)]
mod tests {
    use memoir_text::headings::headings;

    use super::*;

    fn leaves_of(text: &str, size: usize, most: usize) -> Vec<String> {
        let found = headings(text);
        let chunks: Vec<Range<usize>> = (0..text.len())
            .step_by(size)
            .map(|from| from..(from + size).min(text.len()))
            .collect();
        let input = OutlineInput {
            filename: None,
            path: None,
            title: None,
            text,
            headings: &found,
            chunks: &chunks,
            depth: 3,
            most_sections: most,
        };
        let sections = find(&input, Some("The Sea"));
        let mut names: Vec<String> = name_chunks(&input, &sections, "The Sea").concat();
        names.dedup();
        names
    }

    #[test]
    fn leaves_are_named_by_the_headings_above_them() {
        let body = "The keeper climbed the stairs. ".repeat(20);
        let chapter = |n: usize, title: &str| format!("CHAPTER {n}\n\n{title}.\n\n{body}\n\n");
        let book: String = ["The Lamp", "The Whale", "The Storm", "The End"]
            .iter()
            .zip(1..)
            .map(|(title, n)| chapter(n, title))
            .collect();
        assert_eq!(
            leaves_of(&book, 400, 8),
            [
                "Chapter 1. The Lamp",
                "Chapter 2. The Whale",
                "Chapter 3. The Storm",
                "Chapter 4. The End"
            ]
        );
        assert_eq!(
            leaves_of(&book, 400, 2),
            [
                "Chapters 1–2: The Lamp – The Whale",
                "Chapters 3–4: The Storm – The End"
            ]
        );

        let short = format!("# The Sea\n\n## Keys\n\n{body}\n\n## Jobs\n\n{body}\n");
        assert_eq!(leaves_of(&short, short.len(), 8), ["Keys, Jobs"]);
    }

    #[test]
    fn headings_become_names() {
        for (heading, wanted) in [
            (
                "CHAPTER I. Down the Rabbit-Hole",
                "Chapter I. Down the Rabbit-Hole",
            ),
            ("THE HOUSE OF ROME", "The House of Rome"),
            ("ETYMOLOGY.", "Etymology"),
            ("CHAPTER XII", "Chapter XII"),
            ("`memoir ask`", "Memoir ask"),
            ("[Settings](#settings)", "Settings"),
        ] {
            assert_eq!(section_name(heading).as_deref(), Some(wanted));
        }
    }

    #[test]
    fn a_long_text_without_headings_has_parts() {
        let harbour = "The harbour was full of boats. A boat left the harbour. ".repeat(40);
        let forest = "The forest hid a wolf. The wolf watched the forest. ".repeat(40);
        let names = leaves_of(&format!("{harbour}{forest}"), 180, 8);
        assert!(names.len() == 3 || names.len() == 2, "{names:?}");
        assert!(
            names[0].starts_with("Part 1: ") && names[0].contains("arbour"),
            "{names:?}"
        );
    }
}
