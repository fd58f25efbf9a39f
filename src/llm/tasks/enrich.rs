//! The stage `enrich`: classifies messages with the vocabulary, one or several at once. Both forms
//! call the same tool.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::framed;
use crate::llm::{Fault, Items, Task, schema};
use crate::model::memory::{Entity, LOW_CONFIDENCE};
use crate::model::vocabulary::Terms;

/// Messages of one call.
pub const MAX_MESSAGES: usize = 20;
const MAX_TOPICS: usize = 3;
/// Maximum characters of a name or value that is stored.
const MAX_SUGGESTION_CHARS: usize = 100;
const MAX_ENTITIES: usize = 50;
/// Entities of one message for a model whose lists must be limited.
const MAX_BOUND_ENTITIES: usize = 5;
const MAX_VALUE_CHARS: usize = 300;
const CONFIDENCES: [&str; 3] = ["high", "medium", LOW_CONFIDENCE];

const TOOL: &str = "classify_message";
const DESCRIPTION: &str = "Classify a message with topics, category, and entities. \
Understand the semantic INTENT of the message, not just keywords. \
For example, 'I'm not here for a refund, I need understanding' \
should be classified as 'general_inquiry', NOT 'refund'.";

/// One message to classify.
#[derive(Debug, Clone)]
pub struct EnrichOne {
    pub message: Arc<str>,
    pub role: String,
    pub terms: Arc<Terms>,
}

/// Several messages to classify, by number.
#[derive(Debug, Clone)]
pub struct EnrichMany {
    pub messages: Vec<(i64, String, Arc<str>)>,
    pub terms: Arc<Terms>,
}

/// What a message is about.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ClassifiedMessage {
    pub topics: Vec<String>,
    pub category: String,
    pub message_type: String,
    pub entities: Option<Vec<NamedEntity>>,
    pub importance: f64,
    pub confidence: String,
    pub suggested_topic: Option<String>,
    pub suggested_category: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct NamedEntity {
    #[serde(rename = "type")]
    pub kind: String,
    pub value: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ClassifiedMessages {
    pub messages: Vec<NumberedMessage>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct NumberedMessage {
    /// The number of the message.
    pub id: i64,
    #[serde(flatten)]
    pub found: ClassifiedMessage,
}

impl NamedEntity {
    pub fn into_entity(self) -> Entity {
        Entity {
            kind: self.kind,
            value: self.value,
        }
    }
}

/// The schema of entities, for both tasks that name them.
pub(super) fn entities_schema(terms: &Terms, description: &str) -> Value {
    json!({
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "type": {"type": "string", "enum": terms.entity_types},
                "value": {"type": "string"},
            },
            "required": ["type", "value"],
        },
        "description": description,
    })
}

fn properties(terms: &Terms) -> Value {
    json!({
        "topics": {
            "type": "array",
            "items": {"type": "string", "enum": terms.topics},
            "minItems": 1,
            "maxItems": MAX_TOPICS,
            "description": "1-3 topics that represent the INTENT of the message. \
                            Focus on what the user WANTS, not words they mention.",
        },
        "category": {
            "type": "string",
            "enum": terms.categories,
            "description": "Single category that best describes the PURPOSE of this message.",
        },
        "message_type": {
            "type": "string",
            "enum": terms.message_types,
            "description": "Type of message",
        },
        "entities": entities_schema(terms, "Extracted entities - order IDs, amounts, names, etc."),
        "importance": {
            "type": "number",
            "minimum": 0.0,
            "maximum": 1.0,
            "description": "Importance: 0.0-0.3 casual, 0.4-0.6 normal, 0.7-1.0 critical",
        },
        "confidence": {
            "type": "string",
            "enum": CONFIDENCES,
            "description": "How confident are you in this classification?",
        },
        "suggested_topic": {
            "type": ["string", "null"],
            "description": "If no topic fits well, suggest a new one",
        },
        "suggested_category": {
            "type": ["string", "null"],
            "description": "If no category fits well, suggest a new one",
        },
    })
}

const REQUIRED: [&str; 5] = [
    "topics",
    "category",
    "message_type",
    "confidence",
    "importance",
];

/// Limits the lists and texts of a classification.
fn bound_fields(schema: &mut Value, fields: &str) {
    let limits = [
        ("entities", ("maxItems", MAX_BOUND_ENTITIES)),
        (
            "entities/items/properties/value",
            ("maxLength", MAX_VALUE_CHARS),
        ),
        ("suggested_topic", ("maxLength", MAX_SUGGESTION_CHARS)),
        ("suggested_category", ("maxLength", MAX_SUGGESTION_CHARS)),
    ];
    for (field, limit) in limits {
        schema::limit(schema, &format!("{fields}/{field}"), &[limit]);
    }
}

/// What is wrong with a classification.
fn faults(found: &ClassifiedMessage, terms: &Terms) -> Vec<String> {
    let mut faults = Vec::new();
    let unknown = |name: &str, list: &[String]| !list.iter().any(|term| term == name);
    if !(1..=MAX_TOPICS).contains(&found.topics.len()) {
        faults.push(format!("topics must have 1 to {MAX_TOPICS} entries"));
    }

    for topic in found
        .topics
        .iter()
        .filter(|name| unknown(name, &terms.topics))
    {
        faults.push(format!("{topic:?} is not a topic of the vocabulary"));
    }

    if unknown(&found.category, &terms.categories) {
        faults.push(format!(
            "{:?} is not a category of the vocabulary",
            found.category
        ));
    }

    if unknown(&found.message_type, &terms.message_types) {
        faults.push(format!(
            "{:?} is not a message type of the vocabulary",
            found.message_type
        ));
    }

    if !(0.0..=1.0).contains(&found.importance) {
        faults.push("importance must be from 0.0 to 1.0".to_owned());
    }

    if !CONFIDENCES.contains(&found.confidence.as_str()) {
        faults.push("confidence must be high, medium or low".to_owned());
    }

    for entity in found.entities.iter().flatten() {
        if unknown(&entity.kind, &terms.entity_types) {
            faults.push(format!(
                "{:?} is not an entity type of the vocabulary",
                entity.kind
            ));
        }
    }

    faults
}

