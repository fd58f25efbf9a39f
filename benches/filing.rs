//! How well the embedded model files: labelled collections are filed one text after another, as the
//! service would, and compared with their true paths and with k-means on the same vectors at the
//! same number of groups.
//!
//! `scripts/eval [--list] [--once] [--shuffles N] [DIR]` runs it on `DIR/filing/*.jsonl`, in three
//! orders by default; `--once` disables the second look; `--list` prints every category with
//! samples.

#![expect(clippy::print_stdout, reason = "it prints figures")]

mod environment;
mod measure;

use std::collections::{BTreeMap, HashMap};

use environment::variable;
use measure::{Random, Text, kmeans, load, number, score};
use memoir::categories::Taxonomy;
use memoir::categories::samples::{CHARS, FIRST, READ, thin};
use memoir::categories::tree::{Node, ROOT, Tree};
use memoir::config::{Config, Origin};
use memoir::ingestion::second_look::{ENOUGH, turns};
use memoir_embedded_model::{ClassifyInput, EmbeddedModel};

const DEPTH: u32 = 2;

/// A hierarchy within the limits of the service, by default or as `MEMOIR__TAXONOMY__…` says, and
/// its chunks.
struct Filing {
    tree: Tree,
    /// Texts below every category, by order of arrival.
    filed: HashMap<Node, Filed>,
}

type Filed = BTreeMap<usize, String>;

fn sampled(texts: &Filed) -> Vec<&str> {
    let mut samples = texts.values().map(String::as_str).collect();
    thin(&mut samples);
    samples
}

/// Chunks of a leaf that can be re-examined, as `SampleCache` reads them.
fn at_hand(texts: &Filed) -> impl Iterator<Item = usize> {
    let late = texts.len().saturating_sub(READ);
    let read = texts
        .iter()
        .enumerate()
        .filter(move |(at, _)| *at < FIRST || *at >= late);

    read.filter(|(_, (_, text))| text.chars().count() < CHARS)
        .map(|(_, (when, _))| *when)
}

impl Filing {
    fn new() -> Self {
        let given = std::env::vars().filter(|(name, _)| name.starts_with("MEMOIR__TAXONOMY__"));
        let depth = "MEMOIR__TAXONOMY__HIERARCHY_DEPTH".to_owned();
        let environment = given.chain([(depth, DEPTH.to_string())]).collect();
        let config = Config::load(&Origin {
            file: None,
            environment,
        })
        .expect("settings");

        Self {
            tree: Tree::new(Taxonomy::new(&config.taxonomy)),
            filed: HashMap::new(),
        }
    }

    fn file(&mut self, when: usize, text: &str) -> Vec<String> {
        let cut: String = text.chars().take(CHARS).collect();
        let mut at = ROOT;
        for level in 1..=DEPTH {
            let name = self.ask(at, level, text, None);
            at = self
                .tree
                .choose(at, &name)
                .unwrap_or_else(|| panic!("made {name:?} where it might not"));

            self.filed.entry(at).or_default().insert(when, cut.clone());
        }

        self.tree.path(at)
    }

    fn ask(&self, parent: Node, level: u32, text: &str, home: Option<usize>) -> String {
        let (path, names, none) = (
            self.tree.path(parent),
            self.tree.options(parent),
            Filed::new(),
        );

        let filed: Vec<&Filed> = self
            .tree
            .offered(parent)
            .map(|node| self.filed.get(&node).unwrap_or(&none))
            .collect();

        let samples: Vec<Vec<&str>> = filed.iter().map(|texts| sampled(texts)).collect();
        let counts: Vec<usize> = filed.iter().map(|texts| texts.len()).collect();
        EmbeddedModel::classify(&ClassifyInput {
            contextual_helper: None,
            level,
            depth: DEPTH,
            parent: &path.iter().map(String::as_str).collect::<Vec<_>>(),
            categories: &names.iter().map(String::as_str).collect::<Vec<_>>(),
            samples: &samples,
            counts: &counts,
            may_create: home.is_none() && self.tree.may_create(parent),
            chunks: &[(1, text)],
            homes: &[home],
            wishes: &[],
            is_short_text: true,
        })
        .remove(0)
        .1
    }

