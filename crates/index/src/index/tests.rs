//! The in-memory index.

use std::collections::HashMap;

use super::super::fields::FieldScores;
use super::super::rank::{Kind, PreparedQuery};
use super::super::{terms, vectors};
use super::*;

fn row(id: i64, group: &str, text: &str) -> EntryRow {
    let found = terms::of_chunk(text);
    let (group_id, length) = (group.to_owned(), i64::from(found.length));
    EntryRow {
        id,
        owner_id: id,
        group_id,
        user_id: String::new(),
        version_id: 1,
        created_at: id,
        length,
        tokens: found.tokens,
    }
}

fn sources(ids: &[&str]) -> Vec<SearchGroup> {
    let source = |id: &&str| SearchGroup {
        id: (*id).to_owned(),
        version_id: Some(1),
        eligible: true,
    };
    ids.iter().map(source).collect()
}

fn vector(entry_id: i64, numbers: &[f32]) -> VectorRow {
    VectorRow {
        entry_id,
        vector: vectors::to_bytes(numbers),
    }
}

fn model(dims: usize) -> VectorModel {
    let name = "m".into();
    VectorModel { name, dims }
}

fn ask(kind: Kind, query: &str, vector: Option<Vec<f32>>) -> PreparedQuery {
    PreparedQuery {
        kind,
        terms: terms::of_query(query),
        vector,
        fields: Arc::default(),
        k: 10,
        min_score: None,
        by_group: false,
    }
}

fn found(index: &Index, question: &PreparedQuery) -> Vec<(i64, f64)> {
    index
        .search(question, &Filter::default())
        .iter()
        .map(|hit| (hit.owner.id, hit.score))
        .collect()
}

#[test]
fn documents_that_are_gone_count_for_nothing() {
    let texts = [
        (1, "a", "red fox"),
        (2, "b", "red hen and a red barn"),
        (3, "c", "blue whale"),
        (4, "b", "hen"),
    ];

    let rows: Vec<EntryRow> = texts
        .iter()
        .map(|(id, source, text)| row(*id, source, text))
        .collect();

    let mut index = Index::default();
    index.add(&rows, &[]);
    index.update_groups(&sources(&["a", "b", "c"]));
    index.remove_groups(&["b".to_owned()]);
    let mut fresh = Index::default();
    fresh.add(&[rows[0].clone(), rows[2].clone()], &[]);
    fresh.update_groups(&sources(&["a", "c"]));

    for query in ["red", "red hen", "whale", "hen"] {
        let question = ask(Kind::Keyword, query, None);
        assert_eq!(
            found(&index, &question),
            found(&fresh, &question),
            "{query}"
        );
    }

    assert_eq!(index.live_size(), fresh.live_size());
}

#[test]
fn entries_without_a_vector_are_not_found_by_meaning() {
    let mut index = Index::of(OwnerKind::Chunk, Some(model(2)));
    let rows = [row(1, "a", "one"), row(5, "a", "two"), row(9, "a", "three")];
    let vectors = [
        vector(1, &[1.0, 0.0]),
        vector(5, &[1.0, 0.0, 0.0]),
        vector(7, &[1.0, 1.0]),
        vector(9, &[0.0, 1.0]),
    ];

    index.add(&rows, &vectors);
    index.update_groups(&sources(&["a"]));
    let question = ask(Kind::Semantic, "", Some(vec![0.0, 2.0]));
    assert_eq!(
        found(&index, &question),
        [(9, 1.0), (1, 0.0)],
        "7 is no entry, the vector of 5 is too long"
    );
}