/// Keeps what can be stored: suggestions only of a model that is not sure, and no repeats.
fn settle(mut found: ClassifiedMessage) -> ClassifiedMessage {
    let mut seen = Vec::new();
    found.topics.retain(|topic| {
        let new = !seen.contains(topic);
        seen.push(topic.clone());
        new
    });

    let low = found.confidence == LOW_CONFIDENCE;
    let usable = |name: Option<String>| {
        let name = name.map(|name| name.trim().to_owned()).filter(|_| low)?;
        let fits = !name.is_empty() && name.chars().count() <= MAX_SUGGESTION_CHARS;
        fits.then_some(name)
    };

    found.suggested_topic = usable(found.suggested_topic);
    found.suggested_category = usable(found.suggested_category);
    if let Some(entities) = &mut found.entities {
        entities.retain(|entity| {
            !entity.value.trim().is_empty() && entity.value.chars().count() <= MAX_VALUE_CHARS
        });
        entities.truncate(MAX_ENTITIES);
    }

    found
}

impl Task for EnrichOne {
    const STAGE: &'static str = "enrich";
    const TOOL: Option<&'static str> = Some(TOOL);
    const DESCRIPTION: &'static str = DESCRIPTION;
    const SYSTEM: &'static str = "Classify the message by its semantic INTENT, not by keywords present. \
Example: 'I don't want a refund, I want to understand the policy' \
→ topic should be 'general_inquiry', NOT 'refund'. \
The user explicitly said they DON'T want a refund. \
Always consider negations and context.";
    type Output = ClassifiedMessage;

    fn frame(&self) -> String {
        self.message.to_string()
    }

    fn own_schema(&self) -> Option<Value> {
        Some(json!({
            "type": "object",
            "properties": properties(&self.terms),
            "required": REQUIRED,
        }))
    }

    fn bound(&self, schema: &mut Value) {
        bound_fields(schema, "/properties");
    }

    fn settle(&self, output: ClassifiedMessage) -> ClassifiedMessage {
        settle(output)
    }

    fn check(&self, output: &ClassifiedMessage) -> Vec<Fault> {
        let faults = faults(output, &self.terms);
        faults.into_iter().map(Fault::whole).collect()
    }
}

impl Task for EnrichMany {
    const STAGE: &'static str = "enrich";
    const TOOL: Option<&'static str> = Some(TOOL);
    const DESCRIPTION: &'static str = DESCRIPTION;
    const SYSTEM: &'static str = "Classify each message by its semantic INTENT, not by keywords present. \
Example: 'I don't want a refund, I want to understand the policy' \
→ topic should be 'general_inquiry', NOT 'refund'. \
The user explicitly said they DON'T want a refund. \
Always consider negations and context. \
The messages are in the order of the conversation. Answer for every message exactly once, by its number.";
    const DIVISIBLE: bool = true;
    const ITEMS: Option<Items> = Some(Items {
        list: "messages",
        id: "id",
        noun: "message",
    });
    type Output = ClassifiedMessages;

    fn frame(&self) -> String {
        let each = self.messages.iter();
        each.map(|(id, role, text)| framed(&format!("Message {id} [{role}]"), text))
            .collect()
    }

    fn own_schema(&self) -> Option<Value> {
        let mut fields =
            json!({"id": {"type": "integer", "description": "The number of the message."}});
        if let (Some(all), Value::Object(own)) = (fields.as_object_mut(), properties(&self.terms)) {
            all.extend(own);
        }

        let required: Vec<&str> = std::iter::once("id").chain(REQUIRED).collect();
        Some(json!({
            "type": "object",
            "properties": {
                "messages": {
                    "type": "array",
                    "items": {"type": "object", "properties": fields, "required": required},
                },
            },
            "required": ["messages"],
        }))
    }

    fn bound(&self, schema: &mut Value) {
        let count = self.messages.len();
        schema::limit(
            schema,
            "/properties/messages",
            &[("minItems", count), ("maxItems", count)],
        );
        bound_fields(schema, "/properties/messages/items/properties");
    }

    fn settle(&self, mut output: ClassifiedMessages) -> ClassifiedMessages {
        for message in &mut output.messages {
            message.found = settle(message.found.clone());
        }

        output
    }

    fn check(&self, output: &ClassifiedMessages) -> Vec<Fault> {
        let each = output.messages.iter().filter_map(|message| {
            let faults = faults(&message.found, &self.terms);
            (!faults.is_empty()).then(|| {
                let text = format!("message {}: {}", message.id, faults.join("; "));
                Fault::item(message.id, text)
            })
        });

        each.collect()
    }

    fn ids(&self) -> Vec<i64> {
        self.messages.iter().map(|(id, _, _)| *id).collect()
    }

    fn only(&self, ids: &[i64]) -> Self {
        let messages = self.messages.iter().filter(|(id, _, _)| ids.contains(id));
        Self {
            messages: messages.cloned().collect(),
            terms: Arc::clone(&self.terms),
        }
    }

    fn merge(parts: Vec<ClassifiedMessages>) -> Option<ClassifiedMessages> {
        let messages: Vec<NumberedMessage> =
            parts.into_iter().flat_map(|part| part.messages).collect();
        (!messages.is_empty()).then_some(ClassifiedMessages { messages })
    }
}
