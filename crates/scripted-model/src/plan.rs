//! Decides the response to a request: the right answer, or one changed by a fault. Waiting and
//! sending are done by `routes` and `body`.

use std::time::Duration;

use serde_json::{Value, json};

use super::embed;
use super::render::{self, Said, Spoken};
use super::script::{Answer, Reply, Script};
use super::see;
use super::step::{Fault, has_parameter};
use super::stream;
use super::types::{OutputMode, Protocol, Seen, Usage};

const PAGE: &str =
    "<!DOCTYPE html><html><head><title>Welcome</title></head><body><h1>It works</h1></body></html>";

/// How the body of an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Complete,
    ResetHalfway,
    StallHalfway,
}

#[derive(Debug)]
pub(super) struct Message {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) content_type: &'static str,
    pub(super) body: String,
    /// Sent without announcing its length.
    pub(super) chunked: bool,
    pub(super) ending: Ending,
    /// Between the events of a stream; none for other bodies.
    pub(super) pause: Option<Duration>,
}

#[derive(Debug)]
pub(super) enum Act {
    Send(Message),
    Close,
    Stall,
}

#[derive(Debug)]
pub(super) struct Plan {
    pub(super) wait: Duration,
    pub(super) act: Act,
    /// The token counts, if it is an answer.
    pub(super) usage: Option<Usage>,
}

/// The rejection of this request by the script or the protocol itself, before any fault.
pub(super) fn rejection(script: &Script, seen: &Seen) -> Option<Fault> {
    if let Some(name) = see::lacks(seen.protocol, &seen.body) {
        let text = format!("Missing required parameter: '{name}'.");
        return Some(status(
            400,
            render::error(seen.protocol, 400, &text).to_string(),
        ));
    }

    match seen.mode {
        OutputMode::Native if let Some(body) = &script.reject_native => {
            return Some(Fault::RefuseNative {
                status: 400,
                body: body.clone(),
            });
        }
        OutputMode::Tool if let Some(body) = &script.reject_tool => {
            return Some(Fault::RefuseTool {
                status: 400,
                body: body.clone(),
            });
        }
        _ => {}
    }

    let name = script
        .reject_parameters
        .iter()
        .find(|name| has_parameter(&seen.body, name))?;

    Some(Fault::RejectParameter { name: name.clone() })
}

pub(super) fn plan(script: &Script, seen: &Seen, fault: Option<Fault>) -> Plan {
    let mut planner = Planner {
        script,
        seen,
        wait: Duration::from_millis(script.latency_ms),
        usage: None,
    };

    let act = match fault {
        Some(fault) => planner.play(fault, None),
        None => planner.answer(),
    };

    Plan {
        wait: planner.wait,
        act,
        usage: planner.usage,
    }
}

/// A request and its decision in progress.
struct Planner<'a> {
    script: &'a Script,
    seen: &'a Seen,
    wait: Duration,
    usage: Option<Usage>,
}

