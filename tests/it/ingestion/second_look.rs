//! The second look: only the embedded model re-examines filed chunks as others arrive, and no chunk
//! is lost when it moves to another category.

use memoir::model::chunk::Move;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::app::{TestApp, send};
use crate::support::database::TestDatabase;
use crate::support::ingest::count;
use crate::support::library::Library;

const CARDS: [&str; 4] = [
    "When will my new card arrive?",
    "My bank card was not delivered",
    "How long does the delivery of a card take?",
    "I am still waiting for my card in the post",
];
const RATES: [&str; 4] = [
    "Which exchange rate does the bank use?",
    "The exchange rate of my payment is wrong",
    "How is the exchange rate of a currency set?",
    "I got a bad exchange rate for my currency",
];
const STRAY: &str = "Why is the exchange rate for my payment so bad?";

/// Enquiries that differ slightly.
fn enquiries(forms: [&str; 4], cases: std::ops::Range<usize>) -> Vec<String> {
    cases
        .flat_map(|case| forms.map(|form| format!("{form} Case {case}.")))
        .collect()
}

/// A space in which enquiries of one kind are filed among those of another, because they arrived
/// first.
struct Space {
    app: TestApp,
    library: Library,
    cards: i64,
    rates: i64,
}

impl Space {
    async fn on(database: TestDatabase, strays: &[&str], settings: &[(&str, &str)]) -> Self {
        let settings = [&[("TAXONOMY__HIERARCHY_DEPTH", "2")], settings].concat();
        let app = TestApp::on(database, &settings).await;
        let library = Library::at(&app.database.url).await;
        let (cards, rates) = (["Money", "Cards"], ["Money", "Rates"]);

        for (number, text) in strays.iter().enumerate() {
            library
                .add(&format!("/stray-{number}.txt"), &[(&cards, text)])
                .await;
        }

        for (path, leaf, texts) in [
            ("/cards.txt", &cards, enquiries(CARDS, 1..8)),
            ("/rates.txt", &rates, enquiries(RATES, 1..8)),
        ] {
            let chunks: Vec<(&[&str], &str)> = texts
                .iter()
                .map(|text| (leaf.as_slice(), text.as_str()))
                .collect();
            library.add(path, &chunks).await;
        }

        let (cards, rates) = (
            library.category(&cards).await,
            library.category(&rates).await,
        );

        Self {
            app,
            library,
            cards,
            rates,
        }
    }

    async fn bring(&self, body: Value) -> Vec<Value> {
        let mut body = body;
        body["wait"] = json!(true);
        let reply = self.app.post("/v1/ingestions", &body).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        let job = reply.json();

        assert_eq!(job["state"], "succeeded", "{job:#}");
        job["result"]["moved"].as_array().unwrap().clone()
    }

    /// Ingests texts until a chunk has moved or no texts are left.
    async fn bring_until_moved(&self, chunk: i64) -> Vec<Value> {
        let mut moved = Vec::new();
        for text in enquiries(CARDS, 20..24)
            .iter()
            .chain(&enquiries(RATES, 20..24))
        {
            moved.extend(self.bring(json!({"text": text})).await);
            if moved.iter().any(|one| one["chunk_id"] == chunk) {
                break;
            }
        }

        moved
    }

    async fn chunk(&self, text: &str) -> i64 {
        let sql = format!(
            "SELECT MIN(id) FROM chunks WHERE category_id IS NOT NULL AND text_content = '{text}'"
        );
        count(&self.app.database, &sql).await
    }

    /// Categories whose count differs from the number of current chunks below them.
    async fn miscounted(&self) -> i64 {
        let sql = "SELECT COUNT(*) FROM categories k WHERE k.chunk_count <> (SELECT COUNT(*) FROM chunks c \
                   JOIN sources s ON s.id = c.source_id AND s.content_version_id = c.version_id \
                   JOIN categories leaf ON leaf.id = c.category_id WHERE leaf.id = k.id OR leaf.parent_id = k.id)";
        count(&self.app.database, sql).await
    }
}

