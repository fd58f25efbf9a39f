//! The totals in the result of a job.

use memoir::config::database::Engine;
use serde_json::json;

use crate::support::database::TestDatabase;
use crate::support::ingest::{Ingest, count, document, until};

/// Failed attempts count too.
#[tokio::test]
async fn the_result_contains_the_totals_of_all_attempts() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let prices = (
            "LLM__PROVIDERS__OPENAI_STUB__PRICES",
            r#"{"m": {"input": 2.0, "output": 10.0}}"#,
        );

        let ingest = Ingest::on(database, &[prices]).await;
        ingest.model.edit_script(|script| {
            script.usage.prompt_tokens = Some(1000);
            script.usage.completion_tokens = Some(50);
        });

        let job = ingest
            .succeed(&document(&["A/B/C", "A/B/D", "E/F/G"], &json!({})))
            .await;
        let responses = job["responses"].as_array().unwrap();
        let result = &job["result"];
        assert_eq!(result["llm_calls"], json!(responses.len()), "{engine:?}");
        assert_eq!(
            result["tokens"],
            json!(1050 * responses.len()),
            "{engine:?}: {result}"
        );

        let cost = responses
            .iter()
            .map(|response| response["cost_usd"].as_f64().unwrap())
            .sum::<f64>();

        assert!(
            (cost - 0.0025 * f64::from(u32::try_from(responses.len()).unwrap())).abs() < 1e-9,
            "{cost}"
        );

        assert!(
            (result["cost_usd"].as_f64().unwrap() - cost).abs() < 1e-9,
            "{engine:?}: {result}"
        );
    }
}

/// PostgreSQL plans with the statistics of the last ANALYZE.
#[tokio::test]
async fn tables_are_analyzed_after_a_bulk_load() {
    for database in TestDatabase::each()
        .await
        .into_iter()
        .filter(|one| one.engine == Engine::Postgres)
    {
        let ingest = Ingest::on(database, &[]).await;
        let looked = "SELECT COUNT(*) FROM pg_stat_user_tables WHERE schemaname = current_schema() \
                      AND relname = 'chunks' AND last_analyze IS NOT NULL";
        assert_eq!(count(&ingest.app.database, looked).await, 0);
        let paths = vec!["A/B/C"; 2001];
        let more = json!({"options": {"batch_size": 50, "indexes": ["taxonomy"]}});

        ingest.succeed(&document(&paths, &more)).await;
        until("a look at the chunks", async || {
            count(&ingest.app.database, looked).await == 1
        })
        .await;
    }
}
