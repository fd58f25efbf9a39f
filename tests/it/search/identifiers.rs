//! Searches that name a version, an id or a section: chunks that name it as a whole come first, on
//! every engine, in memory and in the database.

use serde_json::json;

use super::Setup;
use crate::support::database::TestDatabase;

const TEXTS: [(&str, &str); 10] = [
    (
        "/log/1.54.0.md",
        "What changed in tokio 1 and tokio 54: 1.54.0 changed tokio tasks. Tokio 1, 54, 1.",
    ),
    (
        "/log/parts.md",
        "Tokio changed 1 of 54 tasks, and 1 more changed in tokio 1.54.10.",
    ),
    (
        "/log/long.md",
        "A panic in the scheduler is gone since 1.54.1, and timers are more exact than they were \
         in the spring, when much of the runtime was written again by several people.",
    ),
    (
        "/rfc/errors.md",
        "The format of errors follows RFC 9457, which every client of the service understands.",
    ),
    (
        "/rfc/many.md",
        "RFC after RFC: what each RFC defines, and order 9457 of the RFC printer.",
    ),
    (
        "/orders/a.md",
        "Order #5678 has two lamps and a shade for the hall.",
    ),
    (
        "/orders/b.md",
        "The order with 5678 lamps: an order, and one more order for 5,678 euros.",
    ),
    (
        "/law/liability.md",
        "As § 12 says, the club is liable for damage that its members cause at an event.",
    ),
    (
        "/law/fees.md",
        "The club says: 12 euros a year, 12 visits, and 12 guests for each member of the club.",
    ),
    (
        "/sale.md",
        "The sale of May 2024 brought 1,000 euros at 12:30.",
    ),
];

const ASKED: [(&str, &str); 4] = [
    ("What changed in tokio 1.54.1?", "/log/long.md"),
    ("What does RFC 9457 define?", "/rfc/errors.md"),
    ("What is order #5678?", "/orders/a.md"),
    ("What does § 12 say about the club?", "/law/liability.md"),
];

#[tokio::test]
async fn a_chunk_that_names_the_identifier_comes_before_those_with_its_parts() {
    let mut all = Vec::new();
    for memory in ["512", "0"] {
        for database in TestDatabase::each().await {
            let setup = Setup::on(database, &[("VECTOR__MEMORY_MB", memory)]).await;
            for (path, text) in TEXTS {
                setup.bring(path, text).await;
            }

            let mut orders = Vec::new();
            for (query, path) in ASKED {
                for kind in ["keyword", "hybrid"] {
                    for scope in ["chunks", "sources"] {
                        let found = setup
                            .search(json!({"query": query, "type": kind, "scope": scope}))
                            .await;
                        let items = found["items"].as_array().unwrap();
                        assert_eq!(items[0]["path"], path, "{query} {kind} {scope}: {found}");
                        let scores = items.iter().map(|item| item["score"].as_f64().unwrap());
                        assert!(scores.is_sorted_by(|one, next| one >= next), "{found}");
                        let paths = items.iter().map(|item| item["path"].clone());
                        orders.push(paths.collect::<Vec<_>>());
                    }
                }

                let first = setup.search(json!({"query": query, "k": 1})).await;
                assert_eq!(first["items"].as_array().unwrap().len(), 1);
                assert_eq!(first["items"][0]["path"], path, "whatever the page size");
            }

            all.push(orders);
            setup.app.finish().await;
        }
    }

    assert!(all.windows(2).all(|pair| pair[0] == pair[1]), "{all:?}");
}

#[tokio::test]
async fn a_heading_and_the_name_of_a_source_tell_what_a_chunk_is_about() {
    for database in TestDatabase::each().await {
        let setup = Setup::on(database, &[]).await;
        for (path, text) in [
            (
                "/notes.md",
                "Version 1.54.1 broke what changed in version 1.54.0.",
            ),
            ("/changes.md", "## 1.54.1 (May)\n\n- Timers are exact.\n"),
        ] {
            setup.bring(path, text).await;
        }

        let found = setup.paths(json!({"query": "What changed in version 1.54.1?"}));
        assert_eq!(found.await, ["/changes.md", "/notes.md"]);
        setup
            .bring("/releases/2.7.1.md", "Tasks are cheaper.")
            .await;
        let found = setup.paths(json!({"query": "What changed in version 2.7.1?"}));
        assert_eq!(found.await[0], "/releases/2.7.1.md");
        setup.app.finish().await;
    }
}

#[tokio::test]
async fn each_source_is_shown_once_by_the_chunk_that_names_the_identifier() {
    let settings = [
        ("VECTOR__CHUNK_TOKENS", "32"),
        ("VECTOR__OVERLAP_TOKENS", "0"),
    ];
    let setup = Setup::on(TestDatabase::sqlite(), &settings).await;
    let parts = "Tokio 1 and tokio 54 changed: what changed in tokio, and 1 more of 54. ".repeat(8);
    let log = format!("{parts}Timers are exact since 1.54.1, and nobody noticed it. {parts}");
    setup.bring("/log.md", &log).await;
    setup.bring("/other.md", &parts).await;
    let query = "What changed in tokio 1.54.1?";
    for kind in ["keyword", "hybrid"] {
        let found = setup
            .search(json!({"query": query, "type": kind, "scope": "sources"}))
            .await;
        let items = found["items"].as_array().unwrap();
        assert_eq!(items.len(), 2, "{found}");
        let first = items[0]["text_content"].as_str().unwrap();
        assert!(first.contains("1.54.1"), "{kind}: {found}");
    }

    setup.app.finish().await;
}

#[tokio::test]
async fn amounts_dates_and_times_are_found_by_their_words() {
    let setup = Setup::on(TestDatabase::sqlite(), &[]).await;
    for (path, text) in TEXTS {
        setup.bring(path, text).await;
    }

    for query in [
        "Which sale brought 1,000 euros?",
        "Which sale was in May 2024?",
        "Which sale was at 12:30?",
    ] {
        let found = setup.paths(json!({"query": query})).await;
        assert_eq!(found[0], "/sale.md", "{query}: {found:?}");
    }

    setup.app.finish().await;
}
