//! Settings: layers, types, secrets, and messages that say how to mend them.

use std::collections::HashMap;

use memoir::config::{Config, ConfigurationError, DEFAULT_TOML, Origin};

fn load(file: Option<&str>, environment: &[(&str, &str)]) -> Result<Config, ConfigurationError> {
    let folder = tempfile::tempdir().unwrap();
    let file = file.map(|text| {
        let path = folder.path().join("memoir.toml");
        std::fs::write(&path, text).unwrap();
        path
    });
    let environment: HashMap<String, String> =
        environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Config::load(&Origin { file, environment })
}

fn keys(error: &ConfigurationError) -> Vec<&str> {
    error.violations.iter().map(|violation| violation.key.as_str()).collect()
}

#[test]
fn nothing_set_is_a_working_configuration() {
    let config = load(None, &[]).unwrap();
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.database.url.expose(), "sqlite://memoir.db");
    assert!(config.auth.keys.is_empty());
    let printed: toml::Table = config.to_toml().parse().unwrap();
    assert_eq!(printed, DEFAULT_TOML.parse::<toml::Table>().unwrap(), "what is printed is what is compiled in");
}

#[test]
fn every_key_of_the_default_file_has_a_comment() {
    let lines: Vec<&str> = DEFAULT_TOML.lines().collect();
    for (index, line) in lines.iter().enumerate().filter(|(_, line)| line.contains(" = ") && !line.starts_with('#')) {
        assert!(lines[index - 1].starts_with("# "), "{line}");
    }
}

#[test]
fn the_environment_wins_over_the_file_and_the_file_over_the_defaults() {
    let file = "[limits]\nmax_body_bytes = 2000\n[server]\nheader_timeout = 7\n";
    let config = load(Some(file), &[("MEMOIR__LIMITS__MAX_BODY_BYTES", "3000")]).unwrap();
    assert_eq!((config.limits.max_body_bytes, config.server.header_timeout, config.server.body_timeout), (3000, 7, 30));
}

#[test]
fn the_database_has_two_names_in_the_environment_and_ours_wins() {
    let shared = ("DATABASE_URL", "sqlite://shared.db");
    let file = Some("[database]\nurl = \"sqlite://file.db\"\n");
    assert_eq!(load(file, &[]).unwrap().database.url.expose(), "sqlite://file.db");
    assert_eq!(load(file, &[shared]).unwrap().database.url.expose(), "sqlite://shared.db");
    let own = ("MEMOIR__DATABASE__URL", "sqlite://own.db");
    assert_eq!(load(file, &[shared, own]).unwrap().database.url.expose(), "sqlite://own.db");
    assert_eq!(load(file, &[("DATABASE_URL", "")]).unwrap().database.url.expose(), "sqlite://file.db");
}

#[test]
fn yaml_and_json_files_are_read_too() {
    for (name, text) in
        [("m.yaml", "limits:\n  max_body_bytes: 2000\n"), ("m.json", r#"{"limits":{"max_body_bytes":2000}}"#)]
    {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let config = Config::load(&Origin { file: Some(path), environment: HashMap::new() }).unwrap();
        assert_eq!(config.limits.max_body_bytes, 2000);
    }
}

#[test]
fn secrets_may_come_from_files() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).unwrap();
        folder.path().join(name).display().to_string()
    };
    let url = write("url", "sqlite://secret.db\n");
    let keys = write("keys", r#"[{"key":"from-file","space":"*"}]"#);
    let config = load(None, &[("MEMOIR__DATABASE__URL_FILE", &url), ("MEMOIR__AUTH__KEYS_FILE", &keys)]).unwrap();
    assert_eq!(config.database.url.expose(), "sqlite://secret.db");
    assert_eq!(config.auth.keys.len(), 1);
    assert_eq!(load(None, &[("DATABASE_URL_FILE", &url)]).unwrap().database.url.expose(), "sqlite://secret.db");
    let in_file =
        format!("[database]\nurl_file = {url:?}\n[[auth.keys]]\nkey_file = {:?}\nspace = \"*\"\n", write("key", "k\n"));
    let config = load(Some(&in_file), &[]).unwrap();
    assert_eq!(config.database.url.expose(), "sqlite://secret.db");
    assert_eq!(config.auth.keys.len(), 1);

    let missing = load(None, &[("MEMOIR__DATABASE__URL_FILE", "/nowhere/secret")]).unwrap_err();
    assert_eq!(keys_of(&missing), ["database.url_file"]);
    let both = load(None, &[("DATABASE_URL", "sqlite://a.db"), ("DATABASE_URL_FILE", &url)]).unwrap_err();
    assert_eq!(keys_of(&both), ["database.url_file"]);
}

