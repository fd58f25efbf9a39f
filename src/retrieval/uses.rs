//! Counts that memories were handed to a model, on every path that does.

use super::Retrieval;
use crate::model::call::CallContext;

impl Retrieval {
    /// Counts a use of memories. If this fails, what was read is returned anyway.
    pub async fn count_uses(&self, call: &CallContext, ids: &[String]) {
        if ids.is_empty() {
            return;
        }

        let counted = self.store.retry("count_uses", || async {
            let mut tx = self.store.begin().await?;
            tx.count_uses(&call.space, ids, call.now).await?;
            tx.commit_unflushed().await
        });
        if let Err(error) = counted.await {
            tracing::warn!(%error, "cannot count the uses of memories");
        }
    }
}
