//! Names that a model gives to new categories: how they are written, and which of them say nothing.

use std::collections::HashSet;

use memoir_text::text::name_key;
use memoir_text::words;

/// Words that small models take from the instruction or the prompt; asked again once.
const WORDS_OF_THE_TASK: &[&str] = &[
    "category",
    "categories",
    "new category",
    "new categories",
    "chunk",
    "chunks",
    "contextual helper",
    "level",
    "parent",
    "root",
    "none",
    "subject",
    "noun phrase",
    "short noun phrase",
    "title case",
    "hierarchy",
];

/// The example in the instruction: its names, and words of texts for which they are right.
const NAMES_OF_THE_EXAMPLE: &[&str] = &["astronomy", "planets", "saturn"];
const SUBJECT_OF_THE_EXAMPLE: &[&str] = &[
    "astronom", "comet", "galax", "moon", "orbit", "planet", "saturn", "solar", "star", "telescop",
];

/// Whether a name, by its key, is a word of the instruction.
pub fn is_word_of_the_task(key: &str) -> bool {
    WORDS_OF_THE_TASK.contains(&key)
}

/// Whether a name, by its key, is copied from the example of the instruction although the text is
/// about something else.
pub fn is_from_the_example(key: &str, text: &str) -> bool {
    NAMES_OF_THE_EXAMPLE.contains(&key) && {
        let text = text.to_lowercase();
        let mut words = text.split(|c: char| !c.is_alphabetic());
        !words.any(|word| {
            let mut stems = SUBJECT_OF_THE_EXAMPLE.iter();
            stems.any(|stem| word.starts_with(stem))
        })
    }
}

/// Whether a name has the same words as a helper, apart from articles and plurals.
pub fn repeats_helper(name: &str, helper: &str) -> bool {
    let (name, helper) = (singular_words(name), singular_words(helper));
    !name.is_empty() && name == helper
}

fn singular_words(text: &str) -> HashSet<String> {
    let singular = |word: String| match word.strip_suffix('s') {
        Some(stem) if stem.chars().count() > 2 && !stem.ends_with('s') => stem.to_owned(),
        _ => word,
    };
    words::telling(text).into_iter().map(singular).collect()
}

/// The last part of an answer that repeats the parent, such as `Home / Heating` under `Home`.
pub fn without_parents<'n>(name: &'n str, parents: &[String]) -> &'n str {
    let Some((above, last)) = name.rsplit_once(" / ") else {
        return name;
    };

    let above: Vec<String> = above.split(" / ").map(name_key).collect();
    let parents: Vec<String> = parents.iter().map(|parent| name_key(parent)).collect();
    if parents.ends_with(&above) {
        last
    } else {
        name
    }
}

/// An identifier such as `household_note` or `householdNote` in words; other names are unchanged.
pub fn in_words(name: &str) -> String {
    let letters = || name.chars().filter(|c| c.is_alphabetic());
    let snake = name.contains('_') && letters().count() > 1;
    let camel = name.chars().all(char::is_alphanumeric)
        && name.starts_with(char::is_lowercase)
        && name.chars().any(char::is_uppercase);
    if name.contains(' ') || !(snake || camel) {
        return name.to_owned();
    }

    let mut words = String::with_capacity(name.len() + 4);
    let mut before = ' ';
    for c in name.chars() {
        if c == '_' {
            words.push(' ');
        } else if camel && c.is_uppercase() && before.is_lowercase() {
            words.push(' ');
            words.extend(c.to_lowercase());
        } else {
            words.push(c);
        }

        before = c;
    }

    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut letters = words.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_repeats_a_helper_apart_from_articles_and_plurals() {
        assert!(repeats_helper("Household Notes", "A household note."));
        assert!(!repeats_helper("Household", "A household note."));
        assert!(!repeats_helper("Boiler", "A household note on the boiler."));
        assert!(!repeats_helper("The", "A"));
    }

    #[test]
    fn a_name_of_the_example_is_accepted_for_a_text_about_it() {
        assert!(is_from_the_example("astronomy", "The boiler was serviced."));
        assert!(!is_from_the_example(
            "astronomy",
            "Jupiter's moons were found in 1610."
        ));
        assert!(!is_from_the_example("heating", "The boiler was serviced."));
    }

    #[test]
    fn an_answer_in_the_form_of_a_path_loses_its_parents() {
        let parents = ["Home".to_owned(), "Heating".to_owned()];
        for (given, wanted) in [
            ("Boiler", "Boiler"),
            ("Heating / Boiler", "Boiler"),
            ("home / heating / Boiler", "Boiler"),
            ("Home / Boiler", "Home / Boiler"),
            ("Gas / Boiler", "Gas / Boiler"),
        ] {
            assert_eq!(without_parents(given, &parents), wanted);
        }
    }
}
