//! The architecture as a test: which folder may import which, which crates of the workspace may
//! depend on which, which folders may use a crate, and how large a file may be.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Each crate under `crates` and the others there that it may depend on.
const MAY_DEPEND: &[(&str, &[&str])] = &[
    ("embedded-model", &["text"]),
    ("index", &["text"]),
    ("policy", &["text"]),
    ("scripted-model", &[]),
    ("text", &[]),
];

/// The only crate with a server: tests and benchmarks send to it what a provider would get.
const SERVER: &str = "scripted-model";

/// What computes only has no use for these.
const NOT_IN_CRATES: &[&str] = &[
    "axum", "config", "hyper", "memoir", "reqwest", "sqlx", "tokio",
];

/// Each folder and what it may import besides `base`. `model` is listed where it is used.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("config", &[]),
    ("telemetry", &["config"]),
    ("model", &[]),
    ("store", &["config", "model"]),
    ("llm", &["config", "model", "store"]),
    ("jobs", &["config", "llm", "model", "store"]),
    ("keys", &["config", "model", "store"]),
    ("spaces", &["llm", "model", "store"]),
    ("search", &["config", "jobs", "llm", "model", "store"]),
    ("retrieval", &["llm", "model", "search", "store"]),
    (
        "memory_retrieval",
        &["config", "llm", "model", "retrieval", "search", "store"],
    ),
    ("sources", &["search", "store", "model"]),
    ("categories", &["config", "store", "model"]),
    ("contextual_helpers", &["llm", "model", "store"]),
    (
        "ingestion",
        &[
            "categories",
            "config",
            "contextual_helpers",
            "jobs",
            "llm",
            "model",
            "search",
            "sources",
            "store",
        ],
    ),
    (
        "queries",
        &[
            "categories",
            "config",
            "jobs",
            "llm",
            "model",
            "retrieval",
            "search",
            "store",
        ],
    ),
    (
        "conversation",
        &[
            "config",
            "jobs",
            "llm",
            // Its policy says what is redacted before it is stored.
            "memory_retrieval",
            "model",
            "retrieval",
            "search",
            "store",
        ],
    ),
    (
        "erasure",
        &[
            "conversation",
            "jobs",
            "llm",
            "model",
            "queries",
            // The terms of a name.
            "search",
            "store",
        ],
    ),
    (
        "workbench",
        &[
            "config",
            "conversation",
            "llm",
            "model",
            "retrieval",
            "search",
            "sources",
            "store",
        ],
    ),
    ("probe", &["jobs", "llm", "sources", "store"]),
    // Adapters. Tools of agents reach everything through the API; OpenAI's protocol forwards to models.
    ("connect", &["config", "conversation", "llm", "model"]),
    ("web", &[]),
    (
        "http",
        &[
            "categories",
            "config",
            "connect",
            "contextual_helpers",
            "conversation",
            "erasure",
            "ingestion",
            "jobs",
            "keys",
            "llm",
            "memory_retrieval",
            "model",
            "probe",
            "queries",
            "retrieval",
            "search",
            "sources",
            "spaces",
            "store",
            "web",
            "workbench",
        ],
    ),
    (
        "app",
        &[
            "categories",
            "config",
            "connect",
            "contextual_helpers",
            "conversation",
            "erasure",
            "http",
            "ingestion",
            "jobs",
            "keys",
            "llm",
            "memory_retrieval",
            "probe",
            "queries",
            "retrieval",
            "search",
            "sources",
            "spaces",
            "store",
            "telemetry",
            "workbench",
        ],
    ),
    (
        "cli",
        &[
            "app",
            "config",
            "connect",
            "http",
            "llm",
            "store",
            "telemetry",
            "model",
        ],
    ),
];

/// Each crate and the only folders that may name it.
const ONLY_IN: &[(&str, &[&str])] = &[
    ("sqlx", &["store"]),
    ("axum", &["http", "app", "crates/scripted-model", "web"]),
    ("reqwest", &["cli", "llm"]),
    ("rmcp", &["cli", "connect", "http"]),
    ("opentelemetry", &["llm"]),
    ("hyper", &["http"]),
    ("tower_http", &["http"]),
    // What goes over the wire is declared once, where its meaning is, with its schema; `http`
    // declares only what differs from that.
    (
        "utoipa",
        &[
            "categories",
            "config",
            "contextual_helpers",
            "conversation",
            "http",
            "ingestion",
            "jobs",
            "llm",
            "model",
            "crates/index",
            "crates/policy",
            "queries",
            "sources",
            "store",
            "workbench",
        ],
    ),
    // The outline of a source, the name of a category, the meaning of a version and terms that a
    // vocabulary lacks are computed without a call; the command line tells which preset fits an import.
    (
        "memoir_embedded_model",
        &[
            "categories",
            "cli",
            "conversation",
            "erasure",
            "ingestion",
            "llm",
            "search",
            "sources",
        ],
    ),
    (
        "memoir_index",
        &[
            "conversation",
            "erasure",
            "http",
            "ingestion",
            "memory_retrieval",
            "queries",
            "retrieval",
            "search",
            "store",
            "workbench",
        ],
    ),
    (
        "memoir_policy",
        &[
            // Where a call wants keys and tokens redacted in what it stores.
            "contextual_helpers",
            "conversation",
            "http",
            "ingestion",
            "memory_retrieval",
            "retrieval",
            "sources",
            "workbench",
        ],
    ),
    ("similar", &["sources"]),
    ("clap", &["cli"]),
    ("anyhow", &["cli"]),
    ("tracing_subscriber", &["telemetry"]),
    ("metrics_exporter_prometheus", &["telemetry"]),
    ("tiktoken_rs", &["crates/text"]),
];

