use crate::support::app::TestApp;
use crate::support::database::TestDatabase;

#[tokio::test]
async fn info_shows_the_effective_settings() {
    let app = TestApp::with(&[
        ("LIMITS__MAX_BODY_BYTES", "2048"),
        ("DATABASE__SQLITE_SYNCHRONOUS", "full"),
    ])
    .await;
    let info = app.get("/v1/info").await.json();
    insta::assert_json_snapshot!(info, { ".version" => "[version]", ".database.schema_version" => "[schema]" });
}

#[tokio::test]
async fn info_names_the_engine_and_no_secret() {
    for database in TestDatabase::each().await {
        let engine = database.engine.into_str();
        let keys = r#"[{"key":"topsecret","space":"*","role":"admin"}]"#;
        let app = TestApp::on(database, &[("AUTH__KEYS", keys)]).await;
        let request = app
            .request(reqwest::Method::GET, "/v1/info")
            .bearer_auth("topsecret");
        let reply = crate::support::app::send(request).await;

        assert_eq!(reply.json()["database"]["engine"], engine);
        assert_eq!(reply.json()["auth"]["required"], true);
        for secret in [
            "topsecret",
            "memoir.db",
            "127.0.0.1:3",
            "root@",
            "postgres@",
        ] {
            assert!(!reply.text.contains(secret), "{secret} in {}", reply.text);
        }
    }
}
