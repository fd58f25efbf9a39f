//! Token counts, with the same tokenizers that memoir uses.

use std::num::NonZeroUsize;
use std::sync::LazyLock;

use axum::Json;
use memoir_text::text::char_count;
use memoir_text::tokens::{TokenCounter, quarter_estimate};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use utoipa::ToSchema;

use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::extract::JsonBody;

static TURNS: LazyLock<Semaphore> = LazyLock::new(|| {
    Semaphore::new(std::thread::available_parallelism().map_or(2, NonZeroUsize::get))
});

/// A text to count.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"text": "tiktoken is great!", "model": "gpt-4o"}))]
pub struct CountTokensRequest {
    /// The text.
    pub text: String,
    /// The model whose tokenizer to use, with or without its provider: `gpt-4o`, `openai:gpt-4o`.
    pub model: Option<String>,
}

/// The counts.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "tokens": 6, "estimate": 5, "characters": 18, "tokenizer": "o200k_base", "exact": true, "model": "gpt-4o"
}))]
pub struct CountTokensResponse {
    /// Token count according to the tokenizer.
    pub tokens: u64,
    /// The number of characters divided by four, rounded up.
    pub estimate: u64,
    /// Length of the text in Unicode scalar values.
    pub characters: u64,
    /// The encoding used.
    pub tokenizer: String,
    /// Whether this is the model's own encoding; otherwise it is `o200k_base`.
    pub exact: bool,
    /// The requested model.
    pub model: Option<String>,
}

/// Count the tokens of a text
///
/// Uses the model's own tokenizer if it is public, otherwise `o200k_base`. Also returns an estimate
/// of one token per four characters.
#[utoipa::path(
    post, path = "/v1/tokens/count", tag = "tokens", operation_id = "count_tokens", request_body = CountTokensRequest,
    responses((status = 200, description = "The counts.", body = CountTokensResponse))
)]
pub async fn count_tokens(
    _: Caller,
    JsonBody { value: request, .. }: JsonBody<CountTokensRequest>,
) -> Result<Json<CountTokensResponse>, ApiError> {
    // A large text takes a while: at most one per core runs at a time, and the others wait.
    let _turn = TURNS
        .acquire()
        .await
        .map_err(|error| ApiError::internal(error.to_string()))?;

    // The first use decompresses a vocabulary: neither that nor the counting may block other
    // requests.
    #[expect(
        clippy::disallowed_methods,
        reason = "pure computation that ends by itself"
    )]
    let counted = tokio::task::spawn_blocking(move || {
        let counter = TokenCounter::for_model(request.model.as_deref());
        CountTokensResponse {
            tokens: counter.count(&request.text) as u64,
            estimate: quarter_estimate(&request.text) as u64,
            characters: char_count(&request.text) as u64,
            tokenizer: counter.name().to_owned(),
            exact: counter.is_exact(),
            model: request.model,
        }
    });

    counted
        .await
        .map(Json)
        .map_err(|error| ApiError::internal(error.to_string()))
}
