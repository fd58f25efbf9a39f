//! After a change of the rules that make stored terms, a job rewrites those of every space.

use std::collections::BTreeMap;
use std::sync::Arc;

use memoir::config::database::Engine;
use memoir_index::terms::{Analyzer, TERMS_VERSION, of_source};
use memoir_text::hash::sha256_hex;
use serde_json::{Value, json};
use sqlx::Row as _;

use crate::support::app::TestApp;
use crate::support::binary::Binary;
use crate::support::database::TestDatabase;
use crate::support::ingest::count;
use crate::support::probes::Api;

const IDLE: [(&str, &str); 1] = [("JOBS__WORKERS", "0")];
/// Every search reads the database.
const NO_MEMORY: [(&str, &str); 1] = [("VECTOR__MEMORY_MB", "0")];

/// The length and tokens of each entry, except of what is said about an older version: the helper
/// that it was made from has been replaced.
type Entries = BTreeMap<i64, (i64, String)>;

async fn entries(database: &TestDatabase) -> Entries {
    let mut connection = database.connect().await;
    let sql = "SELECT id, length, tokens FROM search_entries WHERE NOT (owner_kind = 'source' AND owner_id IN ( \
               SELECT a.id FROM source_versions a JOIN source_versions b ON b.source_id = a.source_id \
               WHERE b.version > a.version))";
    let rows = sqlx::query(sql).fetch_all(&mut connection).await.unwrap();
    let rows = rows.iter();
    rows.map(|row| (row.get(0), (row.get(1), row.get(2))))
        .collect()
}

/// Replaces all terms, as if other rules had made them, and stores another version.
async fn age(database: &TestDatabase) {
    let forget = "INSERT INTO search_entries_tokens (search_entries_tokens, rowid, tokens) \
                  SELECT 'delete', id, tokens FROM search_entries";
    let add =
        "INSERT INTO search_entries_tokens (rowid, tokens) SELECT id, tokens FROM search_entries";
    let replace = "UPDATE search_entries SET tokens = 'formerly', length = 1";
    let is_sqlite = database.engine == Engine::Sqlite;
    if is_sqlite {
        database.execute(forget).await;
    }
    database.execute(replace).await;
    if is_sqlite {
        database.execute(add).await;
    }

    database
        .execute("UPDATE settings SET value_json = '0' WHERE name = 'terms_version'")
        .await;
}

async fn post(app: &TestApp, path: &str, body: &Value) -> Value {
    let reply = app.post(path, body).await;
    assert!(reply.status.is_success(), "{}", reply.text);
    reply.json()
}

/// Texts of every kind, and memories: several chunks, versions, a shared text, no index, a speaker.
async fn fill(app: &TestApp) {
    let long = "# The cape\n\nThe lighthouse was built in 1843.\n\n# The harbour\n\nThe harbour freezes in winter.\n";
    let options = json!({"chunk_min_tokens": 5, "chunk_max_tokens": 12});
    for body in [
        json!({"path": "/notes/cape.md", "text": long, "title": "Coast", "tags": ["history"], "options": options}),
        json!({"path": "/notes/cape.md", "text": format!("{long}\nMore."), "author": "Ada Example", "options": options}),
        json!({"path": "/notes/boiler.md", "text": "The boiler was serviced in May.", "note": "Kitchen", "topic": "Heating"}),
        json!({"filename": "untold.txt", "text": "Bake the rye bread for forty minutes.", "provider": "archive"}),
        json!({"path": "/notes/plain.md", "text": "Stored as it is.", "options": {"indexes": []}}),
        json!({"path": "/notes/meaning.md", "text": "Only for search.", "options": {"indexes": ["semantic"]}}),
    ] {
        let mut body = body;
        body["wait"] = json!(true);
        let job = post(app, "/v1/ingestions", &body).await;
        assert_eq!(job["state"], "succeeded", "{job:#}");
    }

    let thread = post(app, "/v1/threads", &json!({"user_id": "ann"})).await;
    let path = format!("/v1/threads/{}/messages", thread["id"].as_str().unwrap());
    let list: Vec<Value> = (0..250)
        .map(|turn| json!({"role": "user", "name": "Berta", "content": format!("Heron number {turn} waits.")}))
        .collect();
    post(app, &path, &json!({"messages": list, "enrich": false})).await;
}

