//! Short texts are filed by one call where a leaf fits, level by level where none does; those that
//! come one by one share calls while they linger.

use memoir::scripted_model::{Reply, ScriptedModel, Seen};
use serde_json::{Value, json};

use crate::support::app::send;
use crate::support::binary::Binary;
use crate::support::client::client;
use crate::support::database::TestDatabase;
use crate::support::ingest::{Ingest, count, ids, line, offered, source};
use crate::support::probes::Api;

/// Short texts as they are filed by default, one at a time.
const AUTO: &[(&str, &str)] = &[("INGESTION__FILING", "auto"), ("INGESTION__LINGER", "0")];

/// A short text whose categories the scripted model takes from its first lines.
fn note(path: &str, words: &str) -> Value {
    let labels = path.split('/').zip(1..);
    let labels: Vec<String> = labels
        .map(|(name, level)| format!("category{level}: {name}\n"))
        .collect();
    let labels = labels.concat();
    json!({"text": format!("{labels}{words}")})
}

/// The levels of the calls since they were last cleared.
fn levels(ingest: &Ingest) -> Vec<String> {
    let level = |seen: &Seen| match seen.stage.as_str() {
        "classify" => line(seen, "level:").to_owned(),
        stage => stage.to_owned(),
    };
    ingest.model.requests().iter().map(level).collect()
}

/// Ingests a text, and returns its job and the levels of its calls.
async fn filed(ingest: &Ingest, body: &Value) -> (Value, Vec<String>) {
    ingest.model.clear();
    let job = ingest.succeed(body).await;
    (job, levels(ingest))
}

