//! Finds what chunks say that helps with a task: paragraphs, list items, rows and code, each as it
//! stands in its chunk. Guarantees that every excerpt is relevant to a part of the task; if nothing
//! is, there is none.
//!
//! A task says several things at once ("Which files have to change, and how is it tested?"), so each
//! part is compared on its own: an excerpt that answers one of them shares little with the rest.

use std::collections::HashSet;
use std::rc::Rc;

use memoir_text::blocks::{Block, BlockKind, blocks};
use memoir_text::sentences;
use memoir_text::text::char_count;

use super::question;
use super::quotation::spoken_words;
use super::rank::{self, Rarity, Terms};
use super::task_parts::{self, Task, TaskPart};
use super::{Excerpt, ExcerptKind, SupportChunk};

/// Relevance below which an excerpt does not help.
const ENOUGH: f32 = 0.3;
/// Share of the best relevance for a part that a further excerpt needs.
const CLOSE: f32 = 0.65;
/// Share of the words of a part, rare ones counting more, that an excerpt must contain, and how many
/// of them: one common word in both is chance.
const CARRIED: f32 = 0.2;
const MIN_SHARED: usize = 2;
/// How much words count that stand only in the path or the headings.
const ABOUT: f32 = 0.4;
/// How much the whole task counts beside one part of it.
const WHOLE: f32 = 0.3;
/// Excerpts for each part, of the files that the task names, and of all together.
const PER_PART: usize = 6;
const OF_NAMED: usize = 10;
const MAX_EXCERPTS: usize = 24;
/// A longer paragraph and a longer item are cut into sentences.
const MAX_PARAGRAPH_CHARS: usize = 320;
const MAX_ITEM_CHARS: usize = 600;
/// The shortest and the longest sentence.
const MIN_CHARS: usize = 15;
const MAX_CHARS: usize = 800;
/// How much code counts for a task that asks for none.
const CODE: f32 = 0.7;
/// How much more an excerpt counts that has a name from the task, or is of a file that it names.
const NAMED: f32 = 0.15;
/// Relevance that it needs by itself.
const MIN_NAMED: f32 = 0.2;
/// From this likeness of meaning on, no word must be in both.
const SAME_MEANING: f32 = 0.75;
/// From this length on, a chunk was cut from a longer text.
const CUT_CHARS: usize = 1000;

/// How a line begins that declares something.
const DECLARATIONS: [&str; 24] = [
    "pub ",
    "pub(",
    "fn ",
    "async ",
    "unsafe ",
    "impl",
    "struct ",
    "enum ",
    "trait ",
    "type ",
    "mod ",
    "def ",
    "class ",
    "interface ",
    "function ",
    "func ",
    "export ",
    "public ",
    "private ",
    "protected ",
    "///",
    "/**",
    "#[",
    "@",
];

/// A candidate for an excerpt.
struct Unit {
    chunk: usize,
    kind: ExcerptKind,
    text: String,
    /// Those of the whole, then those of its sentences.
    terms: Vec<Terms>,
    has_name: bool,
    /// The words of the path and the headings above it.
    about: Rc<Terms>,
    /// Whether the task names its file.
    is_named: bool,
    /// Whether it stands among rules on how to work.
    is_rule: bool,
}