#[test]
fn a_document_that_goes_and_comes_again_is_found_and_goes_again() {
    let mut index = Index::default();
    let old = row(1, "a", "red fox");
    index.add(&[old, row(2, "b", "red hen"), row(3, "c", "red barn")], &[]);
    index.update_groups(&sources(&["b", "c"]));
    index.remove_groups(&["a".to_owned()]);
    let again = EntryRow {
        version_id: 7,
        ..row(4, "a", "red fox")
    };

    let back = SearchGroup {
        id: "a".to_owned(),
        version_id: Some(7),
        eligible: true,
    };

    index.add(&[again], &[]);
    index.update_groups(&[sources(&["b", "c"]), vec![back.clone()]].concat());
    let question = ask(Kind::Keyword, "red", None);
    let ids = |index: &Index| {
        found(index, &question)
            .iter()
            .map(|(id, _)| *id)
            .collect::<Vec<_>>()
    };

    assert_eq!(ids(&index), [2, 3, 4]);
    // Another one is evicted; this one stays.
    index.remove_groups(&["b".to_owned()]);
    assert_eq!(ids(&index), [3, 4]);
    index.remove_groups(&["a".to_owned()]);
    assert_eq!(ids(&index), [3]);

    assert_eq!(index.live_size().entries, 1);
}

#[test]
fn former_versions_do_not_make_a_word_look_common() {
    let mut index = Index::default();
    let versions = (1..=30).map(|n| EntryRow {
        version_id: n,
        ..row(n, "a", "saffron and salt")
    });

    index.add(&versions.collect::<Vec<_>>(), &[]);
    index.add(
        &[
            row(31, "b", "salt"),
            row(32, "b", "salt and pepper"),
            row(33, "b", "saffron"),
        ],
        &[],
    );

    let now = SearchGroup {
        id: "a".to_owned(),
        version_id: Some(30),
        eligible: true,
    };

    index.update_groups(&[sources(&["b"]), vec![now.clone()]].concat());
    let mut fresh = Index::default();
    fresh.add(
        &[EntryRow {
            version_id: 30,
            ..row(30, "a", "saffron and salt")
        }],
        &[],
    );

    fresh.add(
        &[
            row(31, "b", "salt"),
            row(32, "b", "salt and pepper"),
            row(33, "b", "saffron"),
        ],
        &[],
    );

    fresh.update_groups(&[sources(&["b"]), vec![now]].concat());
    let question = ask(Kind::Keyword, "saffron pepper", None);
    assert_eq!(found(&index, &question), found(&fresh, &question));
}

#[test]
fn a_long_document_leaves_room_for_others() {
    let mut index = Index::of(OwnerKind::Chunk, Some(model(2)));
    for id in 1..=1_500 {
        index.add(
            &[row(id, "book", "whale whale whale")],
            &[vector(id, &[1.0, 0.0])],
        );
    }

    for id in 1_501..=1_530 {
        let text = "a whale and much else that makes a note longer than a line";
        let note = row(id, &format!("note {id}"), text);
        index.add(&[note], &[vector(id, &[1.0, 1.0])]);
    }

    let notes: Vec<String> = (1_501..=1_530).map(|id| format!("note {id}")).collect();
    let names: Vec<&str> = notes.iter().map(String::as_str).chain(["book"]).collect();
    index.update_groups(&sources(&names));

    for kind in [Kind::Keyword, Kind::Semantic, Kind::Hybrid] {
        let question = PreparedQuery {
            by_group: true,
            k: 20,
            ..ask(kind, "whale", Some(vec![1.0, 0.0]))
        };
        assert_eq!(found(&index, &question).len(), 20, "{kind:?}");
    }
}

/// Texts of a few common and many rare words, each with a vector.
fn sample(count: i64) -> (Vec<EntryRow>, Vec<VectorRow>) {
    let mut state = 7_u32;
    let mut next = |most: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) % most
    };

    let mut rows = Vec::new();
    let mut vectors = Vec::new();
    for id in 1..=count {
        let words = 3 + next(30);
        let word = |_| match next(4) {
            0 => format!("common{}", next(3)),
            1 => format!("usual{}", next(40)),
            _ => format!("rare{}", next(700)),
        };

        let text: Vec<String> = (0..words).map(word).collect();
        rows.push(row(id, &format!("s{}", id % 97), &text.join(" ")));
        let part = |divisor: i64| f32::from(i16::try_from(id % divisor).unwrap());
        vectors.push(vector(id, &[1.0, part(13), part(7)]));
    }

    (rows, vectors)
}