async fn path(ingest: &Ingest, job: &Value) -> Value {
    let chunks = ingest.chunks(job).await;
    assert_eq!(chunks.len(), 1, "{chunks:#?}");
    chunks[0]["category_path"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_call_files_a_text_in_the_leaf_that_fits() {
    for database in TestDatabase::each().await {
        let ingest = Ingest::on(database, AUTO).await;
        let boiler = note("Home/Heating/Boiler", "The boiler was serviced in May.");
        let (first, calls) = filed(&ingest, &boiler).await;
        assert_eq!(
            calls,
            ["1 of 3", "2 of 3", "3 of 3"],
            "nothing to choose from yet"
        );
        let garden = note("Home/Garden/Hedge", "The hedge is cut in autumn.");
        filed(&ingest, &garden).await;

        let again = note("Home/Heating/Boiler", "The boiler lost pressure again.");
        let (job, calls) = filed(&ingest, &again).await;
        assert_eq!(calls, ["0 of 3"]);
        assert_eq!(path(&ingest, &job).await, path(&ingest, &first).await);

        let asked = &ingest.model.requests()[0];
        assert_eq!(
            offered(asked),
            [
                "Home / Heating / Boiler",
                "Home / Garden / Hedge",
                "Home",
                "none of these"
            ]
        );
        assert_eq!(line(asked, "new categories:"), "not allowed");
        assert_eq!(line(asked, "contextual_helper:"), "none");
        let closed = "/properties/chunks/items/properties/category/enum";
        let schema = asked.schema.as_ref().unwrap();
        assert_eq!(schema.pointer(closed).unwrap(), &json!(offered(asked)));

        // The job, the log and the ledger agree.
        assert_eq!(job["result"]["llm_calls"], 1);
        let batches = job["batches"].as_array().unwrap();
        assert_eq!(batches.len(), 1);
        assert_eq!(
            (&batches[0]["level"], &batches[0]["parent_path"]),
            (&json!(0), &json!(""))
        );
        assert_eq!(job["responses"][0]["level"], 0);
        assert_eq!(job["helper_events"], json!([]));
        let helper = format!("/v1/sources/{}/helper", source(&job));
        assert_eq!(ingest.app.get(&helper).await.status, 404);
        assert_eq!(ingest.count("categories").await, 5);
        ingest.app.finish().await;
    }
}

#[tokio::test]
async fn what_no_leaf_fits_continues_on_the_levels() {
    let ingest = Ingest::with(AUTO).await;
    filed(&ingest, &note("Home/Heating/Boiler", "The boiler.")).await;

    let (job, calls) = filed(&ingest, &note("Home/Garden/Hedge", "The hedge.")).await;
    assert_eq!(calls, ["0 of 3", "2 of 3", "3 of 3"], "below level 1");
    assert_eq!(
        path(&ingest, &job).await,
        json!(["Home", "Garden", "Hedge"])
    );

    let (job, calls) = filed(&ingest, &note("Music/Piano/Lessons", "A sonata.")).await;
    assert_eq!(
        calls,
        ["0 of 3", "1 of 3", "2 of 3", "3 of 3"],
        "none of these"
    );
    assert_eq!(
        path(&ingest, &job).await,
        json!(["Music", "Piano", "Lessons"])
    );
    ingest.app.finish().await;
}

#[tokio::test]
async fn the_chunks_of_a_text_are_filed_each_in_its_place() {
    let ingest = Ingest::with(AUTO).await;
    filed(&ingest, &note("Home/Heating/Boiler", "The boiler.")).await;
    let text = crate::support::ingest::text(&["Home/Heating/Boiler", "Home/Garden/Hedge"]);
    let body = crate::support::ingest::request(&text, &json!({}));
    let (job, calls) = filed(&ingest, &body).await;
    assert_eq!(calls, ["0 of 3", "2 of 3", "3 of 3"]);

    let requests = ingest.model.requests();
    assert_eq!(
        (ids(&requests[0]), ids(&requests[1])),
        (vec![1, 2], vec![2])
    );
    let chunks = ingest.chunks(&job).await;
    let places: Vec<&Value> = chunks.iter().map(|chunk| &chunk["category_path"]).collect();
    assert_eq!(
        places,
        [
            &json!(["Home", "Heating", "Boiler"]),
            &json!(["Home", "Garden", "Hedge"])
        ]
    );

    // Three chunks are not a short text.
    let text = crate::support::ingest::text(&["Home/Heating/Boiler"; 3]);
    let (_, calls) = filed(&ingest, &crate::support::ingest::request(&text, &json!({}))).await;
    assert_eq!(calls, ["helper", "1 of 3", "2 of 3", "3 of 3"]);
    ingest.app.finish().await;
}

#[tokio::test]
async fn an_answer_that_is_not_in_the_list_is_requested_again_and_never_used() {
    let ingest = Ingest::with(AUTO).await;
    filed(&ingest, &note("Home/Heating/Boiler", "The boiler.")).await;
    let nonsense = |seen: &Seen, times: usize| {
        let is_repaired = seen.user.matches("not in the list").count() >= times;
        let wrong = json!({"chunks": [{"id": 1, "category": "Heating / Boiler"}]});
        if is_repaired || line(seen, "level:") != "0 of 3" {
            Reply::sensible(seen)
        } else {
            Reply::json(wrong)
        }
    };

    ingest.model.set_rule(move |seen| nonsense(seen, 1));
    let again = note("Home/Heating/Boiler", "The boiler again.");
    let (job, calls) = filed(&ingest, &again).await;
    assert_eq!(calls, ["0 of 3", "0 of 3"]);
    assert_eq!(job["batches"][0]["retries"], 1);

    ingest.model.set_rule(move |seen| nonsense(seen, 9));
    let (job, calls) = filed(&ingest, &note("Home/Garden/Hedge", "Once more.")).await;
    assert_eq!(calls, ["0 of 3", "0 of 3", "1 of 3", "2 of 3", "3 of 3"]);
    assert_eq!(
        path(&ingest, &job).await,
        json!(["Home", "Garden", "Hedge"])
    );
    ingest.app.finish().await;
}

#[tokio::test]
async fn a_title_stands_for_the_helper_of_a_brief_text() {
    let ingest = Ingest::with(AUTO).await;
    filed(&ingest, &note("Home/Heating/Boiler", "The boiler.")).await;
    let titled = |more: &Value| {
        let mut body = note("Home/Heating/Boiler", "The boiler was cleaned.");
        body["title"] = json!("Boiler");
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        body
    };

    let (_, calls) = filed(&ingest, &titled(&json!({}))).await;
    assert_eq!(calls, ["0 of 3"]);
    assert_eq!(
        line(&ingest.model.requests()[0], "contextual_helper:"),
        "Boiler"
    );

    // A helper that somebody wants, or that a longer text needs, is made as before.
    let own = json!({"contextual_helper": "A note on the boiler."});
    filed(&ingest, &titled(&own)).await;
    let asked = &ingest.model.requests()[0];
    assert_eq!(line(asked, "contextual_helper:"), "A note on the boiler.");
    let (_, calls) = filed(&ingest, &titled(&json!({"regenerate_helper": true}))).await;
    assert_eq!(calls, ["helper", "0 of 3"]);
    let long = note("Home/Heating/Boiler", &"The boiler is warm. ".repeat(80));
    let (_, calls) = filed(&ingest, &long).await;
    assert_eq!(calls, ["helper", "0 of 3"]);
    let levels = json!({"options": {"filing": "levels"}});
    let (_, calls) = filed(&ingest, &titled(&levels)).await;
    assert_eq!(calls, ["helper", "1 of 3", "2 of 3", "3 of 3"]);

    let waiting = ingest
        .queue(&titled(&json!({"auto_source_identification": false})))
        .await;
    ingest.awaiting(&waiting).await;
    ingest.app.finish().await;
}

/// A call leaves once it is full, so nothing in these tests waits for the end of the time.
const LINGERING: &[(&str, &str)] = &[
    ("INGESTION__FILING", "auto"),
    ("INGESTION__LINGER", "10000"),
    ("INGESTION__BATCH_SIZE", "2"),
];

#[tokio::test(flavor = "multi_thread")]
async fn texts_that_linger_share_their_calls() {
    for database in TestDatabase::each().await {
        let ingest = Ingest::on(database, LINGERING).await;
        let one = ingest
            .queue(&note("Home/Heating/Boiler", "The boiler."))
            .await;
        let other = ingest
            .queue(&note("Home/Heating/Boiler", "The pump."))
            .await;
        let jobs = [ingest.finished(&one).await, ingest.finished(&other).await];
        assert_eq!(levels(&ingest), ["1 of 3", "2 of 3", "3 of 3"]);
        for job in &jobs {
            assert_eq!(job["state"], "succeeded", "{job:#}");
            let found = path(&ingest, job).await;
            assert_eq!(found, json!(["Home", "Heating", "Boiler"]));
        }

        let paid_by = |job: &Value| job["batches"][0]["paid_by"].clone();
        let guest = usize::from(paid_by(&jobs[0]).is_null());
        assert_eq!(paid_by(&jobs[guest]), jobs[1 - guest]["id"]);
        let paid = jobs.iter().map(|job| job["result"]["llm_calls"].as_i64());
        assert_eq!(paid.map(Option::unwrap).sum::<i64>(), 3);

        // What the other job has recorded about a text goes with it.
        let told = "SELECT COUNT(*) FROM llm_calls WHERE output_json IS NOT NULL";
        assert_eq!(count(&ingest.app.database, told).await, 3);
        let place = format!("/v1/sources/{}", source(&jobs[guest]));
        let deleted = send(ingest.app.request(reqwest::Method::DELETE, &place)).await;
        assert_eq!(deleted.status, 200, "{}", deleted.text);
        assert_eq!(count(&ingest.app.database, told).await, 0);
        ingest.app.finish().await;
    }
}

/// Whatever the answer was good for: a call that left a text without a category is not named by its job.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_useless_shared_call_said_goes_with_the_text() {
    for database in TestDatabase::each().await {
        let ingest = Ingest::on(database, LINGERING).await;
        ingest.model.set_rule(|seen| {
            let name = match line(seen, "level:") {
                "1 of 3" => "Home",
                "2 of 3" => "Heating",
                _ => "Boiler",
            };
            // No category for the second text.
            let name = |id: i64| if id == 2 { "..." } else { name };
            let chunk = |id: i64| json!({"id": id, "category": name(id)});
            let chunks: Vec<Value> = ids(seen).into_iter().map(chunk).collect();
            Reply::json(json!({"chunks": chunks}))
        });
        let mut jobs = Vec::new();
        for text in ["The boiler.", "The pump."] {
            jobs.push(ingest.queue(&json!({"text": text})).await);
        }

        let mut guests = Vec::new();
        for job in &jobs {
            let job = ingest.finished(job).await;
            assert_eq!(job["state"], "succeeded", "{job:#}");
            if job["batches"][0]["retries"] == 0 {
                guests.push(job);
            }
        }

        assert_eq!(guests.len(), 1, "{guests:#?}");
        for job in guests {
            let place = format!("/v1/sources/{}", source(&job));
            let deleted = send(ingest.app.request(reqwest::Method::DELETE, &place)).await;
            assert_eq!(deleted.status, 200, "{}", deleted.text);
        }
        let told = "SELECT COUNT(*) FROM llm_calls WHERE output_json IS NOT NULL";
        assert_eq!(count(&ingest.app.database, told).await, 0);
        ingest.app.finish().await;
    }
}

const KEYS: &str = r#"[
    {"name": "a", "key": "key-of-a", "space": "*", "role": "admin"},
    {"name": "b", "key": "key-of-b", "space": "*", "role": "admin"}
]"#;

