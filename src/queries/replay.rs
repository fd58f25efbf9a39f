//! Replays a query: on its record, which proves what happened, or live with other settings, which
//! shows the differences.

use std::collections::BTreeSet;

use super::recalling::recalled;
use super::receipt::{PathRecord, Receipt, Totals, fingerprint};
use super::run::{Known, QueryRun};
use super::traversal::Hierarchy;
use super::{
    Events, Failed, LeafReader, Queries, QueryError, QueryResult, QuerySettings, Remembered,
    RunRecord, Who,
};
use crate::base::ids::QueryId;
use crate::config::query::StrategyName;
use crate::llm::Session;

/// The kind of replay.
#[derive(Debug, Clone)]
pub enum ReplayInput {
    /// With the recorded answers of the models.
    Recorded,
    /// With new model calls.
    Live {
        strategy: Option<StrategyName>,
        n: Option<u64>,
        n2: Option<u64>,
        model: Option<String>,
    },
}

/// Both results, compared.
#[derive(Debug)]
pub struct Replay {
    pub original: Remembered,
    /// Whether everything except times is identical; only for a recorded replay.
    pub identical: Option<bool>,
    pub result: Box<QueryResult>,
    /// The code of the problem with which the replay failed.
    pub error: Option<String>,
    pub totals: Totals,
    /// Leaves by name: read by both, only by the replay, only by the original.
    pub kept: Vec<Vec<String>>,
    pub added: Vec<Vec<String>>,
    pub removed: Vec<Vec<String>>,
}

impl Queries {
    /// Replays a query.
    ///
    /// # Errors
    /// [`QueryError::NotFound`], or the replay failed before the query could start.
    pub async fn replay(&self, who: &Who, id: &str, wish: ReplayInput) -> Result<Replay, Failed> {
        let original = self.find(&who.space, id).await?;
        if original.is_erased() {
            return Err(QueryError::Erased(id.to_owned()).into());
        }

        let Some(ask) = Receipt::ask(&original.stored) else {
            return Err(QueryError::NotFound(id.to_owned()).into());
        };
        let recorded = matches!(wish, ReplayInput::Recorded);
        let recalled_from = original
            .receipt
            .auto
            .as_ref()
            .and_then(|auto| auto.recalled_from.clone());

        let outcome = match wish {
            ReplayInput::Recorded => match recalled_from {
                // The first result proves the one that repeated it.
                Some(first) => {
                    let first = self.find(&who.space, &first).await?;
                    if first.is_erased() {
                        return Err(QueryError::Erased(id.to_owned()).into());
                    }

                    let result = self.recorded(who, &first, &ask).await;
                    result.map(|result| recalled(result, original.id().to_string()))
                }
                None => self.recorded(who, &original, &ask).await,
            },
            ReplayInput::Live {
                strategy,
                n,
                n2,
                model,
            } => {
                let mut ask = strategy.map_or_else(|| ask.clone(), |name| ask.with_strategy(name));
                ask.n = n
                    .filter(|_| ask.strategy != StrategyName::OneShot)
                    .unwrap_or(ask.n);
                ask.n2 = n2.unwrap_or(ask.n2);
                ask.model = model.or(ask.model);
                ask.cursor = None;
                ask.reuse = false;
                self.inner.llm.target_name("answer", ask.model.as_deref())?;

                self.answer(who, &ask).await
            }
        };

        let (result, error) = match outcome {
            Ok(result) => (Box::new(result), None),
            Err(Failed {
                error,
                result: Some(result),
            }) => (result, Some(error)),
            Err(failed) => return Err(failed),
        };

        let error = error.map(|error| error.code().to_owned());
        let same = || {
            original.receipt.error == error
                && fingerprint(&result) == original.receipt.result_sha256
        };

        let identical = recorded.then(same);
        let read = |names: &[(Vec<String>, bool)]| -> BTreeSet<Vec<String>> {
            names
                .iter()
                .filter(|(_, full)| *full)
                .map(|(names, _)| names.clone())
                .collect()
        };

        let before: Vec<_> = original
            .receipt
            .paths
            .iter()
            .map(|path| (path.names.clone(), !path.chunk_ids.is_empty()))
            .collect();

        let after: Vec<_> = result
            .paths
            .iter()
            .map(|path| (path.names.clone(), path.chunk_count > 0))
            .collect();

        let (before, after) = (read(&before), read(&after));
        Ok(Replay {
            identical,
            totals: Totals::of(&result),
            error,
            kept: before.intersection(&after).cloned().collect(),
            added: after.difference(&before).cloned().collect(),
            removed: before.difference(&after).cloned().collect(),
            result,
            original,
        })
    }

    /// The query on its record: its options, its models' answers, its chunks by id.
    async fn recorded(
        &self,
        who: &Who,
        original: &Remembered,
        ask: &QuerySettings,
    ) -> Result<QueryResult, Failed> {
        let inner = &*self.inner;
        let (stored, receipt) = (&original.stored, &original.receipt);
        let session = Session::of_record(
            who.space.clone(),
            stored.id.to_string(),
            original.calls.clone(),
        );

        let (cursor, page) = inner.cursors(ask)?;

        let empty = receipt.path_errors.iter().filter_map(|error| {
            let path = receipt.paths.iter().find(|path| path.names == error.path)?;
            path.ids.last().copied()
        });

        let leaves = |path: &PathRecord| {
            let leaf = path.ids.last().copied().unwrap_or_default();
            path.chunk_ids
                .iter()
                .map(move |id| (*id, leaf))
                .collect::<Vec<_>>()
        };

        let helpers = receipt
            .helpers
            .iter()
            .filter_map(|(id, version)| Some((id.parse().ok()?, *version)));

        let books = LeafReader::Recorded {
            store: inner.store.clone(),
            space: who.space.clone(),
            leaves: receipt.paths.iter().flat_map(leaves).collect(),
            helpers: helpers.collect(),
            next: receipt.next.clone(),
        };

        let auto = ask.strategy == StrategyName::Auto;
        let map = (cursor.is_none() && !auto).then(|| Hierarchy::Recorded(receipt.levels.clone()));
        let events = Events::default();
        let mut run = QueryRun {
            inner,
            ask,
            session: &session,
            leaf_reader: books,
            known: Known {
                paths: if map.is_none() {
                    receipt.paths()
                } else {
                    Vec::new()
                },
                mode: Some(receipt.mode_tokens),
                empty: Some(empty.collect()),
                auto: receipt.auto.clone(),
                levels: auto.then(|| receipt.levels.clone()),
                page,
                memories: Some(receipt.memories.clone()),
                ..Known::default()
            },
            map,
            cursor,
            counter: inner.counter(ask),
            events: &events,
            result: QueryResult::new(stored.id.to_string(), ask),
            record: RunRecord::default(),
            reserved: 0,
        };

        let begun = std::time::Instant::now();
        let outcome = run.run().await;
        let QueryRun {
            mut result, record, ..
        } = run;
        result.account(session.calls(), &record.levels);
        result.elapsed_ms = super::milliseconds(begun);

        match outcome {
            Ok(()) => Ok(result),
            Err(error) => Err(Failed {
                error,
                result: Some(Box::new(result)),
            }),
        }
    }
}

impl Remembered {
    /// The id of the query.
    pub fn id(&self) -> &QueryId {
        &self.stored.id
    }
}
