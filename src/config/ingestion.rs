//! `[ingestion]`: how a text is split and filed.

use std::path::Path;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Violation, Violations};

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ingestion {
    pub delimiters: Vec<String>,
    pub chunk_min_tokens: u64,
    pub chunk_max_tokens: u64,
    pub batch_size: u64,
    pub window: u64,
    pub auto_source_identification: bool,
    pub transaction_scope: TransactionScope,
    pub indexes: Vec<IndexName>,
    pub filing: FilingMode,
    pub linger: u64,
    root: String,
}

/// `taxonomy`: chunks of the profile `taxonomy`, filed in the hierarchy, which requires a model.
/// `semantic`: chunks of the profile `retrieval`, for search by meaning. Both also enable keyword
/// search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = IngestionIndex)]
pub enum IndexName {
    Taxonomy,
    Semantic,
}

/// How a language model files a text. `auto`: a short one by one call, if it fits an existing leaf;
/// `levels`: every one level by level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = IngestionFiling)]
pub enum FilingMode {
    Auto,
    Levels,
}

/// What to store in one transaction: the whole ingestion, or each batch of chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TransactionScope {
    Ingestion,
    Batch,
}

/// Maximum number of chunks per call.
pub const MAX_BATCH: u64 = 50;
/// Maximum tokens per chunk: a batch of them fits the context of every model.
pub const MAX_CHUNK_TOKENS: u64 = 100_000;
/// Maximum number of delimiters, and maximum length of each.
pub const MAX_DELIMITERS: usize = 50;
pub const MAX_DELIMITER_CHARS: usize = 20;

impl Ingestion {
    /// The folder on the server whose files can be ingested by path.
    pub fn root(&self) -> Option<&Path> {
        (!self.root.is_empty()).then(|| Path::new(&self.root))
    }

    pub fn validate(&self, violations: &mut Violations) {
        violations.check_range("ingestion.batch_size", self.batch_size, 1..=MAX_BATCH, 5);
        violations.check_range("ingestion.window", self.window, 1..=100_000, 500);
        violations.check_range(
            "ingestion.chunk_max_tokens",
            self.chunk_max_tokens,
            2..=MAX_CHUNK_TOKENS,
            500,
        );

        violations.check_range(
            "ingestion.chunk_min_tokens",
            self.chunk_min_tokens,
            1..=MAX_CHUNK_TOKENS,
            300,
        );

        violations.check_range("ingestion.linger", self.linger, 0..=10_000, 150);
        if self.chunk_min_tokens >= self.chunk_max_tokens {
            violations.add(
                Violation::new(
                    "ingestion.chunk_min_tokens",
                    self.chunk_min_tokens.to_string(),
                )
                .allowed(&format!(
                    "less than ingestion.chunk_max_tokens, which is {}",
                    self.chunk_max_tokens
                ))
                .example("chunk_min_tokens = 300"),
            );
        }

        if self
            .root()
            .is_some_and(|root| !root.is_absolute() || !root.is_dir())
        {
            violations.add(
                Violation::new("ingestion.root", self.root.clone())
                    .allowed("the absolute path of an existing folder, or \"\" for none")
                    .example("root = \"/srv/texts\""),
            );
        }

        if let Some(fault) = delimiter_fault(&self.delimiters) {
            violations.add(
                Violation::new("ingestion.delimiters", format!("{:?}", self.delimiters))
                    .allowed(&fault)
                    .example(r#"delimiters = [".", "\n"]"#),
            );
        }
    }
}

/// The error in a list of delimiters, if any.
pub fn delimiter_fault(delimiters: &[String]) -> Option<String> {
    let long = |mark: &&String| mark.is_empty() || mark.chars().count() > MAX_DELIMITER_CHARS;
    let fine = (1..=MAX_DELIMITERS).contains(&delimiters.len())
        && !delimiters.iter().any(|mark| long(&mark));
    (!fine).then(|| {
        format!("from 1 to {MAX_DELIMITERS} strings of 1 to {MAX_DELIMITER_CHARS} characters each")
    })
}
