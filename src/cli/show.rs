//! `memoir show`: prints a chunk and where it comes from.

use std::fmt::Write as _;

use serde_json::Value;

use super::client::{Client, Connection, pretty};
use super::{CommandError, print, runtime};
use crate::config::Origin;

pub const EXAMPLES: &str = "\
Examples:
  memoir show 49               the chunk that an answer cites as [49]
  memoir show 49 --json        as JSON";

#[derive(clap::Args)]
pub struct Arguments {
    /// The id of the chunk: the number by which answers cite it
    #[arg(value_name = "CHUNK")]
    chunk: i64,
    /// Print the chunk as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub fn run(arguments: &Arguments, origin: &Origin) -> Result<(), CommandError> {
    let (chunk, source) = runtime()?.block_on(async {
        let client = Client::open(&arguments.connection, origin).await?;
        let read = async {
            let chunk = client
                .get(&format!("/v1/chunks/{}", arguments.chunk))
                .await?;
            let id = chunk["source_id"].as_str().unwrap_or_default();
            let source = client.get(&format!("/v1/sources/{id}")).await?;
            Ok::<_, anyhow::Error>((chunk, source))
        };

        let read = read.await;
        client.close().await;
        read.map_err(CommandError::from)
    })?;

    print(&if arguments.json {
        pretty(&chunk)
    } else {
        readable(&chunk, &source)
    });

    Ok(())
}

fn readable(chunk: &Value, source: &Value) -> String {
    let mut text = chunk["text_content"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    if !text.ends_with('\n') {
        text.push('\n');
    }

    let path = chunk["category_path"].as_array().into_iter().flatten();
    let path: Vec<&str> = path.filter_map(name).collect();
    let _ = writeln!(
        text,
        "\n{}, version {}, characters {} to {}",
        source["path"].as_str().unwrap_or_default(),
        chunk["source_version"],
        chunk["start_char"],
        chunk["end_char"]
    );
    if !path.is_empty() {
        let _ = writeln!(text, "filed under {}", path.join(" / "));
    }

    text
}

/// A category is listed by its name, or as an object with its name.
fn name(category: &Value) -> Option<&str> {
    category.as_str().or_else(|| category["name"].as_str())
}
