//! The identifiers that a question names: versions (`1.54.1`), ids (`RFC 9457`, `order #5678`) and
//! numbered sections (`§ 12`); and how well a text names the same ones.
//!
//! An identifier is compared as a whole, so `1.54.10`, `3.1.54.1` and a text with 1 and 54 do not
//! name `1.54.1`. Amounts, dates, times, years and numbers with thousands separators are none, and
//! neither are plain small numbers without a word that says what they count as. The time is linear
//! in the length of a text.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::identifier_parts::{self as parts, Label, is_year};
use super::months::{MONTHS, WEEKDAYS};
use super::stop_words;

/// Maximum identifiers of a question.
const MAX_IDENTIFIERS: usize = 8;
/// Longer numbers are data rather than identifiers.
const MAX_BYTES: usize = 80;
/// So many digits identify something without a label; four do if they are no year.
const MIN_DIGITS: usize = 5;
const MIN_PLAIN_DIGITS: usize = 4;

/// How a text names an identifier; the numbers are used as scores.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Naming {
    #[default]
    Absent = 0,
    /// Without its label, or a later part of it: `1.54.1` for `1.54`.
    Loosely = 1,
    Exactly = 2,
    /// In a heading, so that what follows is about it.
    AsHeading = 3,
}

/// The identifiers that a text names, each once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identifiers(Vec<Identifier>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Identifier {
    /// In lower case: `1.54.1`, `9457`, `2024-3094`.
    number: String,
    /// The words and marks that may stand before it, in lower case.
    labels: Vec<String>,
    /// How many dots are between its leading numbers.
    dots: usize,
    /// Whether it says something without its label.
    is_distinct: bool,
}

impl Identifiers {
    pub fn of(text: &str) -> Self {
        let mut found: Vec<Identifier> = Vec::new();
        for run in parts::numbers(text) {
            if found.len() == MAX_IDENTIFIERS {
                break;
            }

            let identifier = Identifier::read(text, run.start, run.end);
            found.extend(identifier.filter(|one| !found.contains(one)));
        }

        Self(found)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Their numbers and labels, in lower case.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        let labels = self.0.iter().flat_map(|one| &one.labels);
        let numbers = self.0.iter().map(|one| &one.number);
        numbers.chain(labels).map(String::as_str)
    }

    /// Whether a word is only a part of one of the versions: `54` or `1.54` of `1.54.1`.
    #[must_use]
    pub fn have_part(&self, word: &str) -> bool {
        let begins = |number: &str| {
            let rest = number.strip_prefix(word);
            rest.is_some_and(|rest| rest.starts_with('.'))
        };
        let mut versions = self.0.iter().filter(|one| one.dots > 0);
        versions.any(|one| {
            let number = one.number.as_str();
            number != word && (begins(number) || number.split('.').any(|part| part == word))
        })
    }

    /// Whether all of them need their labels: `§ 12`, but not `RFC 9457`.
    #[must_use]
    pub fn need_labels(&self) -> bool {
        self.0.iter().all(|one| !one.is_distinct)
    }

    /// Whether a text without them is probably about something else. A number with one dot may be an
    /// amount, which can be written differently.
    #[must_use]
    pub fn are_needed(&self) -> bool {
        self.0.iter().any(|one| one.is_distinct && one.dots != 1)
    }

    /// How a text names the best named one.
    #[must_use]
    pub fn naming(&self, text: &str) -> Naming {
        let each = self.namings(text).into_iter();
        each.max().unwrap_or_default()
    }

    /// How well a text names all of them together; `above` are the headings above it.
    #[must_use]
    pub fn score(&self, text: &str, above: &str) -> u32 {
        let above = self.namings(above).into_iter();
        let each = self.namings(text).into_iter().zip(above);
        each.map(|(own, above)| match above {
            Naming::Exactly | Naming::AsHeading => Naming::AsHeading as u32,
            Naming::Absent | Naming::Loosely => own as u32,
        })
        .sum()
    }

