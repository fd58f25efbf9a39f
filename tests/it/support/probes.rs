//! Queues and watches probe jobs over HTTP, in this process or another.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use reqwest::Client;
use serde_json::Value;

use super::events::EventReader;

/// The API at an address.
#[derive(Clone)]
pub struct Api {
    base: String,
    client: Client,
}

impl Api {
    pub fn at(address: std::net::SocketAddr) -> Self {
        Self {
            base: format!("http://{address}"),
            client: super::client::client(),
        }
    }

    /// Queues a probe job; `None` if the service did not accept it.
    pub async fn queue(&self, space: &str, request: &Value) -> Option<String> {
        let sent = self
            .client
            .post(format!("{}/v1/testing/jobs", self.base))
            .header("x-memoir-space", space);

        let reply = sent.json(request).send().await.ok()?;
        let taken = reply.status() == 202;
        let job: Value = reply.json().await.ok()?;
        taken.then(|| job["id"].as_str().unwrap().to_owned())
    }

    pub async fn get(&self, space: &str, path: &str) -> Value {
        let sent = self
            .client
            .get(format!("{}{path}", self.base))
            .header("x-memoir-space", space);
        sent.send().await.unwrap().json().await.unwrap()
    }

    pub async fn post(&self, space: &str, path: &str) -> (u16, Value) {
        let sent = self
            .client
            .post(format!("{}{path}", self.base))
            .header("x-memoir-space", space);

        let reply = sent.send().await.unwrap();
        (reply.status().as_u16(), reply.json().await.unwrap())
    }

    /// The job once it is over; fails after a minute.
    pub async fn finished(&self, space: &str, id: &str) -> Value {
        let began = Instant::now();
        loop {
            let job = self.get(space, &format!("/v1/jobs/{id}?wait=10")).await;
            if ["succeeded", "failed", "cancelled"].contains(&job["state"].as_str().unwrap_or("?"))
            {
                return job;
            }
            assert!(
                began.elapsed() < Duration::from_mins(1),
                "it does not end: {job}"
            );
        }
    }

    /// Waits until a job is in this state, as its events say.
    pub async fn reaches(&self, space: &str, id: &str, state: &str) {
        let mut events = self.events(space, id).await;
        while events.next().await.is_some() {
            // An earlier run may have reached the state too.
            if self.get(space, &format!("/v1/jobs/{id}")).await["state"] == state {
                return;
            }
        }

        panic!("{id} ends before it is {state}");
    }

    /// Waits for the first event of this kind.
    pub async fn reports(&self, space: &str, id: &str, kind: &str) {
        let mut events = self.events(space, id).await;
        while let Some((name, _)) = events.next().await {
            if name == kind {
                return;
            }
        }

        panic!("{id} ends without: {kind}");
    }

    async fn events(&self, space: &str, id: &str) -> EventReader {
        let stream = self
            .client
            .get(format!("{}/v1/jobs/{id}/events", self.base))
            .header("x-memoir-space", space);
        EventReader::open(stream).await
    }

    /// Number of effects of a job.
    pub async fn effects(&self, space: &str, id: &str) -> usize {
        self.get(space, &format!("/v1/sources?tag={id}")).await["items"]
            .as_array()
            .unwrap()
            .len()
    }
}

/// Checks the log of the probe jobs: no step may begin after it was saved.
pub fn check_log(path: &std::path::Path) {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let mut saved: BTreeSet<&str> = BTreeSet::new();
    for line in text.lines() {
        let (what, step) = line.split_once(' ').unwrap();
        match what {
            "begin" => assert!(
                !saved.contains(step),
                "{step} was done again after it was saved"
            ),
            _ => assert!(saved.insert(step), "{step} was saved twice"),
        }
    }

    assert!(!saved.is_empty(), "no probe wrote anything");
}
