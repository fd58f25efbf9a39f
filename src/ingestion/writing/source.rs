//! The source of a text, as the transaction finds or creates it.

use super::{Writer, Written};
use crate::base::clock::Timestamp;
use crate::base::ids::SourceId;
use crate::base::problems;
use crate::ingestion::request::Order;
use crate::ingestion::write_error::{During as _, WriteError};
use crate::jobs::{Failure, JobError};
use crate::model::call::CallContext;
use crate::model::source::Source;
use crate::sources::{NewSource, SourceError, titled};
use crate::store::{StoreError, Tx};

impl Writer<'_> {
    /// A name for a source without one. Chosen before the source's own transaction, which would
    /// block others from choosing theirs.
    pub(super) async fn name(&self, order: &Order) -> Result<Option<String>, WriteError> {
        if order.filename.is_some() || order.path.is_some() {
            return Ok(order.filename.clone());
        }

        if let Some(name) = order.facts.title.as_deref().and_then(titled) {
            return Ok(Some(name));
        }

        let number = self
            .store
            .next_untitled(self.context.space())
            .await
            .during("find a name", "counters")?;

        Ok(Some(format!("untitled-{number}.txt")))
    }

    /// The source, locked until the transaction ends.
    pub(super) async fn held_source(
        &self,
        tx: &mut Tx,
        written: &Written,
    ) -> Result<Source, WriteError> {
        let id = SourceId::from_stored(written.source_id.clone());
        let source = tx
            .find_source(self.context.space(), &id)
            .await
            .during("find the source", "sources")?;

        source.ok_or_else(|| WriteError::Store {
            operation: "find the source",
            table: "sources",
            error: StoreError::Broken {
                cause: "the source has been deleted".to_owned(),
            },
        })
    }

    /// The source of a text, and whether it was created just now.
    pub(super) async fn source(
        &self,
        tx: &mut Tx,
        order: &Order,
        name: Option<String>,
        call: &CallContext,
    ) -> Result<(Source, bool), WriteError> {
        let space = &call.space;
        let during = |error| WriteError::Store {
            operation: "find the source",
            table: "sources",
            error,
        };

        let id = SourceId::from_stored(order.source_id.clone());
        let mut found = tx.find_source(space, &id).await.map_err(during)?;
        if let (None, Some(path)) = (&found, &order.path)
            && let Some(id) = tx
                .find_source_at(space, &order.user_id, path)
                .await
                .map_err(during)?
        {
            found = tx.find_source(space, &id).await.map_err(during)?;
        }
        let Some(source) = found else {
            let created = self.register(tx, order, (id, name), call).await?;
            return Ok((created, true));
        };

        // Too many tags together, which could not be known before: the existing ones stay.
        let tags = self
            .sources
            .check_tags(&source.tags, &order.tags)
            .unwrap_or_else(|_| source.tags.clone());

        if tags == source.tags {
            return Ok((source, false));
        }

        let source = Source {
            tags,
            updated_at: call.now,
            ..source
        };

        tx.update_source(space, &source)
            .await
            .during("add tags", "source_tags")?;
        Ok((source, false))
    }

    /// The number and the time of a source's next version. Time never goes back within a source:
    /// the last version may come from a host whose clock is ahead. A time set by the request is
    /// used as it is.
    pub(super) async fn next_version(
        &self,
        tx: &mut Tx,
        source_id: &SourceId,
        order: &Order,
        call: &CallContext,
    ) -> Result<(i64, Timestamp), WriteError> {
        let last = tx.find_last_version(&call.space, source_id).await;
        Ok(
            match last.during("number the version", "source_versions")? {
                None => (1, call.now),
                Some((version, _)) if order.at.is_some() => (version + 1, call.now),
                Some((version, moment)) => (version + 1, call.now.max(moment.plus_micros(1))),
            },
        )
    }

    async fn register(
        &self,
        tx: &mut Tx,
        order: &Order,
        (id, filename): (SourceId, Option<String>),
        call: &CallContext,
    ) -> Result<Source, WriteError> {
        let new = NewSource {
            id: Some(id),
            filename,
            path: order.path.clone(),
            user_id: Some(order.user_id.clone()),
            tags: order.tags.clone(),
            eligible: true,
        };

        let registered = self.sources.register(tx, call, new).await;
        registered.map_err(|error| match error {
            SourceError::Store(error) => WriteError::Store {
                operation: "add the source",
                table: "sources",
                error,
            },
            // Another transaction created it between the lookup and the insert: the next lookup
            // finds it.
            SourceError::AlreadyRegistered { .. } => WriteError::Store {
                operation: "add the source",
                table: "sources",
                error: StoreError::Contended {
                    cause: error.to_string(),
                },
            },
            error => WriteError::Job(JobError::retry(Failure::new(
                problems::WRITE_FAILED,
                error.to_string(),
            ))),
        })
    }
}
