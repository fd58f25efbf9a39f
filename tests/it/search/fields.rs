//! Chunks found by what is said about their source, or by the headings above them.

use serde_json::{Value, json};

use super::{Setup, each};
use crate::support::database::TestDatabase;

const PAGES: &str =
    "Net revenue grew by a tenth, mainly because of services.\n\nThe board met in June.";

/// Filings whose pages name neither the company nor the year.
const FILINGS: [&str; 6] = [
    "/filings/acme-2019.txt",
    "/filings/acme-2020.txt",
    "/filings/globex-2019.txt",
    "/filings/globex-2020.txt",
    "/filings/initech-2019.txt",
    "/filings/initech-2020.txt",
];

#[tokio::test]
async fn a_query_that_names_a_company_and_a_year_is_led_to_that_filing() {
    for memory in ["512", "0"] {
        for database in TestDatabase::each().await {
            let setup = Setup::on(database, &[("VECTOR__MEMORY_MB", memory)]).await;
            for path in FILINGS {
                setup.bring(path, PAGES).await;
            }

            for (company, year) in [("Globex", "2020"), ("Initech", "2019")] {
                let path = format!("/filings/{}-{year}.txt", company.to_lowercase());
                for kind in ["keyword", "hybrid"] {
                    let query = format!("How did the revenue of {company} grow in {year}?");
                    let found = setup.search(json!({"query": query, "type": kind})).await;
                    assert_eq!(each(&found, "path")[0], path, "{kind} {memory}: {found}");
                    let parts = &found["items"][0]["score_parts"];
                    assert!(parts["fields"].as_f64().unwrap() > 0.0, "{parts}");
                    assert!(
                        parts["keyword"].as_f64() > parts["fields"].as_f64(),
                        "{parts}"
                    );
                }
            }

            setup.app.finish().await;
        }
    }
}

#[tokio::test]
async fn tags_titles_helpers_and_headings_lead_to_a_text() {
    for database in TestDatabase::each().await {
        let setup = Setup::on(database, &[]).await;
        let texts = [
            json!({"path": "/1.md", "text": PAGES, "tags": ["zinnia"]}),
            json!({"path": "/2.md", "text": PAGES, "title": "Minutes of the quokka society"}),
            json!({"path": "/3.md", "text": PAGES, "contextual_helper": "Written by Ottoline for the harbour office.", "options": {"indexes": ["taxonomy", "semantic"]}}),
            json!({"path": "/4.md", "text": format!("# Peregrine\n\n## Results\n\n{PAGES}")}),
        ];
        for text in texts {
            setup.bring_as(text).await;
        }

        for (word, path) in [
            ("zinnia", "/1.md"),
            ("quokka", "/2.md"),
            ("Ottoline", "/3.md"),
            ("Peregrine", "/4.md"),
        ] {
            let query = json!({"query": format!("revenue {word}"), "type": "keyword"});
            let found: Value = setup.search(query).await;
            assert_eq!(each(&found, "path")[0], path, "{word}: {found}");
        }

        setup.app.finish().await;
    }
}
