//! `memoir openapi`: prints the OpenAPI document, or writes the committed files.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::ValueEnum;

use super::{CommandError, print, tell};
use crate::http::openapi::{Version, to_json};

pub const EXAMPLES: &str = "\
Examples:
  memoir openapi > memoir.json
  memoir openapi --spec 3.0 > memoir-3.0.json
  memoir openapi --write openapi        (writes openapi.json and openapi-3.0.json to the folder)";

#[derive(clap::Args)]
pub struct Arguments {
    /// The version of the OpenAPI specification
    #[arg(long, value_enum, default_value_t = Spec::V3_1)]
    spec: Spec,
    /// Write both versions to this folder instead of printing one
    #[arg(long, value_name = "FOLDER")]
    write: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Spec {
    #[value(name = "3.0")]
    V3_0,
    #[value(name = "3.1")]
    V3_1,
}

pub fn run(arguments: &Arguments) -> Result<(), CommandError> {
    let Some(folder) = &arguments.write else {
        print(&to_json(match arguments.spec {
            Spec::V3_0 => Version::V3_0,
            Spec::V3_1 => Version::V3_1,
        }));
        return Ok(());
    };

    for (name, version) in [
        ("openapi.json", Version::V3_1),
        ("openapi-3.0.json", Version::V3_0),
    ] {
        let path = folder.join(name);
        std::fs::write(&path, to_json(version))
            .with_context(|| format!("cannot write {}", path.display()))?;
        tell(&format!("wrote {}", path.display()));
    }

    Ok(())
}
