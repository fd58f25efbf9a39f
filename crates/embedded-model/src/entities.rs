//! Finds what a message names: dates, amounts, ids, addresses, and people and places that their
//! sentence introduces ("my sister Anna", "we live in Ghent"). There is no list of names: what nothing
//! introduces is left out. Guarantees entities of the vocabulary's types only, as they are written,
//! each once.

use super::entity_names;
use super::entity_values;

/// Entities of one message.
const MAX_ENTITIES: usize = 50;

/// Something named in a message, with its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entity {
    pub kind: String,
    pub value: String,
}

/// What is recognised, and how vocabularies call it, the most exact name first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Amount,
    Date,
    Email,
    Id,
    Person,
    Pet,
    Phone,
    Place,
    Tracking,
}

impl Kind {
    fn names(self) -> &'static [&'static str] {
        const IDS: [&str; 5] = ["identifier", "id", "reference", "order_id", "order_number"];
        match self {
            Self::Amount => &["amount", "money", "price"],
            Self::Date => &["date"],
            Self::Email => &["email", "email_address"],
            Self::Id => &IDS,
            Self::Person => &["person_name", "person", "name"],
            Self::Pet => &["pet_name", "pet", "name"],
            Self::Phone => &["phone", "phone_number"],
            Self::Place => &["place", "location", "city"],
            Self::Tracking => &["tracking_number", "identifier", "id", "order_id"],
        }
    }

    /// The entity type that stands for it, if the vocabulary has one.
    fn of(self, types: &[String]) -> Option<&String> {
        let plain = |one: &String| one.to_lowercase().replace([' ', '-'], "_");
        let mut names = self.names().iter();
        names.find_map(|name| types.iter().find(|one| plain(one) == **name))
    }
}

/// A word of a message, without the marks around it.
#[derive(Debug)]
pub struct Token<'t> {
    pub text: &'t str,
    pub lower: String,
    start: usize,
    /// Whether it is the first of a sentence.
    pub opens: bool,
    /// Whether a mark stands between it and the next one.
    pub closes: bool,
}

impl Token<'_> {
    fn end(&self) -> usize {
        self.start + self.text.len()
    }
}

/// What a text names, in its order.
pub fn find(text: &str, types: &[String]) -> Vec<Entity> {
    let tokens = tokens_of(text);
    let mut found: Vec<Entity> = Vec::new();
    let mut at = 0;
    while at < tokens.len() && found.len() < MAX_ENTITIES {
        let Some((kind, count)) =
            entity_values::at(&tokens, at).or_else(|| entity_names::at(&tokens, at))
        else {
            at += 1;
            continue;
        };

        let value = &text[tokens[at].start..tokens[at + count - 1].end()];
        let value = value.trim_end_matches("'s").trim_end_matches("’s");
        let is_new = !found.iter().any(|entity| entity.value == value);
        if let Some(kind) = kind.of(types)
            && is_new
        {
            found.push(Entity {
                kind: kind.clone(),
                value: value.to_owned(),
            });
        }

        at += count;
    }

    found
}

