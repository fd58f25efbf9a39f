//! Files chunks under category names, one level at a time. Guarantees one name per chunk, equal
//! answers for equal input, and that the chunks of one call share the names they create.

use super::ClassifyInput;
use super::chunk_to_file::ChunkToFile;
use super::meaning::Choice;
use super::names;
use super::profile;
use super::siblings::SampledSiblings;

/// One category for each chunk, in the order of the chunks.
pub fn classify(input: &ClassifyInput<'_>) -> Vec<(i64, String)> {
    let helper = input.contextual_helper.map(profile::vector_of);
    let mut choices: Vec<Choice> = input
        .categories
        .iter()
        .map(|name| Choice::new(name))
        .collect();

    let mut filed = Vec::with_capacity(input.chunks.len());
    let sampled = input.samples.iter().any(|s| !s.is_empty());
    let mut siblings: Option<SampledSiblings> = None;

    // Chunks of a long text have the leaves that its outline gives them.
    let shares_a_leaf = input.is_short_text && input.level == input.depth;

    for (at, (id, text)) in input.chunks.iter().enumerate() {
        let wish = wished(input, at, &choices);
        if let Some(name) = wish.clone().filter(|_| !shares_a_leaf) {
            if !choices.iter().any(|c| names::same(&c.name, &name)) {
                choices.push(Choice::new(&name));
            }

            filed.push((*id, name));
            continue;
        }

        let chunk = ChunkToFile::new(text, input, helper.as_ref());
        let home = input
            .homes
            .get(at)
            .copied()
            .flatten()
            .filter(|home| *home < input.categories.len());

        let comparable = sampled
            && match home {
                Some(_) => chunk.can_be_compared(),
                None => shares_a_leaf || chunk.may_have_kindred(),
            };
        let siblings = comparable.then(|| {
            siblings.get_or_insert_with(|| SampledSiblings::of(input.categories, input.samples))
        });
        let name = match (home, siblings) {
            (Some(home), Some(siblings)) => choices[chunk.refile_by_samples(home, siblings)]
                .name
                .clone(),
            // Without samples there is no reason to move the chunk.
            (Some(home), None) => choices[home].name.clone(),
            (None, siblings) if shares_a_leaf => chunk.file_short_text(wish, &choices, siblings),
            (None, Some(siblings)) if chunk.can_be_compared() => {
                chunk.file_by_samples(&choices, siblings)
            }
            (None, Some(siblings)) => chunk.file_by_subject(&choices, siblings),
            (None, None) if sampled && chunk.may_be_typical() => chunk.keep_company(&choices),
            (None, None) => chunk.file(&choices, None),
        };

        if !choices.iter().any(|c| names::same(&c.name, &name)) {
            choices.push(Choice::new(&name));
        }

        filed.push((*id, name));
    }

    filed
}

