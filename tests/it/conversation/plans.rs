//! The statements of contexts use the indexes that are there for them, on every engine.

use memoir::config::database::Engine;
use serde_json::{Value, json};

use super::{Desk, answering, classified, intent};
use crate::support::database::TestDatabase;
use crate::support::ingest::count;

#[tokio::test]
async fn the_database_uses_the_indexes_of_memories() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        let classify = |text: &str| {
            let mut found = classified(&["shipping"], 0.5);
            found["entities"] = json!([{"type": "order_id", "value": text}]);
            found
        };
        desk.model.set_rule(answering(classify, intent(&[], false)));
        for user in 0..20 {
            let thread = desk.thread(&format!("user{user}"), None).await;
            let each: Vec<Value> = (0..20)
                .map(|n| json!({"content": format!("#{user}-{n}")}))
                .collect();
            let stored = desk.say(&thread, &json!({"messages": each})).await;
            let last = stored["items"][19]["id"].as_str().unwrap().to_owned();
            desk.settled(&last).await;
        }

        let database = &desk.app.database;
        for name in [
            "idx_user_time",
            "idx_user_thread_time",
            "idx_topics",
            "idx_category",
            "idx_entities",
            "idx_tier_importance",
            "idx_low_confidence",
            "idx_user_topics_time",
        ] {
            let sql = match database.engine {
                Engine::Sqlite => {
                    "SELECT COUNT(*) FROM sqlite_master WHERE type = 'index' AND name = "
                }
                Engine::Postgres => {
                    "SELECT COUNT(*) FROM pg_indexes WHERE schemaname = current_schema() AND indexname = "
                }
                Engine::Mysql => {
                    "SELECT COUNT(DISTINCT index_name) FROM information_schema.statistics \
                     WHERE table_schema = DATABASE() AND index_name = "
                }
            };
            let found = count(database, &format!("{sql}'{name}'")).await;
            assert_eq!(found, 1, "{:?} {name}", database.engine);
        }

        let of = "FROM memories m WHERE m.space = 'default' AND m.user_id = 'user3'";
        let thread = "m.thread_id = '0199a7e0-0000-7000-8000-000000000000'";
        let topic = "EXISTS (SELECT 1 FROM memory_topics t WHERE t.space = m.space AND t.memory_id = m.id AND t.topic IN ('shipping'))";
        let newest = "ORDER BY m.created_at DESC LIMIT 10";
        for (sql, indexes) in [
            (
                format!("SELECT m.id, m.content {of} AND m.created_at >= 5 {newest}"),
                &["idx_user_time"][..],
            ),
            (
                format!("SELECT m.id {of} AND {thread} {newest}"),
                &["idx_user_thread_time", "idx_thread_turn"],
            ),
            (
                format!(
                    "SELECT m.seq FROM memories m WHERE m.space = 'default' AND {thread} AND m.turn_index IN (3, 4, 90) \
                     AND m.type = 'message'"
                ),
                &["idx_thread_turn"],
            ),
            (
                format!("SELECT m.id {of} AND m.has_topics = 1 AND m.created_at >= 5 {newest}"),
                &["idx_user_topics_time", "idx_user_time"],
            ),
            (
                format!("SELECT m.id {of} AND m.category = 'inquiry' AND m.important = 5"),
                // Few rows belong to one user, so an index that finds those is as good.
                &["idx_category", "idx_user_"],
            ),
            (
                format!(
                    "SELECT m.id {of} AND m.tier = 'long_term' ORDER BY m.importance DESC LIMIT 3"
                ),
                &["idx_tier_importance", "idx_user_"],
            ),
            (
                "SELECT memory_id FROM memory_entities WHERE space = 'default' AND user_id = 'user3' AND value = '#3-1'"
                    .to_owned(),
                &["idx_entities"],
            ),
        ] {
            let plan = database.plan(&sql).await;
            assert!(
                indexes.iter().any(|index| plan.contains(index)),
                "{:?} {sql}: {plan}",
                database.engine
            );
        }

        other_threads_begin_with_an_index(&desk, of).await;

        // The filter of the current thread looks rows up one by one, and scans no table.
        let plan = database
            .plan(&format!("SELECT m.id {of} AND {topic}"))
            .await;
        let plan: String = plan.split_whitespace().collect();
        let scans = [
            "SCAN",
            "SeqScan",
            r#""table_name":"m","access_type":"ALL""#,
            r#""table_name":"t","access_type":"ALL""#,
        ];
        assert!(
            !scans.iter().any(|scan| plan.contains(scan)),
            "{:?} {topic}: {plan}",
            database.engine
        );
        desk.app.finish().await;
    }
}

/// With topics, the topics of the user come first, and each memory is looked up; without, one index
/// has all that is compared.
async fn other_threads_begin_with_an_index(desk: &Desk, of: &str) {
    let database = &desk.app.database;
    let topics = "SELECT memory_id FROM memory_topics WHERE space = 'default' AND user_id = 'user3' AND topic = ";
    let topics = format!("({topics}'shipping' UNION {topics}'refund') t");
    let by_id = "m.space = 'default' AND m.id = t.memory_id";
    let looked_up = match database.engine {
        Engine::Sqlite => format!("CROSS JOIN memories m ON {by_id}"),
        Engine::Postgres => {
            format!("CROSS JOIN LATERAL (SELECT * FROM memories m WHERE {by_id} OFFSET 0) m")
        }
        Engine::Mysql => format!("STRAIGHT_JOIN memories m ON {by_id}"),
    };
    let entity = "CASE WHEN m.id IN (SELECT e.memory_id FROM memory_entities e WHERE e.space = 'default' \
                  AND e.user_id = 'user3' AND e.value IN ('#3-1')) THEN 12.0 ELSE 0.0 END";
    let score = format!("SELECT m.seq, COALESCE(m.importance * 10.0, 5.0) + {entity} AS score");
    let best =
        "AND m.superseded_by IS NULL ORDER BY score DESC, m.created_at DESC, m.id DESC LIMIT 20";
    if database.engine == Engine::Postgres {
        // As autovacuum does: only then can an index alone answer.
        database.execute("VACUUM memories").await;
    }

    for (sql, indexes) in [
        (
            format!("{score} FROM {topics} {looked_up} WHERE m.has_topics = 1 {best}"),
            [&["idx_topics"][..], &["memories_id"], &["idx_entities"]].as_slice(),
        ),
        (
            format!("{score} {of} AND m.has_topics IN (0, 1) AND m.created_at >= 5 {best}"),
            // PostgreSQL takes any index of the user while the table is small.
            &[&["idx_user_topics_time", "idx_category"], &["idx_entities"]],
        ),
    ] {
        let plan = database.plan(&sql).await;
        for equal in indexes {
            assert!(
                equal.iter().any(|index| plan.contains(index)),
                "{:?} {equal:?} {sql}: {plan}",
                database.engine
            );
        }
    }
}
