//! Problem documents of the workbench.

use super::ApiError;
use crate::base::problems;
use crate::workbench::WorkbenchError;

impl From<WorkbenchError> for ApiError {
    fn from(error: WorkbenchError) -> Self {
        let detail = error.to_string();
        match error {
            WorkbenchError::Invalid(errors) => Self::invalid(errors),
            WorkbenchError::NoRun(_) => Self::not_found(detail).fix(
                "Runs are not stored: this one has ended, or another process runs it. Send the \
                 cancellation to the process that got the request.",
            ),
            WorkbenchError::NoFile(_) => Self::not_found(detail)
                .fix("List the sources with GET /v1/sources, or ingest the file first."),
            WorkbenchError::NoText(_) => Self::new(problems::NO_TEXT, detail),
            WorkbenchError::OverCeiling(estimate) => {
                let estimate = serde_json::to_value(&*estimate).unwrap_or_default();
                Self::new(problems::PROMPT_OVER_CEILING, detail)
                    .with("ceiling", estimate["ceiling_tokens"].clone())
                    .with("ceiling_usd", estimate["ceiling_cost_usd"].clone())
                    .with("estimate", estimate)
            }
            WorkbenchError::Undecided(_) => Self::internal(detail),
            WorkbenchError::Scoring(error) => {
                Self::new(problems::LLM_UNAVAILABLE, error.to_string())
            }
            WorkbenchError::Source(error) => error.into(),
            WorkbenchError::RunExists(_) => Self::new(problems::RUN_EXISTS, detail),
            WorkbenchError::Cancelled(id) => {
                Self::new(problems::RUN_CANCELLED, detail).with("run_id", id.as_str())
            }
            WorkbenchError::Changed => Self::new(problems::PRECONDITION_FAILED, detail)
                .fix("Get the workspace again and repeat the change with its new ETag."),
            WorkbenchError::Conversation(error) => error.into(),
            WorkbenchError::Llm(error) => error.into(),
            WorkbenchError::Store(error) => error.into(),
        }
    }
}