    /// Whether a text names another identifier of the same kind: another version, another order.
    #[must_use]
    pub fn differ_from(&self, text: &str) -> bool {
        let others = Self::of(text).0;
        let differs = |other: &Identifier| self.0.iter().all(|one| one.number != other.number);
        let is_alike = |other: &Identifier| self.0.iter().any(|one| one.is_like(other));
        others.iter().any(|one| differs(one) && is_alike(one))
    }

    fn namings(&self, text: &str) -> Vec<Naming> {
        let may_be = self.0.iter().any(|one| text.contains(one.first_digits()));
        let folded = if may_be {
            text.to_lowercase()
        } else {
            String::new()
        };
        self.0.iter().map(|one| one.naming(&folded)).collect()
    }
}

impl Identifier {
    /// The identifier whose number stands at a place of a text, if it is one.
    fn read(text: &str, start: usize, end: usize) -> Option<Self> {
        let number = text[start..end].to_ascii_lowercase();
        if number.len() > MAX_BYTES || number.contains([':', ',']) {
            return None;
        }

        let (label, is_attached) = match parts::attached_label(text, start) {
            Some(label) => (Some(label), true),
            None => (parts::label_before(text, start), false),
        };
        let is_amount = parts::is_amount(text, start, end);
        let dots = parts::dots(&number);
        if dots > 0 {
            let is_version = label.as_ref().is_some_and(Label::is_version);
            let is_ambiguous = parts::is_thousands(&number) && !is_version;
            let is_none = is_amount || is_ambiguous || parts::is_date(&number);
            // What stands before a version in a question is seldom repeated in its heading.
            return (!is_none).then_some(Self {
                number,
                labels: Vec::new(),
                dots,
                is_distinct: true,
            });
        }

        let is_plain = number.bytes().all(|byte| byte.is_ascii_digit());
        let digits = number.bytes().filter(u8::is_ascii_digit).count();
        let is_distinct = !parts::has_only_years(&number)
            && !parts::is_date(&number)
            && (digits >= MIN_DIGITS || (is_plain && digits >= MIN_PLAIN_DIGITS));
        let labels = label
            .filter(|label| is_attached || parts::is_simple(&number) || label.is_known())
            .filter(|label| is_label_of(label, &number, is_attached));
        if is_amount || (labels.is_none() && !is_distinct) {
            return None;
        }

        Some(Self {
            number,
            labels: labels.map(Label::into_alternatives).unwrap_or_default(),
            dots,
            is_distinct,
        })
    }

    fn first_digits(&self) -> &str {
        let end = self.number.find(|c: char| !c.is_ascii_digit());
        &self.number[..end.unwrap_or(self.number.len())]
    }

    /// Whether both count the same things.
    fn is_like(&self, other: &Self) -> bool {
        let shares = |label: &String| other.labels.contains(label);
        (self.dots > 0 && self.dots == other.dots) || self.labels.iter().any(shares)
    }

    /// How a text in lower case names it.
    fn naming(&self, text: &str) -> Naming {
        let mut best = Naming::Absent;
        for (start, _) in text.match_indices(&self.number) {
            best = best.max(self.naming_at(text, start));
            if best == Naming::AsHeading {
                break;
            }
        }

        best
    }

    fn naming_at(&self, text: &str, start: usize) -> Naming {
        let end = start + self.number.len();
        let is_version = self.dots > 0;
        if !parts::begins_whole(text, start, is_version, &self.labels) {
            return Naming::Absent;
        }
        if !parts::ends_whole(text, end, is_version) {
            let goes_on = is_version && parts::goes_on(text, end);
            return if goes_on {
                Naming::Loosely
            } else {
                Naming::Absent
            };
        }

        let is_labelled = self.labels.is_empty() || parts::is_labelled(text, start, &self.labels);
        match (is_labelled, self.is_distinct) {
            (true, _) if parts::is_heading(text, start, end) => Naming::AsHeading,
            (true, _) => Naming::Exactly,
            (false, true) => Naming::Loosely,
            (false, false) => Naming::Absent,
        }
    }
}

