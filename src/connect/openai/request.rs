//! A request in OpenAI's protocol: read as far as memory needs it, and written again with every byte
//! that memoir does not change.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::block::without_blocks;
use crate::llm::forward::Form;

/// The members of a JSON object, in order, each with its bytes.
#[derive(Debug, Clone)]
struct Members<'b>(Vec<(String, &'b RawValue)>);

/// What is wrong with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestFault {
    /// The body is not a JSON object, or a member has the wrong form.
    Malformed(String),
    /// A member that memoir cannot serve.
    Unsupported(&'static str),
}

/// What the body says about memory.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryMember {
    pub thread: Option<String>,
    pub user: Option<String>,
    pub context: Option<String>,
}

/// A request.
#[derive(Debug, Clone)]
pub struct OpenAiRequest<'b> {
    form: Form,
    members: Members<'b>,
    pub model: String,
    pub streamed: bool,
    /// Whether the client asks for the tokens of a stream.
    pub wants_usage: bool,
    pub memory: MemoryMember,
    /// The member with the conversation.
    conversation: Conversation<'b>,
}

/// The conversation, with the place of what the user says last.
#[derive(Debug, Clone, Default)]
struct Conversation<'b> {
    items: Vec<&'b RawValue>,
    said: Option<Said>,
    bytes_of_files: usize,
}

/// What the user says last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    pub text: String,
    /// The last reply before it.
    pub reply_before: Arc<str>,
    /// How often the user said the same before.
    pub repeats: usize,
    place: Place,
}

/// Where the text begins that the user said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// `input` is a text.
    Whole,
    /// The content of an item is a text.
    Content { item: usize },
    /// A part of the content of an item.
    Part { item: usize, part: usize },
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members: Vec<(String, &RawValue)> = Vec::new();
                let mut known = HashSet::new();
                while let Some(name) = map.next_key::<String>()? {
                    if !known.insert(name.clone()) {
                        return Err(de::Error::custom(format!(
                            "the member {name:?} is there twice"
                        )));
                    }
                    members.push((name, map.next_value()?));
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Each)
    }
}

impl<'b> Members<'b> {
    fn of(raw: &'b str) -> Option<Self> {
        serde_json::from_str(raw).ok()
    }

    fn get(&self, name: &str) -> Option<&'b RawValue> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found
            .map(|(_, value)| *value)
            .filter(|value| value.get() != "null")
    }

    fn text(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.get(name)?.get()).ok()
    }

    fn list(&self, name: &str) -> Option<Vec<&'b RawValue>> {
        serde_json::from_str(self.get(name)?.get()).ok()
    }

    /// Writes the object with some members replaced; `None` leaves a member out.
    fn write(&self, replaced: &[(&str, Option<String>)]) -> String {
        let mut written = String::from("{");
        let mut add = |name: &str, value: &str| {
            if written.len() > 1 {
                written.push(',');
            }
            written.push_str(&json!(name).to_string());
            written.push(':');
            written.push_str(value);
        };
        for (name, value) in &self.0 {
            match replaced.iter().find(|(known, _)| known == name) {
                None => add(name, value.get()),
                Some((_, Some(value))) => add(name, value),
                Some((_, None)) => {}
            }
        }
        for (name, value) in replaced {
            let is_new = self.0.iter().all(|(known, _)| known != name);
            if let (true, Some(value)) = (is_new, value) {
                add(name, value);
            }
        }

        written.push('}');
        written
    }
}

