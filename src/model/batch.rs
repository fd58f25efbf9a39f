//! What an ingestion records about each of its classification calls.

use serde::Serialize;
use utoipa::ToSchema;

use crate::base::clock::Timestamp;

/// The log of one classification call.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = BatchResponse)]
pub struct Batch {
    /// Number of the call within the job.
    pub seq: i64,
    pub level: i64,
    /// The category whose children were the options.
    pub parent_path: String,
    /// Positions of the chunks in the source.
    pub chunk_ordinals: Vec<i64>,
    pub chunks_sent: i64,
    /// Number of chunks with a valid answer.
    pub successes: i64,
    /// How often the call was repeated.
    pub retries: i64,
    /// Number of chunks without a valid answer.
    pub failures: i64,
    pub latency_ms: f64,
    #[schema(value_type = String, format = DateTime)]
    pub started_at: Timestamp,
    /// The job that records the call, if it is not this one: short texts of one batch share calls.
    #[schema(required)]
    pub paid_by: Option<String>,
}

impl Batch {
    /// Whether one call of the job's own filed every chunk.
    pub fn is_plain(&self) -> bool {
        let chunks = i64::try_from(self.chunk_ordinals.len()).ok();
        let all = Some(self.chunks_sent) == chunks && Some(self.successes) == chunks;
        all && self.retries == 0 && self.failures == 0 && self.paid_by.is_none()
    }
}
