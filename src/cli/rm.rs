//! `memoir rm`: deletes a source with all its versions.

use std::io::{BufRead as _, IsTerminal as _};

use anyhow::bail;
use serde_json::Value;

use super::client::{Client, Connection, pages};
use super::list::lines;
use super::{CommandError, runtime, tell};
use crate::config::Origin;

pub const EXAMPLES: &str = "\
Examples:
  memoir rm plan.md                  asks before it deletes the source with this file name
  memoir rm /notes/plan.md --yes     by its path, without asking
  memoir rm 01a1e5ba-05da-7312-9b6c-7304e1f1d1d7

Deletes the source with all its versions and chunks, and what quotes them elsewhere, which cannot be undone. If several sources have the name, it lists
them and deletes none.";

#[derive(clap::Args)]
pub struct Arguments {
    /// The id, the path or the file name of the source
    #[arg(value_name = "SOURCE")]
    source: String,
    /// Only sources of this end user
    #[arg(long, value_name = "ID")]
    user: Option<String>,
    /// Delete without asking
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    connection: Connection,
}

pub fn run(arguments: &Arguments, origin: &Origin) -> Result<(), CommandError> {
    runtime()?.block_on(async {
        let client = Client::open(&arguments.connection, origin).await?;
        let removed = remove(&client, arguments).await;
        client.close().await;
        removed.map_err(CommandError::from)
    })
}

async fn remove(client: &Client, arguments: &Arguments) -> anyhow::Result<()> {
    let mut found = Vec::new();
    for field in ["path", "filename"] {
        if found.is_empty() {
            let filters = [
                (field, Some(arguments.source.as_str())),
                ("user_id", arguments.user.as_deref()),
            ];
            found = pages(client, "/v1/sources", &filters).await?;
        }
    }

    let source = match found.as_slice() {
        [] => client
            .get(&format!("/v1/sources/{}", arguments.source))
            .await
            .map_err(|_| {
                anyhow::anyhow!(
                    "no source has the id, path or file name {:?}; memoir list shows all sources",
                    arguments.source
                )
            })?,
        [one] => one.clone(),
        _ => bail!(
            "{} sources are called {:?}; name one of them by its id:\n{}",
            found.len(),
            arguments.source,
            lines(&found)
        ),
    };

    let (id, path) = (text(&source, "id"), text(&source, "path"));
    if !arguments.yes && !confirmed(path)? {
        bail!("nothing was deleted");
    }

    let receipt = client.delete(&format!("/v1/sources/{id}")).await?;
    let rows = |table: &str| receipt["rows"][table].as_u64().unwrap_or(0);
    tell(&format!(
        "deleted {path}: {}, {}, {}; receipt {}",
        counted(rows("source_versions"), "version"),
        counted(rows("chunks"), "chunk"),
        match rows("categories") {
            1 => "1 category".to_owned(),
            many => format!("{many} categories"),
        },
        text(&receipt, "id"),
    ));
    Ok(())
}

fn confirmed(path: &str) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        bail!("nothing was deleted: add --yes to delete {path} without being asked");
    }

    tell(&format!("Delete {path} with all its versions? [y/N]"));
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}
