use reqwest::Method;

use crate::support::app::{TestApp, send};

#[tokio::test]
async fn the_docs_page_loads_nothing_from_other_hosts() {
    let app = TestApp::spawn().await;
    let page = app.get("/docs").await;
    assert_eq!(
        (page.status.as_u16(), page.header("content-type")),
        (200, "text/html")
    );

    let mut files = 0;
    for attribute in ["src=\"", "href=\""] {
        for rest in page.text.split(attribute).skip(1) {
            let link = rest.split('"').next().unwrap();
            assert!(!link.contains("://"), "{link} is on another host");
            let path = if link.starts_with('/') {
                link.to_owned()
            } else {
                format!("/docs/{}", link.trim_start_matches("./"))
            };

            assert_eq!(app.get(&path).await.status, 200, "{path}");
            files += 1;
        }
    }

    assert!(files >= 5, "{}", page.text);
    // The client asks for gzip and unpacks it; another one cannot.
    let script = "/docs/swagger-ui-bundle.js";
    let packed = app.get(script).await;
    let plain = app.request(Method::GET, script);
    let plain = send(plain.header("Accept-Encoding", "identity")).await;
    assert!(plain.text.contains("SwaggerUIBundle"));
    assert!(packed.text == plain.text);

    assert!(
        app.get("/docs/swagger-initializer.js")
            .await
            .text
            .contains("/openapi.json")
    );
}
