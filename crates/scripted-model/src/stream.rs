//! Answers as a stream: cuts a whole answer into the events of its protocol.

use serde_json::{Value, json};

use super::types::{Protocol, Seen};

/// The events of an answer, each with so many characters of its text.
pub(super) fn events(seen: &Seen, whole: &Value, piece_chars: usize) -> String {
    let length = piece_chars.max(1);
    match seen.protocol {
        Protocol::Anthropic => anthropic(whole, length),
        Protocol::Gemini => gemini(whole, length),
        Protocol::OpenAi | Protocol::Embeddings => openai(seen, whole, length),
    }
}

fn pieces(text: &str, length: usize) -> Vec<String> {
    let symbols: Vec<char> = text.chars().collect();
    symbols
        .chunks(length)
        .map(|piece| piece.iter().collect())
        .collect()
}

fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

fn openai(seen: &Seen, whole: &Value, length: usize) -> String {
    let chunk = |choices: Value| {
        let mut chunk = json!({"object": "chat.completion.chunk", "choices": choices});
        for name in ["id", "created", "model", "system_fingerprint"] {
            chunk[name].clone_from(&whole[name]);
        }
        chunk
    };

    let delta = |delta: Value, finish: Value| {
        data(&chunk(
            json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]),
        ))
    };

    let choice = &whole["choices"][0];
    let message = &choice["message"];
    let mut text = delta(json!({"role": "assistant", "content": ""}), Value::Null);
    for name in ["content", "refusal"] {
        for piece in pieces(message[name].as_str().unwrap_or_default(), length) {
            text.push_str(&delta(json!({name: piece}), Value::Null));
        }
    }

    if let Some(call) = message["tool_calls"].get(0) {
        let function = &call["function"];
        let opening = json!([{"index": 0, "id": call["id"], "type": "function",
            "function": {"name": function["name"], "arguments": ""}}]);
        text.push_str(&delta(json!({"tool_calls": opening}), Value::Null));
        for piece in pieces(function["arguments"].as_str().unwrap_or_default(), length) {
            let part = json!([{"index": 0, "function": {"arguments": piece}}]);
            text.push_str(&delta(json!({"tool_calls": part}), Value::Null));
        }
    }

    text.push_str(&delta(json!({}), choice["finish_reason"].clone()));
    if seen.body["stream_options"]["include_usage"] == true && whole.get("usage").is_some() {
        let mut last = chunk(json!([]));
        last["usage"].clone_from(&whole["usage"]);
        text.push_str(&data(&last));
    }

    text.push_str("data: [DONE]\n\n");
    text
}

fn anthropic(whole: &Value, length: usize) -> String {
    let event = |value: Value| {
        let kind = value["type"].as_str().unwrap_or_default().to_owned();
        format!("event: {kind}\n{}", data(&value))
    };

    let mut opening = whole.clone();
    opening["content"] = json!([]);
    opening["stop_reason"] = Value::Null;
    if whole.get("usage").is_some() {
        opening["usage"]["output_tokens"] = 1.into();
    }

    let mut text = event(json!({"type": "message_start", "message": opening}));
    text.push_str(&event(json!({"type": "ping"})));
    let blocks = whole["content"].as_array().cloned().unwrap_or_default();
    for (index, block) in blocks.iter().enumerate() {
        let (empty, deltas): (Value, Vec<Value>) = if block["type"] == "tool_use" {
            let input = match &block["input"] {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let delta = |piece| json!({"type": "input_json_delta", "partial_json": piece});
            let mut empty = block.clone();
            empty["input"] = json!({});
            (
                empty,
                pieces(&input, length).into_iter().map(delta).collect(),
            )
        } else {
            let whole = block["text"].as_str().unwrap_or_default();
            let delta = |piece| json!({"type": "text_delta", "text": piece});
            let deltas = pieces(whole, length).into_iter().map(delta).collect();
            (json!({"type": "text", "text": ""}), deltas)
        };

        text.push_str(&event(
            json!({"type": "content_block_start", "index": index, "content_block": empty}),
        ));
        for delta in deltas {
            text.push_str(&event(
                json!({"type": "content_block_delta", "index": index, "delta": delta}),
            ));
        }
        text.push_str(&event(
            json!({"type": "content_block_stop", "index": index}),
        ));
    }

    let mut ending = json!({"type": "message_delta",
        "delta": {"stop_reason": whole["stop_reason"], "stop_sequence": null}});
    if whole.get("usage").is_some() {
        ending["usage"] = json!({"output_tokens": whole["usage"]["output_tokens"]});
    }

    text.push_str(&event(ending));
    text.push_str(&event(json!({"type": "message_stop"})));
    text
}

fn gemini(whole: &Value, length: usize) -> String {
    let part = &whole["candidates"][0]["content"]["parts"][0];
    let Some(said) = part["text"].as_str().filter(|said| !said.is_empty()) else {
        // A function call and a blocked prompt come as one event.
        return data(whole);
    };

    let cut = pieces(said, length);
    let mut text = String::new();
    for (place, piece) in cut.iter().enumerate() {
        let mut event = whole.clone();
        event["candidates"][0]["content"]["parts"][0]["text"] = piece.as_str().into();
        if place + 1 < cut.len() {
            let candidate = event["candidates"][0].as_object_mut();
            candidate.map(|candidate| candidate.shift_remove("finishReason"));
        }
        text.push_str(&data(&event));
    }

    text
}
