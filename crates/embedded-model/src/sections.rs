//! The sections of a source, and the names of its leaves: one for each heading, short sections
//! joined, and parts of a long text without headings named by the words that distinguish them.

use std::collections::HashSet;
use std::ops::Range;

use memoir_text::headings::{Heading, Trail};

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

    let prefixed = heads_with_equal_names(&heads, level);
    let mut found: Vec<Section> = Vec::new();
    let mut above: Option<&Heading> = None;
    for (at, heading) in heads.iter().enumerate() {
        let end = heads
            .get(at + 1)
            .map_or(input.text.len(), |next| next.start);
        if heading.level < level {
            above = Some(heading);
            let below = heads.get(at + 1).is_some_and(|next| next.level == level);
            let is_empty = input.text[heading.end.min(end)..end].trim().is_empty();
            if below && is_empty {
                continue;
            }
        }

        let named = section_name(&heading.text)
            .filter(|name| title.is_none_or(|title| !names::same(title, name)));
        let name = named.unwrap_or_else(|| BEFORE.to_owned());
        let outer = above.filter(|_| prefixed && heading.level == level);
        let name = outer
            .and_then(|above| numbered_part(&above.text))
            .map_or_else(|| name.clone(), |part| format!("{part}, {name}"));
        found.push(Section {
            range: heading.start..end,
            name,
        });
    }

    let first = found.first().map_or(0, |section| section.range.start);
    if !input.text[..first].trim().is_empty() && heads.first().is_some_and(|head| head.start > 0) {
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

/// The highest level with several headings that begins early in the text; below it, the next one if
/// its sections are too long for a leaf, or if they are the acts of a play.
fn dividing_level(input: &OutlineInput<'_>) -> Option<u8> {
    let of_level = |level: u8| input.headings.iter().filter(move |h| h.level == level);
    let divides = |level: &u8| {
        let mut heads = of_level(*level);
        let first = heads.next().map(|heading| heading.start);
        let early =
            first.is_some_and(|start| start * 100 <= input.text.len() * EARLY || start < 3_000);
        early && heads.next().is_some()
    };
    let highest = (1..=6).find(divides)?;

    let is_too_long = input.chunks.len() > LONG_SECTION * of_level(highest).count();
    let is_act = |heading: &Heading| Numbered::of(&heading.text).is_some_and(|it| it.is_act());
    if !is_too_long && !of_level(highest).all(is_act) {
        return Some(highest);
    }

    // Only numbered parts have parts: a sign in capitals does not divide a chapter.
    let is_part = |heading: &Heading| Numbered::of(&heading.text).is_some();
    let parts = |level: &u8| of_level(*level).count() > 1 && of_level(*level).all(is_part);
    let numbered = of_level(highest).any(is_part);
    let deeper = (highest + 1..=6).filter(|_| numbered).find(parts);
    deeper.or(Some(highest))
}

/// Whether a line is no more than the number of a volume, a chapter or a scene.
pub fn is_part_number(line: &str) -> bool {
    Numbered::of(line).is_some_and(|part| part.title.is_empty())
}

/// Whether sections on this level have equal names, as chapters that are counted in each volume.
fn heads_with_equal_names(heads: &[&Heading], level: u8) -> bool {
    let mut names = HashSet::new();
    let mut of_level = heads.iter().filter(|heading| heading.level == level);
    of_level.any(|heading| {
        let number = Numbered::of(&heading.text).map(|it| (it.word, it.number));
        number.is_some_and(|number| !names.insert(number))
    })
}

/// The part of a heading that names a volume, a book or an act: "Volume I".
fn numbered_part(heading: &str) -> Option<String> {
    let name = section_name(heading)?;
    let numbered = Numbered::of(&name)?;
    Some(format!("{} {}", numbered.word, numbered.number))
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

    names::title(&unbracketed(&format!("{part} {rest}")))
}

/// "[0.8.0] - 2024-03-01" without its brackets, which mark a link.
fn unbracketed(heading: &str) -> String {
    let version = heading
        .trim()
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'));
    match version {
        Some((version, rest)) if !rest.starts_with('(') => format!("{version}{rest}"),
        _ => heading.to_owned(),
    }
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

    // "Volume I, Chapters I–III".
    let outer = |name: &str| name.rsplit_once(", ").map(|(outer, _)| outer.to_owned());
    let within = outer(&first.name).filter(|name| outer(&last.name).as_ref() == Some(name));
    let part = |name: &'_ str| match &within {
        Some(within) => name[within.len() + 2..].to_owned(),
        None => name.to_owned(),
    };
    let (from, to) = (part(&first.name), part(&last.name));
    if let (Some(from), Some(to)) = (Numbered::of(&from), Numbered::of(&to))
        && from.word.eq_ignore_ascii_case(to.word)
    {
        let range = format!("{}s {}–{}", from.word, from.number, to.number);
        let range = within.map_or_else(|| range.clone(), |within| format!("{within}, {range}"));
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

impl<'n> Numbered<'n> {
    /// "Chapter 3. The Lamp" in its parts.
    fn of(name: &'n str) -> Option<Self> {
        const KNOWN: [&str; 13] = [
            "volume", "book", "part", "chapter", "letter", "canto", "act", "actus", "scene",
            "scena", "scaena", "scoena", "section",
        ];
        let (word, rest) = name.trim().split_once(' ')?;
        let (number, title) = rest.trim_start().split_once(' ').unwrap_or((rest, ""));
        let number = number.trim_end_matches(['.', ':', ',']);
        let counts = number
            .chars()
            .all(|c| c.is_ascii_digit() || "IVXLCDM".contains(c));
        let is_known = KNOWN.iter().any(|known| word.eq_ignore_ascii_case(known));
        let in_words = || memoir_text::headings::is_number_in_words(number);
        (is_known && !number.is_empty() && (counts || in_words())).then_some(Self {
            word,
            number,
            title,
        })
    }

    fn is_act(&self) -> bool {
        self.word.eq_ignore_ascii_case("act") || self.word.eq_ignore_ascii_case("actus")
    }
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
            (heading, _) if number == 1 => heading.to_owned(),
            (heading, _) => format!("{heading} ({number})"),
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

        let volume = |n: &str| {
            let chapter = |of: &str| format!("CHAPTER {of}\n\n\n{}\n\n", body.repeat(4));
            format!("VOLUME {n}\n\n{}{}", chapter("I"), chapter("II"))
        };
        let novel = format!("{}{}", volume("I"), volume("II"));
        let chapters = [
            "Volume I, Chapter I",
            "Volume I, Chapter II",
            "Volume II, Chapter I",
            "Volume II, Chapter II",
        ];
        assert_eq!(leaves_of(&novel, 70, 8), chapters);
        assert_eq!(
            leaves_of(&novel, 70, 2),
            ["Volume I, Chapters I–II", "Volume II, Chapters I–II"]
        );

        let play = [
            "Actus Primus. Scoena Prima",
            "Scena Secunda",
            "Actus Secundus. Scena Prima",
            "Scena Secunda",
        ]
        .map(|scene| format!("{scene}.\n\n{body}\n\n"))
        .concat();
        assert_eq!(
            leaves_of(&play, 300, 8),
            [
                "Actus Primus. Scoena Prima",
                "Actus Primus, Scena Secunda",
                "Actus Secundus. Scena Prima",
                "Actus Secundus, Scena Secunda"
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
            ("[0.8.0] - 2024-03-01", "0.8.0 - 2024-03-01"),
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
