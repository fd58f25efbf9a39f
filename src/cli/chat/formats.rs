//! Reads conversations from the formats of several programs. Pure.

use std::collections::{BTreeMap, HashMap};

use anyhow::Context as _;
use serde_json::Value;
use strum::EnumString;

use super::times::moment;
use super::whatsapp;
use crate::base::clock::Timestamp;

/// A conversation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Chat {
    /// What identifies it in its file.
    pub key: String,
    pub title: Option<String>,
    pub started_at: Option<Timestamp>,
    pub messages: Vec<ChatMessage>,
}

/// A message of a conversation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChatMessage {
    pub role: Option<String>,
    pub name: Option<String>,
    pub content: String,
    pub at: Option<Timestamp>,
}

/// What can be imported, for messages about a file that cannot.
pub const KNOWN: &str = "memoir imports JSON Lines (jsonl), exports of ChatGPT (chatgpt) and Claude \
     (claude), and WhatsApp text (whatsapp); unpack a ZIP file first";

/// The program that a file comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString)]
#[strum(serialize_all = "lowercase")]
pub enum Format {
    #[strum(serialize = "jsonl")]
    JsonLines,
    ChatGpt,
    Claude,
    WhatsApp,
}

impl Format {
    /// The format of a text, by its beginning.
    pub fn of(text: &str) -> Option<Self> {
        let start = text.trim_start();
        if start.starts_with('[') && !whatsapp::is_chat(start) {
            let list: Vec<Value> = serde_json::from_str(start).ok()?;
            let has = |field: &str| list.iter().any(|chat| chat.get(field).is_some());
            return match (has("mapping"), has("chat_messages")) {
                (true, _) => Some(Self::ChatGpt),
                (_, true) => Some(Self::Claude),
                _ => None,
            };
        }

        if start.starts_with('{') {
            let first = start.lines().next()?;
            return serde_json::from_str::<Value>(first)
                .is_ok()
                .then_some(Self::JsonLines);
        }

        whatsapp::is_chat(start).then_some(Self::WhatsApp)
    }
}

/// The conversations of a file, in its order; `name` is the file's.
pub fn read(format: Format, text: &str, name: &str) -> anyhow::Result<Vec<Chat>> {
    match format {
        Format::JsonLines => json_lines(text, name),
        Format::ChatGpt => {
            let list: Vec<Value> =
                serde_json::from_str(text).context("the file is not a ChatGPT export")?;
            Ok(list.iter().map(chatgpt).collect())
        }
        Format::Claude => {
            let list: Vec<Value> =
                serde_json::from_str(text).context("the file is not a Claude export")?;
            Ok(list.iter().map(claude).collect())
        }
        Format::WhatsApp => Ok(vec![whatsapp::chat(text, name)]),
    }
}

/// The first of these fields that has a text.
fn text_of(value: &Value, fields: &[&str]) -> Option<String> {
    let found = fields.iter().find_map(|field| value[*field].as_str());
    found.map(ToOwned::to_owned)
}

fn time_of(value: &Value, fields: &[&str]) -> Option<Timestamp> {
    fields.iter().find_map(|field| moment(&value[*field]))
}

fn json_lines(text: &str, name: &str) -> anyhow::Result<Vec<Chat>> {
    let mut order: Vec<String> = Vec::new();
    let mut chats: BTreeMap<String, Chat> = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() {
            continue;
        }

        let value: Value =
            serde_json::from_str(line).with_context(|| format!("line {number} is not JSON"))?;
        let content = text_of(&value, &["content", "text", "message"]);
        let content =
            content.with_context(|| format!("line {number} has no `content` (or `text`)"))?;
        let key = text_of(&value, &["thread", "thread_id", "conversation", "session"]);
        let key = key.unwrap_or_else(|| name.to_owned());
        let chat = chats.entry(key.clone()).or_insert_with(|| {
            order.push(key.clone());
            Chat {
                key: format!("jsonl/{key}"),
                title: Some(key.clone()),
                ..Chat::default()
            }
        });
        chat.messages.push(ChatMessage {
            role: text_of(&value, &["role"]).map(|role| plain_role(&role)),
            name: text_of(&value, &["name", "speaker", "author"]),
            content,
            at: time_of(&value, &["created_at", "at", "timestamp", "time"]),
        });
    }

    Ok(order.iter().filter_map(|key| chats.remove(key)).collect())
}

fn plain_role(role: &str) -> String {
    match role {
        "human" => "user",
        "ai" | "bot" | "model" => "assistant",
        other => other,
    }
    .to_owned()
}

