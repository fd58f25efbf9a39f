//! Writes the memories of `rank: auto` as a text that fills its budget: best first, each with its
//! date, under the titles of a context. Pure.

use memoir_policy::steps::budget::{characters, cut};
use memoir_text::framing;
use memoir_text::text::char_count;

use super::scoring::{ContextItem, Lasting};
use super::stages::RetrievalSource;
use super::text_by_section::{OVER_BUDGET, SECTIONS, section};

/// What lasts keeps one of so many parts of the text.
const RESERVED_SHARE: usize = 5;
/// One memory takes at most one of so many parts of the text, but may always have this many
/// characters.
const LINE_SHARE: usize = 4;
const MIN_LINE_CHARS: usize = 400;
/// A memory is not shortened to fewer characters.
const MIN_SHORTENED_CHARS: usize = 80;
/// What stands where a memory was shortened.
const SHORTENED: &str = " […]";
/// Between a title and what follows, and between sections.
const LINE_BREAK: usize = 1;

/// What the text says if nothing was found.
const NOTHING_FOUND: &str = "Nothing that is stored about this user clearly concerns the question.";

/// Why a memory is not in the text: nothing was found, and it has nothing to do with the question.
pub const UNRELATED: &str = "unrelated";

/// Characters that are left for lines.
struct LineBudget {
    left: usize,
    /// Sections that have their title.
    titled: [bool; SECTIONS.len()],
    longest: usize,
    was_short: bool,
    full: bool,
}

/// Writes the memories that are kept, and drops those that have no place in the text. Returns the
/// text, and whether memories were shortened or dropped to fit.
pub fn compose(items: &mut [ContextItem], max_tokens: usize, found: bool) -> (String, bool) {
    let most = characters(max_tokens);
    let says_so = !found && !items.is_empty();
    if !found {
        let of_use = |one: &ContextItem| match one.scores.lasting {
            Lasting::Always => true,
            Lasting::WhenRelated => one.scores.related,
            Lasting::No => false,
        };
        for one in items.iter_mut().filter(|one| !of_use(one)) {
            one.drop("related", UNRELATED);
        }
    }

    let head = if says_so {
        char_count(NOTHING_FOUND) + 2
    } else {
        0
    };
    let mut budget = LineBudget {
        left: most.saturating_sub(head),
        titled: [false; SECTIONS.len()],
        longest: (most / LINE_SHARE).max(MIN_LINE_CHARS),
        was_short: false,
        full: false,
    };

    // What lasts waits until the others have taken their part, and then takes what is left.
    let lasting = |one: &ContextItem| one.scores.lasting != Lasting::No;
    let wanted: usize = items
        .iter()
        .filter(|one| one.is_kept() && lasting(one))
        .map(|one| budget.cost(one, &line(one, budget.longest)))
        .sum();
    let reserved = wanted.min(budget.left / RESERVED_SHARE);
    let mut lines: Vec<Option<String>> = vec![None; items.len()];
    budget.left -= reserved;
    take(items, &mut lines, &mut budget, |one| !lasting(one));
    budget.left += reserved;
    budget.full = false;
    take(items, &mut lines, &mut budget, lasting);

    let mut parts: Vec<String> = Vec::new();
    if says_so && head <= most {
        parts.push(NOTHING_FOUND.to_owned());
    }

    for (number, (_, title, _)) in SECTIONS.iter().enumerate() {
        let own = items.iter().zip(&lines);
        let own = own.filter(|(one, _)| section(one) == number);
        let own: Vec<&str> = own.filter_map(|(_, line)| line.as_deref()).collect();
        if !own.is_empty() {
            parts.push(format!("## {title}:\n{}", own.join("\n")));
        }
    }

    (parts.join("\n\n"), budget.was_short)
}

/// Gives the wanted items their lines, best first, until the room is full.
fn take(
    items: &mut [ContextItem],
    lines: &mut [Option<String>],
    budget: &mut LineBudget,
    wanted: impl Fn(&ContextItem) -> bool,
) {
    for (one, place) in items.iter_mut().zip(lines) {
        if one.is_kept() && wanted(one) {
            *place = budget.take(one);
            if place.is_none() {
                one.drop("budget", OVER_BUDGET);
            }
        }
    }
}

impl LineBudget {
    /// What a line takes, with the title of its section if it is the first.
    fn cost(&self, item: &ContextItem, line: &str) -> usize {
        char_count(line) + LINE_BREAK + self.title(item)
    }

    fn title(&self, item: &ContextItem) -> usize {
        let number = section(item);
        if self.titled[number] {
            return 0;
        }

        char_count(SECTIONS[number].1) + "## :".len() + 2 * LINE_BREAK
    }

    /// The line of an item, shortened if it has to be; `None` if there is no room for it.
    fn take(&mut self, item: &ContextItem) -> Option<String> {
        let whole = line(item, self.longest);
        let most = self.left.saturating_sub(self.title(item) + LINE_BREAK);
        let most = most.min(self.longest);
        let is_short =
            char_count(&whole) > most || item.found.content.chars().nth(self.longest).is_some();
        self.was_short |= is_short || self.full;
        // Nothing that ranks lower takes the place of what did not fit.
        self.full |= is_short && most < MIN_SHORTENED_CHARS;
        if self.full {
            return None;
        }

        let line = if is_short {
            cut(
                &whole,
                most.min(char_count(&whole) + char_count(SHORTENED)),
                SHORTENED,
            )?
        } else {
            whole
        };
        self.left = self.left.saturating_sub(self.cost(item, &line));
        self.titled[section(item)] = true;
        Some(line)
    }
}