/// A longer file has more than one purpose.
const MAX_LINES: usize = 600;

struct Source {
    /// A folder in `src`, or `crates/…`.
    folder: String,
    path: PathBuf,
    text: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sources() -> Vec<Source> {
    let mut found = Vec::new();
    let mut folders = vec![root().join("src"), root().join("crates")];

    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }

            if path.extension().is_some_and(|extension| extension == "rs") {
                let relative = path.strip_prefix(root()).unwrap();
                found.push(Source {
                    folder: folder_of(relative.to_str().unwrap()),
                    text: std::fs::read_to_string(&path).unwrap(),
                    path,
                });
            }
        }
    }

    assert!(found.len() > 30, "the sources moved");
    found
}

/// The folder of a path such as `src/queries/mod.rs` or `crates/text/src/hash.rs`.
fn folder_of(path: &str) -> String {
    let mut parts = path.split('/');
    let (top, first) = (parts.next().unwrap(), parts.next().unwrap());
    if top == "crates" {
        return format!("crates/{first}");
    }

    first.trim_end_matches(".rs").to_owned()
}

/// The names that follow `prefix` in code, without comments.
fn named_after(text: &str, prefix: &str) -> BTreeSet<String> {
    let code = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let mut names = BTreeSet::new();
    for line in code {
        for rest in line.split(prefix).skip(1) {
            let list = rest
                .strip_prefix('{')
                .and_then(|list| list.split('}').next());
            let parts: Vec<&str> =
                list.map_or_else(|| vec![rest], |list| list.split(',').collect());
            for part in parts {
                let name: String = part
                    .trim()
                    .chars()
                    .take_while(|c| c.is_alphanumeric() || *c == '_')
                    .collect();
                names.insert(name);
            }
        }
    }

    names
}

#[test]
fn imports_only_point_down() {
    for source in sources() {
        let is_top = ["main", "lib"].contains(&source.folder.as_str());
        if is_top || source.folder.starts_with("crates/") {
            continue;
        }

        let allowed = MAY_IMPORT
            .iter()
            .find(|(folder, _)| *folder == source.folder);
        let (_, allowed) = allowed.unwrap_or_else(|| panic!("{} is not on the map", source.folder));
        for name in named_after(&source.text, "crate::") {
            let fine = name == source.folder || name == "base" || allowed.contains(&name.as_str());
            assert!(
                fine,
                "{} imports crate::{name}, which the map does not allow",
                source.path.display()
            );
        }
    }
}

#[test]
fn the_table_lists_the_layers_in_order() {
    let order: Vec<&str> = MAY_IMPORT.iter().map(|(folder, _)| *folder).collect();
    for (index, (folder, allowed)) in MAY_IMPORT.iter().enumerate() {
        for name in *allowed {
            let place = order
                .iter()
                .position(|other| other == name)
                .unwrap_or_else(|| panic!("{name} is not a folder"));
            assert!(
                place < index,
                "{folder} may import {name}, which is not below it"
            );
        }
    }

    let library = std::fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let listed: Vec<String> = library
        .lines()
        .filter_map(|line| {
            Some(
                line.strip_prefix("pub mod ")?
                    .trim_end_matches(';')
                    .to_owned(),
            )
        })
        .collect();

    assert_eq!(
        listed, order,
        "src/lib.rs and the map list the same folders in the same order"
    );
}

#[test]
fn crates_depend_only_on_those_below() {
    let folders = std::fs::read_dir(root().join("crates")).unwrap();
    let names = folders.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names: BTreeSet<String> = names.collect();
    let listed: BTreeSet<String> = MAY_DEPEND.iter().map(|(name, _)| (*name).into()).collect();
    assert_eq!(names, listed, "the crates and the map of them");

    let dockerfile = std::fs::read_to_string(root().join("Dockerfile")).unwrap();
    for name in &names {
        let line = format!("COPY crates/{name}/Cargo.toml crates/{name}/\n");
        assert!(dockerfile.contains(&line), "the Dockerfile lacks {line}");
    }

    for (name, allowed) in MAY_DEPEND {
        let manifest = root().join("crates").join(name).join("Cargo.toml");
        let manifest: toml::Table = std::fs::read_to_string(manifest).unwrap().parse().unwrap();
        for dependency in manifest["dependencies"].as_table().unwrap().keys() {
            let ours = dependency.strip_prefix("memoir-");
            let computes = !NOT_IN_CRATES.contains(&dependency.as_str());
            assert!(
                ours.is_none_or(|other| allowed.contains(&other))
                    && (computes || *name == SERVER && dependency != "memoir"),
                "crates/{name} depends on {dependency}, which the map does not allow"
            );
        }
    }
}

#[test]
fn crates_are_used_only_in_their_folders() {
    for source in sources() {
        for (name, rooms) in ONLY_IN {
            let uses = named_after(&source.text, "use ").contains(*name)
                || source.text.contains(&format!(" {name}::"));
            assert!(
                !uses || rooms.contains(&source.folder.as_str()),
                "{} uses {name}",
                source.path.display()
            );
        }
    }
}

#[test]
fn every_file_states_its_purpose_and_stays_small() {
    for source in sources() {
        assert!(
            source.text.starts_with("//!"),
            "{} has no first lines about itself",
            source.path.display()
        );

        let lines = source.text.lines().count();
        assert!(
            lines <= MAX_LINES,
            "{} has {lines} lines",
            source.path.display()
        );
    }
}
