//! Notices model servers on this machine (Ollama, LM Studio, llama.cpp, vLLM), so that a user of the
//! embedded model learns how to use them. Sends one `GET …/models` to each, without a key, and
//! nothing else.

use std::net::IpAddr;
use std::time::Duration;

use futures_util::future::join_all;
use serde::Deserialize;

use super::Llm;
use crate::config::llm::{Kind, LOCAL, Provider};

/// A server on this machine answers in a few milliseconds, or is too busy to be recommended.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Longer answers and names are not lists of models.
const MAX_BYTES: usize = 256 * 1024;
const MAX_NAME: usize = 200;
/// Parts of the names of models that do not write text.
const NOT_WRITING: &[&str] = &[
    "embed", "rerank", "whisper", "tts", "bge-", "minilm", "clip",
];

/// A model of a server on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalModel {
    /// `provider:model`.
    pub model: String,
}

impl LocalModel {
    /// How to use it, in one line.
    pub fn how_to_use(&self) -> String {
        let provider = self.model.split(':').next().unwrap_or_default();
        format!(
            "{provider} has a model on this machine; to use it, set MEMOIR__LLM__MODEL={} and \
             restart memoir",
            self.model
        )
    }
}

#[derive(Deserialize)]
struct ModelList {
    data: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    id: String,
}

impl Llm {
    /// One model of every server on this machine that answers, in the order of the providers; none
    /// if another model than the embedded one is used. `own_port` is skipped, because memoir
    /// listens there.
    pub async fn find_local_models(&self, own_port: u16) -> Vec<LocalModel> {
        let settings = self.settings();
        let embedded = settings.model.starts_with(&format!("{LOCAL}:"));
        if !settings.notice_local_models || !embedded {
            return Vec::new();
        }

        let client = reqwest::Client::builder()
            .timeout(TIMEOUT)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("memoir/", env!("CARGO_PKG_VERSION")))
            .build();
        let Ok(client) = client else {
            return Vec::new();
        };

        let servers = settings
            .providers
            .iter()
            .filter(|provider| is_on_this_machine(provider, own_port));
        let answers = join_all(servers.map(|provider| ask(&client, provider))).await;
        answers.into_iter().flatten().collect()
    }
}

/// Whether its address is a plain one on loopback, and not memoir's own.
fn is_on_this_machine(provider: &Provider, own_port: u16) -> bool {
    let Ok(url) = reqwest::Url::parse(&provider.base_url) else {
        return false;
    };
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let loopback = host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());

    provider.kind == Kind::Openai
        && url.scheme() == "http"
        && loopback
        && url.port_or_known_default() != Some(own_port)
}

async fn ask(client: &reqwest::Client, provider: &Provider) -> Option<LocalModel> {
    let url = format!("{}/models", provider.base_url.trim_end_matches('/'));
    let mut response = client.get(url).send().await.ok()?;
    if !response.status().is_success() {
        return None;
    }

    let mut body = Vec::new();
    while let Some(part) = response.chunk().await.ok()? {
        body.extend_from_slice(&part);
        if body.len() > MAX_BYTES {
            return None;
        }
    }

    let list: ModelList = serde_json::from_slice(&body).ok()?;
    let model = choose(&list, &provider.model)?;
    Some(LocalModel {
        model: format!("{}:{model}", provider.name),
    })
}

/// The default model of the provider if the server has it, else the first one that writes text.
fn choose<'a>(list: &'a ModelList, default: &str) -> Option<&'a str> {
    let usable = |id: &str| {
        let short = !id.is_empty() && id.len() <= MAX_NAME;
        let plain = !id.contains(|c: char| c.is_whitespace() || c.is_control());
        let lower = id.to_lowercase();
        short && plain && !NOT_WRITING.iter().any(|part| lower.contains(part))
    };

    let usable: Vec<&str> = list
        .data
        .iter()
        .map(|entry| entry.id.as_str())
        .filter(|id| usable(id))
        .collect();
    let is_default = |id: &&&str| **id == default || **id == format!("{default}:latest");

    usable.iter().find(is_default).or(usable.first()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_model_is_preferred_and_embedding_models_are_not_offered() {
        for (ids, default, wanted) in [
            (
                vec!["qwen2.5:7b", "llama3.2:latest"],
                "llama3.2",
                Some("llama3.2:latest"),
            ),
            (
                vec!["nomic-embed-text", "qwen2.5:7b"],
                "llama3.2",
                Some("qwen2.5:7b"),
            ),
            (vec!["", "two words", "bge-m3"], "", None),
        ] {
            let data = ids.iter().map(|id| Entry {
                id: (*id).to_owned(),
            });
            let list = ModelList {
                data: data.collect(),
            };

            assert_eq!(choose(&list, default), wanted, "{ids:?}");
        }
    }
}