async fn finds(app: &TestApp, kind: &str) -> (bool, bool) {
    let chunk = json!({"query": "lighthouse on the cape", "type": kind, "k": 3});
    let chunk = post(app, "/v1/search", &chunk).await;
    let memory = json!({
        "query": "Berta's heron", "type": kind, "scope": "memories", "filters": {"user_id": "ann"},
    });
    let memory = post(app, "/v1/search", &memory).await;
    let has = |found: &Value, word: &str| found["items"].to_string().contains(word);
    (has(&chunk, "1843"), has(&memory, "Heron"))
}

async fn reindexed(app: &TestApp) -> Vec<Value> {
    let jobs = app.get("/v1/jobs?kind=reindex").await.json();
    let mut ended = Vec::new();
    for job in jobs["items"].as_array().unwrap() {
        let id = job["id"].as_str().unwrap();
        ended.push(Api::at(app.address).finished("default", id).await);
    }
    ended
}

#[tokio::test]
async fn a_job_rewrites_terms_of_another_version() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[]).await;
        fill(&app).await;
        assert!(reindexed(&app).await.is_empty(), "new terms need no job");
        let database = Arc::clone(&app.database);
        app.finish().await;
        let new = entries(&database).await;
        for kind in ["chunk", "source", "memory"] {
            let sql = format!("SELECT COUNT(*) FROM search_entries WHERE owner_kind = '{kind}'");
            assert!(count(&database, &sql).await > 1, "{kind}");
        }
        age(&database).await;

        // Queued once, and searches work until it runs.
        let url = database.url.clone();
        for _ in 0..2 {
            let app = TestApp::at(&url, Arc::clone(&database), &IDLE).await;
            let jobs = app.get("/v1/jobs?kind=reindex").await.json();
            assert_eq!(jobs["items"].as_array().unwrap().len(), 1, "{jobs}");
            assert_eq!(finds(&app, "keyword").await, (false, false));
            assert_eq!(finds(&app, "hybrid").await, (true, true));
            app.finish().await;
        }

        let app = TestApp::at(&url, Arc::clone(&database), &[]).await;
        let watched = TestApp::at(&url, Arc::clone(&database), &IDLE).await;
        finds(&watched, "keyword").await;
        let more =
            json!({"path": "/notes/new.md", "text": "A puffin digs its burrow.", "wait": true});
        let job = post(&app, "/v1/ingestions", &more).await;
        assert_eq!(job["state"], "succeeded", "{job:#}");

        let jobs = reindexed(&app).await;
        assert_eq!(jobs[0]["state"], "succeeded", "{:#}", jobs[0]);
        assert_eq!(jobs[0]["result"]["memories"], 250, "{:#}", jobs[0]);
        let mut rewritten = entries(&database).await;
        rewritten.retain(|id, _| new.contains_key(id));
        assert_eq!(rewritten, new, "{:?}", database.engine);

        // Also in a process that had read the former terms.
        assert_eq!(finds(&app, "keyword").await, (true, true));
        assert_eq!(finds(&watched, "keyword").await, (true, true));
        assert_eq!(finds(&watched, "semantic").await, (true, true));
        watched.finish().await;
        app.finish().await;

        let app = TestApp::at(&url, Arc::clone(&database), &NO_MEMORY).await;
        assert_eq!(
            finds(&app, "keyword").await,
            (true, true),
            "{:?}",
            database.engine
        );
        assert_eq!(reindexed(&app).await.len(), 1, "it is not queued again");
        app.finish().await;
    }
}

/// A space from before versions were stored has the first one.
#[tokio::test]
async fn a_space_without_a_version_has_the_first_one() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[]).await;
        let body = json!({"text": "The lighthouse was built in 1843.", "wait": true});
        post(&app, "/v1/ingestions", &body).await;
        let database = Arc::clone(&app.database);
        app.finish().await;
        database
            .execute("DELETE FROM settings WHERE name = 'terms_version'")
            .await;

        let app = TestApp::at(&database.url.clone(), Arc::clone(&database), &[]).await;
        assert!(reindexed(&app).await.is_empty());
        let first =
            "SELECT COUNT(*) FROM settings WHERE name = 'terms_version' AND value_json = '1'";
        assert_eq!(count(&database, first).await, 1);
        app.finish().await;
    }
}

