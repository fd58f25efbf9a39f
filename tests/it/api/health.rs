use crate::support::app::TestApp;

#[tokio::test]
async fn a_new_service_is_alive_and_ready() {
    let app = TestApp::spawn().await;
    for path in ["/health/live", "/health/ready"] {
        let reply = app.get(path).await;
        assert_eq!(
            (reply.status.as_u16(), reply.text.as_str()),
            (200, r#"{"status":"ok","warnings":[]}"#)
        );
    }
}

#[tokio::test]
async fn a_stopped_service_finishes_and_exits() {
    let app = TestApp::spawn().await;
    assert_eq!(app.get("/health/ready").await.status, 200);
    app.finish().await;
}
