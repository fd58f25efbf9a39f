//! The settings: compiled-in defaults, then a file, then the environment; all of them checked
//! together.
//!
//! `config/default.toml` is also the schema: a key that is not in it is an error, and each value
//! has the type of its default. Each section has its own file with its rules. All errors are
//! reported together, each with the allowed values and an example, so that one run shows every
//! correction.

pub mod audit;
pub mod auth;
pub mod database;
pub mod ingestion;
pub mod jobs;
mod layers;
pub mod limits;
pub mod llm;
mod mask;
pub mod mcp;
pub mod memory;
pub mod query;
pub mod server;
pub mod taxonomy;
pub mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;
pub mod vector;
mod violation;
pub mod workbench;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

pub use audit::Audit;
pub use auth::Auth;
pub use database::Database;
pub use ingestion::Ingestion;
pub use jobs::Jobs;
pub use limits::Limits;
pub use llm::Llm;
pub use mask::Secret;
pub use mcp::Mcp;
pub use memory::Memory;
pub use query::Query;
pub use server::Server;
pub use taxonomy::Taxonomy;
pub use telemetry::Telemetry;
#[cfg(feature = "testing")]
pub use testing::Testing;
pub use vector::Vector;
pub use violation::{ConfigurationError, Violation, Violations};
pub use workbench::Workbench;

/// The compiled-in file with every key, its default and a comment.
#[cfg(not(feature = "testing"))]
pub const DEFAULT_TOML: &str = include_str!("../../config/default.toml");

/// The compiled-in file, followed by the keys that only tests use.
#[cfg(feature = "testing")]
pub const DEFAULT_TOML: &str = concat!(
    include_str!("../../config/default.toml"),
    include_str!("../../config/testing.toml")
);

/// The effective settings.
#[derive(Debug, Clone)]
pub struct Config {
    pub server: Server,
    pub auth: Auth,
    pub limits: Limits,
    pub database: Database,
    pub jobs: Jobs,
    pub ingestion: Ingestion,
    pub taxonomy: Taxonomy,
    pub query: Query,
    pub vector: Vector,
    pub memory: Memory,
    pub workbench: Workbench,
    pub audit: Audit,
    pub mcp: Mcp,
    pub llm: Llm,
    pub telemetry: Telemetry,
    #[cfg(feature = "testing")]
    pub testing: Testing,
    /// These settings as a tree with secrets masked, for printing.
    printable: Map<String, Value>,
}

/// Where settings are read from.
#[derive(Debug, Clone, Default)]
pub struct Origin {
    /// The user's configuration file, if any.
    pub file: Option<PathBuf>,
    /// The environment.
    pub environment: HashMap<String, String>,
}

impl Origin {
    /// The environment of the process, and the file given by the argument or by `MEMOIR_CONFIG`.
    #[must_use]
    pub fn of_process(file: Option<&Path>) -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "the only place that reads the environment"
        )]
        let environment: HashMap<String, String> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let named = || {
            environment
                .get("MEMOIR_CONFIG")
                .filter(|path| !path.is_empty())
                .map(PathBuf::from)
        };

        Self {
            file: file.map(Path::to_path_buf).or_else(named),
            environment,
        }
    }
}

impl Config {
    /// Reads and checks all settings.
    ///
    /// # Errors
    /// All violations together: unknown keys, wrong types, broken rules, unreadable files.
    pub fn load(origin: &Origin) -> Result<Self, ConfigurationError> {
        let mut violations = Violations::default();
        let mut tree = layers::merge(origin, &mut violations);
        let printable = mask::printable(&tree);
        let config = Self {
            server: section(&mut tree, "server", &mut violations),
            auth: section::<auth::RawAuth>(&mut tree, "auth", &mut violations)
                .resolve(&mut violations),
            limits: section(&mut tree, "limits", &mut violations),
            database: section(&mut tree, "database", &mut violations),
            jobs: section(&mut tree, "jobs", &mut violations),
            ingestion: section(&mut tree, "ingestion", &mut violations),
            taxonomy: section(&mut tree, "taxonomy", &mut violations),
            query: section(&mut tree, "query", &mut violations),
            vector: section(&mut tree, "vector", &mut violations),
            memory: section(&mut tree, "memory", &mut violations),
            workbench: section(&mut tree, "workbench", &mut violations),
            audit: section(&mut tree, "audit", &mut violations),
            mcp: section(&mut tree, "mcp", &mut violations),
            llm: llm::resolve(&mut tree, origin, &mut violations),
            telemetry: section(&mut tree, "telemetry", &mut violations),
            #[cfg(feature = "testing")]
            testing: section(&mut tree, "testing", &mut violations),
            printable,
        };

        config.server.validate(&mut violations);
        config.limits.validate(&mut violations);
        config.database.validate(&mut violations);
        config.jobs.validate(&mut violations);
        config.ingestion.validate(&mut violations);
        config.taxonomy.validate(&mut violations);
        config.query.validate(&config.ingestion, &mut violations);
        config.memory.validate(&mut violations);
        config.workbench.validate(&mut violations);
        config.audit.validate(&mut violations);
        config.mcp.validate(&mut violations);
        config.vector.validate(&mut violations);
        config.telemetry.validate(&mut violations);
        if config.auth.keys.is_empty()
            && !violations.concern("auth.keys")
            && !config.server.is_loopback()
        {
            violations.add(
                Violation::new("server.listen", config.server.listen.to_string())
                    .allowed("a loopback address, because no API key is configured (auth.keys)")
                    .example(r#"listen = "127.0.0.1:8080", or keys = [{ key = "…", space = "*", role = "admin" }]"#),
            );
        }

        violations.into_result().map(|()| config)
    }

    /// The effective settings as a tree, secrets masked.
    #[must_use]
    pub fn printable(&self) -> &Map<String, Value> {
        &self.printable
    }

    /// The effective settings as TOML, secrets masked.
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string_pretty(&self.printable).unwrap_or_default()
    }
}

/// Reads one section. An invalid value is reported and replaced with its default, so that the rest
/// of the section is checked in the same run.
fn section<T: DeserializeOwned>(
    tree: &mut Map<String, Value>,
    name: &str,
    violations: &mut Violations,
) -> T {
    let defaults = layers::defaults();
    let mut value = tree.remove(name).unwrap_or_default();
    loop {
        match serde_path_to_error::deserialize::<_, T>(value.clone()) {
            Ok(section) => return section,
            Err(error) => {
                let path = error.path().to_string();
                let default = layers::pointer(&defaults[name], &path).cloned();
                let example = default.clone().unwrap_or_default();
                let key = format!("{name}.{path}");
                let given = layers::pointer(&value, &path)
                    .map(ToString::to_string)
                    .unwrap_or_default();

                violations.add(
                    Violation::new(&key, mask::shown(&key, &given))
                        .allowed(&mask::rule(&key, &error.inner().to_string()))
                        .example(&layers::assignment(&path, &example)),
                );

                match (layers::pointer_mut(&mut value, &path), default) {
                    (Some(slot), Some(default)) => *slot = default,
                    // Without a default of its own (an entry of a list), the whole section falls
                    // back.
                    _ => value = defaults[name].clone(),
                }
            }
        }
    }
}