/// The excerpts for a task, chunk by chunk in the order given, each chunk's in text order.
pub fn find(task: &str, chunks: &[SupportChunk<'_>]) -> Vec<Excerpt> {
    let (units, rated) = rate(task, chunks);
    let mut chosen: Vec<(f32, usize)> = Vec::new();
    let mut of_named: Vec<(f32, usize)> = Vec::new();
    for mut rated in rated {
        rated.retain(|(score, _)| *score >= ENOUGH);
        sort(&mut rated);
        let is_named = |(_, at): &&(f32, usize)| units[*at].is_named || units[*at].is_rule;
        of_named.extend(rated.iter().filter(is_named));
        let best = rated.first().map_or(0.0, |(best, _)| *best);
        rated.retain(|(score, _)| *score >= best * CLOSE);
        rated.truncate(PER_PART);
        chosen.extend(rated);
    }

    sort(&mut of_named);
    of_named.truncate(OF_NAMED);
    chosen.extend(of_named);
    sort(&mut chosen);
    let mut kept = without_repeats(&chosen, &units);
    kept.sort_by_key(|(_, at)| *at);
    let excerpt = |(relevance, at): (f32, usize)| Excerpt {
        chunk_id: chunks[units[at].chunk].chunk_id,
        kind: units[at].kind,
        text: units[at].text.clone(),
        relevance: relevance.min(1.0),
    };
    kept.into_iter().map(excerpt).collect()
}

/// How well the best of each chunk helps with a task, from 0 to 1.
pub fn relevances(task: &str, chunks: &[SupportChunk<'_>]) -> Vec<f32> {
    let (units, rated) = rate(task, chunks);
    let mut best = vec![0.0f32; chunks.len()];
    for (score, at) in rated.into_iter().flatten() {
        let of_chunk = &mut best[units[at].chunk];
        *of_chunk = of_chunk.max(score.min(1.0));
    }
    best
}

/// What chunks may be quoted with, and for each part of the task the scores of those that say
/// something of it.
fn rate(task: &str, chunks: &[SupportChunk<'_>]) -> (Vec<Unit>, Vec<Vec<(f32, usize)>>) {
    let task = Task::of(task);
    let each = (0..).zip(chunks);
    let units: Vec<Unit> = each
        .flat_map(|(at, chunk)| units(&task, at, chunk))
        .collect();
    let rarity = Rarity::of(
        units
            .iter()
            .filter_map(|unit| unit.terms.first().map(|terms| &terms.stems)),
    );
    let of_part = |part: &TaskPart| {
        let scores = units.iter().map(|unit| score(&rarity, &task, part, unit));
        let scores = scores.zip(0..).filter(|(score, _)| *score > 0.0);
        scores.collect::<Vec<(f32, usize)>>()
    };
    let rated = task.parts.iter().map(of_part).collect();
    (units, rated)
}

/// Best first; equals in their order.
fn sort(rated: &mut [(f32, usize)]) {
    rated.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
}

fn without_repeats(chosen: &[(f32, usize)], units: &[Unit]) -> Vec<(f32, usize)> {
    let mut spoken: Vec<String> = Vec::new();
    let mut seen = HashSet::new();
    let mut kept = Vec::new();
    for (score, at) in chosen {
        if kept.len() == MAX_EXCERPTS || !seen.insert(*at) {
            continue;
        }

        let words = spoken_words(&units[*at].text);
        let repeats = |said: &String| said.contains(&words) || words.contains(said);
        if !spoken.iter().any(repeats) {
            spoken.push(words);
            kept.push((*score, *at));
        }
    }

    kept
}

fn score(rarity: &Rarity, task: &Task, part: &TaskPart, unit: &Unit) -> f32 {
    let is_known = unit.has_name || unit.is_named;
    let each = unit.terms.iter().map(|terms| {
        let own = rarity.shared(&part.terms, &terms.stems);
        let shared = part.terms.stems.intersection(&terms.stems).count();
        let around = part.terms.stems.intersection(&unit.about.stems);
        let around = around.filter(|stem| !terms.stems.contains(*stem)).count();
        let enough = MIN_SHARED.min(part.terms.stems.len());
        let is_carried = own >= CARRIED && shared > 0 && shared + around >= enough;
        let meaning = rank::likeness(&part.terms.vector, &terms.vector);
        if !is_carried && !is_known && meaning < SAME_MEANING {
            return 0.0;
        }

        let about = rarity.added(&part.terms, &terms.stems, &unit.about.stems);
        let words = (own + ABOUT * about).min(1.0);
        let of_part = f32::midpoint(words, meaning);
        let of_task = rank::relevance(
            rarity.shared(&task.whole, &terms.stems),
            &task.whole,
            &terms.vector,
        );
        of_part + WHOLE * (of_task - of_part).min(0.0)
    });
    let best = each.fold(0.0, f32::max);
    let is_code = unit.kind == ExcerptKind::Code;
    let fitting = if is_code && !task.wants_code && !is_known {
        CODE
    } else {
        1.0
    };
    let is_asked_rule = part.wants_rules && unit.is_rule;
    let best = if is_asked_rule {
        best.max(MIN_NAMED)
    } else {
        best
    };
    let names = u8::from(unit.has_name) + u8::from(unit.is_named || is_asked_rule);
    if best < MIN_NAMED {
        return 0.0;
    }

    fitting * best + NAMED * f32::from(names)
}

/// What a chunk may be quoted with.
fn units(task: &Task, place: usize, chunk: &SupportChunk<'_>) -> Vec<Unit> {
    let mut found = Vec::new();
    let all = blocks(chunk.text);
    let is_cut = chunk.text.len() >= CUT_CHARS;
    let last = all.len().saturating_sub(1);
    let is_named = task.names_file(chunk.about);
    let mut heading = None;
    let mut about = Rc::new(Terms::of(chunk.about));
    let mut is_rule = says_rules(chunk.about);
    for (at, block) in all.iter().enumerate() {
        // Blocks below a heading borrow it from the same place, which is quicker to compare.
        if block.heading.map(str::as_ptr) != heading.map(str::as_ptr) {
            heading = block.heading;
            let named = heading.unwrap_or_default();
            about = Rc::new(Terms::of(&format!("{} {named}", chunk.about)));
            is_rule = says_rules(named);
        }

        // The text of a chunk may begin and end within a block.
        let begins_cut = is_cut && at == 0 && chunk.text[..block.start].trim().is_empty();
        let ends_cut = is_cut && at == last;
        let (kind, mut quotes) = quotes(block);
        match block.kind {
            BlockKind::Paragraph => {
                if begins_cut && quotes.first().is_some_and(|quote| begins_within(quote)) {
                    quotes.remove(0);
                }
                if ends_cut && quotes.last().is_some_and(|quote| !is_ended(quote)) {
                    quotes.pop();
                }
            }
            BlockKind::Item if ends_cut => quotes.iter_mut().for_each(drop_unfinished),
            BlockKind::Row if ends_cut && !is_whole_row(&chunk.text[block.start..]) => {
                quotes.clear();
            }
            BlockKind::Code => {
                quotes.retain_mut(|code| keeps_code(task, code, begins_cut));
                if ends_cut {
                    quotes.iter_mut().for_each(mark_cut);
                }
            }
            BlockKind::Item | BlockKind::Row => {}
        }

        found.extend(quotes.into_iter().map(|text| {
            let mut terms = vec![Terms::of(&text)];
            if kind == ExcerptKind::Statement {
                let sentences = sentences::split(&text);
                let several = if sentences.len() > 1 {
                    sentences
                } else {
                    Vec::new()
                };
                terms.extend(several.into_iter().map(Terms::of));
            }
            Unit {
                chunk: place,
                kind,
                has_name: task.has_name_of(&text),
                text,
                terms,
                about: Rc::clone(&about),
                is_named,
                is_rule,
            }
        }));
    }

    found
}

/// Whether a heading, the last of those above a text, announces rules on how to work.
fn says_rules(headings: &str) -> bool {
    let last = headings.rsplit(" › ").next().unwrap_or(headings);
    let lower = last.to_lowercase();
    task_parts::RULES.iter().any(|word| lower.contains(word))
}

/// Says of code that it goes on, if it opens more than it closes.
fn mark_cut(code: &mut String) {
    let count = |mark: char| code.matches(mark).count();
    if count('{') > count('}') {
        code.push_str("\n…");
    }
}

/// Whether code says something of its own, which is then left without what it was cut within, if the
/// chunk begins with it, and without its common indentation.
fn keeps_code(task: &Task, code: &mut String, begins_cut: bool) -> bool {
    let is_import = |line: &str| line.starts_with("use ") || line.starts_with("import ");
    let is_idle = code
        .lines()
        .all(|line| is_import(line.trim()) || line.trim().is_empty());
    if is_idle || (!task.tests && code.contains("#[cfg(test)]")) {
        return false;
    }

    let indent = |line: &str| line.len() - line.trim_start().len();
    let first_line = code.lines().next().unwrap_or_default();
    let first = indent(first_line);
    let mut from = 0;
    if begins_cut && first > 0 && !is_declaration(first_line) {
        let mut after_blank = false;
        for (at, line) in code.lines().enumerate() {
            if after_blank && !line.trim().is_empty() && indent(line) < first {
                from = at;
                break;
            }
            after_blank = line.trim().is_empty();
        }
    }

    let mut lines: Vec<&str> = code.lines().skip(from).collect();
    let begins = lines.first().map_or(0, |line| indent(line));
    let count = |mark: char| -> usize { lines.iter().map(|line| line.matches(mark).count()).sum() };
    let mut unopened = count('}').saturating_sub(count('{'));
    while unopened > 0
        && lines.len() > 1
        && lines
            .last()
            .is_some_and(|line| line.trim() == "}" && indent(line) < begins)
    {
        lines.pop();
        unopened -= 1;
    }
    let filled = lines.iter().filter(|line| !line.trim().is_empty());
    let common = filled.map(|line| indent(line)).min().unwrap_or(0);
    let dedented = lines
        .iter()
        .map(|line| line.get(common..).unwrap_or(line.trim_start()));
    *code = dedented.collect::<Vec<_>>().join("\n");
    true
}

/// What a block may be quoted with: all of it, or each of its sentences.
fn quotes(block: &Block<'_>) -> (ExcerptKind, Vec<String>) {
    let most = match block.kind {
        BlockKind::Code => return (ExcerptKind::Code, vec![block.text.clone().into_owned()]),
        BlockKind::Row => usize::MAX,
        BlockKind::Item => MAX_ITEM_CHARS,
        BlockKind::Paragraph => MAX_PARAGRAPH_CHARS,
    };
    let flat = flat(&block.text);
    let is_data = block.kind == BlockKind::Paragraph
        && sentences::split(&block.text).len() > 1
        && block.text.lines().all(|line| line.contains(": "));
    if char_count(&flat) <= most && !is_data {
        let says = match block.kind {
            BlockKind::Paragraph => char_count(&flat) >= MIN_CHARS && !is_title(&flat),
            _ => !flat.ends_with(':'),
        };
        return (ExcerptKind::Statement, Vec::from_iter(says.then_some(flat)));
    }

    let mut found = Vec::new();
    let mut previous = String::new();
    for sentence in sentences::split(&block.text) {
        let flat = self::flat(sentence);
        if (MIN_CHARS..=MAX_CHARS).contains(&char_count(&flat)) && !is_title(&flat) {
            found.push(if question::refers_back(&flat) && !previous.is_empty() {
                format!("{previous} {flat}")
            } else {
                flat.clone()
            });
        }
        previous = flat;
    }
    (ExcerptKind::Statement, found)
}

/// Removes the last sentence of several if it has no end.
fn drop_unfinished(item: &mut String) {
    let last = sentences::split(item).pop().filter(|last| !is_ended(last));
    let finished = last.and_then(|last| item.strip_suffix(last));
    if let Some(finished) = finished.map(str::trim_end).filter(|text| !text.is_empty()) {
        *item = finished.to_owned();
    }
}

/// A text on one line, without the mark of an item at its start.
fn flat(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let Some((mark, rest)) = line.split_once(' ') else {
        return line;
    };
    let is_number =
        mark.ends_with(['.', ')']) && mark[..mark.len() - 1].bytes().all(|b| b.is_ascii_digit());
    if matches!(mark, "-" | "*" | "+" | "•" | ">") || (is_number && mark.len() > 1) {
        rest.to_owned()
    } else {
        line
    }
}

/// Whether a line is a title or the beginning of a list rather than a statement.
fn is_title(line: &str) -> bool {
    let short = line.split_whitespace().count() <= 6;
    line.ends_with(':') || (short && line.ends_with(char::is_alphanumeric) && !line.contains(": "))
}

/// Whether the row that a text begins with has its last bar.
fn is_whole_row(text: &str) -> bool {
    let row = text.lines().next().unwrap_or_default();
    row.trim_end().ends_with('|')
}

/// Whether a line of code declares something, or begins what documents a declaration.
fn is_declaration(line: &str) -> bool {
    let line = line.trim_start();
    DECLARATIONS.iter().any(|word| line.starts_with(word))
}

fn begins_within(quote: &str) -> bool {
    let first = quote.chars().next();
    first.is_some_and(|c| c.is_lowercase() || matches!(c, ',' | ')' | ';'))
}

fn is_ended(quote: &str) -> bool {
    quote.ends_with(['.', '!', '?', '。', '！', '？', ')', '"', '”', '`'])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A paragraph after which a chunk counts as cut.
    fn long_paragraph() -> String {
        "The lamp burns whale oil. ".repeat(50)
    }

    /// What a chunk may be quoted with, without that paragraph.
    fn candidates(text: &str) -> Vec<String> {
        let chunk = SupportChunk {
            chunk_id: 1,
            about: "",
            text,
        };
        let all = units(&Task::of("Explain the lamp."), 0, &chunk).into_iter();
        let texts = all.map(|unit| unit.text);
        texts
            .filter(|text| text != "The lamp burns whale oil.")
            .collect()
    }

    #[test]
    fn short_items_and_rows_may_be_quoted() {
        let text = "Goals\n\n- Encrypt data at rest\n- Support offline mode\n- For example:\n\n\
                    | timeout | 30 s |\n";
        assert_eq!(
            candidates(text),
            [
                "Encrypt data at rest",
                "Support offline mode",
                "timeout | 30 s"
            ]
        );

        let chunk = SupportChunk {
            chunk_id: 1,
            about: "",
            text,
        };
        let found = find("How is data encrypted at rest?", &[chunk]);
        assert_eq!(found[0].text, "Encrypt data at rest");
    }

    #[test]
    fn whole_items_and_rows_at_the_ends_of_a_long_chunk_may_be_quoted() {
        let long = long_paragraph();
        let items = candidates(&format!("- trim the wick\n\n{long}\n\n- Fill in oil\n"));
        assert_eq!(items, ["trim the wick", "Fill in oil"]);
        let rows = candidates(&format!("| wick | burns |\n\n{long}\n\n| oil | cheap |\n"));
        assert_eq!(rows, ["wick | burns", "oil | cheap"]);
        let below_heading = candidates(&format!("# Lamp\n\nit burns all night.\n\n{long}"));
        assert_eq!(below_heading, ["it burns all night."]);
    }

    #[test]
    fn what_a_long_chunk_is_cut_within_is_not_quoted() {
        let long = long_paragraph();
        let row = candidates(&format!("{long}\n\n| oil | che"));
        assert_eq!(row, [] as [&str; 0]);
        let paragraphs =
            format!("and burns all night.\n\n{long}\n\nThe keeper trims all of the wi");
        assert_eq!(candidates(&paragraphs), [] as [&str; 0]);

        let rest = "        self.trim();\n    }\n\n    fn fill(&self) {\n        pour();\n    }\n}";
        let code = candidates(&format!("{rest}\n\n{long}"));
        assert_eq!(code, ["fn fill(&self) {\n    pour();\n}"]);
    }

    #[test]
    fn an_item_that_a_long_chunk_is_cut_within_loses_its_unfinished_sentence() {
        let long = long_paragraph();
        let item = candidates(&format!(
            "{long}\n\n- Trim the wick at six. Then fill\n  in the"
        ));
        assert_eq!(item, ["Trim the wick at six."]);
    }

    #[test]
    fn code_keeps_its_declarations_and_its_braces() {
        let code = "    fn fill(&self) {\n        pour();\n    }\n\nfn main() {\n    light();\n}";
        assert_eq!(candidates(&format!("```rust\n{code}\n```\n")), [code]);
        let cut = format!("{code}\n```\n\n{}", long_paragraph());
        assert_eq!(candidates(&cut), [code]);
    }

    #[test]
    fn indentation_of_any_white_space_is_removed() {
        let code = "```\n\u{a0}let a = 1;\n let b = 2;\n```\n";
        assert_eq!(candidates(code), ["let a = 1;\nlet b = 2;"]);
    }
}
