//! Streams the events of a job from the database, so any process can serve them.

use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream::{self, Stream, StreamExt as _};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::jobs::Jobs;
use crate::model::call::CallContext;
use crate::model::job::{Job, JobEvent, JobState};

/// Periodic comments keep proxies from closing an idle connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The position of a stream.
struct Watch {
    call: CallContext,
    jobs: Jobs,
    job: Job,
    after: i64,
    /// Whether the job has been seen in a final state.
    final_seen: bool,
    over: bool,
}

/// Streams all events after the given one until the job is over or the service stops.
pub fn stream(
    jobs: Jobs,
    (call, job): (CallContext, Job),
    after: i64,
    stop: CancellationToken,
) -> Response {
    let watch = Watch {
        call,
        jobs,
        job,
        after,
        final_seen: false,
        over: false,
    };

    let events = stream::unfold(watch, next)
        .flat_map(stream::iter)
        .take_until(stop.cancelled_owned());
    Sse::new(to_sse(events))
        .keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
        .into_response()
}

/// The next events; empty while nothing happens.
async fn next(mut watch: Watch) -> Option<(Vec<JobEvent>, Watch)> {
    while !watch.over {
        let Ok(events) = watch
            .jobs
            .events(&watch.call, &watch.job.id, watch.after)
            .await
        else {
            // The client reconnects with its last id once the database is back.
            return None;
        };

        if let Some(last) = events.last() {
            watch.after = last.seq;
            watch.over = ends(last);
            return Some((events, watch));
        }

        // A client that has already received the last event would wait indefinitely, and so would
        // one whose job was pruned.
        match watch.jobs.find(&watch.call, watch.job.id.as_str()).await {
            Ok(job) if !job.state.is_final() => {}
            // Read again: the last event may have been stored between the two reads.
            Ok(_) if !watch.final_seen => watch.final_seen = true,
            _ => watch.over = true,
        }
    }
    None
}

fn ends(event: &JobEvent) -> bool {
    let state = event.data["state"]
        .as_str()
        .and_then(|state| state.parse().ok());
    event.kind == "state" && state.is_some_and(JobState::is_final)
}

fn to_sse(events: impl Stream<Item = JobEvent>) -> impl Stream<Item = Result<Event, Infallible>> {
    events.map(|event| {
        let data = json!({"at": event.created_at.to_string(), "data": event.data});
        Ok(Event::default()
            .id(event.seq.to_string())
            .event(event.kind)
            .data(data.to_string()))
    })
}