impl<'b> OpenAiRequest<'b> {
    /// # Errors
    /// The body is malformed, or asks for what cannot be forwarded.
    pub fn read(form: Form, body: &'b [u8]) -> Result<Self, RequestFault> {
        let malformed = |what: &str| RequestFault::Malformed(what.to_owned());
        let text = std::str::from_utf8(body).map_err(|_| malformed("the body is not UTF-8"))?;
        let members: Members<'b> = serde_json::from_str(text).map_err(|error| {
            RequestFault::Malformed(format!("the body cannot be read: {error}"))
        })?;
        let model = members.text("model").filter(|model| !model.is_empty());
        let model = model.ok_or_else(|| malformed("model must be a text"))?;
        if form == Form::Responses {
            for name in ["previous_response_id", "conversation", "background"] {
                if members
                    .get(name)
                    .is_some_and(|value| value.get() != "false")
                {
                    return Err(RequestFault::Unsupported(name));
                }
            }
        }

        let memory = match members.get("memoir") {
            Some(raw) => serde_json::from_str(raw.get())
                .map_err(|error| RequestFault::Malformed(format!("memoir: {error}")))?,
            None => MemoryMember::default(),
        };
        let options = members
            .get("stream_options")
            .and_then(|raw| Members::of(raw.get()));
        let usage = options.and_then(|options| options.get("include_usage"));
        let conversation = Conversation::of(form, &members)?;

        Ok(Self {
            form,
            streamed: members
                .get("stream")
                .is_some_and(|value| value.get() == "true"),
            wants_usage: usage.is_some_and(|usage| usage.get() == "true"),
            model,
            memory,
            conversation,
            members,
        })
    }

    /// What the user says last, without what memoir had added to it.
    pub fn said(&self) -> Option<&Said> {
        self.conversation.said.as_ref()
    }

    /// An estimate of the tokens of the request, without files.
    pub fn expected_tokens(&self) -> i64 {
        let bytes: usize = self
            .members
            .0
            .iter()
            .map(|(_, value)| value.get().len())
            .sum();
        let bytes = bytes.saturating_sub(self.conversation.bytes_of_files);
        i64::try_from(bytes.div_ceil(4)).unwrap_or(i64::MAX)
    }

    /// The body for the provider: with its name of the model, and with a block before what the user
    /// says last.
    pub fn write(&self, model: &str, block: &str, adds_usage: bool) -> Vec<u8> {
        let mut replaced = vec![("model", Some(json!(model).to_string())), ("memoir", None)];
        if adds_usage {
            let raw = self
                .members
                .get("stream_options")
                .map_or("{}", RawValue::get);
            let options = Members::of(raw).unwrap_or(Members(Vec::new()));
            let options = options.write(&[("include_usage", Some("true".to_owned()))]);
            replaced.push(("stream_options", Some(options)));
        }

        if let Some(said) = self.said().filter(|_| !block.is_empty()) {
            let name = if self.form == Form::Chat {
                "messages"
            } else {
                "input"
            };
            replaced.push((name, self.with_block(said.place, block, name)));
        }

        self.members.write(&replaced).into_bytes()
    }

    fn with_block(&self, place: Place, block: &str, name: &str) -> Option<String> {
        let (item, changed) = match place {
            Place::Whole => return Some(before(self.members.get(name)?.get(), block)),
            Place::Content { item } => {
                let members = Members::of(self.conversation.items.get(item)?.get())?;
                let content = before(members.get("content")?.get(), block);
                (item, members.write(&[("content", Some(content))]))
            }
            Place::Part { item, part } => {
                let members = Members::of(self.conversation.items.get(item)?.get())?;
                let parts = members.list("content")?;
                let own = Members::of(parts.get(part)?.get())?;
                let text = before(own.get("text")?.get(), block);
                let own = own.write(&[("text", Some(text))]);
                let content = list_with(&parts, part, &own);
                (item, members.write(&[("content", Some(content))]))
            }
        };
        Some(list_with(&self.conversation.items, item, &changed))
    }
}

impl<'b> Conversation<'b> {
    fn of(form: Form, members: &Members<'b>) -> Result<Self, RequestFault> {
        let name = match form {
            Form::Chat => "messages",
            Form::Responses => "input",
            Form::Embeddings => return Ok(Self::default()),
        };
        if form == Form::Responses
            && let Some(text) = members.text(name)
        {
            let said = Said {
                text: without_blocks(&text),
                reply_before: Arc::from(""),
                repeats: 0,
                place: Place::Whole,
            };
            return Ok(Self {
                said: Some(said),
                ..Self::default()
            });
        }

        let items = members
            .list(name)
            .ok_or_else(|| RequestFault::Malformed(format!("{name} must be a list of messages")))?;
        let mut conversation = Self {
            items,
            ..Self::default()
        };
        conversation.find_said();
        Ok(conversation)
    }

    fn find_said(&mut self) {
        let mut times: HashMap<String, usize> = HashMap::new();
        let mut reply: Arc<str> = Arc::from("");
        for (item, raw) in self.items.iter().enumerate() {
            let Some(message) = Members::of(raw.get()) else {
                continue;
            };
            let (text, place, files) = content_of(&message, item);
            self.bytes_of_files += files;
            match message.text("role").as_deref() {
                Some("user") => {
                    self.said = place.map(|place| {
                        let text = without_blocks(&text);
                        let said = times.entry(text.clone()).or_default();
                        *said += 1;
                        Said {
                            repeats: *said - 1,
                            reply_before: Arc::clone(&reply),
                            text,
                            place,
                        }
                    });
                }
                // A message that only calls tools says nothing.
                Some("assistant") if !text.trim().is_empty() => reply = text.into(),
                _ => {}
            }
        }
    }
}

/// The text of a message, the place of its beginning, and the bytes of what is no text.
fn content_of(message: &Members<'_>, item: usize) -> (String, Option<Place>, usize) {
    if let Some(text) = message.text("content") {
        return (text, Some(Place::Content { item }), 0);
    }

    let (mut texts, mut place, mut files) = (Vec::new(), None, 0);
    for (part, raw) in message.list("content").into_iter().flatten().enumerate() {
        let own = Members::of(raw.get());
        match own.as_ref().and_then(|own| own.text("text")) {
            Some(text) => {
                texts.push(text);
                place = place.or(Some(Place::Part { item, part }));
            }
            None => files += raw.get().len(),
        }
    }

    (texts.join("\n"), place, files)
}

