//! Recognises names of people, pets and places: capitalised words within a sentence that it
//! introduces. A word that the table knows must also mean such a name, so that "in English" and "with
//! Python" name neither a place nor a person; of others only the strongest signs count.

use memoir_text::months::{MONTHS, WEEKDAYS};

use super::entities::{Kind, Token};
use super::table;
use super::tokens;

/// Words for a person, before their name.
const PEOPLE: [&str; 52] = [
    "sister",
    "brother",
    "mother",
    "father",
    "mom",
    "mum",
    "dad",
    "wife",
    "husband",
    "partner",
    "girlfriend",
    "boyfriend",
    "fiancee",
    "fiance",
    "son",
    "daughter",
    "child",
    "baby",
    "cousin",
    "aunt",
    "uncle",
    "niece",
    "nephew",
    "grandmother",
    "grandfather",
    "grandma",
    "grandpa",
    "granddaughter",
    "grandson",
    "friend",
    "neighbour",
    "neighbor",
    "roommate",
    "flatmate",
    "boss",
    "manager",
    "colleague",
    "coworker",
    "teammate",
    "teacher",
    "professor",
    "doctor",
    "dentist",
    "therapist",
    "nurse",
    "coach",
    "landlord",
    "client",
    "customer",
    "student",
    "classmate",
    "twin",
];
const PETS: [&str; 12] = [
    "dog", "puppy", "cat", "kitten", "hamster", "rabbit", "horse", "pony", "parrot", "tortoise",
    "pet", "ferret",
];
const TITLES: [&str; 11] = [
    "mr",
    "mrs",
    "ms",
    "miss",
    "mx",
    "dr",
    "prof",
    "professor",
    "doctor",
    "aunt",
    "uncle",
];
const OWNERS: [&str; 9] = [
    "my", "our", "his", "her", "their", "your", "a", "the", "old",
];
/// Verbs whose object or subject is a person.
const MET: [&str; 17] = [
    "met", "meet", "meeting", "told", "tell", "telling", "asked", "invited", "invite", "married",
    "marrying", "thanked", "emailed", "texted", "phoned", "visiting", "hug",
];
const SAID: [&str; 16] = [
    "said",
    "says",
    "told",
    "tells",
    "asked",
    "asks",
    "thinks",
    "texted",
    "phoned",
    "invited",
    "married",
    "agreed",
    "suggested",
    "laughed",
    "cried",
    "promised",
];
/// Words between a name and what calls it so.
const NAMING: [&str; 3] = ["named", "called", "nicknamed"];
const SETTLEMENTS: [&str; 14] = [
    "city", "town", "village", "country", "island", "region", "capital", "suburb", "district",
    "province", "county", "hamlet", "harbour", "port",
];
/// Words that tell of being at a place or going there, before "in", "to", "from" or "near".
const BEING: [&str; 44] = [
    "live",
    "lives",
    "lived",
    "living",
    "born",
    "stay",
    "stays",
    "stayed",
    "staying",
    "grew",
    "raised",
    "based",
    "located",
    "arrived",
    "arrive",
    "landed",
    "met",
    "house",
    "flat",
    "apartment",
    "hotel",
    "hostel",
    "office",
    "conference",
    "restaurant",
    "wedding",
    "holiday",
    "holidays",
    "vacation",
    "weekend",
    "week",
    "days",
    "summer",
    "winter",
    "studied",
    "hospital",
    "museum",
    "church",
    "beach",
    "airport",
    "station",
    "school",
    "university",
    "concert",
];
const GOING: [&str; 36] = [
    "move",
    "moved",
    "moves",
    "moving",
    "go",
    "going",
    "goes",
    "went",
    "travel",
    "travels",
    "travelled",
    "traveled",
    "travelling",
    "traveling",
    "fly",
    "flew",
    "flying",
    "flight",
    "drive",
    "drove",
    "driving",
    "trip",
    "train",
    "bus",
    "ferry",
    "back",
    "way",
    "come",
    "comes",
    "came",
    "coming",
    "cycled",
    "sail",
    "sailed",
    "journey",
    "commute",
];
const GREETINGS: [&str; 4] = ["hi", "hello", "dear", "hey"];
/// Words that may stand inside a name.
const PARTICLES: [&str; 10] = [
    "van", "de", "der", "den", "von", "da", "di", "del", "la", "el",
];
/// Words after which a word that means a place names one.
const AT_PLACES: [&str; 4] = ["in", "near", "visited", "visit"];
/// Names of typical people, places, and of what is neither.
const TYPICAL: [(Sense, &[&str]); 3] = [
    (
        Sense::Person,
        &["john", "maria", "anna", "david", "sarah", "peter", "emma"],
    ),
    (
        Sense::Place,
        &[
            "paris", "london", "berlin", "madrid", "germany", "spain", "chicago", "oslo",
        ],
    ),
    (
        Sense::Other,
        &[
            "software",
            "english",
            "python",
            "linux",
            "google",
            "christmas",
            "windows",
            "excel",
            "catholic",
            "bible",
            "amazon",
            "facebook",
            "java",
            "apple",
            "microsoft",
        ],
    ),
];
/// Languages, which mean almost the same as their countries.
const LANGUAGES: [&str; 22] = [
    "english",
    "german",
    "french",
    "spanish",
    "italian",
    "dutch",
    "portuguese",
    "russian",
    "chinese",
    "japanese",
    "korean",
    "arabic",
    "latin",
    "greek",
    "turkish",
    "polish",
    "swedish",
    "danish",
    "norwegian",
    "finnish",
    "hebrew",
    "hindi",
];
/// The least similarity to typical names.
const MIN_NEARNESS: f32 = 0.1;
/// How many words back a sign may stand.
const REACH: usize = 5;
const MAX_WORDS: usize = 3;
/// Particles in a row, as in "van de la".
const MAX_PARTICLES: usize = 3;
/// How many of the typical names a word is compared with: the nearest.
const NEAREST: usize = 3;

