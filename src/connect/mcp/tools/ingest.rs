//! `ingest`: stores a document and waits until its chunks are filed, telling the progress.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rmcp::model::CallToolResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::io::AsyncReadExt as _;

use super::super::api::{ApiRequest, query, segment};
use super::super::bounded::{Output, fitted};
use super::super::call::{Call, ToolError};

pub const DESCRIPTION: &str = "Store a document, so that ask and read find it later: an article, notes, a report, a \
specification, minutes. The text is kept verbatim and filed under a hierarchy of categories. Ingesting the same \
filename again stores a new version. Use it when the user wants a text kept or searchable. Do not use it for single \
facts or messages (use remember).";

/// How long the tool waits for the document to be filed.
const PATIENCE: Duration = Duration::from_secs(45);
/// How often the progress is told.
const STEP_SECONDS: u64 = 1;
/// Larger files are not read.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Arguments {
    /// The text of the document, verbatim.
    text: Option<String>,
    /// Instead of `text`: a text file below the working directory. Only where memoir runs as a program of this machine
    /// (`memoir mcp`).
    #[schemars(length(min = 1, max = 4096))]
    path: Option<String>,
    /// The file name; the same name again is a new version of the same document.
    #[schemars(length(min = 1, max = 255))]
    filename: Option<String>,
    /// The title.
    #[schemars(length(min = 1, max = 2000))]
    title: Option<String>,
    /// Words to find the document by.
    #[serde(default)]
    #[schemars(length(max = 100))]
    tags: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Ingested {
    /// The id of the document, for `read`, `ask` and `forget`.
    source_id: String,
    /// `succeeded`; or `running` or `queued` if it takes longer than 45 seconds, and is finished in the background; or
    /// `awaiting_helper` if the settings want a person to describe every document.
    state: String,
    /// The version that was stored; 0 until it is finished.
    version: i64,
    /// Chunks that were filed.
    chunks: i64,
    /// Problems that did not stop it.
    warnings: Vec<String>,
    /// The job that files it.
    job_id: String,
}

pub async fn run(call: &Call<'_>, given: Arguments) -> Result<CallToolResult, ToolError> {
    let body = body(call, given).await?;
    let mut job = call.json(ApiRequest::post("/v1/ingestions", body)).await?;
    let began = Instant::now();
    let id = segment(job["id"].as_str().unwrap_or_default());
    let mut told_up_to = -1.0;
    loop {
        let left = PATIENCE.saturating_sub(began.elapsed()).as_secs();
        if !is_open(&job) || left == 0 {
            break;
        }
        let (done, total, said) = progress(&job);
        if done > told_up_to {
            call.tell(done, total, said).await;
            told_up_to = done;
        }
        let step = if call.wants_progress() {
            STEP_SECONDS
        } else {
            left
        };
        let step = step.min(left).to_string();
        let waited = query(&[("wait", Some(&step)), ("details", Some("false"))]);
        let next = call.json(ApiRequest::get(format!("/v1/jobs/{id}{waited}")));
        // The document is accepted: the job goes on without its caller, and whatever a look at it says.
        job = tokio::select! {
            next = next => match next {
                Ok(next) => next,
                Err(_) => break,
            },
            () = call.context.ct.cancelled() => break,
        };
    }

    let error = &job["error"];
    let has_failed = ["failed", "cancelled"]
        .iter()
        .any(|state| job["state"] == *state);
    if has_failed {
        let text = |name: &str| {
            error[name]
                .as_str()
                .unwrap_or("the job has ended")
                .to_owned()
        };
        let said = format!(
            "The document was not stored: {}\n{}",
            text("detail"),
            text("remediation")
        );
        return Err(ToolError::Argument(said));
    }

    let warnings = job["warnings"].as_array().into_iter().flatten();
    let warnings = warnings.filter_map(|warning| warning["message"].as_str());
    let warnings: Vec<String> = warnings.map(str::to_owned).collect();
    let text = |name: &str| job[name].as_str().unwrap_or_default().to_owned();
    let number = |name: &str| job["result"][name].as_i64().unwrap_or_default();
    Ok(fitted(call.max_result_tokens, |chars| {
        let ingested = Ingested {
            source_id: text("source_id"),
            state: text("state"),
            version: number("version"),
            chunks: number("chunks_written"),
            warnings: warnings.iter().take(chars / 1000).cloned().collect(),
            job_id: text("id"),
        };
        Output {
            text: told(&ingested),
            data: json!(ingested),
        }
    }))
}

