//! Statements of which only one can be true of a person at a time: where somebody lives, what they
//! are called, their favourite colour. Two that differ cannot both hold.

/// What a statement is about, and what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SingleFact {
    /// Equal for all wordings: `lives in` for "I live in" and "Moved to".
    pub about: String,
    /// In lower case, without what follows it in the sentence.
    pub value: String,
}

/// How such a statement goes on after its subject, what it is about, and whether its value is a name,
/// which begins with a capital letter: "I moved to the back row" says nothing of a home.
const PREDICATES: [(&str, &str, bool); 16] = [
    ("live in", "lives in", true),
    ("lives in", "lives in", true),
    ("am living in", "lives in", true),
    ("moved to", "lives in", true),
    ("have moved to", "lives in", true),
    ("work for", "works for", true),
    ("works for", "works for", true),
    ("work at", "works for", true),
    ("works at", "works for", true),
    ("work as", "works as", false),
    ("works as", "works as", false),
    ("am called", "name", true),
    ("was born in", "born in", true),
    ("was born on", "born on", false),
    ("am married to", "married to", true),
    ("is married to", "married to", true),
];
/// What a person has one of: "my … is".
const ATTRIBUTES: [&str; 24] = [
    "address",
    "bank",
    "birthday",
    "blood type",
    "boss",
    "budget",
    "car",
    "dentist",
    "doctor",
    "e-mail",
    "email",
    "employer",
    "height",
    "insurance",
    "job",
    "job title",
    "landlord",
    "manager",
    "name",
    "password",
    "phone number",
    "rent",
    "salary",
    "shoe size",
];
const SUBJECTS: [&str; 4] = ["i ", "the user ", "user ", ""];
const POSSESSIVES: [&str; 4] = ["my ", "the user's ", "user's ", ""];
/// What follows a value without being a part of it.
const AFTER_VALUE: [&str; 15] = [
    "again", "and", "at", "because", "but", "for", "from", "in", "near", "next", "now", "on",
    "since", "until", "with",
];

/// What a sentence says of which only one can be true.
pub fn of(sentence: &str) -> Option<SingleFact> {
    let text = sentence.trim().replace('’', "'");
    let text = text.trim_end_matches(['.', '!', ' ']);
    // Lower case may have another length, and then nothing could be said about the letters.
    let lower = Some(text.to_lowercase()).filter(|lower| lower.len() == text.len())?;
    let written_out = [("i'm ", "i am "), ("i've ", "i have ")]
        .iter()
        .find_map(|(short, long)| Some(format!("{long}{}", lower.strip_prefix(short)?)));
    let lower = written_out.unwrap_or(lower);
    by_predicate(text, &lower).or_else(|| by_attribute(&lower))
}

fn by_predicate(text: &str, lower: &str) -> Option<SingleFact> {
    let rests = SUBJECTS.iter().filter_map(|one| lower.strip_prefix(one));
    for rest in rests {
        for (predicate, about, is_name) in PREDICATES {
            let Some(given) = after(rest, predicate) else {
                continue;
            };
            // The end of the text is the same in both, whatever was written out before it.
            let written = text.get(text.len().checked_sub(given.len())?..)?;
            if !is_name || written.starts_with(char::is_uppercase) {
                return fact(about, given);
            }
        }
    }

    None
}

fn by_attribute(lower: &str) -> Option<SingleFact> {
    POSSESSIVES.iter().find_map(|possessive| {
        let (what, given) = lower.strip_prefix(possessive)?.split_once(" is ")?;
        let is_single = ATTRIBUTES.contains(&what)
            || what
                .strip_prefix("favourite ")
                .or_else(|| what.strip_prefix("favorite "))
                .is_some_and(|rest| rest.split(' ').count() <= 2);
        // Without "my", it may be somebody else's.
        let is_own = !possessive.is_empty() || what == "name";
        (is_single && is_own).then(|| fact(&what.replace("favorite", "favourite"), given))?
    })
}

/// What follows a predicate and a space.
fn after<'t>(text: &'t str, predicate: &str) -> Option<&'t str> {
    text.strip_prefix(predicate)?.strip_prefix(' ')
}

fn fact(about: &str, given: &str) -> Option<SingleFact> {
    let clause = given.split([',', ';', ':', '(']).next().unwrap_or(given);
    let words = clause
        .split_whitespace()
        .take_while(|word| !AFTER_VALUE.contains(word));
    let value: Vec<&str> = words.collect();
    (!value.is_empty() && !matches!(value[0], "not" | "no")).then(|| SingleFact {
        about: about.to_owned(),
        value: value.join(" "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(sentence: &str) -> Option<(String, String)> {
        of(sentence).map(|fact| (fact.about, fact.value))
    }

    #[test]
    fn wordings_of_one_subject_are_about_the_same() {
        for sentence in [
            "I live in Bonn.",
            "Lives in Bonn",
            "The user lives in Bonn, near the river",
            "I've moved to Bonn in May!",
            "I’m living in Bonn now",
        ] {
            let found = both(sentence);
            assert_eq!(
                found,
                Some(("lives in".into(), "bonn".into())),
                "{sentence}"
            );
        }

        assert_eq!(
            both("My favorite colour is dark green."),
            Some(("favourite colour".into(), "dark green".into()))
        );
    }

    #[test]
    fn what_a_person_can_have_several_of_is_no_single_fact() {
        for sentence in [
            "I moved to the back row.",
            "I live in a small flat.",
            "I used to live in Bonn.",
            "My sister is a nurse.",
            "Her name is Ann.",
            "The weather is nice.",
            "My name is not Ann.",
            "I live in",
            "İ",
        ] {
            assert_eq!(both(sentence), None, "{sentence}");
        }
    }
}
