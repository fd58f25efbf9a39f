//! Exports: an answer with its citations, as a file.

use std::fmt::Write as _;

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use memoir_text::text::{char_count, one_line};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::extract::{JsonBody, objects};

const MAX_ANSWER_CHARS: usize = 1_000_000;
const MAX_TITLE_CHARS: usize = 1000;
const MAX_CITATIONS: usize = 1000;

/// The format of an export.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExportFormat {
    #[default]
    Markdown,
    Json,
}

/// A citation, as a query returns it. Omitted fields are not exported.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ExportCitation {
    /// The number in the answer; for a chunk, its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk_id: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heading: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quote: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_char: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_char: Option<i64>,
}

/// An answer to export.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({
    "format": "markdown", "title": "When was the lighthouse built?", "answer": "In 1843 [1].",
    "citations": [{"chunk_id": 1, "path": "/notes/cape.md", "quote": "The lighthouse on the cape was built in 1843."}]
}))]
pub struct ExportRequest {
    #[serde(default)]
    pub format: ExportFormat,
    /// The heading, for example the question.
    #[schema(max_length = 1000)]
    pub title: Option<String>,
    /// The answer or the reply.
    #[schema(min_length = 1, max_length = 1_000_000, pattern = "\\S")]
    pub answer: String,
    /// The citations, as in the result of a query.
    #[serde(default, deserialize_with = "objects")]
    #[schema(max_items = 1000)]
    pub citations: Option<Vec<ExportCitation>>,
}

/// Export an answer
///
/// Returns an answer with its citations as a file to download, in Markdown or JSON. Nothing is
/// stored.
#[utoipa::path(
    post, path = "/v1/exports", tag = "prompts", operation_id = "create_export", request_body = ExportRequest,
    responses((status = 200, description = "The file.", content(
        (String = "text/markdown"),
        (Object = "application/json"),
    ), headers(("Content-Disposition" = String, description = "The name of the file."))))
)]
pub async fn create_export(
    _caller: Caller,
    JsonBody { value: request, .. }: JsonBody<ExportRequest>,
) -> Result<Response, ApiError> {
    request.check()?;
    let (kind, name, body) = match request.format {
        ExportFormat::Markdown => (
            "text/markdown; charset=utf-8",
            "attachment; filename=\"answer.md\"",
            request.markdown(),
        ),
        ExportFormat::Json => (
            "application/json",
            "attachment; filename=\"answer.json\"",
            request.json(),
        ),
    };

    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CONTENT_DISPOSITION, HeaderValue::from_static(name)),
    ];
    Ok((headers, body).into_response())
}

impl ExportRequest {
    fn check(&self) -> Result<(), ApiError> {
        let answer = char_count(&self.answer);
        if self.answer.trim().is_empty() || answer > MAX_ANSWER_CHARS {
            let rule = format!("must have 1 to {MAX_ANSWER_CHARS} characters");
            return Err(ApiError::invalid_field("answer", rule));
        }

        if self.title.as_deref().map_or(0, char_count) > MAX_TITLE_CHARS {
            let rule = format!("must have at most {MAX_TITLE_CHARS} characters");
            return Err(ApiError::invalid_field("title", rule));
        }

        if self.citations().len() > MAX_CITATIONS {
            let rule = format!("must have at most {MAX_CITATIONS} entries");
            return Err(ApiError::invalid_field("citations", rule));
        }

        Ok(())
    }

    fn citations(&self) -> &[ExportCitation] {
        self.citations.as_deref().unwrap_or_default()
    }

    fn markdown(&self) -> String {
        let mut text = String::new();
        if let Some(title) = &self.title {
            let _ = writeln!(text, "# {}\n", one_line(title));
        }

        let _ = writeln!(text, "{}", self.answer.trim_end());
        if !self.citations().is_empty() {
            text.push_str("\n## Sources\n\n");
        }

        for citation in self.citations() {
            let _ = writeln!(text, "- {}", citation.line());
        }

        text
    }

    fn json(&self) -> String {
        let whole = json!({
            "title": self.title, "answer": self.answer, "citations": self.citations(),
        });
        serde_json::to_string_pretty(&whole).unwrap_or_default()
    }
}

impl ExportCitation {
    /// `[12] /plan.md, version 2, Dates: “We ship on 2 May.”`
    fn line(&self) -> String {
        let mut line = String::new();
        if let Some(id) = self.number.or(self.chunk_id) {
            let _ = write!(line, "[{id}] ");
        }

        let place = self.path.as_ref().or(self.filename.as_ref());
        let place = place.or(self.source_id.as_ref()).cloned();
        let memory = self.memory_id.as_ref().map(|id| format!("memory {id}"));
        let version = self.version.map(|version| format!("version {version}"));
        let parts = [place.or(memory), version, self.heading.clone()];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        line.push_str(&one_line(&parts.join(", ")));
        if let Some(quote) = &self.quote {
            let _ = write!(line, ": “{}”", one_line(quote));
        }

        line
    }
}
