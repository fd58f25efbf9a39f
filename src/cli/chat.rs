//! `memoir chat`: imports conversations from files.

mod fitting;
mod formats;
mod times;
mod whatsapp;

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use memoir_text::hash::sha256_hex;
use memoir_text::presets;
use serde_json::{Value, json};

use self::fitting::{Better, better_than_built_in};
use self::formats::{Chat, ChatMessage, Format, KNOWN};
use super::client::{Client, Connection, Refused};
use super::{CommandError, print, runtime};
use crate::base::clock::Timestamp;
use crate::base::user_id;
use crate::config::Origin;

pub const EXAMPLES: &str = "\
Examples:
  memoir chat import conversations.json --user U-123          a ChatGPT or Claude export
  memoir chat import '_chat.txt' --user U-123 --me 'Ann Lee'   a WhatsApp export; Ann is the user
  memoir chat import turns.jsonl --user U-123 --extract       one message per line; also extract facts

A line of a JSON Lines file is an object with `content` (or `text`), and if known `role`, `name` (or `speaker`),
`created_at` (or `at`) and `thread`. Importing a file again stores only what is new. Times without a zone are UTC.";

/// Maximum messages and bytes of one request.
const MESSAGES_AT_ONCE: usize = 500;
const BYTES_AT_ONCE: usize = 2_000_000;
/// The longest message that the service stores.
const MAX_CHARS: usize = 200_000;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Import conversations: JSON Lines, exports of ChatGPT and Claude, WhatsApp text
    #[command(after_help = EXAMPLES)]
    Import(Arguments),
}