fn keys_of(error: &ConfigurationError) -> Vec<&str> {
    keys(error)
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let file = "
[server]
listen = \"nowhere\"
header_timeout = 0
max_connections = -1
colour = \"red\"
[databse]
url = \"x\"
[database]
sqlite_synchronous = \"sometimes\"
[database.retry]
tries = 99
[telemetry]
log_format = \"loud\"
log_level = \"whisper\"
[testing]
clock_header = \"perhaps\"
";
    let error =
        load(Some(file), &[("DATABASE_URL", "oracle://me:s3cret@db/x"), ("MEMOIR__LIMITS__MAX_BODY_BYTES", "1.5")])
            .unwrap_err();
    let mut found = keys(&error);
    found.sort_unstable();
    assert_eq!(
        found,
        [
            "database.retry.tries",
            "database.sqlite_synchronous",
            "database.url",
            "databse",
            "limits.max_body_bytes",
            "server.colour",
            "server.header_timeout",
            "server.listen",
            "server.max_connections",
            "telemetry.log_format",
            "telemetry.log_level",
            "testing.clock_header",
        ]
    );
    let text = error.to_string();
    assert!(text.starts_with("ConfigurationError: 12 settings need a correction"), "{text}");
    for part in
        ["oracle://me:***@db/x", "did you mean database?", "a whole number from 1 to 20", "tries = 5", "\"nowhere\""]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("s3cret"));
    for violation in &error.violations {
        assert!(!violation.allowed.is_empty() && !violation.example.is_empty(), "{violation:?}");
    }
}

#[test]
fn an_open_service_stays_on_this_machine() {
    let error = load(None, &[("MEMOIR__SERVER__LISTEN", "0.0.0.0:8080")]).unwrap_err();
    assert_eq!(keys(&error), ["server.listen"]);
    let key = ("MEMOIR__AUTH__KEYS", r#"[{"key":"k","space":"*"}]"#);
    assert!(load(None, &[("MEMOIR__SERVER__LISTEN", "0.0.0.0:8080"), key]).is_ok());
    for loopback in ["127.0.0.1:1", "[::1]:1", "127.9.9.9:0", "localhost:80"] {
        assert!(load(None, &[("MEMOIR__SERVER__LISTEN", loopback)]).is_ok(), "{loopback}");
    }
}

#[test]
fn api_keys_are_checked_and_never_shown() {
    for (entry, field) in [
        (r#"{"space":"a"}"#, "auth.keys[0].key"),
        (r#"{"key":"","space":"a"}"#, "auth.keys[0].key"),
        (r#"{"key":"SECRET KEY"}"#, "auth.keys[0].key"),
        (r#"{"key":"SECRET","key_sha256":"00"}"#, "auth.keys[0].key"),
        (r#"{"key_sha256":"SECRET"}"#, "auth.keys[0].key"),
        (r#"{"key_file":"/nowhere"}"#, "auth.keys[0].key_file"),
        (r#"{"key":"SECRET","space":"No"}"#, "auth.keys[0].space"),
        (r#"{"key":"SECRET","role":"king"}"#, "auth.keys[0].role"),
        (r#"{"key":"SECRET","colour":"red"}"#, "auth.keys[0].colour"),
        (r#"{"key":"SECRET"},{"key":"SECRET"}"#, "auth.keys[1]"),
        (r#""SECRET""#, "auth.keys[0]"),
    ] {
        let error = load(None, &[("MEMOIR__AUTH__KEYS", &format!("[{entry}]"))]).unwrap_err();
        assert_eq!(keys(&error), [field], "{entry}");
        assert!(!error.to_string().contains("SECRET"), "{error}");
    }
    for typo in ["MEMOIR__AUTH__KEY", "MEMOIR__DATABASE__URI", "MEMOIR__AUTH__KEYZ", "MEMOIR_AUTH_KEYS"] {
        let error = load(None, &[(typo, "postgres://u:SECRET@h/d")]).unwrap_err().to_string();
        assert!(!error.contains("SECRET"), "{error}");
    }
    let both = load(None, &[("MEMOIR__AUTH__KEYS", r#"[{"key":"k","role":"king","space":"No"}]"#)]).unwrap_err();
    assert_eq!(keys(&both), ["auth.keys[0].space", "auth.keys[0].role"]);
    let unreadable = load(None, &[("MEMOIR__AUTH__KEYS", "[{SECRET")]).unwrap_err();
    assert!(!unreadable.to_string().contains("SECRET"), "{unreadable}");
    let config = load(None, &[("MEMOIR__AUTH__KEYS", r#"[{"key":"SECRET","space":"*","role":"admin"}]"#)]).unwrap();
    assert!(!format!("{config:?}{}", config.to_toml()).contains("SECRET"));
    let config = load(None, &[("DATABASE_URL", "postgres://me:SECRET@db/x")]).unwrap();
    assert!(!format!("{config:?}{}", config.to_toml()).contains("SECRET"));
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let origin = Origin { file: Some("/nowhere/memoir.toml".into()), environment: HashMap::new() };
    let error = Config::load(&origin).unwrap_err().to_string();
    assert!(error.contains("/nowhere/memoir.toml") && error.contains("No such file"), "{error}");
    let broken = load(Some("[server\n"), &[]).unwrap_err();
    assert_eq!(keys(&broken), ["--config"]);
}
