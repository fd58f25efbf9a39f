//! What a feature implements to run jobs in the background.

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::{JobContext, JobError};

/// A kind of work. It must be safe to run again from any point: finished steps are found with
/// [`JobContext::saved`], and effects are written through
/// [`Ended::finish`](super::context::Ended::finish).
pub trait Work: Send + Sync + 'static {
    /// The name of the kind, as in the job's row.
    fn kind(&self) -> &'static str;

    /// Does the work. The future is dropped when the job is cancelled or its lease is lost.
    fn run(&self, context: JobContext) -> BoxFuture<'static, Result<Outcome, JobError>>;
}

/// How the work succeeded.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Done; this result is all there is to write.
    Done(Value),
    /// Waits for its user, having written this progress; resumed by [`super::Jobs::resume`].
    AwaitInput(Value),
    /// Done, and the job was ended by [`Ended::finish`](super::context::Ended::finish) together
    /// with what was written.
    Finished,
}
