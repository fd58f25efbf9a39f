//! Short texts of one batch share model calls, and none suffers from another.

use memoir::scripted_model::{Fault, Reply, Step};
use serde_json::{Value, json};

use crate::support::database::TestDatabase;
use crate::support::ingest::{Ingest, count};

/// A short text whose categories the scripted model takes from its first lines.
fn note(n: usize) -> Value {
    let (kind, topic) = (n % 4, n % 8);
    let text = format!(
        "category1: Kind {kind}\ncategory2: Topic {topic}\ncategory3: Part {topic}\nNote number {n} about it."
    );
    json!({"text": text, "path": format!("/notes/{n}.md")})
}

/// Sends a batch and returns its jobs once they are over.
async fn batch(ingest: &Ingest, items: &[Value]) -> Vec<Value> {
    let queued = queue(ingest, items).await;
    let mut jobs = Vec::new();
    for id in &queued {
        jobs.push(ingest.finished(id).await);
    }

    jobs
}

async fn queue(ingest: &Ingest, items: &[Value]) -> Vec<String> {
    let body = json!({ "items": items });
    let reply = ingest.app.post("/v1/ingestions/batch", &body).await;
    assert_eq!(reply.status, 202, "{}", reply.text);
    let jobs = reply.json()["jobs"].as_array().unwrap().clone();
    jobs.iter()
        .map(|job| job["job_id"].as_str().unwrap().to_owned())
        .collect()
}

fn assert_succeeded(jobs: &[Value]) {
    for job in jobs {
        assert_eq!(job["state"], "succeeded", "{job:#}");
    }
}

