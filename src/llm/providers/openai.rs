//! OpenAI's chat protocol, which most servers support.

use serde_json::{Value, json};

use super::super::provider::{Finish, Mode, Request, Usage};
use super::super::provider_error::ProviderError;
use super::protocol::{Embedding, Parts, Protocol};

pub(super) struct OpenAi;

impl Protocol for OpenAi {
    fn path(&self, _: &Request<'_>, _: bool) -> String {
        "/chat/completions".to_owned()
    }

    fn body(&self, request: &Request<'_>, streamed: bool) -> Value {
        let mut messages = vec![json!({"role": "user", "content": request.user})];
        if !request.system.is_empty() {
            messages.insert(0, json!({"role": "system", "content": request.system}));
        }

        let mut body = json!({"model": request.model, "messages": messages});
        for (name, value) in request.members() {
            body[name.as_str()] = value;
        }

        let parameters = request.parameters;
        if let Some(temperature) = parameters.temperature {
            body["temperature"] = temperature.into();
        }

        if let Some(seed) = parameters.seed {
            body["seed"] = seed.into();
        }

        if let Some(max) = parameters.max_output_tokens {
            let name = if parameters.new_name_for_max {
                "max_completion_tokens"
            } else {
                "max_tokens"
            };
            body[name] = max.into();
        }

        if streamed {
            body["stream"] = true.into();
            if parameters.stream_usage {
                body["stream_options"] = json!({"include_usage": true});
            }
        }

        body
    }

    fn read(&self, answer: &Value, request: &Request<'_>) -> Result<Parts, ProviderError> {
        let choice = &answer["choices"][0];
        let message = &choice["message"];
        if !message.is_object() {
            return Err(ProviderError::Unreadable("it has no message".to_owned()));
        }

        let called = message["tool_calls"].as_array().and_then(|calls| {
            calls
                .iter()
                .map(|call| &call["function"])
                .find(|function| function["name"] == request.tool)
        });

        let arguments = called.map(|function| match &function["arguments"] {
            // Some servers send the object instead of a string.
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });

        let mut parts = Parts {
            text: text_of(&message["content"]),
            arguments,
            refusal: message["refusal"].as_str().unwrap_or_default().to_owned(),
            finish: finish(&choice["finish_reason"]),
            usage: answer["usage"].clone(),
            ..Parts::default()
        };
        parts.identify(&answer["model"], &answer["id"]);
        Ok(parts)
    }

    fn add(&self, parts: &mut Parts, event: &Value, request: &Request<'_>) -> String {
        parts.add_usage(&event["usage"]);
        parts.identify(&event["model"], &event["id"]);
        let choice = &event["choices"][0];
        if let Some(finish) = finish(&choice["finish_reason"]) {
            parts.finish = Some(finish);
        }

        let delta = &choice["delta"];
        parts
            .refusal
            .push_str(delta["refusal"].as_str().unwrap_or_default());
        let text = delta["content"].as_str().unwrap_or_default();
        parts.text.push_str(text);
        let mut piece = String::new();
        if request.mode != Mode::Tool {
            piece.push_str(text);
        }

        // Only one tool is offered, so every call is a call of it.
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            if call["index"].as_i64().unwrap_or(0) > 0 {
                continue;
            }

            let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
            parts.arguments.get_or_insert_default().push_str(arguments);
            piece.push_str(arguments);
        }

        piece
    }

    fn usage(&self, usage: &Value) -> Option<Usage> {
        Some(Usage {
            prompt: usage["prompt_tokens"].as_i64()?,
            completion: usage["completion_tokens"].as_i64().unwrap_or(0),
            cached: usage["prompt_tokens_details"]["cached_tokens"]
                .as_i64()
                .unwrap_or(0),
        })
    }

    fn embedding(&self) -> Option<Embedding> {
        Some(Embedding {
            path: "/embeddings",
            body: |model, texts| json!({"model": model, "input": texts, "encoding_format": "float"}),
            read: read_vectors,
        })
    }
}

/// The text of a message, which may consist of several parts.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| part["text"].as_str())
            .collect(),
        _ => String::new(),
    }
}

fn finish(reason: &Value) -> Option<Finish> {
    Some(match reason.as_str()? {
        "content_filter" => Finish::Refused("a content filter stopped the answer".to_owned()),
        "length" => Finish::CutOff,
        _ => Finish::Complete,
    })
}

/// The vectors in the order of the texts, whatever their order in the response.
fn read_vectors(answer: &Value, count: usize) -> Result<Vec<Vec<f32>>, ProviderError> {
    let unreadable = |what: &str| ProviderError::Unreadable(what.to_owned());
    let data = answer["data"]
        .as_array()
        .ok_or_else(|| unreadable("it has no data"))?;
    let mut vectors = vec![Vec::new(); count];

    for (place, item) in data.iter().enumerate() {
        let index = item["index"]
            .as_u64()
            .map_or(place, |index| usize::try_from(index).unwrap_or(usize::MAX));
        let numbers = item["embedding"]
            .as_array()
            .ok_or_else(|| unreadable("an item has no embedding"))?;
        #[expect(clippy::cast_possible_truncation, reason = "stored as float32")]
        let vector: Option<Vec<f32>> = numbers
            .iter()
            .map(|number| number.as_f64().map(|number| number as f32))
            .collect();

        let vector = vector.filter(|vector| vector.iter().all(|number| number.is_finite()));
        let slot = vectors
            .get_mut(index)
            .ok_or_else(|| unreadable("it has more vectors than texts"))?;
        *slot = vector
            .ok_or_else(|| unreadable("an embedding contains values that are not numbers"))?;
    }

    let length = vectors.first().map_or(0, Vec::len);
    if length == 0 || vectors.iter().any(|vector| vector.len() != length) {
        return Err(unreadable("it lacks vectors, or their lengths differ"));
    }

    Ok(vectors)
}
