//! Words that say little about a subject, in groups. Each module that skips such words names the
//! groups that it skips:
//!
//! - `english_common` and `english`: grammar; the former also never distinguishes sources,
//! - `english_mail`: what mails contain besides,
//! - `number`: counts that do not distinguish sources,
//! - `german`, `french` and so on: grammar; with `_ambiguous`, words that have a meaning in another
//!   of the languages ("die", "son", "plus"),
//! - `generic`: words with some meaning that make poor names ("thing", "week").

static GROUPS: &str = include_str!("stop_words.txt");

/// The words of a group, in lower case.
pub fn group(name: &str) -> impl Iterator<Item = &'static str> + use<'_> {
    GROUPS
        .lines()
        .filter_map(move |line| line.strip_prefix(name)?.strip_prefix(": "))
        .flat_map(str::split_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_told_apart() {
        assert!(group("german").any(|word| word == "der"));
        assert!(group("german").all(|word| word != "die"));
        assert!(group("german_ambiguous").any(|word| word == "die"));
        assert_eq!(group("germ").count(), 0);
    }
}