/// `- [role, date] (from: thread) content`; `earlier` follows the date of what something later
/// contradicts. Of a long memory, no more is framed than a line may have.
fn line(item: &ContextItem, longest: usize) -> String {
    let memory = &item.found;
    let (role, mut day) = (memory.label(), memory.created_at.day());
    if item.scores.earlier {
        day.push_str(", earlier");
    }

    let content: String = memory.content.chars().take(longest).collect();
    let content = framing::entry(&content);
    if item.scores.source == RetrievalSource::CrossThread {
        let thread = framing::name(item.scores.thread_title.as_deref().unwrap_or("Untitled"));
        return format!("- [{role}, {day}] (from: {thread}) {content}");
    }

    format!("- [{role}, {day}] {content}")
}

#[cfg(test)]
mod tests {
    use super::super::scoring::ContextScores;
    use super::*;
    use crate::base::clock::Timestamp;
    use crate::model::memory::{Memory, MemoryKind};
    use crate::retrieval::Item;

    fn item(kind: MemoryKind, content: &str) -> ContextItem {
        let at = Timestamp::from_micros(1_780_000_000_000_000);
        let memory = Memory::new(kind, "ann".to_owned(), content.to_owned(), at);
        let source = if kind == MemoryKind::Message {
            RetrievalSource::CrossThread
        } else {
            RetrievalSource::Expansion
        };
        let scores = ContextScores {
            source,
            ..ContextScores::unscored(&memory)
        };
        Item::new(memory, scores)
    }

    fn kept(items: &[ContextItem]) -> Vec<bool> {
        items.iter().map(Item::is_kept).collect()
    }

    #[test]
    fn lines_have_a_role_and_a_date() {
        let mut items = [
            item(MemoryKind::Message, "I moved to Bonn"),
            item(MemoryKind::Fact, "Lives in Bonn"),
        ];
        let (text, truncated) = compose(&mut items, 200, true);
        assert_eq!(
            text,
            "## Related Past Conversations:\n- [user, 2026-05-28] (from: Untitled) I moved to Bonn\n\n\
             ## User Context & Preferences:\n- [user, 2026-05-28] Lives in Bonn"
        );
        assert!(!truncated);
    }

    #[test]
    fn a_text_fills_its_budget_and_never_exceeds_it() {
        for tokens in [10, 30, 60, 100, 300, 1000] {
            let mut items: Vec<ContextItem> = (0..20)
                .map(|n| {
                    let kind = if n % 4 == 3 {
                        MemoryKind::Fact
                    } else {
                        MemoryKind::Message
                    };
                    item(
                        kind,
                        &format!("number {n} of what was said: {}", "so much ".repeat(n)),
                    )
                })
                .collect();
            let (text, truncated) = compose(&mut items, tokens, true);
            assert!(
                char_count(&text) <= tokens * 4,
                "{tokens}: {}",
                char_count(&text)
            );
            let all = kept(&items).iter().all(|kept| *kept);
            assert!(truncated || all, "{tokens}");
            assert!(
                !truncated || char_count(&text) * 2 > tokens * 4 || tokens <= 30,
                "{tokens}"
            );
        }
    }

    #[test]
    fn what_lasts_keeps_its_part_beside_a_long_conversation() {
        let mut items: Vec<ContextItem> = (0..19)
            .map(|n| {
                item(
                    MemoryKind::Message,
                    &format!("{n}: {}", "much was said ".repeat(12)),
                )
            })
            .collect();
        items.push(item(MemoryKind::Preference, "Vegetarian"));
        let (text, truncated) = compose(&mut items, 200, true);
        assert!(text.contains("Vegetarian") && truncated, "{text}");
    }

    #[test]
    fn one_long_memory_leaves_room_for_others() {
        let mut items = [
            item(MemoryKind::Message, &"long ".repeat(4000)),
            item(MemoryKind::Message, "short"),
        ];
        let (text, truncated) = compose(&mut items, 1000, true);
        assert!(text.contains(SHORTENED) && text.contains("short\n") || text.ends_with("short"));
        assert!(truncated);
        assert_eq!(kept(&items), [true, true]);
    }

    #[test]
    fn if_nothing_was_found_the_text_says_so_and_keeps_what_lasts() {
        let mut items = [
            item(MemoryKind::Message, "The boat is blue"),
            item(MemoryKind::Fact, "Has a boat"),
            item(MemoryKind::Preference, "Prefers short answers"),
        ];
        items[2].scores.lasting = Lasting::Always;
        let (text, _) = compose(&mut items, 200, false);
        assert!(text.starts_with(NOTHING_FOUND), "{text}");
        assert!(
            text.contains("short answers") && !text.contains("boat"),
            "{text}"
        );
        assert_eq!(items[0].decision.reason, UNRELATED);

        assert_eq!(compose(&mut [], 200, false), (String::new(), false));
    }
}
