//! Answers a query with matching sentences from the given chunks. Guarantees that every sentence is
//! quoted from a chunk, with its number, and that the answer says so if nothing matches.

use std::collections::{HashMap, HashSet};

use memoir_text::sentences;

use super::AnswerChunk;
use super::answer_entry;
use super::answer_section;
use super::answer_sentences::{Asked, Found, is_heading};
use super::answer_subject::Subject;
use super::fitting::Fit;
use super::profile;
use super::question::{self, Kind};
use super::quotation::{LONGEST, quote, quoted, quoted_words};
use super::rank::{self, Rarity, Terms};

/// The answer if no sentence matches.
pub const NOTHING: &str = "Not found in what is stored.";
/// Maximum sentences of an answer, and of a list.
const SENTENCES: usize = 3;
const ITEMS: usize = 8;
/// Relevance below which a sentence is not an answer.
const ENOUGH: f32 = 0.22;
/// Share of the best relevance that a further sentence needs, and a further item of a list.
const CLOSE: f32 = 0.75;
const CLOSE_ITEM: f32 = 0.6;
/// Share of the question's words, rare ones counting more, that a further sentence of another chunk
/// needs, compared with the best sentence: one common word in both is chance.
const CLOSE_ELSEWHERE: f32 = 0.6;
/// Share that its whole chunk needs: "baked at 240 degrees" is about bread if the cake is elsewhere.
const AS_COVERED: f32 = 0.8;
/// How much a sentence of another kind than the question asks for counts, and one that may be of it.
const OTHER_KIND: f32 = 0.6;
const SOME_KIND: f32 = 0.9;
/// How much a title counts: it names what is asked about, and says nothing of it.
const TITLE: f32 = 0.4;
/// Most words of a title.
const TITLE_WORDS: usize = 6;
/// Share of the question's words that the next sentence must add to be quoted too.
const ADDS: f32 = 0.25;
/// Share of the words of a question that a sentence must contain to be a yes or a no.
const SURE: f32 = 0.8;
/// Share of the words of a question, rare ones counting more, that a sentence and its neighbours must
/// contain to answer it, or else their whole chunk.
const CARRIED: f32 = 0.33;
const CARRIED_BY_CHUNK: f32 = 0.5;
/// Share that is needed if other words of the question are in none of the chunks: then what is asked
/// about is probably not stored.
const CARRIED_OF_ALL: f32 = 0.55;
/// Sentences below which it cannot be told which words are rare.
const MIN_JUDGED: usize = 20;

