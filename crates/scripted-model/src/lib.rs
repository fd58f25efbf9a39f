//! A model server that follows a script, in place of providers with `OpenAI`'s, Anthropic's or
//! Gemini's protocol. It records every request, answers deterministically, simulates faults on
//! demand, and adds little latency, because benchmarks use it.

mod body;
mod embed;
mod frame;
mod line;
mod minimal;
mod plan;
mod render;
mod routes;
mod script;
mod see;
mod sensible;
mod state;
mod step;
mod stream;
mod types;

use std::fmt;
use std::future::IntoFuture as _;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

pub use self::script::{Answer, Reply, Rule, RuleFn, Script, UsageScript};
pub use self::step::{Fault, Step};
pub use self::types::{Outcome, OutputMode, Protocol, Seen, Stats, Usage};

use self::line::{Lines, Switch};
use self::state::State;

/// A client that holds half a request back must not hold up the end of a test.
const FAREWELL: Duration = Duration::from_secs(1);

/// A running server; dropping it stops it.
pub struct ScriptedModel {
    state: Arc<State>,
    address: SocketAddr,
    tasks: TaskTracker,
}

impl ScriptedModel {
    /// Serves on `listener`, as a task of the current runtime.
    pub fn start(listener: TcpListener) -> Self {
        // Only a broken socket has no address, and it serves nothing.
        let address = listener
            .local_addr()
            .unwrap_or_else(|_| SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let state = Arc::new(State::new());
        let app =
            routes::router(Arc::clone(&state)).into_make_service_with_connect_info::<Switch>();
        let stop = state.stop.clone().cancelled_owned();
        let serving = axum::serve(Lines(listener), app).with_graceful_shutdown(stop);
        let tasks = TaskTracker::new();

        tasks.spawn(serving.into_future());
        tasks.close();
        Self {
            state,
            address,
            tasks,
        }
    }

    /// Serves on a free port of this machine.
    pub async fn local() -> io::Result<Self> {
        Ok(Self::start(
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?,
        ))
    }

    /// Without a trailing slash. For a server on all addresses, the loopback address.
    pub fn url(&self) -> String {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
        }

        format!("http://{address}")
    }

    pub fn openai_url(&self) -> String {
        format!("{}/v1", self.url())
    }

    pub fn anthropic_url(&self) -> String {
        format!("{}/v1", self.url())
    }

    pub fn gemini_url(&self) -> String {
        format!("{}/v1beta", self.url())
    }

    /// Aborts running responses, closes the port, and returns when both are done.
    pub async fn stop(self) {
        self.state.stop.cancel();
        let _ = tokio::time::timeout(FAREWELL, self.tasks.wait()).await;
    }

    /// Returns when the server has ended, which never happens on its own.
    pub async fn wait(&self) {
        self.tasks.wait().await;
    }

    /// The requests since the last clear, oldest first, up to the script's limit.
    pub fn requests(&self) -> Vec<Seen> {
        self.state.requests()
    }

    /// Clears the requests and the counts; script and faults stay.
    pub fn clear(&self) {
        self.state.clear();
    }

    /// Queues a fault for one request.
    pub fn push(&self, step: impl Into<Step>) {
        self.state.push(step.into());
    }

    /// Applies a fault to every request without a queued fault, until the faults are cleared.
    pub fn always(&self, step: impl Into<Step>) {
        self.state.push(Step {
            always: true,
            ..step.into()
        });
    }

    /// Removes all faults, queued and permanent.
    pub fn clear_faults(&self) {
        self.state.clear_faults();
    }

    /// Replaces the script, including its rule.
    pub fn set_script(&self, script: Script) {
        self.state.edit_script(|current| *current = script);
    }

    /// Changes some of the script.
    pub fn edit_script(&self, edit: impl FnOnce(&mut Script)) {
        self.state.edit_script(edit);
    }

    /// Answers with this closure from now on.
    pub fn set_rule(&self, rule: impl Fn(&Seen) -> Reply + Send + Sync + 'static) {
        self.state
            .edit_script(|script| script.rule = Rule::Closure(Arc::new(rule)));
    }

    pub fn stats(&self) -> Stats {
        self.state.stats()
    }

    /// Waits for `count` requests since the last clear; false if they did not arrive in time.
    pub async fn wait_for_requests(&self, count: u64, longest: Duration) -> bool {
        self.wait_until(|stats| stats.requests >= count, longest)
            .await
    }

    /// Waits until the counts satisfy the condition, such as one more abandoned request; false
    /// after a timeout.
    pub async fn wait_until(&self, wish: impl Fn(&Stats) -> bool, longest: Duration) -> bool {
        self.state.wait_until(wish, longest).await
    }
}

impl Drop for ScriptedModel {
    fn drop(&mut self) {
        self.state.stop.cancel();
    }
}

impl fmt::Debug for ScriptedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedModel")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}