/// What a capitalised word may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sense {
    Person,
    Place,
    Other,
}

/// The kind of the name that begins at a token, and its number of tokens.
pub fn at(tokens: &[Token<'_>], at: usize) -> Option<(Kind, usize)> {
    if !is_name(&tokens[at]) {
        return None;
    }

    let count = length(tokens, at);
    let before = before(tokens, at);
    let kind = introduced(before, &tokens[at..at + count])
        .or_else(|| place(before, &tokens[at]))
        .or_else(|| speaker(tokens, at, count))?;
    Some((kind, count))
}

pub fn is_title(lower: &str) -> bool {
    TITLES.contains(&lower.trim_end_matches('.'))
}

/// The words of the same sentence before a token that no mark separates from it, as far as signs reach.
fn before<'a, 't>(tokens: &'a [Token<'t>], at: usize) -> &'a [Token<'t>] {
    if tokens[at].opens {
        return &[];
    }

    let near = &tokens[at.saturating_sub(REACH + 1)..at];
    let from = near.iter().rposition(|token| token.closes);
    &near[from.map_or(0, |place| place + 1)..]
}

fn is_name(token: &Token<'_>) -> bool {
    let text = token.text.trim_end_matches("'s").trim_end_matches("’s");
    let mut letters = text.chars();
    let capital = letters.next().is_some_and(char::is_uppercase);
    let plain = |c: char| c.is_alphabetic() || c == '-' || c == '\'' || c == '’';
    let lower = text.to_lowercase();
    capital
        && letters.clone().any(char::is_lowercase)
        && letters.all(plain)
        && !lower.starts_with("i'")
        && !lower.starts_with("i’")
        && !MONTHS.contains(&lower.as_str())
        && !WEEKDAYS.contains(&lower.trim_end_matches('s'))
        && !is_title(&lower)
}

