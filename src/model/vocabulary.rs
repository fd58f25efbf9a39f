//! The vocabulary: the closed lists that messages are classified with and looked up by.

use memoir_text::catch_all::CATCH_ALL;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

/// One version of a space's lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vocabulary {
    pub version: String,
    pub terms: Terms,
}

/// The lists, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    pub topics: Vec<String>,
    pub categories: Vec<String>,
    pub message_types: Vec<String>,
    pub entity_types: Vec<String>,
}

impl Vocabulary {
    /// The vocabulary of a space that has none of its own.
    pub fn seeded() -> Self {
        let list = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        Self {
            version: "2024-01-15".to_owned(),
            terms: Terms {
                topics: list(&[
                    "refund",
                    "shipping",
                    "account_access",
                    "billing",
                    "product_issue",
                    "cancellation",
                    "order_status",
                    "payment",
                    "returns",
                    "technical_support",
                    "pricing",
                    "subscription",
                    CATCH_ALL,
                ]),
                categories: list(&[
                    "support_request",
                    "complaint",
                    "inquiry",
                    "feedback",
                    "transaction",
                    "escalation",
                    "conversation",
                ]),
                message_types: list(&[
                    "question",
                    "statement",
                    "request",
                    "confirmation",
                    "follow_up",
                    "clarification",
                ]),
                entity_types: list(&[
                    "order_id",
                    "product_name",
                    "person_name",
                    "date",
                    "amount",
                    "tracking_number",
                    "email",
                    "phone",
                ]),
            },
        }
    }
}

/// A term that models keep suggesting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suggestion {
    pub suggestion: String,
    pub frequency: i64,
    /// Beginnings of the messages, without repeats.
    pub examples: Vec<String>,
}

/// Which list a suggestion is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum SuggestionKind {
    Topic,
    Category,
}
