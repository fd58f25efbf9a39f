//! `memoir list`: lists the sources, newest first.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::client::{Client, Connection, pages, pretty};
use super::{CommandError, print, runtime};
use crate::config::Origin;

pub const EXAMPLES: &str = "\
Examples:
  memoir list                              all sources of the memoir running on this machine
  memoir list --tag handbook --user ann    only those with this tag, of this end user
  memoir list --json | jq -r .[].path      as JSON

Each line has the id, the number of versions, the time of the last change and the path.";

#[derive(clap::Args)]
pub struct Arguments {
    /// Only sources with this tag
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Only sources of this end user
    #[arg(long, value_name = "ID")]
    user: Option<String>,
    /// Only sources with this file name
    #[arg(long, value_name = "NAME")]
    filename: Option<String>,
    /// Print the list as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub fn run(arguments: &Arguments, origin: &Origin) -> Result<(), CommandError> {
    let filters = [
        ("tag", arguments.tag.as_deref()),
        ("user_id", arguments.user.as_deref()),
        ("filename", arguments.filename.as_deref()),
    ];

    let mut sources = runtime()?.block_on(async {
        let client = Client::open(&arguments.connection, origin).await?;
        let sources = pages(&client, "/v1/sources", &filters).await;
        client.close().await;
        sources.map_err(CommandError::from)
    })?;

    sources.sort_by(|one, other| text(other, "updated_at").cmp(text(one, "updated_at")));
    print(&if arguments.json {
        pretty(&json!(sources))
    } else {
        lines(&sources)
    });

    Ok(())
}

/// One line per source.
pub fn lines(sources: &[Value]) -> String {
    let mut lines = String::new();
    for source in sources {
        let changed = text(source, "updated_at");
        let _ = writeln!(
            lines,
            "{}  v{:<3} {}  {}",
            text(source, "id"),
            source["latest_version"],
            changed.get(..16).unwrap_or(changed).replace('T', " "),
            text(source, "path"),
        );
    }

    let noun = if sources.len() == 1 {
        "source"
    } else {
        "sources"
    };
    let _ = writeln!(lines, "{} {noun}", sources.len());
    lines
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}
