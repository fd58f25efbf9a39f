//! Erases an end user: jobs first, so that none creates anything again; then conversations and
//! sources.

use super::{Erased, ErasureError, ErasureOrder, Erasures, Running};
use crate::base::ids::use_of_user;
use crate::model::erasure::{RowCounts, SubjectKind};
use crate::model::source::Source;
use crate::store::{RemovalScope, SourceFilter, SourcePage, StoreError};

/// Sources deleted before what holds their texts is emptied, for which much may have to be read.
const PART: usize = 500;

impl Erasures {
    /// Erases everything of an end user; an unknown user has nothing.
    ///
    /// # Errors
    /// The store's; repeating the call erases the rest.
    pub async fn user(&self, order: &ErasureOrder, user_id: &str) -> Result<Erased, ErasureError> {
        if let Some(running) = self.unfinished(order, SubjectKind::User, user_id).await? {
            return self.complete(running).await;
        }

        let mut running = order.begin(SubjectKind::User, user_id);
        let pending = running.pending();
        pending.user_id = Some(user_id.to_owned());
        pending.used = vec![use_of_user(user_id)];
        self.begin(&running).await?;
        self.complete(running).await
    }

    /// Stores the receipt of an erasure that begins.
    pub(super) async fn begin(&self, running: &Running) -> Result<(), StoreError> {
        self.store
            .retry("begin_erasure", || async {
                let mut tx = self.store.begin().await?;
                tx.add_erasure(&running.erasure).await?;
                tx.commit().await
            })
            .await
    }

    pub(super) async fn remove_user_rows(&self, running: &mut Running) -> Result<(), StoreError> {
        let call = running.call.clone();
        let user_id = running.pending().subject.clone();
        if self.is_over(running).await? {
            return Ok(());
        }

        let mut counts = RowCounts::new();
        let ended = self
            .store
            .remove_user_jobs(&call.space, &user_id, &mut counts)
            .await?;
        running.add(&counts);
        running.jobs_cancelled += ended.len();
        self.jobs.announce_cancelled(&ended);

        let scope = RemovalScope::User(&user_id);
        self.remove_conversations(running, &user_id, scope).await?;
        if self.is_over(running).await? {
            return Ok(());
        }

        // Otherwise calls that are not written yet would reappear.
        self.llm.flush().await?;
        self.remove_context_calls(running, &user_id).await?;
        self.remove_sources_of(running, &user_id).await
    }

    /// Whether the erasure has ended meanwhile, by another request or in another process.
    pub(super) async fn is_over(&self, running: &mut Running) -> Result<bool, StoreError> {
        if !running.is_over {
            running.is_over = !self.store.update_erasure(&running.erasure).await?;
        }

        Ok(running.is_over)
    }

    async fn remove_context_calls(
        &self,
        running: &mut Running,
        user_id: &str,
    ) -> Result<(), StoreError> {
        let call = running.call.clone();
        let removed = self.store.retry("remove_context_calls", || async {
            let mut tx = self.store.begin().await?;
            let removed = tx.remove_context_calls(&call.space, user_id).await?;
            tx.commit().await?;
            Ok(removed)
        });

        running.add(&RowCounts::from([("llm_calls".to_owned(), removed.await?)]));
        Ok(())
    }

    async fn remove_sources_of(
        &self,
        running: &mut Running,
        user_id: &str,
    ) -> Result<(), StoreError> {
        let call = running.call.clone();
        let filter = SourceFilter {
            user_id: Some(user_id.to_owned()),
            ..SourceFilter::default()
        };
        let page = SourcePage {
            limit: PART,
            ..SourcePage::default()
        };

        loop {
            let found = self.store.list_sources(&call.space, &filter, &page).await?;
            for source in &found {
                self.remove_one_source(running, source).await?;
                if running.is_over {
                    break;
                }
            }

            if found.is_empty() || running.is_over {
                return Ok(());
            }

            self.erase_holders(running).await?;
        }
    }

    async fn remove_one_source(
        &self,
        running: &mut Running,
        source: &Source,
    ) -> Result<(), StoreError> {
        let call = running.call.clone();
        let names = self.names_of(&call, &source.id).await?;
        let before = running.erasure.clone();
        let removed = self.store.retry("erase_source_of_user", || async {
            let mut next = Running::of(call.clone(), before.clone());
            let mut tx = self.store.begin().await?;
            let Some(source) = tx.find_source(&call.space, &source.id).await? else {
                return Ok((next, Vec::new()));
            };
            let cancelled = self
                .remove_source(&mut tx, &source, &names, &mut next)
                .await?;
            if !tx.update_erasure(&next.erasure).await? {
                next.is_over = true;
                return Ok((next, Vec::new()));
            }

            tx.commit().await?;
            Ok((next, cancelled))
        });

        let (next, cancelled) = removed.await?;
        running.is_over = next.is_over;
        if !next.is_over {
            running.erasure = next.erasure;
        }
        running.jobs_cancelled += cancelled.len();
        self.jobs.announce_cancelled(&cancelled);
        Ok(())
    }
}