/// Whether a word makes the number after it an identifier. A date, a year or grammar does not:
/// "May 5", "Oslo 1984", "mid-2024", "Did 5".
fn is_label_of(label: &Label, number: &str, is_attached: bool) -> bool {
    static NO_LABELS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
        let groups = ["english_common", "english", "german", "number"];
        let words = groups.into_iter().flat_map(stop_words::group);
        words.chain(MONTHS).chain(WEEKDAYS).collect()
    });

    if label.is_known() {
        return !parts::is_date(number) || is_attached;
    }

    let word = label.folded();
    let is_common = NO_LABELS.contains(word) && word.len() > 1;
    label.is_name() && !is_common && !is_year(number)
        || (is_attached && !is_common && !is_year(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(question: &str) -> Vec<String> {
        let found = Identifiers::of(question).0.into_iter();
        found.map(|one| one.number).collect()
    }

    fn naming(question: &str, text: &str) -> Naming {
        Identifiers::of(question).naming(text)
    }

    #[test]
    fn versions_ids_and_sections_are_identifiers() {
        for (question, number) in [
            ("What changed in tokio 1.54.1?", "1.54.1"),
            ("What is new in v2.0.0-rc.1?", "2.0.0-rc.1"),
            ("Which bug is fixed in 1.11", "1.11"),
            ("What does RFC 9457 define?", "9457"),
            ("what does rfc 9457 define?", "9457"),
            ("Where is order #5678?", "5678"),
            ("Where is order no. 17?", "17"),
            ("What does § 12 say?", "12"),
            ("What does §12a say?", "12a"),
            ("Is PROJ-123 done?", "123"),
            ("How bad is CVE-2024-3094?", "2024-3094"),
            ("Who landed with Apollo 11?", "11"),
            ("The frame number is K4711", "4711"),
            ("Which host is 10.0.0.17?", "10.0.0.17"),
            ("Who opened 5678?", "5678"),
            ("What is 0199a7e0-1c2d-7000?", "0199a7e0-1c2d-7000"),
        ] {
            assert_eq!(numbers(question), [number], "{question}");
        }
    }

    #[test]
    fn amounts_dates_and_times_are_none() {
        for question in [
            "Who paid 1,000 or 1.000 euros?",
            "What costs $5678, $3.50 or 12.5%?",
            "What happened on 2024-05-03, 3.5.2024 or 03/05/2024?",
            "What happened on 2024-05-03T10:15:00Z?",
            "What did he do in May 2024, on May 5 and on Monday 5?",
            "Who came at 12:30 or 10am?",
            "Which 3 of 12 apples, after 5 days, in 1984?",
            "Is there a 30-day refund for the 2nd?",
            "Did 5 people come in mid-2024 or 2024-2025?",
            "What happened in Oslo 1984?",
        ] {
            assert_eq!(numbers(question), [""; 0], "{question}");
        }
    }

    #[test]
    fn a_version_is_named_as_a_whole() {
        let question = "What changed in tokio 1.54.1?";
        for (text, wanted) in [
            ("Fixed in 1.54.1.", Naming::Exactly),
            ("see tokio-1.54.1, (v1.54.1)", Naming::Exactly),
            ("- 1.54.1 was bad\n", Naming::Exactly),
            ("# 1.54.1 (May 5th)\n\n- fix", Naming::AsHeading),
            ("old\n\n## [v1.54.1] - 2024-05-03\n", Naming::AsHeading),
            ("1.54.1 (2024-05-03)\n===\n", Naming::AsHeading),
            ("tokio 1.54.1\n\nfix", Naming::AsHeading),
            ("# From 1.53 to 1.54.1\n", Naming::Exactly),
            ("1.54.1.2 and so on", Naming::Loosely),
            ("1.54.10, 11.54.1, 3.1.54.1 and 1.54.1-rc1", Naming::Absent),
            ("1.54 and 1", Naming::Absent),
            ("", Naming::Absent),
        ] {
            assert_eq!(naming(question, text), wanted, "{text}");
        }

        assert_eq!(naming("tokio 1.54", "In 1.54.1 too."), Naming::Loosely);
        assert_eq!(naming("tokio 1.54", "In 1.54 too."), Naming::Exactly);
    }

    #[test]
    fn an_id_is_named_with_its_label() {
        for (question, text, wanted) in [
            ("RFC 9457", "as rfc9457 says, we", Naming::Exactly),
            ("RFC 9457", "as RFC-9457 says, we", Naming::Exactly),
            ("RFC 9457", "order 9457 is here, in RFC 1", Naming::Loosely),
            ("RFC 9457", "RFC 94571 and 9,457.", Naming::Absent),
            ("order #5678", "The Order No. 5678.", Naming::Exactly),
            ("order #5678", "{\"order_id\": 5678}.", Naming::Exactly),
            ("order #5678", "It is #5678.", Naming::Exactly),
            ("order #5678", "It costs $5678 or 5,678.", Naming::Absent),
            ("§ 12", "as in Section 12, it", Naming::Exactly),
            ("§ 12", "see §§ 12.", Naming::Exactly),
            ("§ 12", "## 12 Liability\n", Naming::AsHeading),
            ("§ 12", "12 apples, § 12a and § 120", Naming::Absent),
            ("Is PROJ-123 done?", "we did proj 123.", Naming::Exactly),
            ("PROJ-123", "We have 123 of PROJ.", Naming::Absent),
            ("UTF-8", "written in utf8.", Naming::Exactly),
        ] {
            assert_eq!(naming(question, text), wanted, "{question}: {text}");
        }
    }

    #[test]
    fn parts_of_versions_are_known() {
        let asked = Identifiers::of("What changed between 1.53.0 and 1.54.1?");
        for (word, is_part) in [
            ("1", true),
            ("54", true),
            ("1.54", true),
            ("1.54.1", false),
            ("1.5", false),
            ("tokio", false),
        ] {
            assert_eq!(asked.have_part(word), is_part, "{word}");
        }
    }

    #[test]
    fn a_text_under_a_heading_is_about_what_that_names() {
        let asked = Identifiers::of("What changed in 1.54.1?");
        let entry = asked.score("- fix a panic", "Changelog › 1.54.1 › Fixed");
        assert_eq!(entry, Naming::AsHeading as u32);
        let other = asked.score("- revert 1.54.1 fix.", "Changelog › 1.54.2 › Fixed");
        assert_eq!(other, Naming::Exactly as u32);
    }

    #[test]
    fn what_has_only_the_parts_names_nothing() {
        for (question, text) in [
            (
                "What changed in tokio 1.54.1?",
                "Tokio changed 1 of 54 tasks, and 1 more changed in tokio 1.54.10.",
            ),
            (
                "What is order #5678?",
                "The order for 5,678 euros: an order.",
            ),
            (
                "What does § 12 say?",
                "Pay 12 euros a year, 12 visits, and 12 guests.",
            ),
            ("What does PEP 8 say?", "8 of the PEPs, v0.8 and PEP 80"),
        ] {
            assert_eq!(naming(question, text), Naming::Absent, "{question}: {text}");
        }
    }

    #[test]
    fn others_of_the_same_kind_are_told_apart() {
        for (question, text, differs) in [
            ("tokio 1.54.1", "## 1.54.0 (May)", true),
            ("tokio 1.54.1", "## 1.54.1 (May)", false),
            ("tokio 1.54.1", "It has 3 rules of RFC 7807", false),
            ("order #5678", "Order #5679 was sent", true),
            ("order #5678", "Order #5678 was sent in May 2024", false),
        ] {
            let asked = Identifiers::of(question);
            assert_eq!(asked.differ_from(text), differs, "{question}: {text}");
        }
    }

    #[test]
    fn long_texts_of_digits_take_no_time() {
        let asked = Identifiers::of("What does § 12 say about 1.1.1 and order 11111?");
        for piece in ["12", "1.1.", "12 ", "§", "12-", "a12", "é12 ", "\n12 "] {
            let text = piece.repeat(50_000);
            _ = asked.score(&text, &text);
            assert!(Identifiers::of(&text).0.len() <= MAX_IDENTIFIERS);
        }
    }
}
