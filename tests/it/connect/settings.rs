//! `memoir mcp install` and `memoir hook install`: what they print and write, and what they leave alone.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn memoir(home: &Path, arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_memoir"))
        .args(arguments.split(' '))
        .env_clear()
        .env("HOME", home)
        .env("MEMOIR_KEY", "the-key-that-is-never-written")
        .current_dir(home)
        .output()
        .unwrap()
}

const FILES: [(&str, &str); 6] = [
    ("claude-code", ".mcp.json"),
    (
        "claude-desktop",
        ".config/Claude/claude_desktop_config.json",
    ),
    ("cursor", ".cursor/mcp.json"),
    ("vscode", ".vscode/mcp.json"),
    ("zed", ".config/zed/settings.json"),
    ("codex", ".codex/config.toml"),
];

#[test]
#[cfg(target_os = "linux")]
fn each_agent_gets_settings_that_start_this_program() {
    let home = tempfile::tempdir().unwrap();
    for (agent, file) in FILES {
        let line = format!("mcp install {agent} --user ann");
        let printed = memoir(home.path(), &line);
        assert!(printed.status.success(), "{printed:?}");
        let file = home.path().join(file);
        assert!(!file.exists(), "printing writes nothing");

        let written = memoir(home.path(), &format!("{line} --write"));
        assert!(written.status.success(), "{written:?}");
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(text, String::from_utf8(printed.stdout).unwrap(), "{agent}");
        for part in [env!("CARGO_BIN_EXE_memoir"), "\"mcp\"", "--user", "ann"] {
            assert!(text.contains(part), "{agent}: {text}");
        }
        assert!(!text.contains("never-written"), "{agent}: {text}");
        if agent == "codex" {
            toml::from_str::<toml::Table>(&text).unwrap();
        } else {
            serde_json::from_str::<Value>(&text).unwrap();
        }
    }
}

#[test]
fn comments_stay_and_the_former_file_is_kept() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join(".config/zed/settings.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let before = "{\n  // the font of my choice\n  \"buffer_font_size\": 15,\n}\n";
    std::fs::write(&file, before).unwrap();
    assert!(
        memoir(home.path(), "mcp install zed --write")
            .status
            .success()
    );
    let after = std::fs::read_to_string(&file).unwrap();
    assert!(
        after.contains("// the font of my choice") && after.contains("context_servers"),
        "{after}"
    );
    let kept = std::fs::read_to_string(home.path().join(".config/zed/settings.json.bak")).unwrap();
    assert_eq!(kept, before);

    let again = memoir(home.path(), "mcp install zed --write");
    assert!(String::from_utf8(again.stderr).unwrap().contains("already"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), after);

    std::fs::write(&file, "{ broken").unwrap();
    let refused = memoir(home.path(), "mcp install zed --write");
    assert!(!refused.status.success());
    assert!(
        String::from_utf8(refused.stderr)
            .unwrap()
            .contains("was not changed")
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "{ broken");
}

#[test]
fn hooks_are_installed_once_beside_those_of_others() {
    let home = tempfile::tempdir().unwrap();
    for (agent, file) in [
        ("claude-code", ".claude/settings.json"),
        ("codex", ".codex/hooks.json"),
    ] {
        for _ in 0..2 {
            let done = memoir(
                home.path(),
                &format!("hook install {agent} --write --user ann"),
            );
            assert!(done.status.success(), "{done:?}");
            let said = String::from_utf8(done.stderr).unwrap();
            assert_eq!(said.contains("trust"), agent == "codex", "{said}");
        }
        let text = std::fs::read_to_string(home.path().join(file)).unwrap();
        let settings: Value = serde_json::from_str(&text).unwrap();
        for (event, hook) in [("UserPromptSubmit", "recall"), ("Stop", "store")] {
            let groups = settings["hooks"][event].as_array().unwrap();
            assert_eq!(groups.len(), 1, "{text}");
            let command = groups[0]["hooks"][0]["command"].as_str().unwrap();
            let wanted = format!(
                "{} hook {hook} --agent {agent} --user ann",
                env!("CARGO_BIN_EXE_memoir")
            );
            assert_eq!(command, wanted);
        }
        assert!(!text.contains("never-written"), "{text}");
    }
}