/// Where a source's only chunk was filed.
async fn path(ingest: &Ingest, job: &Value) -> String {
    let chunks = ingest.chunks(job).await;
    assert_eq!(chunks.len(), 1, "{chunks:#?}");
    chunks[0]["category_path"].to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_notes_share_their_calls() {
    for database in TestDatabase::each().await {
        let ingest = Ingest::on(database, &[]).await;
        let notes: Vec<Value> = (0..200).map(note).collect();
        let jobs = batch(&ingest, &notes).await;
        assert_succeeded(&jobs);

        let calls = ingest.model.requests().len();
        // 800 without sharing, 140 if every call is full.
        assert!(calls <= 180, "{calls} calls");
        // Every call is in the ledger once.
        let paid = "SELECT COUNT(*) FROM llm_calls WHERE payer_kind = 'job'";
        assert_eq!(
            count(&ingest.app.database, paid).await,
            i64::try_from(calls).unwrap()
        );

        for n in [0, 57, 199] {
            let (path, topic) = (path(&ingest, &jobs[n]).await, n % 8);
            for name in [
                format!("Kind {}", n % 4),
                format!("Topic {topic}"),
                format!("Part {topic}"),
            ] {
                assert!(path.contains(&name), "{path}");
            }

            let helper = format!(
                "/v1/sources/{}/helper",
                jobs[n]["source_id"].as_str().unwrap()
            );
            let helper = ingest.app.get(&helper).await.json();
            assert!(
                helper
                    .to_string()
                    .contains(&format!("A text named {n}.md.")),
                "{helper:#}"
            );
        }

        // A batch says which job its call is recorded with.
        let mut shared = 0;
        for job in &jobs[..20] {
            for batch in job["batches"].as_array().unwrap() {
                let Some(payer) = batch["paid_by"].as_str() else {
                    continue;
                };
                shared += 1;
                assert_ne!(job["id"], payer);
                let payer = ingest.job(payer).await;
                assert!(!payer["responses"].as_array().unwrap().is_empty());
            }
        }

        assert!(shared > 0);
        ingest.app.finish().await;
    }
}

/// However long a call takes, and without a hint where the texts belong.
#[tokio::test(flavor = "multi_thread")]
async fn notes_share_calls_of_a_slow_model() {
    let ingest = Ingest::new().await;
    ingest.model.always(Step::new(Fault::Delay { ms: 50 }));
    let notes: Vec<Value> = (0..200)
        .map(|n| json!({"text": format!("Message {n}: see you at {n} past the hour.")}))
        .collect();

    let jobs = batch(&ingest, &notes).await;
    assert_succeeded(&jobs);
    let calls = ingest.model.requests().len();
    assert!(calls <= 180, "{calls} calls");
    ingest.app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_that_a_model_refuses_fails_alone() {
    let ingest = Ingest::with(&[("JOBS__MAX_ATTEMPTS", "1")]).await;
    ingest.model.set_rule(|seen| {
        let mut reply = Reply::sensible(seen);
        // Whatever the call, there is no valid category for this chunk.
        if seen.stage == "classify" && seen.user.contains("Note number 3 ") {
            let mut answer: Value =
                serde_json::from_str(&reply.clone().answer.into_text()).unwrap();
            let chunks = answer["chunks"].as_array_mut().unwrap();
            for (index, chunk) in chunks.iter_mut().enumerate() {
                let heading = format!("Chunk {}:", index + 1);
                let from = seen.user.find(&heading).unwrap();
                let block = &seen.user[from..];
                let end = block[heading.len()..]
                    .find("Chunk ")
                    .map_or(block.len(), |at| at + heading.len());
                if block[..end].contains("Note number 3 ") {
                    chunk["category"] = json!("");
                }
            }

            reply = Reply::json(answer);
        }

        reply
    });

    let notes: Vec<Value> = (0..8).map(note).collect();
    let jobs = batch(&ingest, &notes).await;
    for (n, job) in jobs.iter().enumerate() {
        let wanted = if n == 3 { "failed" } else { "succeeded" };
        assert_eq!(job["state"], wanted, "{job:#}");
    }

    ingest.app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_job_takes_no_other_with_it() {
    let ingest = Ingest::new().await;
    let slow = Step::new(Fault::Delay { ms: 300 }).only_stage("classify");
    ingest.model.always(slow);

    let notes: Vec<Value> = (0..6).map(note).collect();
    let ids = queue(&ingest, &notes).await;
    let longest = std::time::Duration::from_secs(10);
    assert!(ingest.model.wait_for_requests(2, longest).await);
    let cancelled = ingest
        .app
        .post(&format!("/v1/jobs/{}/cancel", ids[0]), &Value::Null)
        .await;
    assert!(cancelled.status.is_success(), "{}", cancelled.text);

    for (n, id) in ids.iter().enumerate() {
        let job = ingest.finished(id).await;
        let wanted = if n == 0 { "cancelled" } else { "succeeded" };
        assert_eq!(job["state"], wanted, "{job:#}");
    }

    ingest.app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_writes_one_helper_at_a_time_writes_them_all() {
    let ingest = Ingest::new().await;
    ingest.model.set_rule(|seen| {
        if seen.stage == "helper" && seen.user.starts_with("Document ") {
            return Reply::json(json!({"summary": "One text."}));
        }
        Reply::sensible(seen)
    });

    let notes: Vec<Value> = (0..12).map(note).collect();
    let jobs = batch(&ingest, &notes).await;
    assert_succeeded(&jobs);
    let helpers = "SELECT COUNT(*) FROM contextual_helpers";
    assert_eq!(count(&ingest.app.database, helpers).await, 12);
    ingest.app.finish().await;
}

/// Texts that come one by one are asked about as before.
#[tokio::test]
async fn a_single_text_shares_nothing() {
    let ingest = Ingest::new().await;
    let job = ingest.succeed(&note(1)).await;
    assert_eq!(ingest.model.requests().len(), 4);
    for batch in job["batches"].as_array().unwrap() {
        assert_eq!(batch["paid_by"], Value::Null);
    }

    ingest.app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_of_two_users_in_one_batch_never_share_a_call() {
    let ingest = Ingest::with(&[("INGESTION__FILING", "levels")]).await;
    let text = |n: usize| {
        let user = ["ann", "ben"][n % 2];
        json!({"text": format!("For {user}, number {n}."), "user_id": user})
    };
    let items: Vec<Value> = (0..6).map(text).collect();
    assert_succeeded(&batch(&ingest, &items).await);
    for seen in ingest.model.requests() {
        let told = ["For ann", "For ben"].map(|name| seen.user.contains(name));
        assert_eq!(
            told.iter().filter(|told| **told).count(),
            1,
            "{}",
            seen.user
        );
    }
    ingest.app.finish().await;
}