#[tokio::test(flavor = "multi_thread")]
async fn texts_of_two_users_keys_or_spaces_never_share_a_call() {
    let settings = [
        ("INGESTION__FILING", "auto"),
        ("INGESTION__LINGER", "300"),
        ("AUTH__KEYS", KEYS),
    ];
    let ingest = Ingest::with(&settings).await;
    let callers = [
        ("key-of-a", "default", "ann"),
        ("key-of-a", "default", "ben"),
        ("key-of-b", "default", "ann"),
        ("key-of-a", "other", "ann"),
    ];

    let mut queued = Vec::new();
    for (key, space, user) in callers {
        let mut body = note(
            "Home/Heating/Boiler",
            &format!("For {key}, {space}, {user}."),
        );
        body["user_id"] = json!(user);
        let request = ingest.app.request(reqwest::Method::POST, "/v1/ingestions");
        let request = request.bearer_auth(key).header("x-memoir-space", space);
        let reply = send(request.json(&body)).await;
        assert_eq!(reply.status, 202, "{}", reply.text);
        queued.push((key, space, reply.json()["id"].as_str().unwrap().to_owned()));
    }

    for (key, space, id) in queued {
        let place = format!("/v1/jobs/{id}?wait=60");
        let request = ingest.app.request(reqwest::Method::GET, &place);
        let request = request.bearer_auth(key).header("x-memoir-space", space);
        let job = send(request).await.json();
        assert_eq!(job["state"], "succeeded", "{job:#}");
    }

    for seen in ingest.asked("classify") {
        assert_eq!(seen.user.matches("For key-of-").count(), 1, "{}", seen.user);
    }
    ingest.app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_job_continues_without_asking_again() {
    for database in TestDatabase::each().await {
        let model = ScriptedModel::local().await.unwrap();
        let binary = || {
            Binary::new()
                .env("DATABASE_URL", &database.url)
                .env("MEMOIR__LLM__PROVIDERS__STUB__KIND", "openai")
                .env("MEMOIR__LLM__PROVIDERS__STUB__API_KEY", "sk-test")
                .env(
                    "MEMOIR__LLM__PROVIDERS__STUB__BASE_URL",
                    &model.openai_url(),
                )
                .env("MEMOIR__LLM__MODEL", "stub:m")
                .env("MEMOIR__JOBS__LEASE_SECONDS", "1")
        };

        let bring = async |address: std::net::SocketAddr, body: Value| {
            let sent = client().post(format!("http://{address}/v1/ingestions"));
            let reply = sent.json(&body).send().await.unwrap();
            reply.json::<Value>().await.unwrap()["id"]
                .as_str()
                .unwrap()
                .to_owned()
        };

        let running = binary().serve();
        let first = bring(running.address, note("Home/Heating/Boiler", "The boiler.")).await;
        Api::at(running.address).finished("default", &first).await;
        assert_eq!(running.signal_and_wait("TERM"), Some(0));

        // After the answer is saved, and before anything is written.
        let dying = binary().env("MEMOIR__TESTING__FAIL_POINT", "after_filing");
        let running = dying.serve_or_die();
        let hedge = bring(running.address, note("Home/Garden/Hedge", "The hedge.")).await;
        assert_eq!(running.wait(), None, "{}", dying.log());
        let calls = model.requests().len();
        assert_eq!(calls, 3 + 3, "the second one begins below Home");

        let running = binary().serve();
        let job = Api::at(running.address).finished("default", &hedge).await;
        assert_eq!(job["state"], "succeeded", "{job:#}");
        assert_eq!(model.requests().len(), calls);
        assert_eq!(job["result"]["llm_calls"], 3);
        let levels: Vec<&Value> = job["batches"]
            .as_array()
            .unwrap()
            .iter()
            .map(|batch| &batch["level"])
            .collect();
        assert_eq!(levels, [0, 2, 3]);
        assert_eq!(running.signal_and_wait("TERM"), Some(0));
    }
}
