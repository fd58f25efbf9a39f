//! How well the embedded model files: labelled collections are filed one text after another, as the service would,
//! and compared with their true paths and with k-means on the same vectors at the same number of groups.
//!
//! `scripts/eval [--list] [--shuffles N] [--again N] [DIR]` runs it on `DIR/filing/*.jsonl`, in three orders unless told
//! otherwise; `--again` brings every text in again N times, in the same order, which files it anew among all others;
//! `--list` prints every category with samples.

#![expect(clippy::print_stdout, reason = "it prints figures")]

mod measure;

use std::collections::{BTreeMap, HashMap};

use measure::{Random, Text, kmeans, load, number, score};
use memoir::categories::Taxonomy;
use memoir::categories::samples::{CHARS, thin};
use memoir::categories::tree::{Node, ROOT, Tree};
use memoir::config::{Config, Origin};
use memoir::llm::local::{ClassifyInput, LocalModel};

const DEPTH: u32 = 2;

/// A hierarchy within the limits that the service has unless told otherwise, and what lies in it.
struct Filing {
    tree: Tree,
    /// Texts below every category, in the order of filing.
    filed: HashMap<Node, Vec<String>>,
}

fn sampled(texts: &[String]) -> Vec<&str> {
    let mut samples = texts.iter().map(String::as_str).collect();
    thin(&mut samples);
    samples
}

impl Filing {
    fn new() -> Self {
        let environment = HashMap::from([("MEMOIR__TAXONOMY__HIERARCHY_DEPTH".to_owned(), DEPTH.to_string())]);
        let config = Config::load(&Origin { file: None, environment }).expect("settings");
        Self { tree: Tree::new(Taxonomy::new(&config.taxonomy)), filed: HashMap::new() }
    }

    fn file(&mut self, text: &str) -> Vec<String> {
        let cut: String = text.chars().take(CHARS).collect();
        let mut at = ROOT;
        for level in 1..=DEPTH {
            let path = self.tree.path(at);
            let names = self.tree.options(at);
            let filed: Vec<&[String]> =
                self.tree.offered(at).map(|node| self.filed.get(&node).map_or(&[][..], Vec::as_slice)).collect();
            let samples: Vec<Vec<&str>> = filed.iter().map(|texts| sampled(texts)).collect();
            let counts: Vec<usize> = filed.iter().map(|texts| texts.len()).collect();
            let name = LocalModel::classify(&ClassifyInput {
                contextual_helper: None,
                level,
                depth: DEPTH,
                parent: &path.iter().map(String::as_str).collect::<Vec<_>>(),
                categories: &names.iter().map(String::as_str).collect::<Vec<_>>(),
                samples: &samples,
                counts: &counts,
                may_create: self.tree.may_create(at),
                chunks: &[(1, text)],
            })
            .remove(0)
            .1;
            at = self.tree.choose(at, &name).unwrap_or_else(|| panic!("made {name:?} where it might not"));
            self.filed.entry(at).or_default().push(cut.clone());
        }
        self.tree.path(at)
    }

    fn take_back(&mut self, text: &str, path: &[String]) {
        let cut: String = text.chars().take(CHARS).collect();
        let mut at = ROOT;
        for name in path {
            at = self.tree.choose(at, name).expect("a category that is there");
            let filed = self.filed.entry(at).or_default();
            if let Some(place) = filed.iter().position(|one| *one == cut) {
                filed.remove(place);
            }
        }
    }
}

fn file_all(texts: &[Text], seed: u64, again: usize) -> Vec<Vec<String>> {
    let mut filing = Filing::new();
    let mut paths = vec![Vec::new(); texts.len()];
    for _ in 0..=again {
        for i in Random(seed).order(texts.len()) {
            filing.take_back(&texts[i].text, &paths[i]);
            paths[i] = filing.file(&texts[i].text);
        }
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
    let arguments: Vec<String> = std::env::args().collect();
    let show = arguments.iter().any(|argument| argument == "--list");
    let option = |name: &str| arguments.iter().skip_while(|argument| *argument != name).nth(1);
    let shuffles = option("--shuffles").map_or(3, |number| number.parse().expect("--shuffles takes a number"));
    let again = option("--again").map_or(0, |number| number.parse().expect("--again takes a number"));
    #[expect(clippy::disallowed_methods, reason = "the texts come from outside")]
    let folder = std::env::var("MEMOIR_EVAL_DATA").unwrap_or_else(|_| "../shared/data".to_owned());
    for file in ["newsgroups", "banking77"] {
        let texts = load(&format!("{folder}/filing/{file}.jsonl"));
        assert!(!texts.is_empty(), "{folder}/filing/{file}.jsonl has no texts");
        let leaf = number(&texts.iter().map(|t| t.path.join("/")).collect::<Vec<_>>());
        let top = number(&texts.iter().map(|t| t.path[0].clone()).collect::<Vec<_>>());
        let points: Vec<Vec<f32>> = texts.iter().map(|t| LocalModel::embed(&t.text)).collect();
        let mut cache = HashMap::new();
        for seed in 1..=shuffles {
            let paths = file_all(&texts, seed, again);
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
