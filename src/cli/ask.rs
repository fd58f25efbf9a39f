//! `memoir ask`: runs a query and prints the answer, its citations, and how the chunks were found.

use std::fmt::Write as _;
use std::io::IsTerminal as _;

use serde_json::{Map, Value, json};

use super::client::{Client, Connection, post_once, pretty};
use super::events::follow;
use super::{CommandError, counted, print, runtime};
use crate::config::Origin;

pub const EXAMPLES: &str = "\
Examples:
  memoir ask \"What did we decide about refunds?\"       query the memoir running on this machine
  memoir ask --local \"Who wrote the handbook?\"         query the configured database without a running memoir
  memoir ask --strategy zoom_in --budget 4000 \"…\"      start wide, then narrow; use a smaller prompt
  memoir ask --retrieve --json \"…\" | jq .chunks        print the chunks as JSON
  memoir ask --server https://memoir.example.com --key $KEY --space team \"…\"

Prints the answer, the sentences that it is based on with their files, how the chunks were found, and the cost. A walk
is drawn as a tree, with the rank of each category on its level.";

#[derive(clap::Args)]
pub struct Arguments {
    /// The question to ask
    #[arg(value_name = "QUESTION")]
    query: String,
    /// How to find chunks: `auto` (the default), `one_shot`, `wide_branch`, `zoom_in` or `branch_out`
    #[arg(long, value_name = "NAME")]
    strategy: Option<String>,
    /// Maximum tokens of the final prompt; by default, `query.max_token_budget`
    #[arg(long, value_name = "TOKENS")]
    budget: Option<i64>,
    /// The model for every stage, as provider:model
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Only sources of this end user
    #[arg(long, value_name = "ID")]
    user: Option<String>,
    /// Only sources with this tag; if repeated, only sources with all of these tags
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Print the chunks instead of an answer
    #[arg(long)]
    retrieve: bool,
    /// Print the answer while it is written; the default on a terminal
    #[arg(long, conflicts_with = "json")]
    stream: bool,
    /// Print the whole result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub fn run(arguments: &Arguments, origin: &Origin) -> Result<(), CommandError> {
    let on_terminal = std::io::stdout().is_terminal() && !arguments.json;
    if arguments.stream || on_terminal {
        return run_streaming(arguments, origin);
    }

    let result = post_once(
        &arguments.connection,
        origin,
        "/v1/queries",
        &arguments.request(),
    )?;

    print(&if arguments.json {
        pretty(&result)
    } else {
        readable(&result)
    });

    Ok(())
}

/// Prints the answer while it is written, then the rest.
fn run_streaming(arguments: &Arguments, origin: &Origin) -> Result<(), CommandError> {
    let mut written = String::new();
    let step = |name: &str, data: &Value| match name {
        "answer" => {
            let piece = plain(data["text"].as_str().unwrap_or_default());
            print(&piece);
            written.push_str(&piece);
        }
        "answer_restarted" => {
            print("\n(the model starts again)\n\n");
            written.clear();
        }
        _ => {}
    };

    let result = runtime()?.block_on(async {
        let client = Client::open(&arguments.connection, origin).await?;
        let answered = follow(&client, "/v1/queries", &arguments.request(), step).await;
        client.close().await;
        answered.map_err(CommandError::from)
    })?;

    let mut rest = readable(&result);
    if let Some(left) = rest.strip_prefix(&written) {
        rest = left.to_owned();
    } else if !written.is_empty() {
        rest.insert_str(0, "\n\n");
    }

    print(&rest);
    Ok(())
}

impl Arguments {
    fn request(&self) -> Value {
        let mut request = Map::new();
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                request.insert(name.to_owned(), value);
            }
        };

        put("query", Some(json!(self.query)));
        put("mode", self.retrieve.then(|| json!("retrieve")));
        put(
            "strategy",
            self.strategy.as_ref().map(|strategy| json!(strategy)),
        );

        put("max_token_budget", self.budget.map(|budget| json!(budget)));
        put("model", self.model.as_ref().map(|model| json!(model)));
        put("user_id", self.user.as_ref().map(|user| json!(user)));
        put("tags", (!self.tags.is_empty()).then(|| json!(self.tags)));

        Value::Object(request)
    }
}

/// Closest chunks that are shown if nothing was found, and how much of each.
const NEAREST: usize = 3;
const NEAREST_CHARS: usize = 160;

/// A category on a path, with its children.
#[derive(Default)]
struct Branch {
    name: String,
    note: String,
    below: Vec<Branch>,
}

impl Branch {
    /// The child with this name, created if necessary.
    fn child(&mut self, name: &str) -> &mut Self {
        let place = self
            .below
            .iter()
            .position(|branch| branch.name == name)
            .unwrap_or_else(|| {
                self.below.push(Self {
                    name: name.to_owned(),
                    ..Self::default()
                });
                self.below.len() - 1
            });
        &mut self.below[place]
    }