const QUERIES: [&str; 7] = [
    "common1",
    "common0 common1 common2",
    "rare5 common2",
    "usual3 common0 rare77 common1",
    "usual1 usual2 usual3 usual4 usual5 common0",
    "rare1 rare2 rare3",
    "nothing",
];

#[test]
fn the_best_are_those_of_scoring_everything() {
    let (rows, _) = sample(3_000);
    let mut index = Index::default();
    index.add(&rows, &[]);
    let names: Vec<String> = (0..97).map(|n| format!("s{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    index.update_groups(&sources(&names));
    for query in QUERIES {
        for k in [1, 3, 10, 200, 5_000] {
            let scores =
                scoring::Scores::new(&index, &terms::of_query(query), &FieldScores::default());
            let wanted = |place: Place| index.entry_id(place) % 3 != 0;
            let places = (0..index.segments.len()).flat_map(|segment| {
                (0..index.segments[segment].len()).map(move |row| Place::new(segment, row))
            });

            let mut all: Vec<(Place, f64)> = places
                .filter(|place| wanted(*place))
                .map(|place| (place, scores.of(place)))
                .filter(|(_, score)| *score > 0.0)
                .collect();

            all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            all.truncate(k);
            assert_eq!(scores.best(k, wanted), all, "{query}, {k}");
        }
    }
}

#[test]
fn many_small_writes_give_the_same_results_as_one() {
    let (rows, vectors) = sample(2_500);
    let names: Vec<String> = (0..97).map(|n| format!("s{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut whole = Index::of(OwnerKind::Chunk, Some(model(3)));
    whole.add(&rows, &vectors);
    whole.update_groups(&sources(&names));
    whole.remove_groups(&["s3".to_owned()]);

    let mut grown = Index::of(OwnerKind::Chunk, Some(model(3)));
    for (row, vector) in rows.iter().zip(&vectors) {
        // Somebody searches the previous snapshot.
        let snapshot = grown.clone();
        grown.add(std::slice::from_ref(row), std::slice::from_ref(vector));
        grown.update_groups(&sources(&[&row.group_id]));
        assert_eq!(snapshot.len() + 1, grown.len());
    }

    while let Some(parts) = grown.mergeable() {
        let merged = Merged::of(parts);
        // Gone while the segments were being merged.
        grown.remove_groups(&["s3".to_owned()]);
        assert!(grown.merge(&merged) && !grown.merge(&merged));
    }

    grown.remove_groups(&["s3".to_owned()]);
    assert!(grown.segments.len() < 12, "{}", grown.segments.len());
    assert_eq!(grown.live_size(), whole.live_size());
    for query in QUERIES {
        for kind in [Kind::Keyword, Kind::Semantic, Kind::Hybrid] {
            let question = ask(kind, query, Some(vec![1.0, 2.0, 3.0]));
            assert_eq!(
                found(&grown, &question),
                found(&whole, &question),
                "{query}"
            );
        }
    }
}

#[test]
fn a_segment_whose_rows_are_gone_gives_its_memory_back() {
    let (rows, _) = sample(2_000);
    let mut index = Index::default();
    index.add(&rows, &[]);
    let bytes = index.bytes();
    let gone: Vec<String> = (0..90).map(|n| format!("s{n}")).collect();
    index.remove_groups(&gone);
    while let Some(parts) = index.mergeable() {
        assert!(index.merge(&Merged::of(parts)));
    }

    assert!(index.len() < 200 && index.bytes() * 2 < bytes);
}

/// Pages that name neither company nor year, of four filings.
fn filings() -> (Index, Index) {
    let names = ["acme 2019", "acme 2020", "globex 2019", "globex 2020"];
    let groups = ["a", "b", "c", "d"];
    let mut pages = Vec::new();
    let mut about = Vec::new();
    for (number, (group, name)) in (0..).zip(groups.iter().zip(names)) {
        pages.push(row(2 * number + 1, group, "revenue grew by a tenth"));
        pages.push(row(2 * number + 2, group, "the board met in june"));
        about.push(row(number + 1, group, name));
    }

    let mut indexes = (Index::default(), Index::of(OwnerKind::Source, None));
    indexes.0.add(&pages, &[]);
    indexes.1.add(&about, &[]);
    indexes.0.update_groups(&sources(&groups));
    indexes.1.update_groups(&sources(&groups));
    indexes
}

#[test]
fn what_is_said_about_a_source_leads_to_its_chunks() {
    let (pages, about) = filings();
    let mut question = ask(Kind::Keyword, "globex revenue in 2019", None);
    let fields = about.field_scores(&question.terms, &Filter::default());
    question.fields = Arc::new(fields);
    let hits = pages.search(&question, &Filter::default());
    assert_eq!(hits[0].owner.id, 5, "{hits:?}");
    assert!(hits[0].fields.unwrap() > 0.0 && hits[0].keyword > hits[0].fields);

    // A source that is not visible adds nothing.
    let hidden = Filter {
        groups: Some(HashMap::from([("a".to_owned(), 1)])),
        ..Filter::default()
    };
    let seen = about.field_scores(&question.terms, &hidden);
    assert_eq!(seen.len(), 1);
}

#[test]
fn the_best_with_names_are_the_best_of_all() {
    let (pages, about) = filings();
    for k in 1..=8 {
        let mut question = ask(Kind::Keyword, "acme revenue june 2020", None);
        question.fields = Arc::new(about.field_scores(&question.terms, &Filter::default()));
        question.k = 8;
        let all = found(&pages, &question);
        question.k = k;
        assert_eq!(found(&pages, &question), all[..k], "{k}");
    }
}

#[test]
fn the_rows_of_few_groups_are_ordered_as_among_all() {
    let mut index = Index::of(OwnerKind::Memory, Some(model(2)));
    for part in 0..3 {
        let ids = part * 100 + 1..part * 100 + 101;
        let group = |id: i64| format!("user {}", id % 20);
        let texts = ["red fox", "a red hen and a red barn", "blue whale", "fox"];
        let text = |id: i64| texts[usize::try_from(id / 3 % 4).unwrap()];
        let rows: Vec<EntryRow> = ids
            .clone()
            .map(|id| row(id, &group(id), text(id)))
            .collect();
        let angle = |id: i64| f32::from(u8::try_from(id % 97).unwrap()) / 10.0;
        let vectors: Vec<VectorRow> = ids
            .map(|id| vector(id, &[angle(id).cos(), angle(id).sin()]))
            .collect();
        index.add(&rows, &vectors);
    }

    let named = |id: &str| (id.to_owned(), 1);
    let few = Filter {
        groups: Some(HashMap::from([named("user 7"), named("user 8")])),
        ..Filter::default()
    };
    // So many names that all rows are compared.
    let strangers = (0..20).map(|number| named(&format!("stranger {number}")));
    let many = Filter {
        groups: Some(
            few.groups
                .clone()
                .unwrap()
                .into_iter()
                .chain(strangers)
                .collect(),
        ),
        ..Filter::default()
    };
    assert!(index.few(&few, |_| true).is_some() && index.few(&many, |_| true).is_none());

    for kind in [Kind::Keyword, Kind::Semantic, Kind::Hybrid] {
        let vector = (kind != Kind::Keyword).then(|| vec![0.6, 0.8]);
        let question = ask(kind, "a red fox", vector);
        let hits = |filter: &Filter| {
            let hits = index.search(&question, filter).into_iter();
            hits.map(|hit| (hit.owner.id, hit.score))
                .collect::<Vec<_>>()
        };
        assert_eq!(hits(&few), hits(&many), "{kind:?}");
        assert_eq!(hits(&few).len(), 10);
    }
}
