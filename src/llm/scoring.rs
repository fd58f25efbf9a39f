//! Servers that score texts: cross-encoders behind `/rerank` in the forms of TEI, Jina, Cohere and
//! vLLM, and classifiers behind `/predict` in the form of TEI.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::tasks::judge::NliLabel;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A longer answer is not a list of scores.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// A server that scores texts.
pub struct ScoringServer {
    client: reqwest::Client,
    url: String,
    model: String,
    key: String,
    /// Whether it takes `texts`, as TEI does, and not `documents`, as the others do.
    takes_texts: AtomicBool,
}

/// Why a server gave no scores.
#[derive(Debug, thiserror::Error)]
pub enum ScoringError {
    #[error("the server did not respond: {0}")]
    Unreachable(String),
    #[error("the server responded with status {0}")]
    Status(u16),
    #[error("the answer of the server cannot be used: {0}")]
    Unusable(&'static str),
}

impl ScoringServer {
    /// Prepares a client; nothing is sent yet.
    pub fn new(url: &str, model: &str, key: &str) -> Self {
        // Every HTTP client needs it. It may already be installed by an earlier call.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            // Following a redirect would send our key to another address.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("memoir/", env!("CARGO_PKG_VERSION")))
            .build()
            .unwrap_or_default();

        Self {
            client,
            url: url.to_owned(),
            model: model.to_owned(),
            key: key.to_owned(),
            takes_texts: AtomicBool::new(model.is_empty()),
        }
    }

    /// Its model, or its address without what may be secret.
    pub fn name(&self) -> String {
        if !self.model.is_empty() {
            return self.model.clone();
        }
        let host = reqwest::Url::parse(&self.url).ok();
        let host = host.and_then(|url| url.host_str().map(str::to_owned));
        host.unwrap_or_else(|| "http".to_owned())
    }

    /// The score of every text for a query, in the order of the texts.
    ///
    /// # Errors
    /// The server is unreachable, or its answer does not have a score for each text.
    pub async fn rerank(&self, query: &str, texts: &[&str]) -> Result<Vec<f64>, ScoringError> {
        let first = self.takes_texts.load(Ordering::Relaxed);
        let answer = match self.ask(&self.rerank_body(query, texts, first)).await {
            // It speaks the other form.
            Err(ScoringError::Status(400 | 422)) => {
                let answer = self.ask(&self.rerank_body(query, texts, !first)).await?;
                self.takes_texts.store(!first, Ordering::Relaxed);
                answer
            }
            answer => answer?,
        };

        scores_in(&answer, texts.len())
    }

    fn rerank_body(&self, query: &str, texts: &[&str], as_texts: bool) -> Value {
        if as_texts {
            return json!({"query": query, "texts": texts, "truncate": true, "raw_scores": false});
        }

        let mut body = json!({"query": query, "documents": texts, "top_n": texts.len()});
        if !self.model.is_empty() {
            body["model"] = self.model.as_str().into();
        }
        body
    }

    /// The label of every premise for a hypothesis, and how sure it is.
    ///
    /// # Errors
    /// The server is unreachable, or its answer does not have a label for each premise.
    pub async fn classify(
        &self,
        premises: &[&str],
        hypothesis: &str,
    ) -> Result<Vec<(NliLabel, f64)>, ScoringError> {
        let pairs: Vec<[&str; 2]> = premises.iter().map(|one| [*one, hypothesis]).collect();
        let mut body = json!({"inputs": pairs, "truncate": true});
        if !self.model.is_empty() {
            body["model"] = self.model.as_str().into();
        }

        labels_in(&self.ask(&body).await?, premises.len())
    }

