//! Finds simple statements that people make about themselves: "I live in Bonn", "My sister is a
//! nurse", "I am allergic to nuts". The fact is the sentence itself, so it says nothing that was not
//! said; everything else is left to a language model.

use memoir_text::sentences;

/// A statement about the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement<'t> {
    pub text: &'t str,
    pub is_preference: bool,
    /// The place of the known statement that it changes.
    pub replaces: Option<usize>,
}

/// How a statement begins, and whether a person has only one of the kind.
const HEADS: [(&str, bool); 26] = [
    ("my name is", true),
    ("i live in", true),
    ("i moved to", true),
    ("i work as", true),
    ("i work at", true),
    ("i work for", true),
    ("i was born in", true),
    ("i was born on", true),
    ("my birthday is", true),
    ("i am allergic to", false),
    ("i am married to", true),
    ("i am a", false),
    ("i am an", false),
    ("i am vegetarian", false),
    ("i am vegan", false),
    ("i have a", false),
    ("i have an", false),
    ("i have two", false),
    ("i have three", false),
    ("i own", false),
    ("i speak", false),
    ("i play", false),
    ("i study", false),
    ("i do not eat", false),
    ("i do not drink", false),
    ("i drive", false),
];
const PREFERENCES: [&str; 7] = [
    "i prefer",
    "i like",
    "i love",
    "i hate",
    "i dislike",
    "i always",
    "i never",
];
/// Beginnings of the same kind.
const SAME: [(&str, &str); 3] = [
    ("i moved to", "i live in"),
    ("i work at", "i work for"),
    ("i work as", "i work as"),
];
/// What follows "I have a" without being a possession.
const NO_POSSESSION: [&str; 6] = ["question", "problem", "feeling", "look", "few", "lot"];
const MAX_WORDS: usize = 25;

/// The statements of a message, in order; `known` are the facts that are known.
pub fn find<'t>(message: &'t str, known: &[&str]) -> Vec<Statement<'t>> {
    let all = sentences::split(message).into_iter();
    all.filter_map(|sentence| statement(sentence.trim(), known))
        .collect()
}

fn statement<'t>(sentence: &'t str, known: &[&str]) -> Option<Statement<'t>> {
    let text = sentence.trim_end_matches(['.', '!', ' ']);
    let plain = plain(text);
    let words = plain.split(' ').count();
    let asks = sentence.ends_with(['?', '？']);
    if asks || words > MAX_WORDS || is_uncertain(&plain) {
        return None;
    }

    let starts = |head: &str| {
        plain
            .strip_prefix(head)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    };
    let preference = PREFERENCES.iter().any(|head| starts(head));
    let head = head(&plain);
    if !preference && head.is_none() {
        return None;
    }

    let same = known.iter().position(|old| self::plain(old) == plain);
    if same.is_some() {
        return None;
    }

    let single = head.filter(|(_, single)| *single).map(|(head, _)| head);
    let replaces = single.and_then(|head| {
        let like = |old: &str| {
            self::head(&self::plain(old)).is_some_and(|(other, _)| kind(&other) == kind(&head))
        };
        known.iter().position(|old| like(old))
    });

    Some(Statement {
        text,
        is_preference: preference,
        replaces,
    })
}

/// How a statement begins, if it is one.
fn head(plain: &str) -> Option<(String, bool)> {
    let starts = |head: &str| {
        plain
            .strip_prefix(head)
            .is_some_and(|rest| rest.starts_with(' ') || rest.is_empty())
    };
    if let Some((head, single)) = HEADS.iter().find(|(head, _)| starts(head)) {
        let next = plain[head.len()..].trim().split(' ').next().unwrap_or("");
        let possession = !head.starts_with("i have") || !NO_POSSESSION.contains(&next);
        return possession.then(|| ((*head).to_owned(), *single));
    }

    // "My sister is a nurse", "My favourite colour is blue".
    let rest = plain.strip_prefix("my ")?;
    let (what, _) = rest.split_once(" is ")?;
    let short = what.split(' ').count() <= 3;
    short.then(|| (format!("my {what} is"), true))
}

/// Beginnings of the same kind have the same name.
fn kind(head: &str) -> &str {
    SAME.iter()
        .find(|(one, _)| *one == head)
        .map_or(head, |(_, other)| other)
}

/// Whether a sentence says what may be, not what is.
fn is_uncertain(plain: &str) -> bool {
    const WORDS: [&str; 8] = [
        "if", "maybe", "perhaps", "might", "would", "could", "wish", "unless",
    ];
    plain.split(' ').any(|word| WORDS.contains(&word))
}

/// Lower case, without contractions and doubled spaces.
fn plain(text: &str) -> String {
    let lower = text.trim().to_lowercase().replace('’', "'");
    let words: Vec<String> = lower
        .trim_end_matches(['.', '!', ' '])
        .split_whitespace()
        .map(|word| match word {
            "i'm" => "i am".to_owned(),
            "i've" => "i have".to_owned(),
            "don't" => "do not".to_owned(),
            "name's" => "name is".to_owned(),
            other => other.trim_end_matches([',', ';', ':']).to_owned(),
        })
        .filter(|word| word != "really" && word != "also")
        .collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(message: &str) -> Vec<&str> {
        find(message, &[]).iter().map(|one| one.text).collect()
    }

    #[test]
    fn only_what_people_say_about_themselves_counts() {
        let said = "Hi! I'm allergic to nuts. Do I live in Bonn? My sister is a nurse. \
                    Maybe I live in Rome. The weather is nice. I have a question.";
        assert_eq!(
            texts(said),
            ["I'm allergic to nuts", "My sister is a nurse"]
        );
        assert_eq!(texts("I don't eat meat"), ["I don't eat meat"]);
        assert!(find("I like tea.", &[])[0].is_preference);
    }

    #[test]
    fn a_change_names_what_it_replaces() {
        let known = ["I play chess", "I live in Bonn", "My name is Ann"];
        let found = find("I moved to Rome. My name is Ann.", &known);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].replaces, Some(1));
        assert_eq!(find("I play tennis", &known)[0].replaces, None);
    }
}
