//! Empties what holds the text of something deleted: receipts of queries, stored responses, jobs and
//! model calls.
//!
//! Receipts and responses note what they use (`text_uses`). Those from before such notes are read page
//! by page, and so is everything from a time on if the name of a category has to go.

use std::collections::{BTreeSet, HashSet};

use memoir_text::text::name_key;
use serde_json::Value;

use super::{Erasures, Running};
use crate::base::clock::Timestamp;
use crate::base::erased_json::uses;
use crate::base::ids::USER;
use crate::conversation::READER_JOBS;
use crate::model::call::CallContext;
use crate::model::erasure::{Pending, RowCounts, SubjectKind, add_counts};
use crate::queries;
use crate::store::{Holder, HolderKind, JobTexts, StoreError, StoredReceipt, StoredResponse};

/// The status of a response that names a queued job.
const ACCEPTED: i64 = 202;
/// A time after every other.
const ALWAYS: Timestamp = Timestamp::from_micros(i64::MAX);
/// What separates the names of a path, and what quotes a path.
const SEPARATORS: [char; 4] = ['/', '"', '›', '\n'];
/// Members of a receipt with the numbers of chunks.
const CHUNKS: [&str; 5] = ["used_chunk_ids", "chunk_ids", "chunk_id", "read", "rest"];

impl Erasures {
    /// Empties everything that holds what is pending, and notes that it is done.
    pub(super) async fn erase_holders(&self, running: &mut Running) -> Result<(), StoreError> {
        let (call, kind) = (running.call.clone(), running.erasure.kind);
        // Otherwise calls of this process that are not written yet would be missed.
        self.llm.flush().await?;
        self.store
            .restart_query_jobs(&call.space, queries::KIND)
            .await?;
        let pending = running.pending().clone();
        let own = pending
            .user_id
            .as_deref()
            .filter(|_| kind == SubjectKind::User);
        let counts = self
            .store
            .erase_uses(&call.space, &pending.used, own)
            .await?;
        running.add(&counts);
        if let Some(user_id) = own {
            // Also receipts that were emptied before, which note nothing any more.
            let counts = self.store.remove_user_queries(&call.space, user_id).await?;
            running.add(&counts);
        }

        if let (SubjectKind::Thread | SubjectKind::Memory, Some(user_id)) = (kind, &pending.user_id)
        {
            let since = Timestamp::from_micros(pending.since);
            let counts = self
                .store
                .erase_user_jobs(&call.space, user_id, &READER_JOBS, since)
                .await?;
            running.add(&counts);
        }

        let counts = self.erase_older(&call, &pending, own).await?;
        running.add(&counts);
        self.settle_names(running).await?;
        let counts = self.erase_mentions(&call, running.pending()).await?;
        running.add(&counts);

        let pending = running.pending();
        let subject = pending.subject.clone();
        pending
            .used
            .retain(|used| used.starts_with(USER) || *used == subject);
        pending.chunks.clear();
        pending.names.clear();
        pending.names_since = None;
        self.store
            .update_erasure(&running.erasure)
            .await
            .map(|_| ())
    }

    /// Empties receipts and responses that do not note what they use.
    async fn erase_older(
        &self,
        call: &CallContext,
        pending: &Pending,
        own: Option<&str>,
    ) -> Result<RowCounts, StoreError> {
        let until = self.store.find_text_uses_since().await?;
        let range = (Timestamp::from_micros(pending.since), until);
        let used: HashSet<&str> = pending.used.iter().map(String::as_str).collect();
        let chunks: HashSet<i64> = pending.chunks.iter().copied().collect();
        let holds = |json: &str| {
            let value: Value = serde_json::from_str(json).unwrap_or_default();
            let found = uses_of(&value);
            found.iter().any(|id| used.contains(id.as_str())) || has_chunk(&value, &chunks, false)
        };
        let response_holds = |response: &StoredResponse| {
            let value: Value = serde_json::from_str(&response.response_json).unwrap_or_default();
            let mut found = uses_of(&value);
            // A queued job tells nothing of a text, but whose it is.
            found.retain(|used| response.status != ACCEPTED || used.starts_with(USER));
            found.iter().any(|id| used.contains(id.as_str()))
        };
        let receipt_holds = |receipt: &StoredReceipt| {
            own.is_some_and(|own| receipt.user_id == own)
                || holds(&receipt.receipt_json)
                || holds(&receipt.request_json)
        };

        let mut holders = self.receipts_that(call, range, receipt_holds).await?;
        let range = (Timestamp::from_micros(0), until);
        let responses = self.responses_that(call, range, response_holds);
        holders.extend(responses.await?);
        self.erase_all(call, holders, own).await
    }

