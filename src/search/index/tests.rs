//! The index in memory.

use super::super::{terms, vectors};
use super::*;

fn row(chunk_id: i64, source: &str, text: &str) -> PassageRow {
    let found = terms::of_passage(text);
    let (source_id, length) = (source.to_owned(), i64::from(found.length));
    PassageRow { chunk_id, source_id, version_id: 1, created_at: chunk_id, length, tokens: found.tokens }
}

fn sources(ids: &[&str]) -> Vec<SearchSource> {
    let source = |id: &&str| SearchSource { id: (*id).to_owned(), version_id: Some(1), eligible: true };
    ids.iter().map(source).collect()
}

fn ask(kind: Kind, query: &str, vector: Option<Vec<f32>>) -> Question {
    Question { kind, terms: terms::of_query(query), vector, k: 10, min_score: None, by_source: false }
}

fn found(index: &Index, question: &Question) -> Vec<(i64, f64)> {
    index.search(question, &Filter::default()).iter().map(|hit| (hit.chunk_id, hit.score)).collect()
}

#[test]
fn documents_that_are_gone_count_for_nothing() {
    let texts = [(1, "a", "red fox"), (2, "b", "red hen and a red barn"), (3, "c", "blue whale"), (4, "b", "hen")];
    let rows: Vec<PassageRow> = texts.iter().map(|(id, source, text)| row(*id, source, text)).collect();
    let mut index = Index::default();
    index.add(&rows);
    index.set_sources(&sources(&["a", "c"]));
    let mut fresh = Index::default();
    fresh.add(&[rows[0].clone(), rows[2].clone()]);
    fresh.set_sources(&sources(&["a", "c"]));
    for query in ["red", "red hen", "whale", "hen"] {
        let question = ask(Kind::Keyword, query, None);
        assert_eq!(found(&index, &question), found(&fresh, &question), "{query}");
    }
    assert_eq!(index.size(), fresh.size());
}

#[test]
fn vectors_of_another_model_count_once_they_are_all_there() {
    let mut index = Index::default();
    index.add(&[row(1, "a", "one"), row(5, "a", "two"), row(9, "a", "three")]);
    index.set_sources(&sources(&["a"]));
    let vector = |chunk_id: i64, numbers: [f32; 2]| VectorRow { chunk_id, vector: vectors::to_bytes(&numbers) };
    index.begin_vectors("first", 2);
    index.add_vectors(&[vector(1, [1.0, 0.0]), vector(7, [1.0, 1.0]), vector(9, [0.0, 1.0])]);
    assert_eq!(index.model(), None);
    index.finish_vectors();
    let question = ask(Kind::Semantic, "", Some(vec![0.0, 2.0]));
    assert_eq!(found(&index, &question), [(9, 1.0), (1, 0.0)], "7 is no passage, 5 has no vector");
    assert_eq!(index.last_vector(), Some(9));
    index.begin_vectors("second", 2);
    index.add_vectors(&[vector(5, [0.0, 1.0])]);
    assert_eq!((index.model(), found(&index, &question)[0].0), (Some("first"), 9));
    index.finish_vectors();
    assert_eq!((index.model(), found(&index, &question)), (Some("second"), vec![(5, 1.0)]));
}
