//! Makes category names presentable: tidy, short, in sentence case. Guarantees 1 to 4 words, at
//! most 60 characters, no `/` and no control characters, and a name for any chunk, even one without
//! a readable word.

use super::profile::Profile;
use super::words;

/// Maximum characters of a name.
const LONGEST: usize = 60;
/// The name if no other fits.
pub const MISCELLANEOUS: &str = "Miscellaneous";
/// The broad name of texts that are clearly about nothing in the inventory.
pub const NOTES: &str = "Notes";
/// Names for levels below one at which a chunk offers no further distinction.
const FURTHER: [&str; 3] = ["General", "Details", "Notes"];

/// A phrase as a category name; `None` if nothing of it can be shown.
pub fn tidy(phrase: &str) -> Option<String> {
    let plain: String = phrase
        .chars()
        .map(|c| if c == '/' || c.is_control() { ' ' } else { c })
        .collect();

    let joined = plain
        .split_whitespace()
        .take(4)
        .collect::<Vec<_>>()
        .join(" ");

    let short: String = joined.chars().take(LONGEST).collect();
    let mut letters = short.trim().chars();
    let first = letters.next()?;
    Some(first.to_uppercase().chain(letters).collect())
}

/// A title or a heading as a category name: as it is written, without marks, cut between words.
pub fn title(text: &str) -> Option<String> {
    let linked = match (text.find('['), text.find("](")) {
        (Some(open), Some(close)) if open < close => text[open + 1..close].to_owned(),
        _ => text.to_owned(),
    };
    let plain: String = linked
        .chars()
        .filter(|c| !matches!(c, '`' | '*'))
        .map(|c| if c == '/' || c.is_control() { ' ' } else { c })
        .collect();
    let joined = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    let bare =
        joined.trim_matches(|c: char| matches!(c, '.' | ':' | ',' | ';' | '_' | '#' | '"' | ' '));
    let cut = memoir_text::sentences::cut(bare, LONGEST);
    let mut letters = cut.trim_end_matches([',', ';', ':', '-', ' ']).chars();
    let first = letters.next()?;
    let name: String = first.to_uppercase().chain(letters).collect();
    name.chars().any(char::is_alphanumeric).then_some(name)
}

/// Whether two names look the same to a reader.
pub fn same(a: &str, b: &str) -> bool {
    a == b || a.to_lowercase() == b.to_lowercase()
}

/// A name by language or script, for text that the vectors do not cover.
pub fn kind_of_text(text: &str, profile: &Profile) -> String {
    if profile.words == 0 {
        return MISCELLANEOUS.to_string();
    }

    if !text.chars().any(char::is_alphabetic) {
        return "Numbers".to_string();
    }

    if let Some(script) = script(text) {
        return format!("{script} texts");
    }

    // Unreadable English is noise rather than a language.
    let foreign = language(text).filter(|l| *l != "English");
    foreign.map_or_else(|| NOTES.to_string(), |l| format!("{l} texts"))
}

/// The script of most letters, unless it is Latin.
fn script(text: &str) -> Option<&'static str> {
    const NAMES: [&str; 8] = [
        "Latin", "Chinese", "Japanese", "Korean", "Cyrillic", "Arabic", "Hebrew", "Greek",
    ];

    let mut counts = [0usize; 9];
    for c in text.chars().filter(|c| c.is_alphabetic()).take(2_000) {
        counts[match c {
            'a'..='z' | 'A'..='Z' | '\u{c0}'..='\u{24f}' => 0,
            '\u{4e00}'..='\u{9fff}' | '\u{3400}'..='\u{4dbf}' => 1,
            '\u{3040}'..='\u{30ff}' => 2,
            '\u{ac00}'..='\u{d7af}' | '\u{1100}'..='\u{11ff}' => 3,
            '\u{400}'..='\u{52f}' => 4,
            '\u{600}'..='\u{6ff}' => 5,
            '\u{590}'..='\u{5ff}' => 6,
            '\u{370}'..='\u{3ff}' => 7,
            _ => 8,
        }] += 1;
    }

    // Kana mark Japanese even where Chinese characters are in the majority.
    if counts[2] * 8 > counts[1] && counts[2] > 0 && counts[1] + counts[2] > counts[0] {
        return Some(NAMES[2]);
    }

    let best = (0..9).rev().max_by_key(|at| counts[*at])?;
    if best == 8 {
        Some("Foreign")
    } else {
        Some(NAMES[best]).filter(|_| best != 0)
    }
}

/// The language whose grammar words are most frequent at the start of a text.
pub fn language(text: &str) -> Option<&'static str> {
    let mut votes = [0usize; words::LANGUAGES.len()];
    let mut words = 0;
    for word in text.split(|c: char| !c.is_alphabetic()).take(120) {
        words += usize::from(!word.is_empty());
        let of = words::languages_of(&word.to_lowercase());
        for (bit, vote) in votes.iter_mut().enumerate() {
            *vote += usize::from(of >> bit & 1 == 1);
        }
    }

    let best = (0..votes.len()).rev().max_by_key(|at| votes[*at])?;
    (votes[best] >= 2 && votes[best] * 8 >= words).then_some(words::LANGUAGES[best])
}

/// The first of `wishes` that no ancestor has, or a general word that is not the parent's name.
pub fn first_free(wishes: impl Iterator<Item = String>, parents: &[&str]) -> String {
    for wanted in wishes {
        if let Some(name) = tidy(&wanted)
            && !parents.iter().any(|p| same(p, &name))
        {
            return name;
        }
    }

    let parent = parents.last().copied().unwrap_or("");
    let free = |name: &&&str| !parents.iter().any(|p| same(p, name));
    let other = FURTHER.iter().find(|name| !same(parent, name));
    let name = FURTHER.iter().find(free).or(other);

    name.map_or(MISCELLANEOUS, |n| *n).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tidies_names() {
        for (phrase, wanted) in [
            ("white whale", Some("White whale")),
            ("a/b\u{7}c", Some("A b c")),
            ("one two three four five", Some("One two three four")),
            ("  ", None),
            ("éclair", Some("Éclair")),
        ] {
            assert_eq!(tidy(phrase).as_deref(), wanted);
        }
        assert!(tidy(&"x".repeat(500)).is_some_and(|n| n.chars().count() == LONGEST));
    }

    #[test]
    fn unreadable_texts_are_named_by_language() {
        for (text, wanted) in [
            ("", MISCELLANEOUS),
            ("🙂 🙂", MISCELLANEOUS),
            ("Well, there it is then.", NOTES),
            ("12 345", "Numbers"),
            ("机器学习", "Chinese texts"),
            ("これは日本語です", "Japanese texts"),
            ("Кошка спит", "Cyrillic texts"),
            ("Das ist nicht der Hund und die Katze", "German texts"),
        ] {
            assert_eq!(kind_of_text(text, &Profile::of(text)), wanted, "{text}");
        }
    }

    #[test]
    fn a_new_name_is_never_that_of_the_parent() {
        let parents = ["General", "Details", "Notes"];
        let name = first_free(std::iter::once("notes".to_string()), &parents);
        assert!(!same(&name, "Notes"));
    }
}
