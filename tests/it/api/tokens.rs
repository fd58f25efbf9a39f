use serde_json::json;

use crate::support::app::TestApp;

#[tokio::test]
async fn tokens_are_counted_by_the_models_own_tokenizer() {
    let app = TestApp::spawn().await;
    let body = json!({"text": "tiktoken is great!", "model": "gpt-4"});
    let expected = json!({
        "tokens": 6, "estimate": 5, "characters": 18, "tokenizer": "cl100k_base", "exact": true, "model": "gpt-4"
    });
    assert_eq!(app.post("/v1/tokens/count", &body).await.json(), expected);
}

#[tokio::test]
async fn the_count_for_an_unknown_model_is_marked_inexact() {
    let app = TestApp::spawn().await;
    let counted = app
        .post(
            "/v1/tokens/count",
            &json!({"text": "日本語", "model": "somebodys-model"}),
        )
        .await
        .json();

    assert_eq!(counted["tokenizer"], "o200k_base");
    assert_eq!(counted["exact"], false);
    assert_eq!(
        (&counted["characters"], &counted["estimate"]),
        (&json!(3), &json!(1))
    );
}

#[tokio::test]
async fn long_repetitive_texts_are_counted() {
    let app = TestApp::spawn().await;
    for text in [
        " ".repeat(1_000_000),
        "a".repeat(300_000),
        "\n".repeat(100_000),
        "e\u{301}".repeat(50_000),
        "👩‍👩‍👧".repeat(20_000),
    ] {
        let reply = app.post("/v1/tokens/count", &json!({"text": text})).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        assert_eq!(reply.json()["characters"], text.chars().count());
    }
}