impl Planner<'_> {
    fn answer(&mut self) -> Act {
        if self.seen.protocol == Protocol::Embeddings {
            return Act::Send(self.right(None));
        }

        let mut reply = self.script.rule.reply(self.seen);
        match reply.fault.take() {
            Some(fault) => self.play(fault, Some(reply)),
            None => Act::Send(self.right(Some(reply))),
        }
    }

    /// `reply` is the result of the rule, if it was already evaluated.
    fn play(&mut self, fault: Fault, reply: Option<Reply>) -> Act {
        Act::Send(match fault {
            Fault::Close => return Act::Close,
            Fault::Stall => return Act::Stall,
            Fault::Status {
                status,
                headers,
                body,
            } => {
                let headers = headers.into_iter().collect();
                Message {
                    headers,
                    ..self.failure(status, body, "The scripted model was told to fail.")
                }
            }
            Fault::RefuseNative { status, body } => self.failure(
                status,
                body,
                "Structured output is not supported by this model: response format.",
            ),
            Fault::RefuseTool { status, body } => {
                self.failure(status, body, "Tools are not supported by this model.")
            }
            Fault::RejectParameter { name } => {
                json_message(400, &render::unsupported(self.seen.protocol, &name))
            }
            Fault::Html => Message {
                content_type: "text/html; charset=utf-8",
                ..message(200, PAGE.to_owned())
            },
            Fault::ResetMidBody => Message {
                ending: Ending::ResetHalfway,
                ..self.right(reply)
            },
            Fault::StallMidBody => Message {
                ending: Ending::StallHalfway,
                ..self.right(reply)
            },
            Fault::Delay { ms } => {
                self.wait += Duration::from_millis(ms);
                self.right(reply)
            }
            other if self.seen.protocol == Protocol::Embeddings => self.altered_vectors(other),
            other => self.altered_words(other, reply),
        })
    }

    fn reply(&self, reply: Option<Reply>) -> Reply {
        reply.unwrap_or_else(|| self.script.rule.reply(self.seen))
    }

    /// The answer without a fault.
    fn right(&mut self, reply: Option<Reply>) -> Message {
        if self.seen.protocol == Protocol::Embeddings {
            let (body, usage) = embed::answer(self.seen, self.script);
            self.usage = Some(usage);
            return json_message(200, &body);
        }

        let reply = self.reply(reply);
        self.say(Said::asked(self.seen, reply.answer), false, reply.usage)
    }

    fn say(&mut self, said: Said, cut: bool, usage: Option<Usage>) -> Message {
        let sent = self.seen.system.chars().count() + self.seen.user.chars().count();
        let usage = usage.unwrap_or_else(|| self.script.usage.count(sent, said.chars()));
        self.usage = Some(usage);
        let usage = (!self.script.usage.omit).then_some(usage);

        self.rendered(Spoken { said, cut, usage })
    }

    /// The answer in its protocol: as a whole, or as events.
    fn rendered(&self, spoken: Spoken) -> Message {
        let whole = render::message(self.seen, spoken);
        if !self.seen.streamed {
            return json_message(200, &whole);
        }

        Message {
            content_type: "text/event-stream",
            chunked: true,
            pause: Some(Duration::from_millis(self.script.piece_ms)),
            ..message(
                200,
                stream::events(self.seen, &whole, self.script.piece_chars),
            )
        }
    }

    /// Faults that change the model's output.
    fn altered_words(&mut self, fault: Fault, reply: Option<Reply>) -> Message {
        let seen = self.seen;
        let fixed = match fault {
            Fault::RawText { ref text } => Some(Said::asked(seen, Answer::Text(text.clone()))),
            Fault::RawAnswer { ref json } => Some(Said::asked(seen, Answer::Json(json.clone()))),
            Fault::Refusal {
                ref text,
                blocked_prompt,
            } => Some(Said::Refusal {
                text: text.clone(),
                blocked_prompt,
            }),
            Fault::Empty => Some(Said::Nothing),
            Fault::Huge { bytes, .. } => Some(Said::Text("x".repeat(bytes))),
            _ => None,
        };

        if let Some(said) = fixed {
            let chunked = matches!(fault, Fault::Huge { chunked: true, .. });
            let said = self.say(said, false, None);
            return Message {
                chunked: chunked || said.chunked,
                ..said
            };
        }

        let reply = self.reply(reply);
        let usage = reply.usage;
        let answer = reply.answer;

        match fault {
            Fault::NoToolCall => self.say(Said::Text(answer.into_text()), false, usage),
            Fault::Truncated { keep_chars } => {
                let kept = answer.into_text().chars().take(keep_chars).collect();
                self.say(Said::asked(seen, Answer::Text(kept)), true, usage)
            }
            Fault::Fenced { before, after } => {
                let fenced = format!("{before}\n```json\n{}\n```\n{after}", answer.into_text());
                self.say(Said::asked(seen, Answer::Text(fenced)), false, usage)
            }
            Fault::NoUsage => self.without_usage(Said::asked(seen, answer)),
            other => match changed(other, as_value(answer)) {
                Ok(value) => self.say(Said::asked(seen, Answer::Json(value)), false, usage),
                Err(complaint) => self.failure(501, String::new(), &complaint),
            },
        }
    }

    fn without_usage(&self, said: Said) -> Message {
        self.rendered(Spoken {
            said,
            cut: false,
            usage: None,
        })
    }

    /// Applies a fault to embeddings, where only the body can be changed.
    fn altered_vectors(&mut self, fault: Fault) -> Message {
        let (mut body, usage) = embed::answer(self.seen, self.script);
        self.usage = Some(usage);
        match fault {
            Fault::RawText { text } => message(200, text),
            Fault::RawAnswer { json } => json_message(200, &json),
            Fault::Truncated { keep_chars } => {
                message(200, body.to_string().chars().take(keep_chars).collect())
            }
            Fault::Huge { bytes, chunked } => {
                body["padding"] = "x".repeat(bytes).into();
                Message {
                    chunked,
                    ..json_message(200, &body)
                }
            }
            Fault::Empty => {
                body["data"] = json!([]);
                json_message(200, &body)
            }
            Fault::NoUsage => {
                body.as_object_mut().map(|body| body.shift_remove("usage"));
                json_message(200, &body)
            }
            Fault::Edit { .. } | Fault::Remove { .. } => match changed(fault, body) {
                Ok(body) => json_message(200, &body),
                Err(complaint) => self.failure(501, String::new(), &complaint),
            },
            _ => json_message(200, &body),
        }
    }

    fn failure(&self, status: u16, body: String, otherwise: &str) -> Message {
        if body.is_empty() {
            return json_message(
                status,
                &render::error(self.seen.protocol, status, otherwise),
            );
        }
        message(status, body)
    }
}

