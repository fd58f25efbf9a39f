//! The vectors of a source's chunks. Answers of an external model are saved with the job, part by
//! part, so that a restarted run requests only the rest.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use memoir_index::vectors::{from_bytes, to_bytes};
use serde_json::json;

use crate::jobs::{JobContext, JobError};
use crate::llm::{Llm, Session};
use crate::model::job::Record;
use crate::search::{Search, SearchError};

/// Chunks whose vectors are saved together.
const PART: usize = 256;

/// Embeds for one job.
pub struct Embedding<'e> {
    pub search: &'e Search,
    pub llm: &'e Llm,
    pub context: &'e JobContext,
}

impl Embedding<'_> {
    pub async fn embed(
        &self,
        session: &Session,
        model: &str,
        texts: &[Arc<str>],
    ) -> Result<Vec<Vec<f32>>, JobError> {
        if self.llm.embeds_here(model) {
            return self
                .search
                .embed(session, model, texts)
                .await
                .map_err(into_job_error);
        }

        self.context
            .report("embedding", json!({"chunks": texts.len(), "model": model}));

        let mut found = Vec::with_capacity(texts.len());
        for (number, part) in texts.chunks(PART).enumerate() {
            let step = format!("vectors/{model}/{number}");
            let saved = self
                .context
                .saved(&step)
                .and_then(|saved| read(&saved, part.len()));

            let vectors = if let Some(saved) = saved {
                saved
            } else {
                let vectors = self
                    .search
                    .embed(session, model, part)
                    .await
                    .map_err(into_job_error)?;

                let written: Vec<String> = vectors
                    .iter()
                    .map(|vector| STANDARD.encode(to_bytes(vector)))
                    .collect();

                self.context
                    .record_paid(self.llm.journal(), Record::step(step, json!(written)))
                    .await?;
                vectors
            };

            found.extend(vectors);
        }

        Ok(found)
    }
}

fn read(saved: &serde_json::Value, count: usize) -> Option<Vec<Vec<f32>>> {
    let texts = saved.as_array().filter(|texts| texts.len() == count)?;
    texts
        .iter()
        .map(|text| Some(from_bytes(&STANDARD.decode(text.as_str()?).ok()?)))
        .collect()
}

pub fn into_job_error(error: SearchError) -> JobError {
    match error {
        SearchError::Llm(error) => error.into(),
        SearchError::Store(error) => error.into(),
        SearchError::Invalid(_) => JobError::Interrupted,
    }
}