/// A ChatGPT conversation is a tree, of which the program shows the path from the root to the
/// current message.
fn chatgpt(value: &Value) -> Chat {
    let empty = serde_json::Map::new();
    let nodes = value["mapping"].as_object().unwrap_or(&empty);
    let mut messages = Vec::new();
    let mut at = value["current_node"].as_str();
    if at.is_none() {
        // Without it, the newest message that has no reply.
        let leaf = nodes
            .iter()
            .filter(|(_, node)| node["children"].as_array().is_none_or(Vec::is_empty));
        let time = |node: &Value| node["message"]["create_time"].as_f64().unwrap_or(0.0);
        at = leaf
            .max_by(|(_, a), (_, b)| time(a).total_cmp(&time(b)))
            .map(|(id, _)| id.as_str());
    }

    let mut left = nodes.len();
    while let Some(node) = at.and_then(|id| nodes.get(id)).filter(|_| left > 0) {
        left -= 1;
        let message = &node["message"];
        let role = message["author"]["role"].as_str().unwrap_or_default();
        let parts = message["content"]["parts"].as_array().into_iter().flatten();
        let content: Vec<&str> = parts.filter_map(Value::as_str).collect();
        let content = content.join("\n");
        if matches!(role, "user" | "assistant") && !content.trim().is_empty() {
            messages.push(ChatMessage {
                role: Some(role.to_owned()),
                name: None,
                content,
                at: time_of(message, &["create_time"]),
            });
        }

        at = node["parent"].as_str();
    }

    messages.reverse();
    let id = text_of(value, &["conversation_id", "id"]).unwrap_or_default();
    Chat {
        key: format!("chatgpt/{id}"),
        title: text_of(value, &["title"]),
        started_at: time_of(value, &["create_time"]),
        messages,
    }
}

fn claude(value: &Value) -> Chat {
    let roles = HashMap::from([("human", "user"), ("assistant", "assistant")]);
    let list = value["chat_messages"].as_array().into_iter().flatten();
    let messages = list.filter_map(|message| {
        let role = roles.get(message["sender"].as_str()?)?;
        let blocks = message["content"].as_array().into_iter().flatten();
        let blocks: Vec<&str> = blocks.filter_map(|block| block["text"].as_str()).collect();
        let whole = text_of(message, &["text"]).filter(|text| !text.trim().is_empty());
        Some(ChatMessage {
            role: Some((*role).to_owned()),
            name: None,
            content: whole.unwrap_or_else(|| blocks.join("\n")),
            at: time_of(message, &["created_at"]),
        })
    });
    let id = text_of(value, &["uuid", "id"]).unwrap_or_default();
    Chat {
        key: format!("claude/{id}"),
        title: text_of(value, &["name"]),
        started_at: time_of(value, &["created_at"]),
        messages: messages.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_chatgpt_export_gives_the_path_that_is_shown() {
        let node = |role: &str, text: &str, parent: Value, children: Value, at: f64| {
            json!({"message": {"author": {"role": role}, "content": {"parts": [text]}, "create_time": at},
                "parent": parent, "children": children})
        };
        let export = json!([{
            "title": "Trip", "conversation_id": "c1", "create_time": 1.0, "current_node": "d",
            "mapping": {
                "a": {"message": null, "parent": null, "children": ["b"]},
                "b": node("user", "first", json!("a"), json!(["c", "d"]), 1.5),
                "c": node("assistant", "an answer that was replaced", json!("b"), json!([]), 2.0),
                "d": node("assistant", "the answer", json!("b"), json!([]), 3.0),
            },
        }])
        .to_string();
        assert_eq!(Format::of(&export), Some(Format::ChatGpt));
        let chats = read(Format::ChatGpt, &export, "x").unwrap();
        let texts: Vec<&str> = chats[0]
            .messages
            .iter()
            .map(|one| one.content.as_str())
            .collect();
        assert_eq!(texts, ["first", "the answer"]);
        assert_eq!(chats[0].messages[0].at.unwrap().as_micros(), 1_500_000);
    }

    #[test]
    fn a_claude_export_and_json_lines_are_recognised() {
        let export = json!([{"uuid": "u", "name": "N", "chat_messages": [
            {"sender": "human", "text": "", "content": [{"type": "text", "text": "hi"}], "created_at": "2024-01-01T00:00:00Z"},
            {"sender": "assistant", "text": "hello"},
        ]}])
        .to_string();
        assert_eq!(Format::of(&export), Some(Format::Claude));
        let chats = read(Format::Claude, &export, "x").unwrap();
        assert_eq!(chats[0].messages[0].content, "hi");
        assert_eq!(chats[0].messages[1].role.as_deref(), Some("assistant"));

        let lines = "{\"role\":\"human\",\"content\":\"a\",\"thread\":\"t2\"}\n\n{\"text\":\"b\",\"speaker\":\"Bob\",\"at\":\"29.12.2023, 00:51:12\"}\n";
        assert_eq!(Format::of(lines), Some(Format::JsonLines));
        let chats = read(Format::JsonLines, lines, "file").unwrap();
        assert_eq!(chats.len(), 2);
        assert_eq!(chats[0].messages[0].role.as_deref(), Some("user"));
        assert_eq!(chats[1].messages[0].name.as_deref(), Some("Bob"));
        assert_eq!(
            chats[1].messages[0].at.unwrap().to_string(),
            "2023-12-29T00:51:12.000000Z"
        );
        assert!(read(Format::JsonLines, "{\"role\":\"user\"}", "x").is_err());
        assert_eq!(Format::of("just text"), None);
        assert_eq!(Format::of("[not JSON"), None);
        for phone in [
            "[03.10.26, 18:02:11] Ann: a",
            "\u{200e}[10/3/26, 6:02:11\u{202f}PM] Ann: a",
        ] {
            assert_eq!(Format::of(phone), Some(Format::WhatsApp));
        }
    }
}
