//! Files on the server that a request names instead of sending the text: only those below
//! `ingestion.root`.

use reqwest::Method;
use serde_json::json;
use tempfile::tempdir;

use crate::support::app::{TestApp, send};

const TEXT: &str = "The violin maker chose spruce for the belly and maple for the back.";

#[tokio::test]
async fn only_files_below_the_root_can_be_ingested_by_path() {
    let (root, elsewhere) = (tempdir().unwrap(), tempdir().unwrap());
    let at = |name: &str| root.path().join(name).to_str().unwrap().to_owned();
    std::fs::create_dir(root.path().join("deep")).unwrap();
    std::fs::create_dir(root.path().join(".git")).unwrap();
    std::fs::write(at(".git/config.md"), TEXT).unwrap();

    for (name, content) in [
        ("deep/violin.md", TEXT.as_bytes()),
        ("cello.exe", b"x"),
        ("latin.txt", b"\xe9t\xe9"),
        ("empty.md", b""),
    ] {
        std::fs::write(at(name), content).unwrap();
    }

    let secret = elsewhere.path().join("secret.md");
    std::fs::write(&secret, "the secret").unwrap();
    std::os::unix::fs::symlink(&secret, at("link.md")).unwrap();
    std::os::unix::fs::symlink(root.path().join("deep/violin.md"), at("inside.md")).unwrap();
    std::fs::write(at("large.md"), "word ".repeat(30_000)).unwrap();

    let settings = [
        ("INGESTION__ROOT", root.path().to_str().unwrap()),
        ("LIMITS__MAX_BODY_BYTES", "100000"),
    ];

    let app = TestApp::with(&settings).await;
    let bring = async |path: &str| {
        app.post("/v1/ingestions", &json!({"path": path, "wait": true}))
            .await
    };

    for path in [
        at("deep/violin.md"),
        at("deep//./violin.md"),
        at("inside.md"),
    ] {
        let job = bring(&path).await.json();
        assert_eq!(job["state"], "succeeded", "{job}");
        let source = format!("/v1/sources/{}", job["source_id"].as_str().unwrap());
        assert_eq!(
            app.get(&format!("{source}/versions/1/content")).await.text,
            TEXT
        );
        let version = app.get(&format!("{source}/versions/1")).await.json();
        assert!(
            version["mtime"]
                .as_str()
                .is_some_and(|mtime| mtime.starts_with("20")),
            "{version}"
        );
    }

    assert_eq!(
        app.get("/v1/sources").await.json()["items"]
            .as_array()
            .unwrap()
            .len(),
        2,
        "one file has one address"
    );

    let there =
        url::form_urlencoded::byte_serialize(at("deep/violin.md").as_bytes()).collect::<String>();
    let found = app.get(&format!("/v1/sources?path={there}")).await.json();
    assert_eq!(
        (
            &found["items"][0]["latest_version"],
            found["items"].as_array().unwrap().len()
        ),
        (&json!(2), 1)
    );

    assert_eq!(
        app.get("/v1/sources?path=/none.md").await.json()["items"],
        json!([])
    );

    let (up, other) = (
        root.path().parent().unwrap(),
        elsewhere.path().parent().unwrap(),
    );

    assert_eq!(up, other, "the detour leads to the secret");
    let detour = format!(
        "{}/../{}",
        at("deep/.."),
        secret.strip_prefix(other).unwrap().display()
    );

    assert!(std::path::Path::new(&detour).exists());
    let hidden = at(".git/config.md");
    for path in [
        secret.to_str().unwrap(),
        &at("link.md"),
        &detour,
        &at("none.md"),
        &hidden,
        &at("deep"),
        "/etc/passwd.txt",
        "violin.md",
    ] {
        let reply = bring(path).await;
        reply.assert_problem(422, "invalid_request");
        assert_eq!(reply.json()["errors"][0]["field"], "path", "{path}");
        assert!(
            !reply.text.contains("secret\"") && !reply.text.contains("No such file"),
            "{}",
            reply.text
        );
    }

    bring(&at("cello.exe"))
        .await
        .assert_problem(415, "unsupported_file_type");
    // Another extension does not make it a text file.
    let renamed = json!({"path": at("cello.exe"), "filename": "cello.md"});
    app.post("/v1/ingestions", &renamed)
        .await
        .assert_problem(415, "unsupported_file_type");
    bring(&at("latin.txt"))
        .await
        .assert_problem(422, "invalid_request");
    bring(&at("empty.md"))
        .await
        .assert_problem(422, "invalid_request");
    bring(&at("large.md"))
        .await
        .assert_problem(413, "body_too_large");

    // A repeated request gets the first response, whatever has happened to the file.
    let keyed = async || {
        let request = app
            .request(Method::POST, "/v1/ingestions")
            .header("idempotency-key", "k");
        send(request.json(&json!({"path": at("deep/violin.md")}))).await
    };

    let first = keyed().await;
    assert_eq!(first.status, 202, "{}", first.text);
    std::fs::remove_file(at("deep/violin.md")).unwrap();
    assert_eq!(keyed().await.json(), first.json());
    app.finish().await;

    // Without a root, no file is read.
    let app = TestApp::spawn().await;
    let reply = app
        .post("/v1/ingestions", &json!({"path": at("deep/violin.md")}))
        .await;
    reply.assert_problem(422, "invalid_request");
    assert_eq!(reply.json()["errors"][0]["field"], "text");

    app.finish().await;
}