#[tokio::test]
async fn an_interrupted_job_resumes_after_its_last_part() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[]).await;
        fill(&app).await;
        let database = Arc::clone(&app.database);
        app.finish().await;
        let new = entries(&database).await;
        age(&database).await;

        let binary = || {
            Binary::new()
                .env("DATABASE_URL", &database.url)
                .env("MEMOIR__JOBS__LEASE_SECONDS", "1")
        };
        // Chunks, sources and the first memories are written then.
        let dies = binary().env("MEMOIR__TESTING__FAIL_POINT", "after_reindexed_part:3");
        assert_eq!(dies.serve_or_die().wait(), None, "{}", dies.log());
        let old = entries(&database).await;
        let left = old
            .values()
            .filter(|(_, tokens)| tokens == "formerly")
            .count();
        assert!(0 < left && left < old.len(), "{left} of {}", old.len());

        let binary = binary();
        let running = binary.serve();
        let api = Api::at(running.address);
        let jobs = api.get("default", "/v1/jobs?kind=reindex").await;
        let id = jobs["items"][0]["id"].as_str().unwrap().to_owned();
        let job = api.finished("default", &id).await;
        assert_eq!(job["result"]["changed"], left, "only the rest: {job:#}");
        assert_eq!(entries(&database).await, new, "{:?}", database.engine);
        running.terminate();
        running.wait();
    }
}

/// The terms of these texts by version. If this test fails, stored terms no longer match those
/// of queries: increase `TERMS_VERSION`, so that every space is rewritten, and add a line here.
const KNOWN: [(i64, &str); 1] = [(
    1,
    "e470c84510d170b171b241ec8abfcae4c4ddc1449f6124e25b9a1673cb8c48b1",
)];
const TEXTS: [&str; 10] = [
    "",
    "The wings of a dove, the wing of the raven; whales and WHALING, heated heats heating.",
    "Café ÉTUDES cafe\u{301} ﬁle № １２ naïve Straße ŒUVRE İstanbul ǅ",
    "file_ingest v2.0 AB12-34 3.14 1,000 user@example.org https://example.org/a?b=c#d C:\\logs",
    "whale's don't O'Neil rock'n'roll co-operate e.g. i.e. Mrs. Dr. U.S.A.",
    "東京都 我 カタカナ ひらがな 한국어 हिन्दी ДОМА дома العربية עברית ไทย",
    "generalizations nationally happily ponies caresses agreed plastered motoring hopping falling sized",
    "der die das und ist nicht le la les des el los il gli het een o os uma the and of to be or not to be",
    "x y z aa bb 9999999999999999999999999999999999999999999999999999 supercalifragilisticexpialidocious\
     supercalifragilisticexpialidocious",
    "quay qa qu about com www 4e12ab a1 🗼 tower—dash–dash…dots \u{a0}space\u{200b}zero\u{ad}soft",
];

#[test]
fn stored_terms_do_not_change_without_their_version() {
    let mut all = Vec::new();
    let mut analyzer = Analyzer::default();
    for text in TEXTS {
        for heading in ["", "The Whale › Chapter 7"] {
            all.push(analyzer.chunk_under(text, heading));
        }
        all.push(of_source("boiler.md The boiler", text, "boiler;wing"));
    }

    let lines = all
        .iter()
        .map(|terms| format!("{} {}", terms.length, terms.tokens));
    let lines = lines.collect::<Vec<_>>().join("\n");
    let (version, hash) = KNOWN[KNOWN.len() - 1];
    assert_eq!(
        (TERMS_VERSION, sha256_hex(lines.as_bytes()).as_str()),
        (version, hash),
        "the stored terms changed: increase TERMS_VERSION and add a line to KNOWN\n{lines}"
    );
}
