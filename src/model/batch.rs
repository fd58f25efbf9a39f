//! What an ingestion records about each of its classification calls.

use crate::base::clock::Timestamp;

/// The log of one classification call.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    pub seq: i64,
    pub level: i64,
    pub parent_path: String,
    pub chunk_ordinals: Vec<i64>,
    pub chunks_sent: i64,
    pub successes: i64,
    pub retries: i64,
    pub failures: i64,
    pub latency_ms: f64,
    pub started_at: Timestamp,
    /// The job that the call is recorded with, if it is another one: short texts share calls.
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