    /// Re-examines some chunks below the parent of the leaf in which a text was filed; returns
    /// those that moved.
    fn look_again(&mut self, when: usize, leaf: &[String]) -> Vec<(usize, Vec<String>)> {
        let parent = leaf[..leaf.len() - 1].iter().fold(ROOT, |at, name| {
            self.tree.choose(at, name).expect("a parent")
        });
        let leaves: Vec<Node> = self.tree.offered(parent).collect();
        let held = |leaf: &Node| self.filed.get(leaf).filter(|texts| texts.len() > 1);
        let pool: Vec<(usize, usize)> = leaves
            .iter()
            .enumerate()
            .flat_map(|(home, leaf)| {
                held(leaf)
                    .into_iter()
                    .flat_map(at_hand)
                    .map(move |text| (text, home))
            })
            .collect();

        if leaves
            .iter()
            .map(|leaf| self.filed.get(leaf).map_or(0, BTreeMap::len))
            .sum::<usize>()
            < ENOUGH
        {
            return Vec::new();
        }
        let mut moved = Vec::new();
        for place in turns(when as u64, 1, pool.len(), leaves.len()) {
            let (text, home) = pool[place];
            let name = self.ask(parent, DEPTH, &self.filed[&leaves[home]][&text], Some(home));
            let leaf = self.tree.choose(parent, &name).expect("a sibling");

            if leaf != leaves[home] && self.filed[&leaves[home]].len() > 1 {
                let cut = self
                    .filed
                    .get_mut(&leaves[home])
                    .and_then(|filed| filed.remove(&text))
                    .expect("a text");

                self.filed.entry(leaf).or_default().insert(text, cut);
                moved.push((text, self.tree.path(leaf)));
            }
        }

        moved
    }
}

fn file_all(texts: &[Text], seed: u64, once: bool) -> (Vec<Vec<String>>, usize) {
    let mut filing = Filing::new();
    let (mut paths, mut moves) = (vec![Vec::new(); texts.len()], 0);
    let order = Random(seed).order(texts.len());

    for (when, i) in order.iter().enumerate() {
        paths[*i] = filing.file(when, &texts[*i].text);
        if !once {
            for (text, path) in filing.look_again(when, &paths[*i]) {
                paths[order[text]] = path;
                moves += 1;
            }
        }
    }

    (paths, moves)
}

fn list(texts: &[Text], paths: &[Vec<String>]) {
    let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (i, path) in paths.iter().enumerate() {
        groups.entry(path.join(" > ")).or_default().push(i);
    }

    for (name, members) in groups {
        println!("  {name} ({})", members.len());
        for i in members
            .iter()
            .step_by(members.len().div_ceil(3).max(1))
            .take(3)
        {
            let flat: String = texts[*i]
                .text
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ");
            println!("      - {}", flat.chars().take(90).collect::<String>());
        }
    }
}

fn report(
    label: &str,
    points: &[Vec<f32>],
    found: &[usize],
    truth: &[usize],
    cache: &mut HashMap<usize, Vec<usize>>,
) {
    let (purity, nmi, groups) = score(found, truth);
    let baseline = cache
        .entry(groups)
        .or_insert_with(|| kmeans(points, groups, 5));
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
    let shuffles = arguments
        .iter()
        .skip_while(|argument| *argument != "--shuffles")
        .nth(1);

    let shuffles = shuffles.map_or(3, |number| {
        number.parse().expect("--shuffles takes a number")
    });
    let once = arguments.iter().any(|argument| argument == "--once");
    let folder = variable("MEMOIR_EVAL_DATA").unwrap_or_else(|| "../shared/data".to_owned());

    for file in ["newsgroups", "banking77"] {
        let texts = load(&format!("{folder}/filing/{file}.jsonl"));
        assert!(
            !texts.is_empty(),
            "{folder}/filing/{file}.jsonl has no texts"
        );

        let leaf = number(&texts.iter().map(|t| t.path.join("/")).collect::<Vec<_>>());
        let top = number(&texts.iter().map(|t| t.path[0].clone()).collect::<Vec<_>>());
        let points: Vec<Vec<f32>> = texts
            .iter()
            .map(|t| EmbeddedModel::embed(&t.text))
            .collect();
        let mut cache = HashMap::new();

        for seed in 1..=shuffles {
            let (paths, moves) = file_all(&texts, seed, once);
            println!("{file}, shuffle {seed}, {moves} moves");
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