    fn draw(&self, indent: &str, text: &mut String) {
        for (place, branch) in self.below.iter().enumerate() {
            let last = place + 1 == self.below.len();
            let (mark, deeper) = if last {
                ("└─ ", "   ")
            } else {
                ("├─ ", "│  ")
            };

            let _ = writeln!(text, "{indent}{mark}{}{}", branch.name, branch.note);
            branch.draw(&format!("{indent}{deeper}"), text);
        }
    }
}

/// The result as readable text.
fn readable(result: &Value) -> String {
    let mut text = String::new();
    if let Some(answer) = result["answer"].as_str() {
        let _ = writeln!(text, "{}\n", plain(answer));
        sources(result, &mut text);
    } else {
        let is_missing = result["found"] == false;
        if is_missing {
            nothing_found(result, &mut text);
        }

        for chunk in list(&result["chunks"]).filter(|_| !is_missing) {
            let content = chunk["text_content"].as_str().unwrap_or_default();
            let _ = writeln!(
                text,
                "[{}] {}\n{}\n",
                chunk["chunk_id"],
                place(chunk),
                plain(content.trim_end())
            );
        }
    }

    if let Some(tier) = result["tier"].as_str() {
        text.push_str(&found_by(tier, result));
    } else {
        tree(result).draw("", &mut text);
    }

    for warning in list(&result["warnings"]) {
        let _ = writeln!(
            text,
            "note: {}",
            warning["message"].as_str().unwrap_or_default()
        );
    }

    let sum = |field: &str| {
        list(&result["responses"])
            .filter_map(|call| call[field].as_i64())
            .sum::<i64>()
    };

    let calls = list(&result["responses"]).count();
    let blank = if text.ends_with("\n\n") { "" } else { "\n" };
    let _ = writeln!(
        text,
        "{blank}{calls} {}, {} tokens sent, {} received, {:.0} ms ({})",
        if calls == 1 { "call" } else { "calls" },
        sum("tokens_prompt"),
        sum("tokens_completion"),
        result["elapsed_ms"].as_f64().unwrap_or_default(),
        result["id"].as_str().unwrap_or_default(),
    );

    text
}

/// How `auto` found the chunks; empty if it found none.
fn found_by(tier: &str, result: &Value) -> String {
    let count = list(&result["chunks"]).count();
    if count == 0 {
        return String::new();
    }

    let chunks = counted(i64::try_from(count).unwrap_or(i64::MAX), "chunk", "chunks");
    let how = match tier {
        "recalled" => "from an earlier result",
        "pick" => "by search and a model's pick",
        "walk" => "by search and a walk",
        _ => "by search",
    };
    let confidence = result["confidence"].as_str().unwrap_or("unknown");
    format!("{chunks} {how}, confidence {confidence}\n")
}

/// The beginnings of the closest chunks: enough to see whether one of them was meant.
fn nothing_found(result: &Value, text: &mut String) {
    text.push_str("Nothing was found that answers this.");
    let mut nearest = list(&result["nearest"]).take(NEAREST).peekable();
    text.push_str(if nearest.peek().is_some() {
        " The closest chunks:\n\n"
    } else {
        "\n\n"
    });

    for chunk in nearest {
        let content = chunk["text_content"].as_str().unwrap_or_default();
        let line = content.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut begin: String = line.chars().take(NEAREST_CHARS).collect();
        if begin.len() < line.len() {
            begin.push('…');
        }
        let (id, place) = (&chunk["chunk_id"], place(chunk));
        let _ = writeln!(text, "[{id}] {place}\n    {}\n", plain(&begin));
    }
}

/// A terminal would interpret control characters.
fn plain(text: &str) -> String {
    text.replace(|symbol: char| symbol.is_control() && symbol != '\n', " ")
}

/// The file of a chunk, its heading and its category.
fn place(chunk: &Value) -> String {
    let path = names(&chunk["category_path"]).join(" / ");
    let file = chunk["path"]
        .as_str()
        .filter(|file| !file.is_empty())
        .or_else(|| chunk["filename"].as_str());
    let parts = [file, chunk["heading"].as_str(), Some(path.as_str())];
    let parts: Vec<&str> = parts
        .into_iter()
        .flatten()
        .filter(|part| !part.is_empty())
        .collect();
    plain(&parts.join(" · "))
}

/// The file of a cited chunk, or what a cited memory is.
fn cited_place(result: &Value, citation: &Value) -> String {
    let Some(id) = citation["memory_id"].as_str() else {
        return place(citation);
    };

    let mut memories = list(&result["memories"]);
    let memory = memories.find(|memory| memory["memory_id"] == id);
    let part = |name: &str| memory.and_then(|memory| memory[name].as_str());
    let day = part("created_at").and_then(|time| time.get(..10));
    let parts = [part("type").or(Some("memory")), part("role"), day];
    plain(&parts.into_iter().flatten().collect::<Vec<_>>().join(" · "))
}

