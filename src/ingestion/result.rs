//! The result of an ingestion. The row of its job has it without the fields that have their default
//! value, and without the source, which the row names itself.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::KIND;
use super::writing::Written;
use crate::base::json_defaults::{with_defaults, without_defaults};
use crate::model::chunk::Move;
use crate::model::job::Job;
use crate::model::llm_call::Spent;

/// Every field in its order, and the values that are not stored.
static DEFAULTS: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "source_id": null, "version": 0, "chunks_written": 0, "retrieval_chunks_written": 0,
        "categories_created": 0, "helper_version": null, "helper_regenerated": false, "unchanged": false,
        "shares_chunks_of_version": null, "llm_calls": 0, "tokens": 0, "cost_usd": 0.0, "moved": [], "renamed": [],
    })
});

/// The result of a job, as it is stored, including which chunks of other sources it moved
/// and which categories it renamed.
pub fn written(written: &Written, spent: Spent, shared: Option<i64>) -> Value {
    let moved = |chunk_move: &Move| json!({"chunk_id": chunk_move.chunk_id, "from": chunk_move.from, "to": chunk_move.to});
    stored(&json!({
        "version": written.version, "chunks_written": written.chunks,
        "retrieval_chunks_written": written.searched,
        "categories_created": written.categories, "helper_version": written.helper_version,
        "helper_regenerated": written.helper_regenerated,
        "shares_chunks_of_version": shared, "llm_calls": spent.calls, "tokens": spent.tokens, "cost_usd": spent.usd,
        "moved": written.moved.iter().map(moved).collect::<Vec<_>>(), "renamed": written.renamed,
    }))
}

/// The result of a job that found nothing new in the text, as it is stored.
pub fn unchanged(version: i64) -> Value {
    stored(&json!({"version": version, "unchanged": true}))
}

/// The result of a job with all its fields; jobs of other kinds store all of them.
pub fn whole(job: &Job, stored: Map<String, Value>) -> Map<String, Value> {
    if job.kind != KIND {
        return stored;
    }

    let mut whole = with_defaults(stored, &DEFAULTS);
    if whole["source_id"].is_null() {
        whole["source_id"] = job.source_id.clone().into();
    }

    whole
}

fn stored(result: &Value) -> Value {
    let fields = result.as_object().cloned().unwrap_or_default();
    without_defaults(&fields, &DEFAULTS).into()
}