/// A text in JSON with something before it.
fn before(raw: &str, block: &str) -> String {
    let block = json!(block).to_string();
    let open = block.strip_suffix('"').unwrap_or(&block);
    format!("{open}{}", raw.strip_prefix('"').unwrap_or(raw))
}

/// A list in JSON with one item replaced.
fn list_with(items: &[&RawValue], place: usize, changed: &str) -> String {
    let items = items.iter().enumerate();
    let items = items.map(|(at, raw)| if at == place { changed } else { raw.get() });
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

impl RequestFault {
    /// The fault in words.
    pub fn message(&self) -> String {
        match self {
            Self::Malformed(message) => message.clone(),
            Self::Unsupported(name) => {
                format!("{name} is not supported: nothing is stored at the provider")
            }
        }
    }

    /// The member, if the fault is about one.
    pub fn param(&self) -> Value {
        match self {
            Self::Malformed(_) => Value::Null,
            Self::Unsupported(name) => (*name).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(form: Form, body: &str) -> OpenAiRequest<'_> {
        OpenAiRequest::read(form, body.as_bytes()).unwrap()
    }

    #[test]
    fn everything_but_the_changes_keeps_its_bytes() {
        let body = r#"{ "model":"p:m", "x_new" : {"b" : 1.0, "a":[1e3, 12345678901234567890123]}, "messages":[
            {"role":"system","content":"S"},{"role":"user", "content":"caf\u00e9", "name":"ann"},
            {"role":"assistant","content":null,"tool_calls":[{"id":"1"}]},{"role":"tool","content":"42"}],
            "stream":true,"memoir":{"thread":"t"}}"#;
        let request = read(Form::Chat, body);
        assert_eq!(request.said().unwrap().text, "café");
        assert_eq!(request.memory.thread.as_deref(), Some("t"));
        let written = String::from_utf8(request.write("m", "B\n", true)).unwrap();
        assert_eq!(
            written,
            r#"{"model":"m","x_new":{"b" : 1.0, "a":[1e3, 12345678901234567890123]},"messages":[{"role":"system","content":"S"},{"role":"user","content":"B\ncaf\u00e9","name":"ann"},{"role":"assistant","content":null,"tool_calls":[{"id":"1"}]},{"role":"tool","content":"42"}],"stream":true,"stream_options":{"include_usage":true}}"#
        );
    }

    #[test]
    fn the_block_goes_to_the_first_text_of_the_last_message_of_the_user() {
        let body = r#"{"model":"m","messages":[{"role":"user","content":"one"},{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:x"}},{"type":"text","text":"two"},{"type":"text","text":"three"}]}]}"#;
        let request = read(Form::Chat, body);
        assert_eq!(request.said().unwrap().text, "two\nthree");
        let written = String::from_utf8(request.write("m", "B", false)).unwrap();
        assert_eq!(written, body.replace("\"two\"", "\"Btwo\""));

        let body = r#"{"model":"m","input":"hi"}"#;
        let written = read(Form::Responses, body).write("m", "B", false);
        assert_eq!(written, br#"{"model":"m","input":"Bhi"}"#);
        let body = r#"{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"hi"}]},{"type":"function_call_output","output":"x"}]}"#;
        let written = read(Form::Responses, body).write("m", "B", false);
        assert_eq!(
            String::from_utf8(written).unwrap(),
            body.replace("\"hi\"", "\"Bhi\"")
        );
    }

    #[test]
    fn a_turn_is_recognised_by_what_came_before() {
        let body = r#"{"model":"m","messages":[{"role":"user","content":"yes"},{"role":"assistant","content":"Sure?"},{"role":"user","content":"yes"},{"role":"tool","content":"yes"}]}"#;
        let request = read(Form::Chat, body);
        let said = request.said().unwrap();
        assert_eq!((&*said.reply_before, said.repeats), ("Sure?", 1));
    }

    #[test]
    fn rejects_what_it_cannot_forward() {
        for body in [
            "",
            "[]",
            "{}",
            r#"{"model":"m"}"#,
            r#"{"model":1,"messages":[]}"#,
            r#"{"model":"m","model":"m","messages":[]}"#,
            r#"{"model":"m","messages":[],"memoir":{"x":1}}"#,
        ] {
            let fault = OpenAiRequest::read(Form::Chat, body.as_bytes()).unwrap_err();
            assert!(matches!(fault, RequestFault::Malformed(_)), "{body}");
        }
        let body = br#"{"model":"m","input":"x","previous_response_id":"r"}"#;
        let fault = OpenAiRequest::read(Form::Responses, body).unwrap_err();
        assert_eq!(fault, RequestFault::Unsupported("previous_response_id"));
        let body = br#"{"model":"m","input":"x","background":false,"conversation":null}"#;
        assert!(OpenAiRequest::read(Form::Responses, body).is_ok());
    }
}