#[tokio::test]
async fn a_misfiled_chunk_moves_to_the_better_category() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let space = Space::on(database, &[STRAY], &[]).await;
        let stray = space.chunk(STRAY).await;
        let moved = space.bring_until_moved(stray).await;
        let its: Vec<&Value> = moved
            .iter()
            .filter(|one| one["chunk_id"] == stray)
            .collect();

        assert_eq!(
            its,
            [&json!({"chunk_id": stray, "from": space.cards, "to": space.rates})],
            "{engine:?}: {moved:?}"
        );

        let chunk = space.app.get(&format!("/v1/chunks/{stray}")).await.json();
        assert_eq!(
            (&chunk["category_id"], &chunk["text_content"]),
            (&json!(space.rates), &json!(STRAY)),
            "{engine:?}"
        );

        assert_eq!(space.miscounted().await, 0, "{engine:?}");
        // At its time, it was where it was filed first.
        let then = chunk["created_at"].as_str().unwrap();
        let path = format!("/v1/categories/{}/chunks?as_of={then}", space.cards);
        let back = space.app.get(&path).await.json();
        assert_eq!(
            back["items"].as_array().unwrap().len(),
            1,
            "{engine:?}: {back}"
        );

        assert_eq!(back["items"][0]["chunk_id"], stray, "{engine:?}");
    }
}

#[tokio::test]
async fn nothing_moves_if_the_second_look_is_off_or_calls_are_capped() {
    for setting in [
        ("TAXONOMY__SECOND_LOOK", "false"),
        ("LLM__CAPS__SPACE_DAY__CALLS", "100000"),
    ] {
        let space = Space::on(TestDatabase::sqlite(), &[STRAY], &[setting]).await;
        let stray = space.chunk(STRAY).await;
        assert_eq!(
            space.bring_until_moved(stray).await,
            Vec::<Value>::new(),
            "{setting:?}"
        );
    }
}

#[tokio::test]
async fn a_chunk_that_has_changed_in_the_meantime_does_not_move() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let space = Space::on(database, &[STRAY, "former", "removed"], &[]).await;
        let (cards, rates) = (space.cards, space.rates);
        let gone = space.library.category(&["Money", "Gone"]).await;
        let source =
            |text: &str| format!("SELECT source_id FROM chunks WHERE text_content = '{text}'");
        let document = async |text: &str| {
            let mut connection = space.app.database.connect().await;
            let row = sqlx::query(sqlx::AssertSqlSafe(source(text)))
                .fetch_one(&mut connection)
                .await
                .unwrap();

            sqlx::Row::get::<String, _>(&row, 0)
        };

        let (stray, former, removed) = (
            space.chunk(STRAY).await,
            space.chunk("former").await,
            space.chunk("removed").await,
        );

        let id = document("former").await.parse().unwrap();
        space
            .library
            .add_version(&id, 2, &[(&["Money", "Cards"], "new")])
            .await;

        let path = format!("/v1/sources/{}", document("removed").await);
        send(space.app.request(Method::DELETE, &path)).await;
        send(
            space
                .app
                .request(Method::DELETE, &format!("/v1/categories/{gone}")),
        )
        .await;

        let (store, here) = (&space.library.store, &space.library.space);
        for (chunk_id, from, to, wanted) in [
            (stray, cards, gone, false),
            (former, cards, rates, false),
            (removed, cards, rates, false),
            (stray, rates, cards, false),
            (stray, cards, rates, true),
            (stray, cards, rates, false),
        ] {
            let mut tx = store.begin().await.unwrap();
            tx.lock_chunks(here).await.unwrap();
            let one = Move {
                chunk_id,
                filed_at: 0,
                from,
                to,
            };
            // The second of two equal moves never takes place.
            let moves = [one, one];
            let now = space.library.now();
            let done = tx.move_chunks(here, &moves, now).await.unwrap();
            let wanted = &moves[..usize::from(wanted)];
            assert_eq!(done, wanted, "{engine:?}: {chunk_id} from {from} to {to}");
            tx.commit().await.unwrap();
        }
    }
}