    /// Empties what mentions one of these names.
    async fn erase_mentions(
        &self,
        call: &CallContext,
        pending: &Pending,
    ) -> Result<RowCounts, StoreError> {
        let (false, Some(since)) = (pending.names.is_empty(), pending.names_since) else {
            return Ok(RowCounts::new());
        };

        let names = CategoryNames::of(&pending.names);
        let mentions = |text: &str| names.are_in(text);
        let since = Timestamp::from_micros(since);
        let receipt_mentions = |receipt: &StoredReceipt| mentions(&receipt.receipt_json);
        let range = (since, ALWAYS);
        let mut holders = self.receipts_that(call, range, receipt_mentions).await?;
        let response_mentions = |response: &StoredResponse| mentions(&response.response_json);
        let responses = self.responses_that(call, range, response_mentions);
        holders.extend(responses.await?);
        let mut counts = self.erase_all(call, holders, None).await?;

        let mut after = String::new();
        loop {
            let jobs = self
                .store
                .list_job_texts(&call.space, &after, since)
                .await?;
            let Some(last) = jobs.last() else {
                return Ok(counts);
            };
            after = last.id.to_string();
            let mentioning = |job: &JobTexts| job.texts.iter().any(|text| mentions(text));
            let found: Vec<JobTexts> = jobs.into_iter().filter(mentioning).collect();
            add_counts(&mut counts, &self.erase_jobs(call, &found).await?);
        }
    }

    async fn erase_jobs(
        &self,
        call: &CallContext,
        jobs: &[JobTexts],
    ) -> Result<RowCounts, StoreError> {
        if jobs.is_empty() {
            return Ok(RowCounts::new());
        }

        self.store
            .retry("erase_jobs", || async {
                let mut counts = RowCounts::new();
                let mut tx = self.store.begin().await?;
                for job in jobs {
                    if job.is_final {
                        let id = std::slice::from_ref(&job.id);
                        tx.erase_jobs(&call.space, id, &mut counts).await?;
                    } else {
                        tx.clear_job_record(&call.space, &job.id, &mut counts)
                            .await?;
                    }
                }

                tx.commit().await?;
                Ok(counts)
            })
            .await
    }

    /// Empties receipts and responses, and the responses that hold those receipts.
    async fn erase_all(
        &self,
        call: &CallContext,
        holders: Vec<Holder>,
        own: Option<&str>,
    ) -> Result<RowCounts, StoreError> {
        let mut counts = self.store.erase_holders(&call.space, &holders, own).await?;
        let queries = holders
            .into_iter()
            .filter(|(kind, _)| *kind == HolderKind::Query);
        let queries: Vec<String> = queries.map(|(_, id)| id).collect();
        let more = self.store.erase_uses(&call.space, &queries, own).await?;
        add_counts(&mut counts, &more);
        Ok(counts)
    }

    async fn receipts_that(
        &self,
        call: &CallContext,
        range: (Timestamp, Timestamp),
        holds: impl Fn(&StoredReceipt) -> bool,
    ) -> Result<Vec<Holder>, StoreError> {
        let mut found = Vec::new();
        let mut last: Option<StoredReceipt> = None;
        loop {
            let page = self
                .store
                .list_receipts_from(&call.space, range, last.as_ref());
            let mut page = page.await?;
            let held = page.iter().filter(|receipt| holds(receipt));
            found.extend(held.map(|receipt| (HolderKind::Query, receipt.id.to_string())));
            last = page.pop();
            if last.is_none() {
                return Ok(found);
            }
        }
    }

