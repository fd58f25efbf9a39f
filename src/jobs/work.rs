//! What a feature implements to have work done in the background.

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::{JobContext, JobError};

/// A kind of work. Running it again from any point must be harmless: finished steps are found with
/// [`JobContext::saved`], and what it writes goes through
/// [`Ended::finish`](super::context::Ended::finish).
pub trait Work: Send + Sync + 'static {
    /// The name of the kind, as it stands in the job's row.
    fn kind(&self) -> &'static str;

    /// Does the work. The future is dropped when the job is cancelled or its lease is lost.
    fn run(&self, context: JobContext) -> BoxFuture<'static, Result<Outcome, JobError>>;
}

/// How the work ended well.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Done, with nothing written besides this result.
    Done(Value),
    /// Waits for its user, having written this progress; resumed by [`super::Jobs::resume`].
    AwaitInput(Value),
    /// Done, and the job was ended by [`Ended::finish`](super::context::Ended::finish) together
    /// with what was written.
    Finished,
}
