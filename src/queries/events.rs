//! What happens in a query while it runs, for a caller that watches it.

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{Level, Tier};
use crate::llm::Written;

/// One step of a query.
#[derive(Debug, Clone)]
pub enum QueryEvent {
    /// A tier of `auto` has ended.
    Tier(Tier),
    /// A level of a walk, or a pick, with its choice.
    Level(Level),
    /// A piece of the answer.
    Answer(Written),
}

/// Passes the steps of a query on; nowhere by default.
#[derive(Debug, Clone, Default)]
pub struct Events(Option<UnboundedSender<QueryEvent>>);

impl Events {
    /// A way to pass steps on, and its other end. It has no limit: a query has few steps, and the
    /// length of its answer is limited.
    pub fn channel() -> (Self, UnboundedReceiver<QueryEvent>) {
        let (sender, receiver) = unbounded_channel();
        (Self(Some(sender)), receiver)
    }

    /// Whether anybody watches.
    pub fn are_watched(&self) -> bool {
        self.0.is_some()
    }

    /// Passes a step on, which is made only if somebody watches. A watcher that has gone away misses
    /// nothing.
    pub fn send(&self, event: impl FnOnce() -> QueryEvent) {
        if let Some(sender) = &self.0 {
            let _ = sender.send(event());
        }
    }
}
