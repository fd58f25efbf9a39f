//! A query that runs as a job; the job's result is the query's.

use futures_util::future::{BoxFuture, FutureExt as _};

use super::{Events, Queries, QueryResult, QuerySettings};
use crate::base::ids::QueryId;
use crate::base::problems;
use crate::jobs::{Failure, JobContext, JobError, Outcome, Work};
use crate::model::llm_call::Payer;
use crate::store::HolderKind;

/// The name of this kind of job.
pub const KIND: &str = "query";

/// Answers queries in the background.
#[derive(Clone)]
pub struct QueryWork {
    pub queries: Queries,
}

impl Work for QueryWork {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn run(&self, context: JobContext) -> BoxFuture<'static, Result<Outcome, JobError>> {
        let queries = self.queries.clone();
        async move { work(&queries, &context).await }.boxed()
    }
}

async fn work(queries: &Queries, context: &JobContext) -> Result<Outcome, JobError> {
    let settings: QuerySettings =
        serde_json::from_value(context.take_request()).map_err(|error| {
            JobError::fail(Failure::new(problems::INVALID_REQUEST, error.to_string()))
        })?;

    // The query has the job's id: an interrupted attempt has left its calls under it.
    let id = QueryId::from_stored(context.id().to_string());
    let store = &queries.inner.store;
    // Its last calls may still wait to be written.
    queries.inner.llm.flush().await?;
    let earlier_calls = store
        .list_calls_of(context.space(), &Payer::Query(id.to_string()))
        .await?;
    let erasures = store.count_erasures(context.space()).await?;
    context.report("answering", serde_json::json!({}));
    let call = context.call_now();
    let result = queries
        .run(
            id,
            &call,
            &settings,
            Some(earlier_calls),
            &Events::default(),
        )
        .await?;
    finish(queries, context, &result, erasures).await
}

/// Ends the job with its result, unless something that it used was deleted meanwhile.
async fn finish(
    queries: &Queries,
    context: &JobContext,
    result: &QueryResult,
    erasures: i64,
) -> Result<Outcome, JobError> {
    let uses = result.uses(erasures, &[]);
    let ending = context.ending().await;
    let mut tx = queries.inner.store.begin().await?;
    let is_unchanged = tx.hold_erasures(context.space()).await? == erasures;
    let (sources, memories) = (&uses.sources, &uses.memories);
    if !is_unchanged && !tx.has_texts(context.space(), sources, memories).await? {
        drop(tx);
        ending.give_back();
        let detail = "text that the query used was deleted while it ran";
        return Err(JobError::fail(Failure::new(problems::ERASED, detail)));
    }

    if !queries.receipts().are_stored() {
        // Otherwise the receipt notes it.
        let holder = (HolderKind::Query, context.id().as_str());
        tx.add_text_uses(context.space(), holder, &uses.ids(), context.clock().now())
            .await?;
    }

    let value = serde_json::to_value(result).unwrap_or_default();
    ending.finish(&mut tx, value).await?;
    tx.commit().await?;
    Ok(Outcome::Finished)
}