fn tokens_of(text: &str) -> Vec<Token<'_>> {
    const MARKS: &str = ",;:!?()[]{}\"'“”‘’«»*_`";
    let mut tokens: Vec<Token<'_>> = Vec::new();
    let mut at = 0;
    let mut opens = true;
    for piece in text.split_inclusive(char::is_whitespace) {
        let word = piece.trim_end();
        let left = word.trim_start_matches(|c: char| MARKS.contains(c));
        let bare = left.trim_end_matches(|c: char| MARKS.contains(c) || c == '.' || c == '…');
        let after = &left[bare.len()..];
        let ends_line = piece[word.len()..].contains('\n');
        if bare.is_empty() {
            if let Some(last) = tokens.last_mut() {
                last.closes |= !word.is_empty() || ends_line;
            }
        } else {
            // The title of a person is no end of a sentence.
            let is_title = after == "." && entity_names::is_title(&bare.to_lowercase());
            let closes = (!after.is_empty() && !is_title) || ends_line;
            if left.len() < word.len()
                && let Some(last) = tokens.last_mut()
            {
                last.closes = true;
            }

            tokens.push(Token {
                text: bare,
                lower: bare.to_lowercase().replace('’', "'"),
                start: at + (word.len() - left.len()),
                opens,
                closes,
            });
            opens = ends_line || !is_title && after.contains(['.', '!', '?', '…', ':']);
        }

        at += piece.len();
    }

    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(String, String)> {
        let types = [
            "person_name",
            "pet_name",
            "place",
            "date",
            "amount",
            "identifier",
            "tracking_number",
            "email",
            "phone",
        ];
        let types = types.map(str::to_owned);
        let found = find(text, &types).into_iter();
        found.map(|entity| (entity.kind, entity.value)).collect()
    }

    fn assert_finds(text: &str, wanted: &[(&str, &str)]) {
        let found = found(text);
        let found: Vec<(&str, &str)> = found
            .iter()
            .map(|(kind, value)| (kind.as_str(), value.as_str()))
            .collect();
        assert_eq!(found, wanted, "{text}");
    }

    #[test]
    fn people_pets_and_places_are_introduced_by_their_sentence() {
        for (text, wanted) in [
            (
                "My sister Anna moved to Ghent last year.",
                &[("person_name", "Anna"), ("place", "Ghent")][..],
            ),
            (
                "I had lunch with my old friend Tom Baker.",
                &[("person_name", "Tom Baker")],
            ),
            (
                "Our neighbour Mr. Claes snores.",
                &[("person_name", "Claes")],
            ),
            (
                "Yesterday I met Priya in Lisbon",
                &[("person_name", "Priya"), ("place", "Lisbon")],
            ),
            ("Please call Dr. Okafor.", &[("person_name", "Okafor")]),
            ("my dog Rex is ill", &[("pet_name", "Rex")]),
            ("We live in a village called Doel", &[("place", "Doel")]),
            (
                "My name is Ingrid van Dyck, by the way",
                &[("person_name", "Ingrid van Dyck")],
            ),
            (
                "My name is Ingrid van de la el Dyck",
                &[("person_name", "Ingrid")],
            ),
            ("I grew up in Bruges", &[("place", "Bruges")]),
            (
                "This is Maria's sister Lena's house",
                &[("person_name", "Lena")],
            ),
            (
                "Then Marco said that he was late",
                &[("person_name", "Marco")],
            ),
            ("Hi Anna, how are you?", &[("person_name", "Anna")]),
        ] {
            assert_finds(text, wanted);
        }
    }

    #[test]
    fn capital_letters_alone_name_nobody() {
        for text in [
            "I wrote it in Python with Excel",
            "We speak English at home",
            "The meeting is in May, on Monday",
            "I work with Kubernetes every day",
            "She read about it in German",
            "Everyone said it was fine",
            "I am Dutch",
            "Tell me more about Christmas",
            "WE ARE IN TROUBLE",
            "Sunday I saw Batman",
        ] {
            assert_finds(text, &[]);
        }
    }

    #[test]
    fn dates_and_amounts_are_found_as_they_are_written() {
        for (text, wanted) in [
            (
                "The deadline is 9 June 2026.",
                &[("date", "9 June 2026")][..],
            ),
            (
                "It moved from May 3rd to June 9, 2026!",
                &[("date", "May 3rd"), ("date", "June 9, 2026")],
            ),
            ("On the 3rd of March we paid", &[("date", "3rd of March")]),
            (
                "since 2024-05-01 or 12/05/2024 or 1.5.2024",
                &[
                    ("date", "2024-05-01"),
                    ("date", "12/05/2024"),
                    ("date", "1.5.2024"),
                ],
            ),
            ("Built in September 1987", &[("date", "September 1987")]),
            (
                "I pay 950 euros rent and $1,200.50 tax",
                &[("amount", "950 euros"), ("amount", "$1,200.50")],
            ),
            (
                "20€, 30 EUR, CHF 120 and £2 million",
                &[
                    ("amount", "20€"),
                    ("amount", "30 EUR"),
                    ("amount", "CHF 120"),
                    ("amount", "£2 million"),
                ],
            ),
            (
                "about 3.5 million dollars",
                &[("amount", "3.5 million dollars")],
            ),
            ("I may march in 3 days with 12 people, version 1.2.3", &[]),
            ("I lost 5 pounds and ran 10 km", &[]),
        ] {
            assert_finds(text, wanted);
        }
    }

    #[test]
    fn ids_and_addresses_are_found() {
        for (text, wanted) in [
            ("My order #5678 is late", &[("identifier", "#5678")][..]),
            (
                "See RFC 9457 and INV-2026-17.",
                &[("identifier", "RFC 9457"), ("identifier", "INV-2026-17")],
            ),
            ("order 5678 has not arrived", &[("identifier", "5678")]),
            ("My booking number is X7PQ42.", &[("identifier", "X7PQ42")]),
            (
                "tracking number 1Z999AA10123456784",
                &[("tracking_number", "1Z999AA10123456784")],
            ),
            (
                "Write to ann@example.org or call +32 9 123 45 67",
                &[("email", "ann@example.org"), ("phone", "+32 9 123 45 67")],
            ),
            ("+33-1-23-45-67-89", &[("phone", "+33-1-23-45-67-89")]),
            ("+ 329 123 45 67", &[]),
            ("+329 - 123 45 67 89", &[]),
            ("+1 2 3 4 5 6 7 8 9", &[]),
            (
                "I want to order 500 lamps in UTF-8 with COVID-19 at 9 PM 2024",
                &[],
            ),
            ("I have 3 cats and 1200 books", &[]),
        ] {
            assert_finds(text, wanted);
        }
    }

    #[test]
    fn only_types_of_the_vocabulary_are_used() {
        let types = ["order_id".to_owned(), "Person".to_owned()];
        let found = find("My brother Tom paid 5 euros in Oslo for RFC 9457", &types);
        let found: Vec<(&str, &str)> = found
            .iter()
            .map(|one| (one.kind.as_str(), one.value.as_str()))
            .collect();
        assert_eq!(found, [("Person", "Tom"), ("order_id", "RFC 9457")]);
        assert_eq!(find("My brother Tom", &[]), []);
    }
}