/// How many words belong to the name.
fn length(tokens: &[Token<'_>], at: usize) -> usize {
    let mut count = 1;
    while count < MAX_WORDS && !tokens[at + count - 1].closes {
        let particles = tokens[at + count..]
            .iter()
            .take(MAX_PARTICLES)
            .take_while(|token| PARTICLES.contains(&token.lower.as_str()) && !token.closes)
            .count();
        let is_possessive = tokens[at + count - 1].lower.ends_with("'s");
        match tokens.get(at + count + particles) {
            Some(next) if is_name(next) && !is_possessive => count += particles + 1,
            _ => break,
        }
    }

    count
}

/// "my sister Anna", "Dr. Meyer", "a village called Mol", "my name is Anna", "I met Anna".
fn introduced(before: &[Token<'_>], name: &[Token<'_>]) -> Option<Kind> {
    let word = |back: usize| {
        let place = before.len().checked_sub(back)?;
        before.get(place).map(|token| token.lower.as_str())
    };
    let last = word(1)?;
    let owns =
        |owner: &str| OWNERS.contains(&owner) || owner.ends_with("'s") || is_adjective(owner);
    let owned = || word(2).is_some_and(owns);

    if is_title(last) || PEOPLE.contains(&last) && owned() {
        return Some(Kind::Person);
    }

    if PETS.contains(&last) && owned() {
        return Some(Kind::Pet);
    }

    if NAMING.contains(&last) || last == "is" && word(2) == Some("name") {
        let mut near = before
            .iter()
            .rev()
            .take(REACH)
            .map(|token| token.lower.as_str());
        return near.find_map(|word| match word {
            _ if PEOPLE.contains(&word) => Some(Kind::Person),
            _ if PETS.contains(&word) => Some(Kind::Pet),
            _ if SETTLEMENTS.contains(&word) => Some(Kind::Place),
            "name" if last == "is" => Some(Kind::Person),
            _ => None,
        });
    }

    let is_greeted = before.len() == 1 && GREETINGS.contains(&last) && name.last()?.closes;
    let sense = sense(&name[0].lower);
    let may_be = MET.contains(&last) || is_greeted;
    let surely = may_be || last == "with" || last == "and";
    let fits = match sense {
        Some(sense) => surely && sense == Sense::Person,
        None => may_be,
    };
    fits.then_some(Kind::Person)
}

/// An adjective between an owner and a person: "my older sister", "her best friend".
fn is_adjective(word: &str) -> bool {
    ["er", "est", "ng", "ld"]
        .iter()
        .any(|ending| word.ends_with(ending))
}

/// "in Ghent", "near Lisbon", "moved to Oslo", "a village in Wales".
fn place(before: &[Token<'_>], name: &Token<'_>) -> Option<Kind> {
    let last = before.last()?.lower.as_str();
    let near = || {
        before
            .iter()
            .rev()
            .skip(1)
            .take(REACH)
            .map(|token| token.lower.as_str())
    };
    let goes = || near().any(|word| GOING.contains(&word));
    let is_there = || near().any(|word| BEING.contains(&word) || SETTLEMENTS.contains(&word));
    let surely = match last {
        "in" | "near" => goes() || is_there(),
        "to" | "from" | "via" | "through" => goes(),
        "visited" | "visit" => false,
        _ => return None,
    };
    let fits = match sense(&name.lower) {
        Some(sense) => sense == Sense::Place && (surely || AT_PLACES.contains(&last)),
        None => surely,
    };
    fits.then_some(Kind::Place)
}

/// "Anna said"; only within a sentence or for a word that is a name.
fn speaker(tokens: &[Token<'_>], at: usize, count: usize) -> Option<Kind> {
    if tokens[at + count - 1].closes {
        return None;
    }

    let says = SAID.contains(&tokens.get(at + count)?.lower.as_str());
    let fits = match sense(&tokens[at].lower) {
        Some(sense) => sense == Sense::Person,
        None => !tokens[at].opens,
    };
    (says && fits).then_some(Kind::Person)
}

/// What a word most likely names, if the table knows it.
fn sense(lower: &str) -> Option<Sense> {
    let word = lower.trim_end_matches("'s");
    let row = tokens::whole_word(word)?;
    if LANGUAGES.contains(&word) {
        return Some(Sense::Other);
    }

    let nearness = |typical: &[&str]| {
        let rows = typical.iter().filter_map(|word| tokens::whole_word(word));
        let mut all: Vec<f32> = rows.map(|other| table::nearness(row, other)).collect();
        all.sort_by(|a, b| b.total_cmp(a));
        all.iter().take(NEAREST).sum::<f32>() / 3.0
    };
    let senses = TYPICAL
        .iter()
        .map(|(sense, typical)| (nearness(typical), *sense));
    let best = senses.fold((MIN_NEARNESS, Sense::Other), |best, next| {
        if next.0 > best.0 { next } else { best }
    });
    Some(best.1)
}
