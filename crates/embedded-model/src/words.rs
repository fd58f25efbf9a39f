//! The kind of a token: stop word, generic word, mark, or content. Guarantees constant-time lookup
//! by row number, from the lists in `stopwords.txt`.

use std::sync::OnceLock;

use memoir_text::stop_words::group;
use rustc_hash::FxHashMap;

use super::table;
use super::tokens;

/// The groups of English stop words.
const ENGLISH: [&str; 3] = ["english_common", "english", "english_mail"];

/// How much a token says about the subject of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Has a meaning and may be part of a name.
    Content,
    /// Has some meaning but makes a poor name ("thing", "week").
    Generic,
    /// Grammar, mail boilerplate, marks and bare numbers.
    Stop,
}

/// The kind of one row of the table.
pub fn kind(id: u16) -> Kind {
    static KINDS: OnceLock<Vec<Kind>> = OnceLock::new();

    let kinds = KINDS.get_or_init(build);
    kinds.get(usize::from(id)).copied().unwrap_or(Kind::Stop)
}

fn build() -> Vec<Kind> {
    let mut kinds: Vec<Kind> = (0..table::rows())
        .map(|row| match u16::try_from(row).map(tokens::entry) {
            Ok(entry) if entry.chars().any(char::is_alphabetic) && entry.chars().count() > 1 => {
                Kind::Content
            }
            _ => Kind::Stop,
        })
        .collect();

    for (groups, kind) in [
        (&["generic"][..], Kind::Generic),
        (&ENGLISH[..], Kind::Stop),
    ] {
        for word in groups.iter().flat_map(|name| group(name)) {
            if let Some(row) = tokens::whole_word(word) {
                kinds[usize::from(row)] = kind;
            }
        }
    }

    kinds
}

/// Whether a lower-case word is grammar in any of the listed languages.
pub fn is_stop(word: &str) -> bool {
    languages_of(word) != 0
}

/// The languages after English whose stop words are listed, in list order.
pub const LANGUAGES: [&str; 7] = [
    "English",
    "German",
    "French",
    "Spanish",
    "Italian",
    "Portuguese",
    "Dutch",
];

/// The stop words of one of `LANGUAGES`.
fn listed(language: &str) -> Vec<&'static str> {
    let name = language.to_lowercase();
    if name == "english" {
        return ENGLISH.into_iter().flat_map(group).collect();
    }

    group(&name)
        .chain(group(&format!("{name}_ambiguous")))
        .collect()
}

/// One bit per language of `LANGUAGES` in which the word is a stop word.
pub fn languages_of(word: &str) -> u8 {
    static OF: OnceLock<FxHashMap<&'static str, u8>> = OnceLock::new();

    let of = OF.get_or_init(|| {
        let mut of = FxHashMap::default();
        for (bit, language) in LANGUAGES.iter().enumerate() {
            for word in listed(language) {
                *of.entry(word).or_insert(0) |= 1 << bit;
            }
        }

        of
    });

    of.get(word).copied().unwrap_or(0)
}

/// Singular of an English noun by the regular rules; other words are returned unchanged.
pub fn singular(word: &str) -> String {
    let stem = |cut: usize| word[..word.len() - cut].to_string();
    if !word.is_ascii() || word.len() < 4 {
        word.to_string()
    } else if word.ends_with("ies") && word.len() > 4 {
        format!("{}y", stem(3))
    } else if ["sses", "shes", "ches", "xes"]
        .iter()
        .any(|e| word.ends_with(e))
    {
        stem(2)
    } else if word.ends_with('s') && !["ss", "us", "is", "ics"].iter().any(|e| word.ends_with(e)) {
        stem(1)
    } else {
        word.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classifies_words() {
        for (word, wanted) in [
            ("the", Kind::Stop),
            ("?", Kind::Stop),
            ("7", Kind::Stop),
            ("week", Kind::Generic),
            ("orbit", Kind::Content),
        ] {
            let row = tokens::whole_word(word).unwrap_or(0);
            assert_eq!(kind(row), wanted, "{word}");
        }
    }

    #[test]
    fn finds_singulars() {
        for (word, wanted) in [
            ("cards", "card"),
            ("currencies", "currency"),
            ("watches", "watch"),
            ("glass", "glass"),
            ("physics", "physics"),
            ("bus", "bus"),
            ("études", "études"),
        ] {
            assert_eq!(singular(word), wanted);
        }
    }

    #[test]
    fn recognises_languages_by_stop_words() {
        assert_eq!(languages_of("nicht"), 1 << 1);
        assert!(is_stop("the"));
        assert!(!is_stop("whale"));
    }
}
