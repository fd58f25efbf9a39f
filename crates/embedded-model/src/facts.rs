//! Finds simple statements that people make about themselves: "I live in Bonn", "My sister is a
//! nurse", "I am allergic to nuts". The fact is the sentence itself, so it says nothing that was not
//! said; everything else is left to a language model, also what a statement replaces.

use std::collections::HashSet;

use memoir_text::sentences;

/// A statement about the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement<'t> {
    pub text: &'t str,
    pub is_preference: bool,
}

/// How a statement begins.
const HEADS: [&str; 26] = [
    "my name is",
    "i live in",
    "i moved to",
    "i work as",
    "i work at",
    "i work for",
    "i was born in",
    "i was born on",
    "my birthday is",
    "i am allergic to",
    "i am married to",
    "i am a",
    "i am an",
    "i am vegetarian",
    "i am vegan",
    "i have a",
    "i have an",
    "i have two",
    "i have three",
    "i own",
    "i speak",
    "i play",
    "i study",
    "i do not eat",
    "i do not drink",
    "i drive",
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
/// What follows "I have a" without being a possession.
const NO_POSSESSION: [&str; 6] = ["question", "problem", "feeling", "look", "few", "lot"];
const MAX_WORDS: usize = 25;

/// The statements of a message, in order; `known` are the facts that are known.
pub fn find<'t>(message: &'t str, known: &[&str]) -> Vec<Statement<'t>> {
    let known: HashSet<String> = known.iter().map(|fact| plain(fact)).collect();
    let all = sentences::split(message).into_iter();
    all.filter_map(|sentence| statement(sentence.trim(), &known))
        .collect()
}

fn statement<'t>(sentence: &'t str, known: &HashSet<String>) -> Option<Statement<'t>> {
    let text = sentence.trim_end_matches(['.', '!', ' ']);
    let plain = plain(text);
    let words = plain.split(' ').count();
    let asks = sentence.ends_with(['?', '？']);
    if asks || words > MAX_WORDS || is_uncertain(&plain) {
        return None;
    }

    let is_preference = PREFERENCES.iter().any(|head| starts(&plain, head));
    let is_statement = is_preference || has_head(&plain);
    (is_statement && !known.contains(&plain)).then_some(Statement {
        text,
        is_preference,
    })
}

/// Whether a sentence begins like a statement.
fn has_head(plain: &str) -> bool {
    if let Some(head) = HEADS.iter().find(|head| starts(plain, head)) {
        let next = plain[head.len()..].trim().split(' ').next().unwrap_or("");
        return !head.starts_with("i have") || !NO_POSSESSION.contains(&next);
    }

    // "My sister is a nurse", "My favourite colour is blue".
    let what = plain
        .strip_prefix("my ")
        .and_then(|rest| rest.split_once(" is "));
    what.is_some_and(|(what, _)| what.split(' ').count() <= 3)
}

fn starts(plain: &str, head: &str) -> bool {
    plain
        .strip_prefix(head)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
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
    fn what_is_known_is_not_said_again() {
        let known = ["I play chess", "I live in Bonn", "My name is Ann"];
        let found = find("I moved to Rome. My name is Ann.", &known);
        let texts: Vec<&str> = found.iter().map(|one| one.text).collect();
        assert_eq!(texts, ["I moved to Rome"]);
    }
}