#[derive(clap::Args)]
pub struct Arguments {
    /// The file to import
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The end user who owns the conversations; by default, `default`
    #[arg(long, value_name = "ID")]
    user: Option<String>,
    /// `jsonl`, `chatgpt`, `claude` or `whatsapp`; detected if omitted
    #[arg(long, value_name = "NAME")]
    format: Option<String>,
    /// Which person is the user, in a chat between people; all others get the role `assistant`
    #[arg(long, value_name = "NAME")]
    me: Option<String>,
    /// Do not classify the messages
    #[arg(long)]
    no_enrich: bool,
    /// Extract facts from the user's messages
    #[arg(long)]
    extract: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// What was imported.
#[derive(Default)]
struct Imported {
    threads: usize,
    stored: u64,
    duplicates: u64,
    skipped: usize,
    /// A preset that fits the messages better than the built-in vocabulary, if that is in force.
    better: Option<Better>,
}

pub fn run(command: &Command, origin: &Origin) -> Result<(), CommandError> {
    let Command::Import(arguments) = command;
    let chats = read(arguments)?;
    let imported = runtime()?.block_on(async {
        let client = Client::open(&arguments.connection, origin).await?;
        let imported = import(&client, arguments, chats).await;
        client.close().await;
        imported.map_err(CommandError::from)
    })?;

    let Imported {
        threads,
        stored,
        duplicates,
        skipped,
        better,
    } = imported;
    print(&if arguments.json {
        let result = json!({
            "threads": threads, "stored": stored, "duplicates": duplicates, "skipped": skipped,
            "suggested_preset": better.map(|better| better.preset),
        });
        format!("{result}\n")
    } else {
        let advice = better.map(|better| advice(&better)).unwrap_or_default();
        format!(
            "{threads} thread(s): {stored} message(s) stored, {duplicates} already there, \
             {skipped} skipped\n{advice}"
        )
    });
    Ok(())
}

fn read(arguments: &Arguments) -> anyhow::Result<Vec<Chat>> {
    let path = &arguments.file;
    let text = std::fs::read(path)
        .map_err(|error| anyhow::anyhow!("cannot read {}: {error}", path.display()))?;
    let text = String::from_utf8(text)
        .with_context(|| format!("{} is not UTF-8 text: {KNOWN}", path.display()))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let format = match &arguments.format {
        Some(name) => name
            .parse()
            .ok()
            .with_context(|| format!("--format {name}: use jsonl, chatgpt, claude or whatsapp"))?,
        None => Format::of(text).with_context(|| {
            format!(
                "the format of {} is not recognised: {KNOWN}. If it is one of these, name it with \
                 --format",
                path.display()
            )
        })?,
    };
    let name = path.file_stem().map(|stem| stem.to_string_lossy());
    let chats = formats::read(format, text, &name.unwrap_or_default())?;
    if chats.iter().all(|chat| chat.messages.is_empty()) {
        bail!("there is no message in {}", path.display());
    }

    Ok(chats)
}

async fn import(
    client: &Client,
    arguments: &Arguments,
    chats: Vec<Chat>,
) -> anyhow::Result<Imported> {
    let user = arguments.user.as_deref().unwrap_or(user_id::DEFAULT);
    let undated = modified(&arguments.file);
    let mut imported = Imported {
        better: better_preset(client, arguments, &chats).await?,
        ..Imported::default()
    };
    let count = chats.len();
    for (number, chat) in (1..).zip(chats) {
        let thread = open_thread(client, user, &chat).await?;
        imported.threads += 1;
        let (messages, skipped) = requests(&chat, arguments.me.as_deref(), undated);
        imported.skipped += skipped;
        let all = messages.len();
        let mut sent = 0;
        for part in parts(&messages) {
            let body = json!({
                "messages": part, "enrich": !arguments.no_enrich, "extract": arguments.extract,
            });
            let path = format!("/v1/threads/{thread}/messages");
            let stored = client.post_patiently(&path, &body, |_| false).await?;
            imported.stored += stored["stored"].as_u64().unwrap_or(0);
            imported.duplicates += stored["duplicates"].as_u64().unwrap_or(0);
            sent += part.len();
            progress(&format!(
                "thread {number}/{count}: {sent} of {all} messages"
            ));
        }
    }

    progress("");
    Ok(imported)
}

/// A preset that fits what the user says in the chats better than the vocabulary in force, if that is
/// the built-in one.
async fn better_preset(
    client: &Client,
    arguments: &Arguments,
    chats: &[Chat],
) -> anyhow::Result<Option<Better>> {
    if arguments.no_enrich {
        return Ok(None);
    }

    let messages = chats.iter().flat_map(|chat| &chat.messages);
    let own = messages.filter(|message| role(message, arguments.me.as_deref()) == "user");
    let own: Vec<&str> = own.map(|message| message.content.as_str()).collect();
    let Some(better) = better_than_built_in(&own) else {
        return Ok(None);
    };

    let vocabulary = client.get("/v1/vocabulary").await?;
    let is_built_in = vocabulary["preset"] == presets::built_in().name;
    Ok(is_built_in.then_some(better))
}

/// How to choose a better preset.
fn advice(better: &Better) -> String {
    let Better {
        preset,
        fitting,
        read,
    } = better;
    format!(
        "The built-in vocabulary is for customer support and fits {fitting} of {read} messages. The preset {preset} fits \
         more:\n  POST /v1/admin/vocabulary/preset {{\"name\": \"{preset}\"}}, or \"Choose a preset\" on the page Vocabulary\n"
    )
}

/// The thread of a chat. Its id comes from the user and the chat, so that a second import finds it.
async fn open_thread(client: &Client, user: &str, chat: &Chat) -> anyhow::Result<String> {
    let id = sha256_hex(format!("chat\n{user}\n{}", chat.key).as_bytes())[..32].to_owned();
    let title: Option<String> = chat
        .title
        .as_ref()
        .map(|title| title.replace(char::is_control, " "))
        .map(|title| title.trim().chars().take(300).collect())
        .filter(|title: &String| !title.is_empty());
    let body = json!({"id": id, "user_id": user, "title": title});
    let exists = |refused: &Refused| refused.problem["status"] == 409;
    match client.post_patiently("/v1/threads", &body, exists).await {
        Err(error) if !error.downcast_ref::<Refused>().is_some_and(exists) => Err(error),
        _ => Ok(id),
    }
}

/// The messages in the form of the API, each with its own time, and the number of messages left
/// out.
fn requests(chat: &Chat, me: Option<&str>, undated: Timestamp) -> (Vec<Value>, usize) {
    let mut next = chat.started_at.unwrap_or(undated);
    let mut given: Option<(Timestamp, i64)> = None;
    let mut skipped = 0;
    let mut messages = Vec::with_capacity(chat.messages.len());
    for message in &chat.messages {
        let length = message.content.chars().count();
        if message.content.trim().is_empty() || length > MAX_CHARS {
            skipped += 1;
            continue;
        }

        // Messages with the same time keep their order, and equal messages stay different messages.
        let at = match message.at {
            Some(at) => {
                let repeats = given
                    .filter(|(last, _)| *last == at)
                    .map_or(0, |(_, n)| n + 1);
                given = Some((at, repeats));
                at.plus_micros(repeats)
            }
            None => next,
        };
        next = at.plus_micros(1);
        messages.push(json!({
            "role": role(message, me),
            "name": message.name,
            "content": message.content,
            "created_at": at.to_string(),
        }));
    }

    (messages, skipped)
}

fn role<'m>(message: &'m ChatMessage, me: Option<&str>) -> &'m str {
    match (&message.role, me, &message.name) {
        (Some(role), ..) => role,
        (None, Some(me), Some(name)) if !name.eq_ignore_ascii_case(me) => "assistant",
        _ => "user",
    }
}

