//! How well searches rank: recall and nDCG at ten for every judged collection, by keyword, by
//! meaning and by both, compared with a plain BM25 in the same run. Uses the service's own index
//! with the embedded model's vectors.
//!
//! `scripts/eval search [DIR]` runs it on `DIR/retrieval/*/{docs.jsonl,queries.jsonl,qrels.tsv}`.

#![expect(clippy::print_stdout, reason = "it prints figures")]
#![expect(clippy::cast_precision_loss, reason = "counts of some thousand texts")]

mod environment;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memoir_embedded_model::EmbeddedModel;
use memoir_index::{
    EntryRow, Filter, Index, Kind, OwnerKind, PreparedQuery, SearchGroup, VectorModel, VectorRow,
    terms, vectors,
};
use serde_json::Value;

use environment::variable;

const K: usize = 10;

/// The judged chunks of one query: number and grade.
type Judged = HashMap<usize, f64>;

struct Set {
    name: String,
    docs: Vec<String>,
    queries: Vec<(String, Judged)>,
}

fn main() {
    let root = variable("MEMOIR_EVAL_DATA").unwrap_or_else(|| "../shared/data".to_owned());
    let folder = Path::new(&root).join("retrieval");
    let mut sets: Vec<PathBuf> = std::fs::read_dir(&folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();

    sets.sort();
    assert!(!sets.is_empty(), "no collection in {}", folder.display());
    println!("nDCG@10 / recall@10; ± one standard error of the difference in nDCG");
    let mut behind = Vec::new();
    for set in sets.iter().filter_map(|path| load(path)) {
        behind.extend(evaluate(&set));
    }

    assert!(behind.is_empty(), "hybrid is behind: {}", behind.join(", "));
}

fn evaluate(set: &Set) -> Vec<String> {
    let index = fill(&set.docs);
    let mut rows: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    for (k1, b, name) in [(0.9, 0.4, "BM25 .9/.4"), (1.2, 0.75, "BM25 1.2/.75")] {
        let plain = Plain::new(&set.docs, k1, b);
        let ranked = set
            .queries
            .iter()
            .map(|(query, judged)| measure(&plain.rank(query), judged));

        rows.insert(name, ranked.collect());
    }

    for (kind, name) in [
        (Kind::Keyword, "keyword"),
        (Kind::Semantic, "semantic"),
        (Kind::Hybrid, "hybrid"),
    ] {
        let ranked = set
            .queries
            .iter()
            .map(|(query, judged)| measure(&search(&index, query, kind), judged));
        rows.insert(name, ranked.collect());
    }

    println!(
        "{} ({} chunks, {} questions)",
        set.name,
        set.docs.len(),
        set.queries.len()
    );

    let mean = |values: &[(f64, f64)]| {
        let count = values.len().max(1) as f64;
        let sum = values
            .iter()
            .fold((0.0, 0.0), |sum, value| (sum.0 + value.0, sum.1 + value.1));
        (sum.0 / count, sum.1 / count)
    };

    let hybrid = &rows["hybrid"];
    let best = mean(hybrid);
    let mut behind = Vec::new();

    for name in [
        "BM25 .9/.4",
        "BM25 1.2/.75",
        "keyword",
        "semantic",
        "hybrid",
    ] {
        let (ndcg, recall) = mean(&rows[name]);
        let (lead, error) = difference(hybrid, &rows[name]);
        let told = if name == "hybrid" {
            String::new()
        } else {
            format!("hybrid {lead:+.3} ± {error:.3}")
        };
        println!("  {name:<13} {ndcg:.3} / {recall:.3}   {told}");
        if name != "hybrid" && (best.0 <= ndcg || best.1 <= recall) {
            behind.push(format!("{name} on {}", set.name));
        }
    }

    behind
}

/// The mean lead of one list of nDCGs over another, and its standard error.
fn difference(one: &[(f64, f64)], other: &[(f64, f64)]) -> (f64, f64) {
    let leads: Vec<f64> = one
        .iter()
        .zip(other)
        .map(|(one, other)| one.0 - other.0)
        .collect();

    let count = leads.len().max(2) as f64;
    let mean = leads.iter().sum::<f64>() / count;
    let spread = leads.iter().map(|lead| (lead - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean, (spread / count).sqrt())
}

/// The service's index over chunks numbered from 1, all of one source.
fn fill(docs: &[String]) -> Index {
    let rows: Vec<EntryRow> = (1..)
        .zip(docs)
        .map(|(id, text)| {
            let found = terms::of_chunk(text);
            let (group_id, length) = ("s".to_owned(), i64::from(found.length));
            EntryRow {
                id,
                owner_id: id,
                group_id,
                user_id: String::new(),
                version_id: 1,
                created_at: 0,
                length,
                tokens: found.tokens,
            }
        })
        .collect();

    let bytes = |text: &String| vectors::to_bytes(&EmbeddedModel::embed(text));
    let vectors: Vec<VectorRow> = (1..)
        .zip(docs)
        .map(|(entry_id, text)| VectorRow {
            entry_id,
            vector: bytes(text),
        })
        .collect();

    let model = VectorModel {
        name: "local:embedded".into(),
        dims: EmbeddedModel::embed("").len(),
    };

    let mut index = Index::of(OwnerKind::Chunk, Some(model));
    index.add(&rows, &vectors);
    index.update_groups(&[SearchGroup {
        id: "s".to_owned(),
        version_id: Some(1),
        eligible: true,
    }]);

    index
}

fn search(index: &Index, query: &str, kind: Kind) -> Vec<usize> {
    let vector = Some(EmbeddedModel::embed(query));
    let question = PreparedQuery {
        kind,
        terms: terms::of_query(query),
        vector,
        fields: Arc::default(),
        k: K,
        min_score: None,
        by_group: false,
    };

    let hits = index.search(&question, &Filter::default());
    hits.iter()
        .filter_map(|hit| usize::try_from(hit.owner.id - 1).ok())
        .collect()
}

/// BM25 on unchanged lower-case words.
struct Plain {
    postings: HashMap<String, Vec<(usize, f64)>>,
    lengths: Vec<f64>,
    mean: f64,
    k1: f64,
    b: f64,
}

impl Plain {
    fn new(docs: &[String], k1: f64, b: f64) -> Self {
        let mut postings: HashMap<String, Vec<(usize, f64)>> = HashMap::new();
        let mut lengths = Vec::new();
        for (number, text) in docs.iter().enumerate() {
            let mut counts: HashMap<String, f64> = HashMap::new();
            for word in words(text) {
                *counts.entry(word).or_default() += 1.0;
            }

            lengths.push(counts.values().sum());
            for (word, count) in counts {
                postings.entry(word).or_default().push((number, count));
            }
        }

        let mean = lengths.iter().sum::<f64>() / lengths.len().max(1) as f64;
        Self {
            postings,
            lengths,
            mean,
            k1,
            b,
        }
    }

    fn rank(&self, query: &str) -> Vec<usize> {
        let mut scores = vec![0.0; self.lengths.len()];
        for word in words(query) {
            let Some(list) = self.postings.get(&word) else {
                continue;
            };
            let (all, with) = (self.lengths.len() as f64, list.len() as f64);
            let idf = (1.0 + (all - with + 0.5) / (with + 0.5)).ln();
            for (number, count) in list {
                let damping = self.k1 * (1.0 - self.b + self.b * self.lengths[*number] / self.mean);
                scores[*number] += idf * count * (self.k1 + 1.0) / (count + damping);
            }
        }

        let mut order: Vec<usize> = (0..scores.len())
            .filter(|number| scores[*number] > 0.0)
            .collect();
        order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b)));
        order.truncate(K);
        order
    }
}

fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
}

/// nDCG with the unchanged grades, and the share of the judged chunks that were found.
fn measure(ranked: &[usize], judged: &Judged) -> (f64, f64) {
    let discount = |at: usize| 1.0 / ((at + 2) as f64).log2();
    let gain =
        |(at, number): (usize, &usize)| judged.get(number).copied().unwrap_or(0.0) * discount(at);
    let got: f64 = ranked.iter().take(K).enumerate().map(gain).sum();
    let mut ideal: Vec<f64> = judged.values().copied().collect();
    ideal.sort_by(|a, b| b.total_cmp(a));
    let best: f64 = ideal
        .iter()
        .take(K)
        .enumerate()
        .map(|(at, grade)| grade * discount(at))
        .sum();

    let found = ranked
        .iter()
        .take(K)
        .filter(|number| judged.contains_key(number))
        .count();

    (
        if best > 0.0 { got / best } else { 0.0 },
        found as f64 / judged.len().max(1) as f64,
    )
}

fn load(folder: &Path) -> Option<Set> {
    let lines = |name: &str| -> Vec<Value> {
        let text = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        text.lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    };

    let field = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let docs = lines("docs.jsonl");
    let numbers: HashMap<String, usize> = docs
        .iter()
        .enumerate()
        .map(|(number, doc)| (field(doc, "id"), number))
        .collect();

    let mut grades: HashMap<String, Judged> = HashMap::new();
    for line in std::fs::read_to_string(folder.join("qrels.tsv"))
        .ok()?
        .lines()
    {
        let fields: Vec<&str> = line.split('\t').collect();
        if let [query, doc, grade] = fields[..]
            && let (Some(number), Ok(grade)) = (numbers.get(doc), grade.parse::<f64>())
            && grade > 0.0
        {
            grades
                .entry(query.to_owned())
                .or_default()
                .insert(*number, grade);
        }
    }

    // Queries without a judgement are skipped.
    let queries = lines("queries.jsonl");
    let queries = queries
        .iter()
        .filter_map(|query| Some((field(query, "text"), grades.remove(&field(query, "id"))?)));
    let name = folder.file_name()?.to_string_lossy().into_owned();
    Some(Set {
        name,
        docs: docs.iter().map(|doc| field(doc, "text")).collect(),
        queries: queries.collect(),
    })
}
