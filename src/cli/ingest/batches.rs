//! Sends files in batches. A file that the service rejects is reported by itself, and the others of
//! its batch are sent without it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::slice::Iter;

use anyhow::anyhow;
use serde::Serialize;
use serde_json::{Value, json};

use crate::cli::client::{Client, Refused};

/// Maximum texts of one batch, and roughly their maximum bytes together.
const MAX_TEXTS: usize = 200;
const MAX_BYTES: usize = 4 << 20;

/// A file, and its queued job or why there is none.
pub type Sent<'f> = (&'f Path, anyhow::Result<Value>);

/// The files that are still to be sent.
pub struct Batches<'f, R> {
    client: &'f Client,
    files: Iter<'f, PathBuf>,
    /// Reads a file and makes the request for it.
    read: R,
    /// A file that did not fit into the last batch.
    held: Option<Text<'f>>,
    /// Parts of batches that were too much at once, the next one last.
    parts: Vec<Vec<Text<'f>>>,
}

/// A file and the request for it.
struct Text<'f> {
    file: &'f Path,
    item: Value,
}

impl Text<'_> {
    fn bytes(&self) -> usize {
        self.item["text"].as_str().map_or(0, str::len)
    }
}

/// The body of a batch.
#[derive(Serialize)]
struct Body<'b> {
    items: Vec<&'b Value>,
}

impl<'f, R: Fn(&Path) -> anyhow::Result<Value>> Batches<'f, R> {
    pub fn new(client: &'f Client, files: &'f [PathBuf], read: R) -> Self {
        Self {
            client,
            files: files.iter(),
            read,
            held: None,
            parts: Vec::new(),
        }
    }

    /// Sends the next files; `None` if there are no more. Some results may belong to a later call.
    pub async fn send_next(&mut self) -> Option<Vec<Sent<'f>>> {
        let mut sent = Vec::new();
        let batch = match self.parts.pop() {
            Some(part) => part,
            None => self.read_batch(&mut sent),
        };

        if batch.is_empty() && sent.is_empty() {
            return None;
        }
        self.send(batch, &mut sent).await;
        Some(sent)
    }

    /// Reads as many files as a batch may have; adds those that cannot be read to `sent`.
    fn read_batch(&mut self, sent: &mut Vec<Sent<'f>>) -> Vec<Text<'f>> {
        let mut batch: Vec<Text<'f>> = self.held.take().into_iter().collect();
        let mut bytes: usize = batch.iter().map(Text::bytes).sum();
        while batch.len() < MAX_TEXTS {
            let Some(file) = self.files.next() else { break };
            let item = match (self.read)(file) {
                Ok(item) => item,
                Err(error) => {
                    sent.push((file, Err(error)));
                    continue;
                }
            };

            let text = Text { file, item };
            bytes += text.bytes();
            if bytes > MAX_BYTES && !batch.is_empty() {
                self.held = Some(text);
                break;
            }
            batch.push(text);
        }

        batch
    }

    /// Sends a batch without the files that the service rejects. If it is too much at once, its two
    /// halves are left for the next calls.
    async fn send(&mut self, mut batch: Vec<Text<'f>>, sent: &mut Vec<Sent<'f>>) {
        loop {
            if batch.len() <= 1 {
                for Text { file, item } in batch {
                    let post = self
                        .client
                        .post_patiently("/v1/ingestions", &item, |_| false);
                    sent.push((file, post.await));
                }
                return;
            }

            let body = Body {
                items: batch.iter().map(|text| &text.item).collect(),
            };

            let post = self
                .client
                .post_patiently("/v1/ingestions/batch", &body, is_too_much);
            let error = match post.await {
                Ok(answer) => {
                    let jobs = batch.iter().enumerate().map(|(index, text)| {
                        let job = &answer["jobs"][index];
                        let job = json!({"id": job["job_id"], "state": job["state"]});
                        (text.file, Ok(job))
                    });
                    sent.extend(jobs);
                    return;
                }
                Err(error) => error,
            };

            let refused = match error.downcast::<Refused>() {
                Ok(refused) => refused,
                Err(error) => {
                    let error = format!("{error:#}");
                    let each = batch.iter();
                    sent.extend(each.map(|text| (text.file, Err(anyhow!(error.clone())))));
                    return;
                }
            };

            if is_too_much(&refused) {
                let second = batch.split_off(batch.len() / 2);
                self.parts.extend([second, batch]);
                return;
            }

            let mut by_item = by_item(&refused);
            if by_item.is_empty() {
                let each = batch.iter();
                sent.extend(each.map(|text| (text.file, Err(refused.clone().into()))));
                return;
            }

            let mut rest = Vec::with_capacity(batch.len());
            for (index, text) in batch.into_iter().enumerate() {
                match by_item.remove(&index) {
                    Some(refused) => sent.push((text.file, Err(refused.into()))),
                    None => rest.push(text),
                }
            }
            batch = rest;
        }
    }
}

/// Whether fewer texts might be accepted.
fn is_too_much(refused: &Refused) -> bool {
    let code = refused.problem["code"].as_str();
    matches!(code, Some("queue_full" | "body_too_large"))
}

/// The problem of each item that a rejected batch names, as if the item had been sent alone.
fn by_item(refused: &Refused) -> BTreeMap<usize, Refused> {
    let mut errors: BTreeMap<usize, Vec<Value>> = BTreeMap::new();
    for error in refused.problem["errors"].as_array().into_iter().flatten() {
        let field = error["field"].as_str().unwrap_or_default();
        let place = field
            .strip_prefix("items[")
            .and_then(|rest| rest.split_once(']'));

        let Some((index, field)) = place else {
            continue;
        };
        let Ok(index) = index.parse() else { continue };
        let field = field.strip_prefix('.').unwrap_or("(body)");
        let error = json!({"field": field, "message": error["message"]});
        errors.entry(index).or_default().push(error);
    }

    let problem = |errors: Vec<Value>| {
        let text = |error: &Value, name: &str| error[name].as_str().unwrap_or_default().to_owned();
        let messages = errors
            .iter()
            .map(|error| format!("{}: {}", text(error, "field"), text(error, "message")));

        let mut problem = refused.problem.clone();
        problem["detail"] = messages.collect::<Vec<_>>().join("; ").into();
        problem["errors"] = errors.into();
        if let Some(context) = problem["context"].as_object_mut() {
            context.remove("more_errors");
        }

        Refused::of(problem)
    };

    errors
        .into_iter()
        .filter_map(|(index, errors)| Some((index, problem(errors)?)))
        .collect()
}