/// The answering sentences, best first, each with the number of its chunk in brackets.
pub fn answer(query: &str, chunks: &[AnswerChunk<'_>]) -> String {
    let asked = Asked::of(query);
    let (kind, question) = (asked.kind, &asked.terms);
    let entry = answer_entry::named(query, kind, chunks);
    if !entry.is_empty() {
        let quotes = entry.iter().map(|(chunk_id, item)| quote(item, *chunk_id));
        return listed(&quotes.collect::<Vec<_>>());
    }

    if let Some(section) = answer_section::named(query, kind, chunks) {
        let quotes = section
            .items
            .iter()
            .map(|item| quote(item, section.chunk_id));
        return listed(&quotes.collect::<Vec<_>>());
    }

    let found = asked.sentences(chunks);
    let rarity = Rarity::of(found.iter().map(|f| &f.stems));
    let any_named = found.iter().any(|f| f.subject.is_named());
    let mut scored: Vec<(f32, usize)> = found
        .iter()
        .map(|f| f.subject.weight(any_named) * score(&rarity, &asked, f))
        .zip(0..)
        .collect();

    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    let Some(&(best, first)) = scored.first().filter(|(score, _)| *score >= ENOUGH) else {
        return NOTHING.to_string();
    };
    if !is_carried(&rarity, question, chunks, &found, first) {
        return NOTHING.to_string();
    }
    let first = &found[first];

    let (most, close) = match kind {
        Kind::List => (ITEMS, CLOSE_ITEM),
        _ => (SENTENCES, CLOSE),
    };
    let carried = first.shared(&rarity, question);
    let covered = coverage(&rarity, question, chunks, &found);
    let is_chance = |sentence: &Found<'_>| {
        sentence.chunk_id != first.chunk_id
            && (sentence.shared(&rarity, question) < carried * CLOSE_ELSEWHERE
                || covered(sentence.chunk_id) < covered(first.chunk_id) * AS_COVERED)
    };
    let (mut said, mut spoken) = (Vec::new(), Vec::<String>::new());
    for (_, at) in scored
        .iter()
        .take_while(|(s, _)| *s >= (best * close).max(ENOUGH))
    {
        let sentence = &found[*at];
        let words = quoted_words(sentence.text);
        let repeats = |before: &String| before.contains(&words) || words.contains(before);
        if said.len() == most
            || spoken.iter().any(repeats)
            || is_chance(sentence)
            || sentence.kind_of_answer(&asked) < first.kind_of_answer(&asked)
        {
            continue;
        }

        let next = found.get(at + 1).filter(|next| {
            let wanted = sentence.fit < Fit::Full && next.fit > sentence.fit;
            let adds = || rarity.added(question, &sentence.stems, &next.stems) >= ADDS;
            let is_new = || !spoken.contains(&quoted_words(next.text));
            let is_same = next.chunk_id == sentence.chunk_id && next.subject != Subject::Other;
            is_same && (wanted || adds()) && is_new()
        });
        match next.filter(|_| kind != Kind::List && sentence.before.is_none()) {
            Some(next) => {
                said.push(both(sentence, next.text));
                spoken.push(quoted_words(next.text));
            }
            None => said.push(told(sentence, &asked)),
        }
        spoken.push(words);
    }

    if kind == Kind::List {
        return listed(&said);
    }

    let said = said.join(" ");
    let sure = kind == Kind::YesOrNo && rarity.shared(question, &first.stems) >= SURE;
    match (sure, question::denies(first.text)) {
        (true, denies) if denies != question::denies(query) => format!("No. {said}"),
        (true, _) => format!("Yes. {said}"),
        (false, _) => said,
    }
}

/// Several entries as a list, one as it is.
fn listed(said: &[String]) -> String {
    match said {
        [one] => one.clone(),
        _ => said
            .iter()
            .map(|item| format!("- {item}"))
            .collect::<Vec<_>>()
            .join("\n"),
    }
}

