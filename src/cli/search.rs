//! `memoir search`: searches chunks, sources or memories by keyword, by meaning, or both.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::client::{Connection, post_once, pretty};
use super::{CommandError, print};
use crate::config::Origin;

pub const EXAMPLES: &str = "\
Examples:
  memoir search \"refund within thirty days\"             search the memoir running on this machine
  memoir search --local lighthouse                       search the configured database without a running memoir
  memoir search --type keyword -k 5 \"error E0502\"        the best five by keyword only
  memoir search --scope sources --tag handbook holidays  sources instead of chunks, with a tag
  memoir search --json \"…\" | jq -r .items[].path         the whole result as JSON

Each result has the rank, the score and the source, then the beginning of the chunk. A search calls no model except
the one that embeds the query, which is the embedded model by default.";

/// Number of characters of a chunk to print.
const SHOWN: usize = 240;

#[derive(clap::Args)]
pub struct Arguments {
    /// Keywords or a question
    #[arg(value_name = "QUERY")]
    query: String,
    /// How to search: `keyword`, `semantic` (by meaning) or `hybrid` (the default)
    #[arg(long = "type", value_name = "NAME")]
    kind: Option<String>,
    /// What to search: `chunks` (the default), `sources`, `memories`, or `both` (chunks and
    /// memories); memories need --user
    #[arg(long, value_name = "NAME")]
    scope: Option<String>,
    /// Maximum number of items; by default, 20
    #[arg(short, value_name = "COUNT")]
    k: Option<i64>,
    /// Omit items with a lower score, 0 to 1
    #[arg(long, value_name = "SCORE")]
    min_score: Option<f64>,
    /// Only sources and memories of this end user
    #[arg(long, value_name = "ID")]
    user: Option<String>,
    /// Only sources and memories with this tag; if repeated, only those with all of these tags
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Only this source; can be repeated
    #[arg(long = "source", value_name = "ID")]
    sources: Vec<String>,
    /// Only chunks under this category
    #[arg(long, value_name = "ID")]
    category: Option<i64>,
    /// Use the versions that were current at this time, e.g. 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME")]
    as_of: Option<String>,
    /// Print the whole result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub fn run(arguments: &Arguments, origin: &Origin) -> Result<(), CommandError> {
    let result = post_once(
        &arguments.connection,
        origin,
        "/v1/search",
        &arguments.request(),
    )?;

    print(&if arguments.json {
        pretty(&result)
    } else {
        readable(&result)
    });

    Ok(())
}

impl Arguments {
    fn request(&self) -> Value {
        let put = |map: &mut Map<String, Value>, name: &str, value: Option<Value>| {
            if let Some(value) = value {
                map.insert(name.to_owned(), value);
            }
        };

        let mut filters = Map::new();
        put(
            &mut filters,
            "tags",
            (!self.tags.is_empty()).then(|| json!(self.tags)),
        );

        put(
            &mut filters,
            "source_ids",
            (!self.sources.is_empty()).then(|| json!(self.sources)),
        );

        put(
            &mut filters,
            "user_id",
            self.user.as_ref().map(|user| json!(user)),
        );

        put(
            &mut filters,
            "category_id",
            self.category.map(|category| json!(category)),
        );

        put(
            &mut filters,
            "as_of",
            self.as_of.as_ref().map(|moment| json!(moment)),
        );

        let mut request = Map::new();
        put(&mut request, "query", Some(json!(self.query)));
        put(
            &mut request,
            "type",
            self.kind.as_ref().map(|kind| json!(kind)),
        );

        put(
            &mut request,
            "scope",
            self.scope.as_ref().map(|scope| json!(scope)),
        );

        put(&mut request, "k", self.k.map(|k| json!(k)));
        put(
            &mut request,
            "min_score",
            self.min_score.map(|score| json!(score)),
        );

        put(
            &mut request,
            "filters",
            (!filters.is_empty()).then(|| Value::Object(filters)),
        );

        Value::Object(request)
    }
}

fn readable(result: &Value) -> String {
    let mut text = String::new();
    let items = result["items"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();

    for item in items {
        let chunk = item["text_content"].as_str().unwrap_or_default();
        // A terminal would interpret control characters.
        let breaks = |symbol: char| symbol.is_whitespace() || symbol.is_control();
        let words: Vec<&str> = chunk
            .split(breaks)
            .filter(|word| !word.is_empty())
            .collect();

        let line = words.join(" ");
        let mut shown: String = line.chars().take(SHOWN).collect();
        if shown.len() < line.len() {
            shown.push('…');
        }

        let _ = writeln!(
            text,
            "{}. {:.3}  {}{}  [{}]\n   {shown}\n",
            item["rank"],
            item["score"].as_f64().unwrap_or_default(),
            item["path"]
                .as_str()
                .or_else(|| item["memory_type"].as_str())
                .unwrap_or_default(),
            item["heading"]
                .as_str()
                .map(|heading| format!(" · {heading}"))
                .unwrap_or_default(),
            match &item["memory_id"] {
                Value::String(id) => id.clone(),
                _ => item["chunk_id"].to_string(),
            },
        );
    }

    if items.is_empty() {
        text.push_str("No results.\n");
    }

    let _ = writeln!(
        text,
        "{} found in {:.1} ms",
        items.len(),
        result["timings"]["total_ms"].as_f64().unwrap_or(0.0)
    );

    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_results_as_a_list() {
        let result = json!({
            "items": [{"rank": 1, "score": 0.8125, "path": "/a.md", "chunk_id": 7, "text_content": "One\n two  three."}],
            "timings": {"total_ms": 2.25},
        });

        assert_eq!(
            readable(&result),
            "1. 0.812  /a.md  [7]\n   One two three.\n\n1 found in 2.2 ms\n"
        );

        assert_eq!(
            readable(&json!({"items": [], "timings": {}})),
            "No results.\n0 found in 0.0 ms\n"
        );
    }
}