fn status(status: u16, body: String) -> Fault {
    Fault::Status {
        status,
        headers: std::collections::BTreeMap::new(),
        body,
    }
}

fn message(status: u16, body: String) -> Message {
    let content_type = "application/json";
    Message {
        status,
        headers: Vec::new(),
        content_type,
        body,
        chunked: false,
        ending: Ending::Complete,
        pause: None,
    }
}

fn json_message(status: u16, body: &Value) -> Message {
    message(status, body.to_string())
}

fn as_value(answer: Answer) -> Value {
    match answer {
        Answer::Json(value) => value,
        Answer::Text(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
    }
}

/// Applies an edit or a removal. A pointer that matches nothing is an error of the test and is
/// reported.
fn changed(fault: Fault, mut answer: Value) -> Result<Value, String> {
    let (pointer, value) = match fault {
        Fault::Edit { pointer, value } => (pointer, Some(value)),
        Fault::Remove { pointer } => (pointer, None),
        _ => return Ok(answer),
    };

    if pointer.is_empty() {
        return Ok(value.unwrap_or_default());
    }

    let complaint = format!("the scripted answer has nothing at {pointer}: {answer}");
    let (parent, key) = pointer.rsplit_once('/').ok_or_else(|| complaint.clone())?;
    let key = key.replace("~1", "/").replace("~0", "~");

    let done = match (answer.pointer_mut(parent), value) {
        (Some(Value::Object(object)), Some(value)) => {
            object.insert(key, value);
            true
        }
        (Some(Value::Object(object)), None) => object.shift_remove(&key).is_some(),
        (Some(Value::Array(items)), value) => set_item(items, &key, value),
        _ => false,
    };

    if done { Ok(answer) } else { Err(complaint) }
}

/// `-` adds at the end, as in JSON Patch.
fn set_item(items: &mut Vec<Value>, key: &str, value: Option<Value>) -> bool {
    let index = key
        .parse::<usize>()
        .ok()
        .filter(|index| *index < items.len());

    match (index, value) {
        (Some(index), Some(value)) => items[index] = value,
        (Some(index), None) => drop(items.remove(index)),
        (None, Some(value)) if key == "-" => items.push(value),
        (None, _) => return false,
    }

    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(pointer: &str, value: Value) -> Result<Value, String> {
        changed(
            Fault::Edit {
                pointer: pointer.into(),
                value,
            },
            json!({"a": [1, {"b": 2}]}),
        )
    }

    #[test]
    fn edits_replace_and_add_and_reject_errors() {
        assert_eq!(edit("/a/1/b", json!(3)), Ok(json!({"a": [1, {"b": 3}]})));
        assert_eq!(edit("/a/-", json!(3)), Ok(json!({"a": [1, {"b": 2}, 3]})));
        assert_eq!(
            edit("/c", json!(3)),
            Ok(json!({"a": [1, {"b": 2}], "c": 3}))
        );

        assert!(edit("/a/7", json!(3)).is_err());
    }

    #[test]
    fn removals_remove_and_reject_errors() {
        let remove = |pointer: &str| {
            changed(
                Fault::Remove {
                    pointer: pointer.into(),
                },
                json!({"a": [1, 2]}),
            )
        };

        assert_eq!(remove("/a/0"), Ok(json!({"a": [2]})));
        assert_eq!(remove("/a"), Ok(json!({})));
        assert!(remove("/b").is_err());
    }
}
