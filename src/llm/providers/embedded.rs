//! The embedded model as a provider: in this process, on a thread of its own, so that nothing else
//! waits for it.

use futures_util::future::BoxFuture;

use super::super::local::LocalModel;
use super::super::provider::{Finish, Provider, ProviderError, Reply, Request, Usage};

pub struct Embedded;

impl Provider for Embedded {
    fn complete<'a>(
        &'a self,
        request: &'a Request<'a>,
    ) -> BoxFuture<'a, Result<Reply, ProviderError>> {
        Box::pin(async move {
            let solve = request.embedded.clone();
            let prompt = request.user.to_owned();
            #[expect(
                clippy::disallowed_methods,
                reason = "pure computation that ends by itself"
            )]
            let solved = tokio::task::spawn_blocking(move || {
                let text = solve().to_string();
                let usage = Usage {
                    prompt: count(&prompt),
                    completion: count(&text),
                    cached: 0,
                };

                (text, usage)
            });

            let (text, usage) = solved.await.map_err(|_| {
                // A panic may quote the text it was about.
                ProviderError::Broken(
                    "the embedded model failed because of an internal error".to_owned(),
                )
            })?;

            Ok(Reply {
                text,
                ignored_tool: false,
                finish: Finish::Complete,
                usage: Some(usage),
                model: None,
                id: None,
            })
        })
    }
}

fn count(text: &str) -> i64 {
    i64::try_from(LocalModel::tokens(text)).unwrap_or(i64::MAX)
}
