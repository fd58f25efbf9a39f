//! `memoir prompt`: composes a prompt for a task and prints it, or sends it and prints the reply.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::client::{Client, Connection, pretty};
use super::events::follow;
use super::ingest::place;
use super::{CommandError, print, runtime, tell};
use crate::config::Origin;

pub const EXAMPLES: &str = "\
Examples:
  memoir prompt \"Draft the release notes\"                    print the prompt
  memoir prompt \"Review this plan\" --file plan.md --lock     use nothing but this file
  memoir prompt \"Review this plan\" --file plan.md --send     send it and print the reply while it is written
  memoir prompt \"…\" --send --thread ID                       also store the task and the reply in a thread
  memoir prompt \"…\" --json | jq .transparency                the reason for each part

Files must have been ingested. A relative path is relative to the current folder. The prompt goes to stdout, its token
count and cost to stderr.";

#[derive(clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct Arguments {
    /// What the prompt asks for
    #[arg(value_name = "TASK")]
    task: String,
    /// A file to put into the prompt; can be repeated
    #[arg(long = "file", value_name = "PATH")]
    files: Vec<PathBuf>,
    /// Shorten the files to their headings and first paragraphs
    #[arg(long)]
    pack: bool,
    /// Use the files only: retrieve nothing
    #[arg(long)]
    lock: bool,
    /// Send the prompt and print the reply
    #[arg(long)]
    send: bool,
    /// The model for every stage, as provider:model
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// The thread that the task belongs to
    #[arg(long, value_name = "ID")]
    thread: Option<String>,
    /// Only sources of this end user
    #[arg(long, value_name = "ID")]
    user: Option<String>,
    /// Only sources with this tag; if repeated, only sources with all of these tags
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Print the whole result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub fn run(arguments: &Arguments, origin: &Origin) -> Result<(), CommandError> {
    let request = arguments.request()?;
    runtime()?.block_on(async {
        let client = Client::open(&arguments.connection, origin).await?;
        let done = arguments.carry_out(&client, &request).await;
        client.close().await;
        done.map_err(CommandError::from)
    })
}

impl Arguments {
    async fn carry_out(&self, client: &Client, request: &Value) -> anyhow::Result<()> {
        let composed = client.post("/v1/prompts", request).await?;
        if !self.send {
            let prompt = composed["prompt"].as_str().unwrap_or_default();
            print(&if self.json {
                pretty(&composed)
            } else {
                format!("{prompt}\n")
            });
            tell(&summary(&composed["estimate"]));
            return Ok(());
        }

        tell(&summary(&composed["estimate"]));
        let step = |name: &str, data: &Value| match name {
            _ if self.json => {}
            "reply" => print(&plain(data["text"].as_str().unwrap_or_default())),
            "reply_restarted" => print("\n(the model starts again)\n\n"),
            _ => {}
        };
        let sent = follow(client, "/v1/prompts/send", &self.sending(&composed), step).await?;
        print(&if self.json {
            pretty(&json!({"composed": composed, "sent": sent}))
        } else {
            "\n".to_owned()
        });

        for warning in sent["warnings"].as_array().into_iter().flatten() {
            tell(&format!("note: {}", warning.as_str().unwrap_or_default()));
        }

        tell(&cost(&sent));
        Ok(())
    }

    fn request(&self) -> anyhow::Result<Value> {
        let mode = if self.pack { "pack" } else { "full" };
        let mut files = Vec::new();
        for file in &self.files {
            let path = place(file)?.display().to_string();
            files.push(json!({"path": path, "mode": mode}));
        }

        let mut request = json!({"task": self.task, "files": files, "lock": self.lock});
        self.add_common(&mut request);
        if !self.tags.is_empty() {
            request["tags"] = json!(self.tags);
        }
        Ok(request)
    }

    fn sending(&self, composed: &Value) -> Value {
        let mut request = Value::Object(Map::new());
        request["prompt"] = composed["prompt"].clone();
        request["stream"] = true.into();
        self.add_common(&mut request);
        if self.thread.is_some() {
            request["user_message"] = self.task.as_str().into();
        }
        request
    }

    fn add_common(&self, request: &mut Value) {
        for (name, value) in [
            ("model", &self.model),
            ("thread_id", &self.thread),
            ("user_id", &self.user),
        ] {
            if let Some(value) = value {
                request[name] = value.as_str().into();
            }
        }
    }
}

/// `1,204 tokens for openai:gpt-4o, at most 0.0123 USD`
fn summary(estimate: &Value) -> String {
    let mut text = format!(
        "{} tokens for {}",
        estimate["tokens"],
        estimate["model"].as_str().unwrap_or_default()
    );
    match estimate["cost_usd"].as_f64() {
        Some(usd) => {
            let _ = write!(text, ", at most {usd:.4} USD");
        }
        None => text.push_str(", price unknown"),
    }

    text
}

fn cost(sent: &Value) -> String {
    let calls = sent["responses"].as_array().cloned().unwrap_or_default();
    let sum = |name: &str| {
        calls
            .iter()
            .filter_map(|call| call[name].as_i64())
            .sum::<i64>()
    };
    format!(
        "{} {}, {} tokens sent, {} received, {:.0} ms",
        calls.len(),
        if calls.len() == 1 { "call" } else { "calls" },
        sum("tokens_prompt"),
        sum("tokens_completion"),
        sent["timings"]["total_ms"].as_f64().unwrap_or_default(),
    )
}

/// A terminal would interpret control characters.
fn plain(text: &str) -> String {
    text.replace(|symbol: char| symbol.is_control() && symbol != '\n', " ")
}
