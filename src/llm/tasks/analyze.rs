//! The stage `analyze`: what a question to the memories is about.

use std::sync::Arc;

use memoir_text::framing::above_label;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::enrich::{NamedEntity, entities_schema};
use crate::llm::{Fault, Task};
use crate::model::vocabulary::Terms;

const MAX_TOPICS: usize = 3;
/// What stands before the question.
const QUERY: &str = "User query:";
/// The time ranges of a search.
pub const TIME_SCOPES: [&str; 5] = ["today", "yesterday", "last_week", "last_month", ANY_TIME];
/// The time range of a question that names none.
pub const ANY_TIME: &str = "all";

/// A question to the memories.
#[derive(Debug, Clone)]
pub struct Analyze {
    pub query: Arc<str>,
    /// The last messages of the thread, if there are any.
    pub thread_context: Option<Arc<str>>,
    pub terms: Arc<Terms>,
}

/// What to search for.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SearchParams {
    pub topics: Vec<String>,
    pub category: Option<String>,
    pub time_scope: String,
    pub entities: Option<Vec<NamedEntity>>,
    pub search_current_thread_only: bool,
}

impl Task for Analyze {
    const STAGE: &'static str = "analyze";
    const TOOL: Option<&'static str> = Some("extract_search_params");
    const DESCRIPTION: &'static str = "Extract search parameters from user query. \
Understand semantic INTENT, not keywords. \
Consider negations: 'not about refunds' means EXCLUDE refund topic.";
    const SYSTEM: &'static str = "Extract search parameters from the query. \
Understand the semantic INTENT - what does the user actually want to find? \
If they reference past conversations or history, set search_current_thread_only=false. \
If they ask about 'this conversation' or recent context, set it to true.";
    type Output = SearchParams;

    fn frame(&self) -> String {
        match &self.thread_context {
            Some(context) => format!(
                "Recent conversation context:\n{}\n\n{QUERY} {}",
                above_label(context, QUERY),
                self.query
            ),
            None => self.query.to_string(),
        }
    }

    fn own_schema(&self) -> Option<Value> {
        let categories = self.terms.categories.iter().map(|name| json!(name));
        let categories: Vec<Value> = categories.chain([Value::Null]).collect();
        Some(json!({
            "type": "object",
            "properties": {
                "topics": {
                    "type": "array",
                    "items": {"type": "string", "enum": self.terms.topics},
                    "maxItems": MAX_TOPICS,
                    "description": "Topics to search for based on user's INTENT",
                },
                "category": {
                    "type": ["string", "null"],
                    "enum": categories,
                    "description": "Category filter if clearly applicable",
                },
                "time_scope": {
                    "type": "string",
                    "enum": TIME_SCOPES,
                    "description": "Time range for search",
                },
                "entities": entities_schema(
                    &self.terms,
                    "Specific entities to search for (order IDs, names, amounts)",
                ),
                "search_current_thread_only": {
                    "type": "boolean",
                    "description": "True if query is about current conversation only. \
                                    False if user wants to search across all their history.",
                },
            },
            "required": ["topics", "time_scope", "search_current_thread_only"],
        }))
    }

    fn complete(&self, answer: &mut Value) {
        let Some(fields) = answer.as_object_mut() else {
            return;
        };

        for (name, usual) in [
            ("topics", json!([])),
            ("category", Value::Null),
            ("time_scope", json!(ANY_TIME)),
            ("entities", json!([])),
            ("search_current_thread_only", json!(false)),
        ] {
            let field = fields.entry(name).or_insert(Value::Null);
            if field.is_null() {
                *field = usual;
            }
        }
    }

    fn check(&self, output: &SearchParams) -> Vec<Fault> {
        let mut faults = Vec::new();
        let known = |name: &str, list: &[String]| list.iter().any(|term| term == name);
        if output.topics.len() > MAX_TOPICS {
            faults.push(Fault::whole(format!(
                "topics must have at most {MAX_TOPICS} entries"
            )));
        }

        for topic in output
            .topics
            .iter()
            .filter(|name| !known(name, &self.terms.topics))
        {
            faults.push(Fault::whole(format!(
                "{topic:?} is not a topic of the vocabulary"
            )));
        }

        if let Some(category) = output.category.as_ref()
            && !known(category, &self.terms.categories)
        {
            faults.push(Fault::whole(format!(
                "{category:?} is not a category of the vocabulary"
            )));
        }

        if !TIME_SCOPES.contains(&output.time_scope.as_str()) {
            faults.push(Fault::whole(format!(
                "time_scope must be one of {TIME_SCOPES:?}"
            )));
        }

        let entities = output.entities.iter().flatten();
        for entity in entities.filter(|entity| !known(&entity.kind, &self.terms.entity_types)) {
            faults.push(Fault::whole(format!(
                "{:?} is not an entity type of the vocabulary",
                entity.kind
            )));
        }

        faults
    }
}