/// The sentences that the answer rests on, each with its file or its memory.
fn sources(result: &Value, text: &mut String) {
    let mut any = false;
    for citation in list(&result["citations"]) {
        let quote = citation["quote"].as_str().unwrap_or_default();
        let quote = quote.split_whitespace().collect::<Vec<_>>().join(" ");
        let _ = writeln!(
            text,
            "[{}] {}\n    “{}”",
            citation["number"],
            cited_place(result, citation),
            plain(&quote)
        );
        any = true;
    }

    if any {
        text.push('\n');
    }
}

fn tree(result: &Value) -> Branch {
    let mut root = Branch::default();
    for path in list(&result["paths"]) {
        let mut at = &mut root;
        for (name, rank) in names(&path["names"]).iter().zip(list(&path["ranks"])) {
            at = at.child(name);
            if at.note.is_empty() {
                // Printed ranks start at 1 for the best; in the API, 1 is the lowest rank.
                let place = rank["best"].as_i64().unwrap_or(0)
                    - rank["ranked_relevance"].as_i64().unwrap_or(0)
                    + 1;
                at.note = format!("  #{place}");
            }
        }

        let count = path["chunk_count"].as_i64().unwrap_or_default();
        let _ = write!(at.note, ", {}", counted(count, "chunk", "chunks"));
    }

    for dropped in list(&result["dropped_paths"]) {
        let at = names(&dropped["path"])
            .iter()
            .fold(&mut root, |at, name| at.child(name));
        let reason = dropped["reason"]
            .as_str()
            .unwrap_or_default()
            .replace('_', " ");

        let _ = write!(at.note, "  ({reason})");
    }

    root
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn names(value: &Value) -> Vec<String> {
    list(value)
        .filter_map(Value::as_str)
        .map(ToOwned::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_the_answer_the_walk_and_the_cost() {
        let rank = |rank: i64, best: i64| json!({"ranked_relevance": rank, "best": best});
        let result = json!({
            "id": "q1", "answer": "Forty-two [7].", "elapsed_ms": 12.4, "warnings": [],
            "paths": [
                {"names": ["A", "X"], "ranks": [rank(2, 2), rank(2, 2)], "chunk_count": 3},
                {"names": ["A", "Y"], "ranks": [rank(2, 2), rank(1, 2)], "chunk_count": 1},
            ],
            "dropped_paths": [{"path": ["B"], "reason": "not_selected"}],
            "responses": [{"tokens_prompt": 10, "tokens_completion": 2}, {"tokens_prompt": 5, "tokens_completion": 1}],
        });

        let wanted = "Forty-two [7].\n\n├─ A  #1\n│  ├─ X  #1, 3 chunks\n│  └─ Y  #2, 1 chunk\n\
                      └─ B  (not selected)\n\n2 calls, 15 tokens sent, 3 received, 12 ms (q1)\n";
        assert_eq!(readable(&result), wanted);
    }

    #[test]
    fn prints_the_sources_with_their_quotes() {
        let result = json!({
            "id": "q1", "answer": "Forty-two [7].", "elapsed_ms": 12.4, "tier": "search", "confidence": "high",
            "found": true, "chunks": [{"chunk_id": 7}],
            "citations": [
                {"number": 7, "chunk_id": 7, "path": "/a.md", "heading": "Sums", "quote": "It is\nforty-two."},
                {"number": 101, "memory_id": "m", "quote": "Forty-two, I said."},
            ],
            "memories": [{"memory_id": "m", "type": "message", "role": "user", "created_at": "2026-01-31T12:00:00Z"}],
        });

        let wanted = "Forty-two [7].\n\n[7] /a.md · Sums\n    “It is forty-two.”\n\
                      [101] message · user · 2026-01-31\n    “Forty-two, I said.”\n\n\
                      1 chunk by search, confidence high\n\n0 calls, 0 tokens sent, 0 received, 12 ms (q1)\n";
        assert_eq!(readable(&result), wanted);
    }

    #[test]
    fn says_that_nothing_was_found() {
        let result = json!({
            "id": "q1", "answer": null, "elapsed_ms": 1.0, "tier": "search", "confidence": "low", "found": false,
            "nearest": [{"chunk_id": 7, "path": "/a.md", "category_path": ["A", "B"], "text_content": "Text.\n"}],
        });

        let wanted = "Nothing was found that answers this. The closest chunks:\n\n[7] /a.md · A / B\n    Text.\n\n\
                      0 calls, 0 tokens sent, 0 received, 1 ms (q1)\n";
        assert_eq!(readable(&result), wanted);
    }
}