    async fn responses_that(
        &self,
        call: &CallContext,
        range: (Timestamp, Timestamp),
        holds: impl Fn(&StoredResponse) -> bool,
    ) -> Result<Vec<Holder>, StoreError> {
        let mut found = Vec::new();
        let mut after = String::new();
        loop {
            let page = self
                .store
                .list_responses_from(&call.space, range, &after)
                .await?;
            let Some(last) = page.last() else {
                return Ok(found);
            };
            after.clone_from(&last.key);
            let held = page.into_iter().filter(|response| holds(response));
            found.extend(held.map(|response| (HolderKind::Response, response.key)));
        }
    }
}

/// The ids in a value, and the end users that it names.
fn uses_of(value: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    uses(value, &mut found);
    found
}

/// Whether a receipt names one of these chunks; `inside` a member with their numbers.
fn has_chunk(value: &Value, chunks: &HashSet<i64>, inside: bool) -> bool {
    if chunks.is_empty() {
        return false;
    }

    match value {
        Value::Number(number) => {
            inside
                && number
                    .as_i64()
                    .is_some_and(|number| chunks.contains(&number))
        }
        Value::Array(items) => items.iter().any(|item| has_chunk(item, chunks, inside)),
        Value::Object(members) => members
            .iter()
            .any(|(name, member)| has_chunk(member, chunks, CHUNKS.contains(&name.as_str()))),
        _ => false,
    }
}

/// Names of categories, to be found where they stand alone, in a path or in quotes. A word of a longer
/// name or of a sentence is none of them.
struct CategoryNames {
    keys: HashSet<String>,
    /// Those that contain a separator.
    divided: Vec<String>,
}

impl CategoryNames {
    fn of(names: &[String]) -> Self {
        let (divided, whole): (Vec<_>, Vec<_>) =
            names.iter().partition(|name| name.contains(SEPARATORS));
        Self {
            keys: whole.into_iter().map(|name| name_key(name)).collect(),
            divided: divided.into_iter().map(|name| name_key(name)).collect(),
        }
    }

    /// Whether a text, which may be JSON, has one of them.
    fn are_in(&self, text: &str) -> bool {
        match serde_json::from_str(text) {
            Ok(value) => self.are_in_value(&value),
            Err(_) => self.are_in_words(text),
        }
    }

    fn are_in_value(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.are_in_words(text),
            Value::Array(items) => items.iter().any(|item| self.are_in_value(item)),
            Value::Object(members) => members
                .iter()
                .any(|(name, member)| self.are_in_words(name) || self.are_in_value(member)),
            _ => false,
        }
    }

    fn are_in_words(&self, text: &str) -> bool {
        let mut parts = text.split(SEPARATORS);
        if parts.any(|part| self.keys.contains(&name_key(part))) {
            return true;
        }

        let is_within = |key: &str| self.divided.iter().any(|name| key.contains(name.as_str()));
        !self.divided.is_empty() && is_within(&name_key(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_category_is_mentioned_by_its_whole_name() {
        let names = ["Oil", "Art of sailing", "A/B tests"].map(ToOwned::to_owned);
        let names = CategoryNames::of(&names);
        for (text, is_mention) in [
            (r#"{"path": ["Home", "Oil"]}"#, true),
            (r#"{"path": ["Home", "Oil lamps"]}"#, false),
            (r#"{"text": "The lamp burns oil."}"#, false),
            (
                r#"{"warning": "the category \"Home / Oil\" has reached its limit"}"#,
                true,
            ),
            (r#"{"Oil": 3}"#, true),
            ("Home/Oil", true),
            ("Travel / art of sailing / Boats", true),
            ("Articles", false),
            (r#"["Work", "A/B Tests"]"#, true),
            (r#"["Work", "A", "B tests"]"#, false),
        ] {
            assert_eq!(names.are_in(text), is_mention, "{text}");
        }
    }
}
