use reqwest::redirect::Policy;
use serde_json::Value;

use crate::support::app::{TestApp, send};
use crate::support::client::builder;

#[tokio::test]
async fn the_docs_page_loads_nothing_from_other_hosts() {
    let app = TestApp::spawn().await;
    let page = app.get("/docs").await;
    assert_eq!(page.status, 200);
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8");

    let mut files = 0;
    for attribute in ["src=\"", "href=\""] {
        for rest in page.text.split(attribute).skip(1) {
            let link = rest.split('"').next().unwrap();
            if link.starts_with("data:") || link.starts_with('#') {
                continue;
            }

            assert!(!link.contains("://"), "{link} is on another host");
            let path = format!("/{}", link.trim_start_matches("./"));
            assert_eq!(app.get(&path).await.status, 200, "{path}");
            files += 1;
        }
    }

    assert!(files >= 5, "{}", page.text);
    let document = app.get("/openapi.json").await;
    assert!(document.json()["paths"]["/v1/queries"] != Value::Null);
}

#[tokio::test]
async fn the_old_address_of_the_docs_page_leads_to_it() {
    let app = TestApp::spawn().await;
    let client = builder().redirect(Policy::none()).build().unwrap();
    let request = client.get(format!("http://{}/docs/", app.address));
    let reply = send(request).await;

    assert_eq!(reply.status, 308);
    assert_eq!(reply.header("location"), "../docs");
    let followed = app.get("/docs/").await;
    assert!(followed.text.contains("API reference"));
}