    async fn ask(&self, body: &Value) -> Result<Value, ScoringError> {
        let unreachable =
            |error: reqwest::Error| ScoringError::Unreachable(error.without_url().to_string());
        let mut request = self.client.post(&self.url).json(body);
        if !self.key.is_empty() {
            request = request.bearer_auth(&self.key);
        }

        let mut response = request.send().await.map_err(unreachable)?;
        if response.status() != StatusCode::OK {
            return Err(ScoringError::Status(response.status().as_u16()));
        }

        let mut bytes = Vec::new();
        while let Some(part) = response.chunk().await.map_err(unreachable)? {
            bytes.extend_from_slice(&part);
            if bytes.len() > MAX_BYTES {
                return Err(ScoringError::Unusable("it is too long"));
            }
        }

        serde_json::from_slice(&bytes).map_err(|_| ScoringError::Unusable("it is not JSON"))
    }
}

/// Reads `[{index, score}]` or `{results: [{index, relevance_score}]}`.
fn scores_in(answer: &Value, count: usize) -> Result<Vec<f64>, ScoringError> {
    let list = ["results", "data"]
        .iter()
        .find_map(|name| answer.get(name))
        .unwrap_or(answer)
        .as_array()
        .ok_or(ScoringError::Unusable("it has no list of scores"))?;

    let mut scores = vec![None; count];
    for item in list {
        let place = item["index"]
            .as_u64()
            .and_then(|at| usize::try_from(at).ok());
        let score = ["score", "relevance_score"]
            .iter()
            .find_map(|name| item[*name].as_f64())
            .filter(|score| score.is_finite());
        let slot = place.and_then(|place| scores.get_mut(place));
        let (Some(slot), Some(score)) = (slot, score) else {
            return Err(ScoringError::Unusable("an entry has no index or no score"));
        };
        *slot = Some(score);
    }

    let scores: Option<Vec<f64>> = scores.into_iter().collect();
    scores.ok_or(ScoringError::Unusable("a text has no score"))
}

/// Reads `[[{label, score}]]`, or `[{label, score}]` with the best label only.
fn labels_in(answer: &Value, count: usize) -> Result<Vec<(NliLabel, f64)>, ScoringError> {
    let list = answer
        .as_array()
        .filter(|list| list.len() == count)
        .ok_or(ScoringError::Unusable("it has no label for each text"))?;
    let each = list.iter().map(|item| {
        let one = std::slice::from_ref(item);
        let labels = item.as_array().map_or(one, Vec::as_slice);
        let known = labels.iter().filter_map(|label| {
            let name = label["label"].as_str()?.to_lowercase();
            let name = match name.as_str() {
                name if name.starts_with("entail") => NliLabel::Entailment,
                "neutral" => NliLabel::Neutral,
                name if name.starts_with("contradict") => NliLabel::Contradiction,
                _ => return None,
            };
            Some((name, label["score"].as_f64()?))
        });
        known
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .ok_or(ScoringError::Unusable("a label is unknown"))
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_answers_of_each_server() {
        let tei = json!([{"index": 1, "score": 0.9}, {"index": 0, "score": 0.1}]);
        assert_eq!(scores_in(&tei, 2).unwrap(), [0.1, 0.9]);
        let jina = json!({"model": "m", "results": [
            {"index": 0, "relevance_score": 0.3, "document": {"text": "a"}},
            {"index": 1, "relevance_score": -1.5}]});
        assert_eq!(scores_in(&jina, 2).unwrap(), [0.3, -1.5]);

        for broken in [
            json!({}),
            json!([{"index": 0, "score": 1.0}]),
            json!([{"index": 0, "score": 1.0}, {"index": 5, "score": 1.0}]),
            json!([{"index": 0}, {"index": 1}]),
        ] {
            assert!(scores_in(&broken, 2).is_err(), "{broken}");
        }

        let nli = json!([
            [{"label": "ENTAILMENT", "score": 0.8}, {"label": "neutral", "score": 0.2}],
            {"label": "contradiction", "score": 0.7}
        ]);
        let labels = labels_in(&nli, 2).unwrap();
        assert_eq!(labels[0], (NliLabel::Entailment, 0.8));
        assert_eq!(labels[1], (NliLabel::Contradiction, 0.7));
        assert!(labels_in(&nli, 3).is_err());
    }
}
