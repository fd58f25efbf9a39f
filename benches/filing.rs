//! How well the embedded model files: labelled collections are filed one text after another, as the service would,
//! and compared with their true paths and with k-means on the same vectors at the same number of groups.
//!
//! `scripts/eval [--list] [DIR]` runs it on `DIR/filing/*.jsonl`; `--list` prints every category with samples.

#![expect(clippy::print_stdout, reason = "it prints figures")]

mod measure;

use std::collections::{BTreeMap, HashMap};

use measure::{Random, Text, kmeans, load, number, score};
use memoir::llm::local::{ClassifyInput, LocalModel};

const LIMIT: usize = 128;
const SAMPLES: usize = 16;
const FIRST: usize = 4;

#[derive(Default)]
struct Tree {
    children: BTreeMap<Vec<String>, Vec<String>>,
    used: HashMap<usize, usize>,
    /// Texts below every path, in the order of filing.
    filed: HashMap<Vec<String>, Vec<String>>,
}

/// The service's rule: the first few and the latest, cut to their openings.
fn sampled(texts: &[String]) -> Vec<&str> {
    if texts.len() <= SAMPLES {
        return texts.iter().map(String::as_str).collect();
    }
    let latest = &texts[texts.len() - (SAMPLES - FIRST)..];
    texts[..FIRST].iter().chain(latest).map(String::as_str).collect()
}

impl Tree {
    fn file(&mut self, text: &str, depth: u32) -> Vec<String> {
        let mut path: Vec<String> = Vec::new();
        for level in 1..=depth {
            let parent: Vec<&str> = path.iter().map(String::as_str).collect();
            let known = self.children.entry(path.clone()).or_default();
            let categories: Vec<&str> = known.iter().map(String::as_str).collect();
            let none = Vec::new();
            let below = |name: &String| [path.as_slice(), std::slice::from_ref(name)].concat();
            let samples: Vec<Vec<&str>> =
                known.iter().map(|name| sampled(self.filed.get(&below(name)).unwrap_or(&none))).collect();
            let counts: Vec<usize> =
                known.iter().map(|name| self.filed.get(&below(name)).map_or(0, Vec::len)).collect();
            let used = self.used.entry(level as usize).or_default();
            let may_create = *used < LIMIT || categories.is_empty();
            let input = ClassifyInput {
                contextual_helper: None,
                level,
                depth,
                parent: &parent,
                categories: &categories,
                samples: &samples,
                counts: &counts,
                may_create,
                chunks: &[(1, text)],
            };
            let name = LocalModel::classify(&input).remove(0).1;
            if !known.contains(&name) {
                assert!(may_create, "made {name:?} where it might not");
                known.push(name.clone());
                *used += 1;
            }
            path.push(name);
        }
        let cut: String = text.chars().take(600).collect();
        for level in 1..=path.len() {
            self.filed.entry(path[..level].to_vec()).or_default().push(cut.clone());
        }
        path
    }
}

fn file_all(texts: &[Text], seed: u64, depth: u32) -> Vec<Vec<String>> {
    let mut tree = Tree::default();
    let mut paths = vec![Vec::new(); texts.len()];
    for i in Random(seed).order(texts.len()) {
        paths[i] = tree.file(&texts[i].text, depth);
    }
    paths
}

fn list(texts: &[Text], paths: &[Vec<String>]) {
    let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (i, path) in paths.iter().enumerate() {
        groups.entry(path.join(" > ")).or_default().push(i);
    }
    for (name, members) in groups {
        println!("  {name} ({})", members.len());
        for i in members.iter().step_by(members.len().div_ceil(3).max(1)).take(3) {
            let flat: String = texts[*i].text.split_whitespace().collect::<Vec<_>>().join(" ");
            println!("      - {}", flat.chars().take(90).collect::<String>());
        }
    }
}

fn report(label: &str, points: &[Vec<f32>], found: &[usize], truth: &[usize], cache: &mut HashMap<usize, Vec<usize>>) {
    let (purity, nmi, groups) = score(found, truth);
    let baseline = cache.entry(groups).or_insert_with(|| kmeans(points, groups, 5));
    let (kp, kn, _) = score(baseline, truth);
    println!(
        "  {label}: {groups} groups, purity {purity:.3} (k-means {kp:.3}, {:+.3}), NMI {nmi:.3} (k-means {kn:.3}, {:+.3})",
        purity - kp,
        nmi - kn
    );
}

fn main() {
    let show = std::env::args().any(|argument| argument == "--list");
    #[expect(clippy::disallowed_methods, reason = "the texts come from outside")]
    let folder = std::env::var("MEMOIR_EVAL_DATA").unwrap_or_else(|_| "../shared/data".to_owned());
    for file in ["newsgroups", "banking77"] {
        let texts = load(&format!("{folder}/filing/{file}.jsonl"));
        assert!(!texts.is_empty(), "{folder}/filing/{file}.jsonl has no texts");
        let leaf = number(&texts.iter().map(|t| t.path.join("/")).collect::<Vec<_>>());
        let top = number(&texts.iter().map(|t| t.path[0].clone()).collect::<Vec<_>>());
        let points: Vec<Vec<f32>> = texts.iter().map(|t| LocalModel::embed(&t.text)).collect();
        let mut cache = HashMap::new();
        for seed in 1..=3 {
            let paths = file_all(&texts, seed, 2);
            println!("{file}, shuffle {seed}");
            if texts.iter().any(|t| t.path.len() > 1) {
                let level1 = number(&paths.iter().map(|p| p[0].clone()).collect::<Vec<_>>());
                report("level 1", &points, &level1, &top, &mut cache);
            }
            let leaves = number(&paths.iter().map(|p| p.join("/")).collect::<Vec<_>>());
            report("leaf   ", &points, &leaves, &leaf, &mut cache);
            if show && seed == 1 {
                list(&texts, &paths);
            }
        }
    }
}
