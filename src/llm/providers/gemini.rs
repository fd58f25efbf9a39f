//! Gemini's protocol: `generateContent`.

use serde_json::{Value, json};

use super::super::provider::{Finish, Mode, Request, Usage};
use super::super::provider_error::ProviderError;
use super::protocol::{Parts, Protocol};

pub(super) struct Gemini;

impl Protocol for Gemini {
    fn path(&self, request: &Request<'_>, streamed: bool) -> String {
        let method = if streamed {
            "streamGenerateContent?alt=sse"
        } else {
            "generateContent"
        };

        format!("/models/{}:{method}", request.model)
    }

    fn body(&self, request: &Request<'_>, _: bool) -> Value {
        let mut body = json!({});
        if !request.system.is_empty() {
            body["systemInstruction"] = json!({"parts": [{"text": request.system}]});
        }

        if request.mode == Mode::Tool {
            body["tools"] = json!([{"functionDeclarations": [{
                "name": request.tool,
                "description": request.description,
                "parametersJsonSchema": request.schema,
            }]}]);
            body["toolConfig"] = json!({"functionCallingConfig": {
                "mode": "ANY",
                "allowedFunctionNames": [request.tool],
            }});
        }

        body["contents"] = json!([{"role": "user", "parts": [{"text": request.user}]}]);
        body["generationConfig"] = generation(request);
        body
    }

    fn read(&self, answer: &Value, request: &Request<'_>) -> Result<Parts, ProviderError> {
        let known = answer["candidates"].is_array() || answer["promptFeedback"].is_object();
        if !known {
            return Err(ProviderError::Unreadable(
                "it does not have the provider's format".to_owned(),
            ));
        }

        let mut parts = Parts::default();
        self.add(&mut parts, answer, request);
        Ok(parts)
    }

    /// An event has the form of a whole reply, with a part of its text.
    fn add(&self, parts: &mut Parts, event: &Value, request: &Request<'_>) -> String {
        let candidate = &event["candidates"][0];
        let mut piece = String::new();
        for part in candidate["content"]["parts"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let call = &part["functionCall"];
            if call["name"] == request.tool && parts.arguments.is_none() {
                let arguments = match &call["args"] {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                piece.push_str(&arguments);
                parts.arguments = Some(arguments);
            }

            // A thought is not part of the answer.
            if let Some(text) = part["text"].as_str().filter(|_| part["thought"] != true) {
                parts.text.push_str(text);
                if request.mode != Mode::Tool {
                    piece.push_str(text);
                }
            }
        }

        if let Some(finish) = finish(&candidate["finishReason"]) {
            parts.finish = Some(finish);
        }

        // A blocked prompt has no candidate.
        if candidate.is_null() && event["promptFeedback"].is_object() {
            let reason = event["promptFeedback"]["blockReason"].as_str();
            let reason = reason.unwrap_or("the prompt was blocked").to_owned();
            parts.finish = Some(Finish::Refused(reason));
        }

        parts.add_usage(&event["usageMetadata"]);
        parts.identify(&event["modelVersion"], &event["responseId"]);
        piece
    }

    fn usage(&self, usage: &Value) -> Option<Usage> {
        let count = |name: &str| usage[name].as_i64().unwrap_or(0);

        Some(Usage {
            prompt: usage["promptTokenCount"].as_i64()?,
            // Thoughts are paid for, but not counted among the candidates.
            completion: count("candidatesTokenCount") + count("thoughtsTokenCount"),
            cached: count("cachedContentTokenCount"),
        })
    }
}

/// The form of the answer, and the parameters.
fn generation(request: &Request<'_>) -> Value {
    let mut settings = json!({});
    if request.mode == Mode::Native {
        settings["responseMimeType"] = "application/json".into();
        settings["responseJsonSchema"] = request.schema.clone();
    }

    let parameters = request.parameters;
    if let Some(temperature) = parameters.temperature {
        settings["temperature"] = temperature.into();
    }

    if let Some(max) = parameters.max_output_tokens {
        settings["maxOutputTokens"] = max.into();
    }

    if let Some(seed) = parameters.seed {
        settings["seed"] = seed.into();
    }

    settings
}

fn finish(reason: &Value) -> Option<Finish> {
    Some(match reason.as_str()? {
        "MAX_TOKENS" => Finish::CutOff,
        blocked @ ("SAFETY"
        | "RECITATION"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "LANGUAGE"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION") => Finish::Refused(blocked.to_owned()),
        _ => Finish::Complete,
    })
}
