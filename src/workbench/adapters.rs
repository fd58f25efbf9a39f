//! The configured way to score chunks: rules in this process, the model of the stage, or a server.

use crate::config;
use crate::config::workbench::Adapter;
use crate::llm::ScoringServer;

/// The adapters of this installation.
pub struct Adapters {
    pub reranker: Scorer,
    pub nli: Scorer,
}

/// One adapter.
pub enum Scorer {
    Lexical,
    Llm,
    Http(ScoringServer),
}

impl Adapters {
    #[must_use]
    pub fn new(config: &config::Workbench) -> Self {
        let server = |url: &str, model: &str, key: &config::Secret| {
            Scorer::Http(ScoringServer::new(url, model, key.expose()))
        };
        Self {
            reranker: match config.reranker {
                Adapter::Lexical => Scorer::Lexical,
                Adapter::Llm => Scorer::Llm,
                Adapter::Http => server(
                    &config.reranker_url,
                    &config.reranker_model,
                    &config.reranker_key,
                ),
            },
            nli: match config.nli {
                Adapter::Lexical => Scorer::Lexical,
                Adapter::Llm => Scorer::Llm,
                Adapter::Http => server(&config.nli_url, &config.nli_model, &config.nli_key),
            },
        }
    }
}