/// The share of the question's words that each chunk contains, in its path or its sentences.
fn coverage(
    rarity: &Rarity,
    question: &Terms,
    chunks: &[AnswerChunk<'_>],
    found: &[Found<'_>],
) -> impl Fn(i64) -> f32 + use<> {
    let mut unions: HashMap<i64, HashSet<String>> = HashMap::new();
    for chunk in chunks {
        let union = unions.entry(chunk.chunk_id).or_default();
        union.extend(rank::stems(chunk.path));
    }

    for sentence in found {
        let union = unions.entry(sentence.chunk_id).or_default();
        union.extend(sentence.stems.union(&sentence.above).cloned());
    }

    let each = unions.into_iter();
    let shares: HashMap<i64, f32> = each
        .map(|(id, union)| (id, rarity.shared(question, &union)))
        .collect();
    move |id| shares.get(&id).copied().unwrap_or(0.0)
}

/// Whether a sentence is about what is asked: a sentence about something else shares only common
/// words and a vague meaning with the question.
fn is_carried(
    rarity: &Rarity,
    question: &Terms,
    chunks: &[AnswerChunk<'_>],
    found: &[Found<'_>],
    first: usize,
) -> bool {
    if found.len() < MIN_JUDGED {
        return true;
    }

    let id = found[first].chunk_id;
    let path = chunks.iter().find(|chunk| chunk.chunk_id == id);
    let path = rank::stems(path.map_or("", |chunk| chunk.path));
    let carried = |places: &mut dyn Iterator<Item = usize>| {
        let mut union = path.clone();
        for at in places {
            union.extend(found[at].stems.union(&found[at].above).cloned());
        }

        rarity.shared(question, &union)
    };

    let here = |at: &usize| found[*at].chunk_id == id;
    let around = first.saturating_sub(1)..found.len().min(first + 2);
    let near = carried(&mut around.filter(here));
    let in_chunk = carried(&mut (0..found.len()).filter(here));
    let in_all = carried(&mut (0..found.len()));

    (near >= CARRIED || in_chunk >= CARRIED_BY_CHUNK)
        && (near >= CARRIED_OF_ALL || in_all >= CARRIED_OF_ALL)
}

/// A sentence with as much around it as is needed to understand it.
fn told(found: &Found<'_>, asked: &Asked) -> String {
    let quoted = quote(found.text, found.chunk_id);
    if let Some(before) = found.before {
        return format!(
            "{} {quoted}",
            sentences::cut(&sentences::flat(before), LONGEST)
        );
    }

    match found.after {
        Some(after) if asked.fit(after) > found.fit => both(found, after),
        _ => quoted,
    }
}

/// A sentence and the one after it.
fn both(found: &Found<'_>, after: &str) -> String {
    let first = quoted(found.text);
    format!("{first} {}", quote(after, found.chunk_id))
}

/// A question is not an answer, and a heading or an exclamation says little.
fn score(rarity: &Rarity, asked: &Asked, found: &Found<'_>) -> f32 {
    let asks = if found.text.contains(['?', '？']) {
        0.6
    } else {
        1.0
    };

    let words = found.text.split_whitespace().count();
    let names_it = found.subject == Subject::Same && is_heading(found.text);
    let brief = if asked.kind == Kind::List || !found.text.is_ascii() || names_it {
        1.0
    } else if is_title(found.text, words) {
        TITLE
    } else if words < 6 {
        0.8
    } else {
        1.0
    };

    let fitting = match found.kind_of_answer(asked) {
        Fit::Full => 1.0,
        Fit::Some => SOME_KIND,
        Fit::None => OTHER_KIND,
    };
    let shared = found.shared(rarity, &asked.terms);
    let meaning = profile::vector_of(found.text);

    asks * brief * fitting * rank::relevance(shared, &asked.terms, &meaning)
}

/// Whether a line is rather a title than a sentence: short, without an end, a value or a mark.
fn is_title(line: &str, words: usize) -> bool {
    words <= TITLE_WORDS
        && line.ends_with(char::is_alphanumeric)
        && !line.starts_with(['-', '*', '+'])
        && !line.contains(|c: char| c == ':' || c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOP: &str =
        "Our shop opens at nine. Refunds take 14 days after we get the parcel. Pets are welcome.";
    const WHALE: &str = "Call me Ishmael. The whale had a crooked jaw. Captain Ahab lost his leg to the white whale off Japan.";

    fn chunk(chunk_id: i64, text: &str) -> AnswerChunk<'_> {
        AnswerChunk {
            chunk_id,
            path: "",
            about: "",
            text,
        }
    }

    /// The answer from one chunk.
    fn says(text: &str, question: &str) -> String {
        answer(question, &[chunk(3, text)])
    }

    #[test]
    fn quotes_the_answering_sentence() {
        let chunks = [
            AnswerChunk {
                chunk_id: 12,
                path: "Shop",
                about: "",
                text: SHOP,
            },
            AnswerChunk {
                chunk_id: 7,
                path: "Novels",
                about: "",
                text: WHALE,
            },
        ];
        for (question, wanted) in [
            (
                "How long do refunds take?",
                "Refunds take 14 days after we get the parcel [12].",
            ),
            ("When does the shop open?", "Our shop opens at nine [12]."),
            (
                "How did Ahab lose his leg?",
                "Captain Ahab lost his leg to the white whale off Japan [7].",
            ),
        ] {
            assert!(
                answer(question, &chunks).starts_with(wanted),
                "{}",
                answer(question, &chunks)
            );
        }
    }

    #[test]
    fn a_sentence_that_several_chunks_have_is_said_once() {
        let chunks = [
            chunk(1, "The lighthouse on the cape was built in 1843."),
            chunk(2, "The lighthouse on the cape was built in 1843 [7]."),
            chunk(
                3,
                "0.961 /notes/cape.md [50] The lighthouse on the cape was built in 1843.",
            ),
        ];
        assert_eq!(
            answer("When was the lighthouse built?", &chunks),
            "The lighthouse on the cape was built in 1843 [1]."
        );
    }

    #[test]
    fn a_title_is_no_answer_and_a_name_is_whole() {
        for title in ["# Piano\n\n", "Piano\n\n"] {
            let text = format!(
                "{title}The piano, a Blüthner from 1911, is tuned every October by Mr. Hašek."
            );
            let said = says(&text, "Who tunes the piano?");
            assert_eq!(
                said,
                "The piano, a Blüthner from 1911, is tuned every October by Mr. Hašek [3]."
            );
        }

        let bike = "The blue bike has a hub with eight gears. The frame number is K4711, under the saddle.";
        let said = says(bike, "What is the frame number of the blue bike?");
        assert!(said.contains("K4711"), "{said}");

        let limits = "travel:\n  hotel limit: 120\n  meal limit: 30\n";
        let said = says(limits, "What is the hotel limit?");
        assert_eq!(said, "hotel limit: 120 [3].");
    }

    #[test]
    fn says_so_if_the_chunks_do_not_answer() {
        let chunks = [chunk(7, WHALE)];

        assert_eq!(
            answer("What is the capital gains tax rate?", &chunks),
            NOTHING
        );

        assert_eq!(answer("", &chunks), NOTHING);
        assert_eq!(answer("Who?", &[]), NOTHING);
    }

    #[test]
    fn common_words_alone_are_no_answer() {
        let sheds: Vec<String> = (0..30)
            .map(|n| format!("A shed was built beside house {n} by the river. "))
            .collect();
        let sheds = sheds.concat();
        let cottage = "A cottage was built there later. The cottage has two rooms.";
        let chunks = [chunk(1, sheds.as_str()), chunk(2, cottage)];

        assert_eq!(answer("Who built the harpsichord?", &chunks), NOTHING);
        let said = answer("Who built the cottage?", &chunks);
        assert!(said.contains("A cottage was built there later"), "{said}");
    }

    #[test]
    fn a_sentence_about_another_cake_is_not_added() {
        let chunks = [
            chunk(1, "Plum cake. Bake the cake for 40 minutes at 190 degrees."),
            chunk(
                2,
                "Sourdough bread. Bake the loaf for 40 minutes at 240 degrees.",
            ),
        ];
        let said = answer("At how many degrees do I bake the plum cake?", &chunks);
        assert!(said.contains("190") && !said.contains("240"), "{said}");
    }

    #[test]
    fn a_name_in_the_question_does_not_answer_it() {
        let choir = "The Danish choir sings on Monday in room C3. Conductor: Astrid Holm.";
        let said = says(choir, "Who conducts the Danish choir?");
        assert!(said.contains("Astrid Holm"), "{said}");

        let race =
            "Rowing race: long practice on Saturdays, with two crews. The start is in Bremen.";
        let said = says(race, "Where is the rowing race?");
        assert!(said.contains("Bremen"), "{said}");
    }

    #[test]
    fn respects_the_kind_of_a_question() {
        let mill = "The mill was built by the river. It was finished in 1843. The mill grinds flour for the town.";
        assert!(
            says(mill, "When was the mill built?").contains("It was finished in 1843 [3]."),
            "{}",
            says(mill, "When was the mill built?")
        );

        let shop = "The shop is not open on Sunday. The shop sells bread.";
        let said = says(shop, "Is the shop open on Sunday?");
        assert!(
            said.starts_with("No. The shop is not open on Sunday [3]."),
            "{said}"
        );

        let data =
            "{\"colour\": \"red\", \"size\": 4}\n\nThe lamp has a red colour, says the keeper.";
        let said = says(data, "What colour has the lamp?");
        assert!(!said.contains('{'), "{said}");
    }
}