/// The category that the outline of a source names for a chunk, if it exists or may be created.
fn wished(input: &ClassifyInput<'_>, at: usize, choices: &[Choice]) -> Option<String> {
    let wish = input.wishes.get(at).copied().flatten()?;
    let found = choices
        .iter()
        .find(|choice| names::same(&choice.name, wish));
    if let Some(known) = found {
        return Some(known.name.clone());
    }

    let above = input.parent.iter().any(|parent| names::same(parent, wish));
    (input.may_create && !above).then(|| wish.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: ClassifyInput<'static> = ClassifyInput {
        contextual_helper: None,
        level: 1,
        depth: 2,
        parent: &[],
        categories: &[],
        samples: &[],
        counts: &[],
        may_create: true,
        chunks: &[],
        homes: &[],
        wishes: &[],
        is_short_text: false,
    };

    fn file(
        level: u32,
        depth: u32,
        parent: &[&str],
        categories: &[&str],
        may_create: bool,
        text: &str,
    ) -> String {
        let input = ClassifyInput {
            level,
            depth,
            parent,
            categories,
            may_create,
            chunks: &[(5, text)],
            ..EMPTY
        };

        let filed = classify(&input);
        assert_eq!((filed.len(), filed[0].0), (1, 5));
        filed[0].1.clone()
    }

    const SHUTTLE: &str =
        "The space shuttle reached its orbit after the launch and released a satellite.";
    const FEE: &str = "Why was I charged a fee for using my card abroad?";

    #[test]
    fn broad_names_are_above_narrow_ones() {
        for (level, depth, parent, text, wanted) in [
            (1, 3, vec![], SHUTTLE, "Science"),
            (2, 3, vec!["Science"], SHUTTLE, "Astronomy and space"),
            (1, 2, vec![], FEE, "Money"),
            (2, 2, vec!["Money"], FEE, "Payment card fees"),
        ] {
            assert_eq!(file(level, depth, &parent, &[], true, text), wanted);
        }
    }

    #[test]
    fn existing_names_are_reused() {
        for (level, categories, may_create, text, wanted) in [
            (
                1,
                vec!["Cooking", "Outer space", "Tennis"],
                true,
                SHUTTLE,
                "Outer space",
            ),
            (1, vec!["science", "Health"], true, SHUTTLE, "science"),
            (1, vec!["Gardening", "Rockets"], false, SHUTTLE, "Rockets"),
            (1, vec!["Gardening"], false, "", "Gardening"),
        ] {
            assert_eq!(file(level, 2, &[], &categories, may_create, text), wanted);
        }
    }

    #[test]
    fn a_store_of_one_subject_accepts_only_texts_on_that_subject() {
        let samples = [
            "When will my new card arrive?",
            "Why was I charged a fee for using my card abroad?",
            "My top-up failed, what should I do?",
            "The exchange rate of my transfer was wrong",
            "I do not recognise a payment on my statement",
            "How do I change the PIN of my card?",
            "My transfer is still pending",
            "Can I get a refund for this purchase?",
            "The cash machine swallowed my card",
            "Which currencies can I hold in my account?",
            "Why was my card payment declined?",
            "I want to verify my identity to open an account",
            "Is there a limit for cash withdrawals?",
            "My salary has not arrived in my account yet",
        ];

        let filed = |text: &str| {
            let (samples, counts) = (&[samples.to_vec()], &[samples.len()]);
            classify(&ClassifyInput {
                categories: &["Money"],
                samples,
                counts,
                chunks: &[(1, text)],
                ..EMPTY
            })
            .remove(0)
            .1
        };

        for text in [
            "How long will the delivery of it take?",
            "I cannot log in to the app any more",
        ] {
            assert_eq!(filed(text), "Money", "{text}");
        }

        for text in [
            "My dog Rex is afraid of thunder",
            "I started playing tennis last year",
            "I play the piano",
        ] {
            assert_ne!(filed(text), "Money", "{text}");
        }
    }

    #[test]
    fn chunks_of_one_call_share_new_names() {
        let chunks = [
            (1, "Кошка спит дома. Кошка ест."),
            (2, "Кошка ест рыбу. Кошка спит."),
        ];

        let input = ClassifyInput {
            level: 2,
            parent: &["Cyrillic texts"],
            chunks: &chunks,
            ..EMPTY
        };

        let filed = classify(&input);
        assert_eq!(filed[0].1, filed[1].1);
    }

    #[test]
    fn any_text_at_any_depth_gets_a_valid_name() {
        let giant = "x".repeat(1_000_000);
        let texts = [
            "",
            " \n",
            "🙂🙂",
            "12 34 56",
            "{\"a\": [1, 2, {\"b\": null}]}",
            "机器学习是人工智能的分支。",
            "Кошка спит",
            "fn main() { println!(\"{}\", x); }",
            giant.as_str(),
            SHUTTLE,
            "\u{0}\u{7}/",
            "a/b/c",
        ];

        for text in texts {
            let mut path: Vec<String> = Vec::new();
            let depth = if text.len() > 10_000 { 5 } else { 100 };
            for level in 1..=depth {
                let parent: Vec<&str> = path.iter().map(String::as_str).collect();
                let name = file(level, depth, &parent, &[], true, text);
                assert!(!name.trim().is_empty() && name.chars().count() <= 60);
                assert!(
                    name.split(' ').count() <= 4
                        && !name.contains('/')
                        && !name.contains(char::is_control)
                );

                assert!(
                    path.last().is_none_or(|p| !names::same(p, &name)),
                    "{name} below itself"
                );

                path.push(name);
            }
        }
    }

    #[test]
    fn equal_requests_get_equal_answers() {
        let ask = || {
            file(
                2,
                3,
                &["Science"],
                &["Space flight", "Physics"],
                true,
                SHUTTLE,
            )
        };
        assert_eq!(ask(), ask());
    }
}
