//! `[vector]`: the semantic index, and the memory for searches.

use serde::Deserialize;

use super::{Violation, Violations};

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vector {
    pub store: VectorStore,
    /// `provider:model`.
    pub model: String,
    pub memory_mb: u64,
    pub chunk_tokens: u64,
    pub overlap_tokens: u64,
}

/// Where vectors are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VectorStore {
    Database,
}

impl Vector {
    pub fn validate(&self, violations: &mut Violations) {
        violations.check_range("vector.memory_mb", self.memory_mb, 0..=1_000_000, 1024);
        violations.check_range("vector.chunk_tokens", self.chunk_tokens, 16..=100_000, 1024);
        if self.overlap_tokens.saturating_mul(2) > self.chunk_tokens {
            violations.add(
                Violation::new("vector.overlap_tokens", self.overlap_tokens.to_string())
                    .allowed(&format!(
                        "at most half of vector.chunk_tokens, which is {}",
                        self.chunk_tokens
                    ))
                    .example("overlap_tokens = 200"),
            );
        }

        if self.model.is_empty() || self.model.len() > 255 || !self.model.is_ascii() {
            violations.add(
                Violation::new("vector.model", format!("{:?}", self.model))
                    .allowed("provider:model with at most 255 characters")
                    .example(r#"model = "local:embedded""#),
            );
        }
    }
}
