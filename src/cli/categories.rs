//! `memoir categories`: moves chunks; merges, moves, splits, renames and removes categories; lists proposals
//! and changes; undoes changes.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::client::{Client, Connection, pages, pretty};
use super::{CommandError, counted, print, runtime, tell};
use crate::config::Origin;

pub const EXAMPLES: &str = "\
Examples:
  memoir categories merge 5 9 --dry-run      what would change if 9 took the place of 5
  memoir categories merge 5 9
  memoir categories split 7 --dry-run        how a large leaf would be split
  memoir categories review                   proposals for the hierarchy
  memoir categories move 5 2                 below another parent
  memoir categories move-chunk 49 9          files a chunk in another leaf, where it stays
  memoir categories rename 5 Heating
  memoir categories rm 5 --into 9            9 gets what is in it
  memoir categories changes                  what was changed, newest first
  memoir categories undo 3                   undoes the change 3

The numbers of categories are in the output of memoir tree --json.";

/// Changes shown without --all.
const SHOWN: usize = 20;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    connection: Connection,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Merge a category into another of the same level
    Merge {
        #[arg(value_name = "CATEGORY")]
        id: i64,
        #[arg(value_name = "INTO")]
        into: i64,
        /// Report what would change, without changing it
        #[arg(long)]
        dry_run: bool,
    },
    /// Put a category below another parent
    Move {
        #[arg(value_name = "CATEGORY")]
        id: i64,
        #[arg(value_name = "PARENT")]
        parent: i64,
        /// Report what would change, without changing it
        #[arg(long)]
        dry_run: bool,
    },
    /// Split a leaf that has too many chunks
    Split {
        #[arg(value_name = "LEAF")]
        id: i64,
        /// Report what would change, without changing it
        #[arg(long)]
        dry_run: bool,
    },
    /// List proposals for the hierarchy, with the command that applies each
    Review {
        /// Print the proposals as JSON
        #[arg(long)]
        json: bool,
    },
    /// File a chunk in another leaf
    MoveChunk {
        #[arg(value_name = "CHUNK")]
        id: i64,
        #[arg(value_name = "LEAF")]
        leaf: i64,
        /// Report what would change, without changing it
        #[arg(long)]
        dry_run: bool,
    },
    /// Rename a category
    Rename {
        #[arg(value_name = "CATEGORY")]
        id: i64,
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Remove a category
    Rm {
        #[arg(value_name = "CATEGORY")]
        id: i64,
        /// The category of the same level that gets what is in it
        #[arg(long, value_name = "CATEGORY")]
        into: Option<i64>,
        /// Report what would change, without changing it
        #[arg(long)]
        dry_run: bool,
    },
    /// Undo a change
    Undo {
        #[arg(value_name = "CHANGE")]
        change: i64,
        /// Report what would change, without changing it
        #[arg(long)]
        dry_run: bool,
    },
    /// List what was changed, newest first
    Changes {
        /// All changes, not only the latest
        #[arg(long)]
        all: bool,
        /// Print the changes as JSON
        #[arg(long)]
        json: bool,
    },
}

pub fn run(arguments: &Arguments, origin: &Origin) -> Result<(), CommandError> {
    runtime()?.block_on(async {
        let client = Client::open(&arguments.connection, origin).await?;
        let done = act(&client, &arguments.action).await;
        client.close().await;
        done.map_err(CommandError::from)
    })
}

async fn act(client: &Client, action: &Action) -> anyhow::Result<()> {
    match action {
        Action::Merge { id, into, dry_run } => {
            let body = json!({"into": into, "dry_run": dry_run});
            let path = format!("/v1/categories/{id}/merge");
            print(&outcome(&client.post(&path, &body).await?));
        }
        Action::Move {
            id,
            parent,
            dry_run,
        } => {
            let body = json!({"parent_id": parent, "dry_run": dry_run});
            let path = format!("/v1/categories/{id}/move");
            print(&outcome(&client.post(&path, &body).await?));
        }
        Action::Split { id, dry_run } => {
            let body = json!({"dry_run": dry_run});
            let path = format!("/v1/categories/{id}/split");
            print(&outcome(&client.post(&path, &body).await?));
        }
        Action::Review { json } => {
            let found = client.get("/v1/categories/review").await?;
            print(&if *json {
                pretty(&found)
            } else {
                review(&found)
            });
        }
        Action::MoveChunk { id, leaf, dry_run } => {
            let body = json!({"category_id": leaf, "dry_run": dry_run});
            let chunk = client.patch(&format!("/v1/chunks/{id}"), &body).await?;
            let is = if *dry_run { "would be" } else { "is" };
            tell(&format!("chunk {id} {is} in {}", path(&chunk)));
        }
        Action::Rename { id, name } => {
            let body = json!({"name": name});
            let category = client.patch(&format!("/v1/categories/{id}"), &body).await?;
            tell(&format!("category {id} is now {}", text(&category, "name")));
        }
        Action::Rm { id, into, dry_run } => {
            let into = into.map(|into| format!("&into={into}")).unwrap_or_default();
            let path = format!("/v1/categories/{id}?dry_run={dry_run}{into}");
            let would = client.delete(&path).await?;
            if *dry_run {
                print(&outcome(&would));
            } else {
                tell(&format!("category {id} is removed"));
            }
        }
        Action::Undo { change, dry_run } => {
            let body = json!({"dry_run": dry_run});
            let path = format!("/v1/categories/changes/{change}/undo");
            print(&outcome(&client.post(&path, &body).await?));
        }
        Action::Changes { all, json } => print(&changes(client, *all, *json).await?),
    }

    Ok(())
}