async fn body(call: &Call<'_>, given: Arguments) -> Result<Value, ToolError> {
    let mut body = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        body.extend(value.map(|value| (name.to_owned(), value)));
    };
    put("filename", given.filename.clone().map(Value::from));
    match (given.text, given.path) {
        (Some(text), None) => {
            put("text", Some(text.into()));
            // A name stands for one document, so that its next version is one.
            put(
                "path",
                given.filename.map(|name| format!("/mcp/{name}").into()),
            );
        }
        (None, Some(path)) => {
            let (file, text) = file(call.files, &path).await?;
            put("text", Some(text.into()));
            put("path", Some(file.to_string_lossy().into_owned().into()));
        }
        _ => {
            let rule = "send either text or path";
            return Err(ToolError::Argument(rule.to_owned()));
        }
    }

    put("title", given.title.map(Value::from));
    put("tags", Some(given.tags.into()));
    put("user_id", call.user.clone().map(Value::from));
    put("if_changed", Some(true.into()));
    Ok(Value::Object(body))
}

/// A file below the working directory, wherever its links lead.
async fn file(root: Option<&PathBuf>, path: &str) -> Result<(PathBuf, String), ToolError> {
    let refused = |rule: String| ToolError::Argument(format!("path: {rule}"));
    let Some(root) = root else {
        let rule = "this server opens no files; send the text itself";
        return Err(refused(rule.to_owned()));
    };
    let place = |path: PathBuf| async move { tokio::fs::canonicalize(path).await };
    let unread = |error: std::io::Error| refused(format!("{path} cannot be read: {error}"));
    let (root, file) = (
        place(root.clone()).await.map_err(unread)?,
        place(root.join(path)).await.map_err(unread)?,
    );
    if !file.starts_with(&root) {
        let rule = format!(
            "{path} is not below the working directory {}",
            root.display()
        );
        return Err(refused(rule));
    }

    let text = read_text(&file)
        .await
        .map_err(|error| refused(format!("{path} {error}")))?;
    Ok((file, text))
}

async fn read_text(file: &Path) -> Result<String, String> {
    let facts = tokio::fs::metadata(file)
        .await
        .map_err(|error| format!("cannot be read: {error}"))?;
    if !facts.is_file() {
        return Err("is not a file".to_owned());
    }
    // The size of a file of the system is not told, so it is read up to the limit only.
    let opened = tokio::fs::File::open(file).await;
    let opened = opened.map_err(|error| format!("cannot be read: {error}"))?;
    let mut bytes = Vec::new();
    let mut limited = opened.take(MAX_FILE_BYTES + 1);
    let read = limited.read_to_end(&mut bytes).await;
    let read = read.map_err(|error| format!("cannot be read: {error}"))?;
    if u64::try_from(read).unwrap_or(u64::MAX) > MAX_FILE_BYTES {
        return Err(format!("has more than {MAX_FILE_BYTES} bytes"));
    }

    String::from_utf8(bytes).map_err(|_| "is not UTF-8 text".to_owned())
}

fn is_open(job: &Value) -> bool {
    let open = ["queued", "running"];
    job["state"]
        .as_str()
        .is_some_and(|state| open.contains(&state))
}

#[expect(clippy::cast_precision_loss, reason = "for a progress bar")]
fn progress(job: &Value) -> (f64, Option<f64>, String) {
    let number = |name: &str| job["progress"][name].as_i64().map(|count| count as f64);
    let phase = job["phase"].as_str().or_else(|| job["state"].as_str());
    (
        number("done").unwrap_or_default(),
        number("total").filter(|total| *total > 0.0),
        phase.unwrap_or_default().to_owned(),
    )
}

fn told(done: &Ingested) -> String {
    let Ingested {
        source_id,
        state,
        version,
        chunks,
        warnings,
        ..
    } = done;
    let mut told = match (state.as_str(), *chunks) {
        ("succeeded", 0) => format!(
            "Stored as document {source_id}, version {version}; its chunks were filed before."
        ),
        ("succeeded", _) => {
            format!("Stored as document {source_id}, version {version}; chunks filed: {chunks}.")
        }
        ("awaiting_helper", _) => format!(
            "Accepted as document {source_id}; job {} waits until somebody confirms its helper.",
            done.job_id
        ),
        _ => format!(
            "Accepted as document {source_id}; job {} is still filing it.",
            done.job_id
        ),
    };
    for warning in warnings {
        told.push_str("\nWarning: ");
        told.push_str(warning);
    }

    told
}
