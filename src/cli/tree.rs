//! `memoir tree`: prints the category hierarchy.

use std::collections::HashMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::client::{Client, Connection, pages, pretty};
use super::{CommandError, print, runtime};
use crate::config::Origin;

pub const EXAMPLES: &str = "\
Examples:
  memoir tree                  the whole hierarchy, with the number of chunks in each category
  memoir tree --levels 1       only the first level
  memoir tree --json           as JSON, parents before their children

Categories without chunks are left out.";

#[derive(clap::Args)]
pub struct Arguments {
    /// Print only this many levels
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    levels: Option<u64>,
    /// Print the categories as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub fn run(arguments: &Arguments, origin: &Origin) -> Result<(), CommandError> {
    let mut categories = runtime()?.block_on(async {
        let client = Client::open(&arguments.connection, origin).await?;
        let categories = pages(&client, "/v1/categories/tree", &[]).await;
        client.close().await;
        categories.map_err(CommandError::from)
    })?;

    let most = arguments.levels.unwrap_or(u64::MAX);
    categories.retain(|category| category["level"].as_u64().unwrap_or(0) <= most);
    print(&if arguments.json {
        pretty(&json!(categories))
    } else {
        drawn(&categories)
    });

    Ok(())
}

fn drawn(categories: &[Value]) -> String {
    let mut children: HashMap<Option<i64>, Vec<&Value>> = HashMap::new();
    for category in categories {
        if category["chunk_count"].as_i64() != Some(0) {
            let parent = category["parent_id"].as_i64();
            children.entry(parent).or_default().push(category);
        }
    }

    let mut text = String::new();
    draw(&children, None, "", &mut text);
    if text.is_empty() {
        text.push_str("Nothing is filed yet.\n");
    }

    text
}

fn draw(
    children: &HashMap<Option<i64>, Vec<&Value>>,
    parent: Option<i64>,
    indent: &str,
    text: &mut String,
) {
    let mut these = children.get(&parent).cloned().unwrap_or_default();
    these.sort_by_key(|category| std::cmp::Reverse(category["chunk_count"].as_i64()));
    for (place, category) in these.iter().enumerate() {
        let last = place + 1 == these.len();
        let (branch, more) = match (parent, last) {
            (None, _) => ("", ""),
            (_, true) => ("└─ ", "   "),
            (_, false) => ("├─ ", "│  "),
        };

        let name = category["name"].as_str().unwrap_or_default();
        let _ = writeln!(text, "{indent}{branch}{name}  {}", category["chunk_count"]);
        let id = category["id"].as_i64();
        if id.is_some() {
            draw(children, id, &format!("{indent}{more}"), text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_branches_and_leaves_out_empty_categories() {
        let category = |id: i64, parent: Option<i64>, name: &str, chunks: i64| json!({"id": id, "parent_id": parent, "name": name, "chunk_count": chunks});

        let all = [
            category(1, None, "Home", 2),
            category(2, None, "Travel", 5),
            category(3, Some(2), "Ships", 4),
            category(4, Some(2), "Trains", 1),
            category(5, Some(1), "Garden", 2),
            category(6, Some(1), "Empty", 0),
        ];

        assert_eq!(
            drawn(&all),
            "Travel  5\n├─ Ships  4\n└─ Trains  1\nHome  2\n└─ Garden  2\n"
        );
        assert_eq!(drawn(&[]), "Nothing is filed yet.\n");
    }
}
