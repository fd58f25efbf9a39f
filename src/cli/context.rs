//! `memoir context`: prints the memories that matter for a question.

use serde_json::{Map, Value, json};

use super::client::{Connection, post_once, pretty};
use super::{CommandError, print};
use crate::config::Origin;

pub const EXAMPLES: &str = "\
Examples:
  memoir context \"What about my order?\" --user U-123     the text for a prompt
  memoir context \"…\" --user U-123 --thread ID            with the current thread
  memoir context \"…\" --user U-123 --rank staged --json   found in three stages, with every score";

#[derive(clap::Args)]
pub struct Arguments {
    /// What the user asks or says
    #[arg(value_name = "QUERY")]
    query: String,
    /// The end user; by default, `default`
    #[arg(long, value_name = "ID")]
    user: Option<String>,
    /// The current thread
    #[arg(long, value_name = "ID")]
    thread: Option<String>,
    /// How memories are found: by keyword and meaning with what lasts about the user (`auto`, the
    /// default), by keyword and meaning alone (`search`), or by the vocabulary in three stages
    /// (`staged`)
    #[arg(long, value_name = "NAME")]
    rank: Option<String>,
    /// Maximum tokens of the text; by default, 2000
    #[arg(long, value_name = "COUNT")]
    max_tokens: Option<usize>,
    /// Print the whole result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub fn run(arguments: &Arguments, origin: &Origin) -> Result<(), CommandError> {
    let given = [
        ("query", Some(json!(arguments.query))),
        ("user_id", arguments.user.as_ref().map(|user| json!(user))),
        ("thread_id", arguments.thread.as_ref().map(|id| json!(id))),
        ("rank", arguments.rank.as_ref().map(|rank| json!(rank))),
        ("max_tokens", arguments.max_tokens.map(|count| json!(count))),
    ];
    let given = given.into_iter();
    let given = given.filter_map(|(name, value)| Some((name.to_owned(), value?)));
    let request = Value::Object(given.collect::<Map<String, Value>>());
    let result = post_once(&arguments.connection, origin, "/v1/context", &request)?;
    print(&if arguments.json {
        pretty(&result)
    } else {
        format!("{}\n", result["context"].as_str().unwrap_or_default())
    });

    Ok(())
}
