//! The in-memory index.

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

fn ask(kind: Kind, query: &str, vector: Option<Vec<f32>>) -> PreparedQuery {
    PreparedQuery {
        kind,
        terms: terms::of_query(query),
        vector,
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
fn deleted_sources_do_not_count() {
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
    index.add(&rows);
    index.set_groups(&sources(&["a", "c"]));
    let mut fresh = Index::default();
    fresh.add(&[rows[0].clone(), rows[2].clone()]);
    fresh.set_groups(&sources(&["a", "c"]));

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
fn vectors_of_another_model_are_used_once_they_are_complete() {
    let mut index = Index::default();
    index.add(&[row(1, "a", "one"), row(5, "a", "two"), row(9, "a", "three")]);
    index.set_groups(&sources(&["a"]));
    let vector = |entry_id: i64, numbers: [f32; 2]| VectorRow {
        entry_id,
        vector: vectors::to_bytes(&numbers),
    };

    index.begin_vectors("first", 2);
    index.add_vectors(&[
        vector(1, [1.0, 0.0]),
        vector(7, [1.0, 1.0]),
        vector(9, [0.0, 1.0]),
    ]);

    assert_eq!(index.model(), None);
    index.finish_vectors();
    let question = ask(Kind::Semantic, "", Some(vec![0.0, 2.0]));
    assert_eq!(
        found(&index, &question),
        [(9, 1.0), (1, 0.0)],
        "7 is no chunk, 5 has no vector"
    );

    assert_eq!(index.last_vector(), Some(9));
    index.begin_vectors("second", 2);
    index.add_vectors(&[vector(5, [0.0, 1.0])]);
    assert_eq!(
        (index.model(), found(&index, &question)[0].0),
        (Some("first"), 9)
    );

    index.finish_vectors();
    assert_eq!(
        (index.model(), found(&index, &question)),
        (Some("second"), vec![(5, 1.0)])
    );
}

#[test]
fn a_source_can_be_deleted_added_and_deleted_again() {
    let mut index = Index::default();
    let old = row(1, "a", "red fox");
    index.add(&[old, row(2, "b", "red hen"), row(3, "c", "red barn")]);
    index.set_groups(&sources(&["b", "c"]));
    let again = EntryRow {
        version_id: 7,
        ..row(4, "a", "red fox")
    };

    let back = SearchGroup {
        id: "a".to_owned(),
        version_id: Some(7),
        eligible: true,
    };

    index.add(&[again]);
    index.set_groups(&[sources(&["b", "c"]), vec![back.clone()]].concat());
    let question = ask(Kind::Keyword, "red", None);
    let ids = |index: &Index| {
        found(index, &question)
            .iter()
            .map(|(id, _)| *id)
            .collect::<Vec<_>>()
    };

    assert_eq!(ids(&index), [2, 3, 4]);
    // Another one is evicted; this one stays.
    index.set_groups(&[sources(&["c"]), vec![back]].concat());
    assert_eq!(ids(&index), [3, 4]);
    index.set_groups(&sources(&["c"]));
    assert_eq!(ids(&index), [3]);

    assert_eq!(index.live_size().entries, 1);
}

#[test]
fn earlier_versions_do_not_make_a_word_common() {
    let mut index = Index::default();
    let versions = (1..=30).map(|n| EntryRow {
        version_id: n,
        ..row(n, "a", "saffron and salt")
    });

    index.add(&versions.collect::<Vec<_>>());
    index.add(&[
        row(31, "b", "salt"),
        row(32, "b", "salt and pepper"),
        row(33, "b", "saffron"),
    ]);

    let now = SearchGroup {
        id: "a".to_owned(),
        version_id: Some(30),
        eligible: true,
    };

    index.set_groups(&[sources(&["b"]), vec![now.clone()]].concat());
    let mut fresh = Index::default();
    fresh.add(&[EntryRow {
        version_id: 30,
        ..row(30, "a", "saffron and salt")
    }]);

    fresh.add(&[
        row(31, "b", "salt"),
        row(32, "b", "salt and pepper"),
        row(33, "b", "saffron"),
    ]);

    fresh.set_groups(&[sources(&["b"]), vec![now]].concat());
    let question = ask(Kind::Keyword, "saffron pepper", None);
    assert_eq!(found(&index, &question), found(&fresh, &question));
}

#[test]
fn a_long_source_does_not_crowd_out_others() {
    let mut index = Index::default();
    let vector = |entry_id: i64, numbers: [f32; 2]| VectorRow {
        entry_id,
        vector: vectors::to_bytes(&numbers),
    };

    let mut vectors = Vec::new();
    for id in 1..=1_500 {
        index.add(&[row(id, "book", "whale whale whale")]);
        vectors.push(vector(id, [1.0, 0.0]));
    }

    for id in 1_501..=1_530 {
        index.add(&[row(
            id,
            &format!("note {id}"),
            "a whale and much else that makes a note longer than a line",
        )]);
        vectors.push(vector(id, [1.0, 1.0]));
    }

    let notes: Vec<String> = (1_501..=1_530).map(|id| format!("note {id}")).collect();
    let names: Vec<&str> = notes.iter().map(String::as_str).chain(["book"]).collect();
    index.set_groups(&sources(&names));
    index.begin_vectors("m", 2);
    index.add_vectors(&vectors);
    index.finish_vectors();

    for kind in [Kind::Keyword, Kind::Semantic, Kind::Hybrid] {
        let question = PreparedQuery {
            by_group: true,
            k: 20,
            ..ask(kind, "whale", Some(vec![1.0, 0.0]))
        };
        assert_eq!(found(&index, &question).len(), 20, "{kind:?}");
    }
}