async fn changes(client: &Client, all: bool, as_json: bool) -> anyhow::Result<String> {
    let changes = if all {
        pages(client, "/v1/categories/changes", &[]).await?
    } else {
        let page = format!("/v1/categories/changes?limit={SHOWN}");
        let page = client.get(&page).await?;
        page["items"].as_array().cloned().unwrap_or_default()
    };

    Ok(if as_json {
        pretty(&json!(changes))
    } else {
        changes.iter().map(line).collect()
    })
}

/// One change in a line.
fn line(change: &Value) -> String {
    let undone = if change["undone_at"].is_null() {
        ""
    } else {
        ", undone"
    };
    let moved = match change["chunks_moved"].as_i64() {
        Some(count) if count > 0 => format!(", {}", counted(count, "chunk", "chunks")),
        _ => String::new(),
    };

    format!(
        "{}  {}  {} {}: {} → {}{moved}{undone}\n",
        change["id"],
        text(change, "created_at"),
        text(change, "kind"),
        change["category_id"],
        text(change, "from"),
        text(change, "to"),
    )
}

/// What has changed, or would change.
fn outcome(outcome: &Value) -> String {
    let mut shown = String::new();
    if outcome["dry_run"] == true {
        shown.push_str("nothing is changed; this would be:\n");
    }

    for category in outcome["categories"].as_array().into_iter().flatten() {
        let into = match category["into_id"].as_i64() {
            Some(id) => format!(" into {id}"),
            None => String::new(),
        };
        // What a dry run would create has no number.
        let id = match category["id"].as_i64() {
            Some(id) => format!("{id} "),
            None => String::new(),
        };
        let (name, effect) = (text(category, "name"), text(category, "effect"));
        let _ = writeln!(shown, "{id}{name}: {effect}{into}");
    }

    let count = outcome["chunks_moved"].as_i64().unwrap_or(0);
    let _ = writeln!(
        shown,
        "{} to another leaf",
        counted(count, "chunk goes", "chunks go")
    );
    let change = &outcome["change"];
    if let Some(id) = change["id"].as_i64() {
        let _ = if change["undone_at"].is_null() {
            writeln!(shown, "to undo it: memoir categories undo {id}")
        } else {
            writeln!(shown, "change {id} is undone")
        };
    }
    shown
}

/// The proposals, each with its evidence.
fn review(found: &Value) -> String {
    let items = found["items"].as_array().into_iter().flatten();
    let item = |item: &Value| {
        let (path, apply) = (names(&item["path"]), command(item));
        let (kind, evidence) = (text(item, "kind"), text(item, "evidence"));
        format!("{kind}: {path}\n  {evidence}\n  memoir categories {apply}\n")
    };
    items.map(item).collect()
}

/// What follows `memoir categories` to apply a proposal.
fn command(item: &Value) -> String {
    let (id, other, apply) = (&item["category_id"], &item["other_id"], &item["apply"]);
    let last = text(apply, "path").rsplit('/').next();
    match (text(apply, "method"), last) {
        (_, Some("merge")) => format!("merge {id} {}", apply["body"]["into"]),
        (_, Some("split")) => format!("split {id}"),
        ("DELETE", _) => format!("rm {id} --into {other}"),
        _ => {
            let name = text(&apply["body"], "name").replace('\'', r"'\''");
            format!("rename {id} '{name}'")
        }
    }
}

fn path(chunk: &Value) -> String {
    names(&chunk["category_path"])
}

fn names(path: &Value) -> String {
    let names = path.as_array().into_iter().flatten();
    let names: Vec<&str> = names.filter_map(Value::as_str).collect();
    names.join(" / ")
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}
