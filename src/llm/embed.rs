//! Embeddings of texts, with the same gates, breakers, caps, retries and ledger as other calls.
//!
//! Vectors that are computed in this process are not recorded: nothing is sent or spent.

use std::ops::Range;

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use memoir_embedded_model::EmbeddedModel;
use memoir_text::tokens::quarter_estimate;
use serde_json::json;

use super::explain::explain;
use super::provider::{Finish, Mode, Reply};
use super::record::{Attempts, Plan};
use super::send::Target;
use super::{Llm, LlmError, Session, measure};
use crate::model::llm_call::CallOutcome;

/// The stage of its calls in the record.
pub(super) const STAGE: &str = "embed";
/// Maximum texts, and maximum characters, in one request.
const TEXTS: usize = 64;
const CHARS: usize = 200_000;
/// Cosines below which a text has nothing in common with a query: words that a text is not about
/// hardly ever reach the first, whatever the model. The embedded model adds up the fragments of a
/// word that it does not know, so random letters come to .46 with one of 1,400 texts.
const MIN_COSINE: f64 = 0.15;
const MIN_FRAGMENT_COSINE: f64 = 0.5;

impl Llm {
    /// Whether the vectors of this model are computed in this process.
    pub fn embeds_here(&self, model: &str) -> bool {
        self.target(model)
            .is_ok_and(|target| target.capabilities().in_process)
    }

    /// The cosine below which a text without a word of the query has nothing in common with it.
    pub fn least_cosine(&self, model: Option<&str>, query: &str) -> f64 {
        let is_embedded = model.is_some_and(|model| self.embeds_here(model));
        if is_embedded && !EmbeddedModel::knows_the_words(query) {
            MIN_FRAGMENT_COSINE
        } else {
            MIN_COSINE
        }
    }

    /// The vectors of texts, in order, all of the same length.
    ///
    /// # Errors
    /// The model is unknown, has no embeddings or is unreachable, or a cap is reached.
    pub async fn embed(
        &self,
        session: &Session,
        model: &str,
        texts: &[&str],
    ) -> Result<Vec<Vec<f32>>, LlmError> {
        let target = self.target(model)?;
        if target.capabilities().in_process {
            let computed = target.profile.client().embed(&target.model, texts).await;
            return computed
                .map(|vectors| vectors.found)
                .map_err(|error| explain(&target, &error));
        }

        let target = &target;
        let at_once = usize::try_from(self.settings().max_concurrency)
            .unwrap_or(1)
            .max(1);
        let asked = batches(texts)
            .into_iter()
            .map(|part| self.embed_part(session, target, &texts[part]));
        let found: Vec<Vec<Vec<f32>>> = stream::iter(asked).buffered(at_once).try_collect().await?;
        let found: Vec<Vec<f32>> = found.into_iter().flatten().collect();
        let length = found.first().map_or(0, Vec::len);

        if found.iter().any(|vector| vector.len() != length) {
            // Waiting does not help, so a job must not wait for it.
            let faults = vec!["the vectors have different lengths".to_owned()];
            return Err(LlmError::InvalidOutput {
                model: target.name(),
                stage: STAGE,
                faults,
                items: Vec::new(),
            });
        }

        Ok(found)
    }

    /// One request, with retries.
    async fn embed_part(
        &self,
        session: &Session,
        target: &Target,
        texts: &[&str],
    ) -> Result<Vec<Vec<f32>>, LlmError> {
        let attempts = Attempts::new(self, session);
        let expected: usize = texts.iter().map(|text| quarter_estimate(text)).sum();
        let plan = || Plan {
            stage: STAGE,
            level: None,
            mode: Mode::Native,
            params: json!({"texts": texts.len()}),
            expected_tokens: i64::try_from(expected).unwrap_or(i64::MAX),
            temperature: None,
            max_output_tokens: None,
        };

        let mut count = 1;
        loop {
            let mut vectors = Vec::new();
            let asking = async {
                let reply = target.profile.client().embed(&target.model, texts).await?;
                vectors = reply.found;
                let (text, finish) = (String::new(), Finish::Complete);
                Ok(Reply {
                    text,
                    ignored_tool: false,
                    finish,
                    usage: reply.usage,
                    counted: false,
                    model: reply.model,
                    id: None,
                })
            };

            let error = match self.attempt(&attempts, target, asking, plan()).await? {
                Ok(sent) => {
                    sent.call.finish(CallOutcome::Ok, None);
                    return Ok(vectors);
                }
                Err(error) => error,
            };

            let tries = self.settings().transport.tries;
            let Some(wait) = self
                .wait_before_next(&error, count)
                .filter(|_| count < tries)
            else {
                return Err(explain(target, &error));
            };

            measure::retried(&target.profile.settings.name, error.reason());
            count += 1;
            tokio::time::sleep(wait).await;
        }
    }
}

/// Groups of texts that are sent together.
fn batches(texts: &[&str]) -> Vec<Range<usize>> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    let mut chars = 0;
    for (place, text) in texts.iter().enumerate() {
        chars += text.len();
        match parts.last_mut() {
            Some(part) if part.len() < TEXTS && chars <= CHARS => part.end = place + 1,
            _ => {
                parts.push(place..place + 1);
                chars = text.len();
            }
        }
    }

    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_split_into_requests_within_the_limit() {
        assert!(batches(&[]).is_empty());
        assert_eq!(batches(&["a"; 130]), [0..64, 64..128, 128..130]);
        let long = "x".repeat(CHARS - 1);
        assert_eq!(batches(&["a", &long, "b", "c"]), [0..2, 2..4]);
    }
}