/// Lists that fit into a request.
fn parts(messages: &[Value]) -> Vec<&[Value]> {
    let mut parts = Vec::new();
    let (mut from, mut bytes) = (0, 0);
    for (place, message) in messages.iter().enumerate() {
        let size = message["content"].as_str().map_or(0, str::len);
        if place > from && (bytes + size > BYTES_AT_ONCE || place - from == MESSAGES_AT_ONCE) {
            parts.push(&messages[from..place]);
            (from, bytes) = (place, 0);
        }

        bytes += size;
    }

    if from < messages.len() {
        parts.push(&messages[from..]);
    }

    parts
}

/// The time of the file, for messages without one.
fn modified(path: &Path) -> Timestamp {
    let time = std::fs::metadata(path).and_then(|file| file.modified());
    let time = time.ok().and_then(Timestamp::of_file);
    time.unwrap_or(Timestamp::from_micros(0))
}

/// One line on a terminal, which the next one replaces.
fn progress(line: &str) {
    let mut out = std::io::stderr();
    if out.is_terminal() {
        let _ = write!(out, "\r\x1b[K{line}");
        let _ = out.flush();
    } else if !line.is_empty() {
        let _ = writeln!(out, "{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_has_a_time_of_its_own() {
        let said = |content: &str, at: Option<i64>| ChatMessage {
            role: None,
            name: Some("Bob".into()),
            content: content.into(),
            at: at.map(Timestamp::from_micros),
        };
        let chat = Chat {
            key: "k".into(),
            title: None,
            started_at: None,
            messages: vec![
                said("ok", Some(60_000_000)),
                said("ok", Some(60_000_000)),
                said(" ", None),
                said("later", None),
            ],
        };

        let (messages, skipped) = requests(&chat, Some("ann"), Timestamp::from_micros(0));
        assert_eq!(skipped, 1);
        let times: Vec<&str> = messages
            .iter()
            .map(|one| one["created_at"].as_str().unwrap())
            .collect();
        assert_eq!(
            times,
            [
                "1970-01-01T00:01:00.000000Z",
                "1970-01-01T00:01:00.000001Z",
                "1970-01-01T00:01:00.000002Z"
            ]
        );
        assert_eq!(messages[0]["role"], "assistant");
    }
}
