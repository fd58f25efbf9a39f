//! Settings files of other programs: changed in place, with their comments, or not at all. The former file is kept
//! as `.bak`.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use serde_json::Value;
use toml_edit::{DocumentMut, Item};

use super::tell;

/// A change of a settings file.
pub trait Change {
    /// The text with the change; equal if nothing is to change.
    fn apply(&self, text: &str) -> anyhow::Result<String>;
}

/// A member of an object in a JSON file, created with the objects above it.
pub struct Member<'c> {
    pub within: &'c str,
    pub name: &'c str,
    pub value: Value,
}

/// Values of a table of a table of a TOML file.
pub struct Table<'c> {
    pub within: &'c str,
    pub name: &'c str,
    pub values: Vec<(&'c str, toml_edit::Value)>,
}

/// Commands that an agent runs at events, in its JSON file.
pub struct Hooks<'c>(pub &'c [(&'c str, String)]);

/// Changes a file, and says so. The new text is in place at once, so that a program that reads it meanwhile sees
/// either state.
pub fn write(file: &Path, change: &dyn Change) -> anyhow::Result<()> {
    // A link stays one.
    let file = &fs::canonicalize(file).unwrap_or_else(|_| file.to_path_buf());
    let before = match fs::read_to_string(file) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
    };
    let after = change
        .apply(before.as_deref().unwrap_or_default())
        .with_context(|| format!("{} was not changed", file.display()))?;
    if before.as_deref() == Some(&after) {
        tell(&format!("{} has these settings already", file.display()));
        return Ok(());
    }

    let folder = file.parent().context("the settings have no folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    if let Some(before) = &before {
        let kept = beside(file, ".bak");
        create(&kept, before, file)?;
        tell(&format!("the former file is {}", kept.display()));
    }
    let new = beside(file, ".memoir-new");
    create(&new, &after, file)?;
    fs::rename(&new, file).with_context(|| format!("cannot replace {}", file.display()))?;
    tell(&format!("{} was written", file.display()));
    Ok(())
}

/// Writes a new file that nobody else may read if the model may not be read. What stands there gives way, even a link.
fn create(new: &Path, text: &str, model: &Path) -> anyhow::Result<()> {
    let mode = fs::metadata(model).map_or(0o600, |facts| facts.permissions().mode() & 0o777);
    let written = || -> std::io::Result<()> {
        match fs::remove_file(new) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut opened = fs::OpenOptions::new();
        let mut file = opened.write(true).create_new(true).mode(mode).open(new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    written().with_context(|| format!("cannot write {}", new.display()))
}

fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

impl Change for Member<'_> {
    fn apply(&self, text: &str) -> anyhow::Result<String> {
        change_json(text, |root| {
            let within = root.object_value_or_create(self.within);
            let within = within.with_context(|| format!("\"{}\" is not an object", self.within))?;
            let own = within.object_value_or_create(self.name);
            let own = own.with_context(|| format!("\"{}\" is not an object", self.name))?;
            // What else stands there, such as an environment, stays.
            for (name, value) in self.value.as_object().into_iter().flatten() {
                match own.get(name) {
                    Some(known) if known.to_serde_value().as_ref() == Some(value) => {}
                    Some(known) => known.set_value(input(value)),
                    None => {
                        own.append(name, input(value));
                    }
                }
            }
            Ok(())
        })
    }
}

impl Change for Hooks<'_> {
    fn apply(&self, text: &str) -> anyhow::Result<String> {
        change_json(text, |root| {
            let hooks = root
                .object_value_or_create("hooks")
                .context("\"hooks\" is not an object")?;
            for (event, command) in self.0 {
                let groups = hooks.array_value_or_create(event);
                let groups =
                    groups.with_context(|| format!("\"hooks.{event}\" is not an array"))?;
                // What was written by another build, or with other options, gives way.
                for group in groups.elements() {
                    let own = group.to_serde_value().is_some_and(|group| is_own(&group));
                    if own {
                        group.remove();
                    }
                }
                groups.append(input(&serde_json::json!({
                    "hooks": [{"type": "command", "command": command, "timeout": 5}],
                })));
            }
            Ok(())
        })
    }
}

/// Whether a group has one command, and that is memoir's.
fn is_own(group: &Value) -> bool {
    let commands = group["hooks"].as_array();
    commands.is_some_and(|commands| {
        let own = |command: &Value| {
            let command = command["command"].as_str().unwrap_or_default();
            [" hook recall --agent ", " hook store --agent "]
                .iter()
                .any(|own| command.contains(own))
        };
        commands.len() == 1 && commands.iter().all(own)
    })
}

fn change_json(
    text: &str,
    change: impl Fn(&CstObject) -> anyhow::Result<()>,
) -> anyhow::Result<String> {
    let text = if text.trim().is_empty() { "{}" } else { text };
    let root = CstRootNode::parse(text, &ParseOptions::default());
    let root = root.map_err(|error| anyhow::anyhow!("it is not JSON: {error}"))?;
    let object = root.object_value().context("it is not a JSON object")?;
    let before = root.to_serde_value();
    change(&object)?;
    // The same settings keep their form, too.
    if root.to_serde_value() == before {
        return Ok(text.to_owned());
    }
    let after = root.to_string();
    Ok(if after.ends_with('\n') {
        after
    } else {
        format!("{after}\n")
    })
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(flag) => CstInputValue::Bool(*flag),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(name, value)| (name.clone(), input(value)));
            CstInputValue::Object(fields.collect())
        }
    }
}

impl Change for Table<'_> {
    fn apply(&self, text: &str) -> anyhow::Result<String> {
        let document = text.parse::<DocumentMut>();
        let mut document = document.map_err(|error| anyhow::anyhow!("it is not TOML: {error}"))?;
        let mut implicit = toml_edit::Table::new();
        implicit.set_implicit(true);
        let within = document.entry(self.within).or_insert(Item::Table(implicit));
        let within = within.as_table_like_mut();
        let within = within.with_context(|| format!("{} is not a table", self.within))?;
        let own = within.entry(self.name).or_insert_with(toml_edit::table);
        let own = own.as_table_like_mut();
        let own = own.with_context(|| format!("{}.{} is not a table", self.within, self.name))?;
        // What else stands there, such as an environment, stays.
        for (name, value) in &self.values {
            own.insert(name, Item::Value(value.clone()));
        }

        Ok(document.to_string())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn member(text: &str) -> anyhow::Result<String> {
        let value = json!({"command": "memoir", "args": ["mcp"]});
        let change = Member {
            within: "mcpServers",
            name: "memoir",
            value,
        };
        change.apply(text)
    }

    #[test]
    fn comments_and_other_settings_stay() {
        let text = "{\n  // my servers\n  \"mcpServers\": {\n    \"other\": { \"command\": \"x\" }, // keep\n  },\n  \"theme\": \"dark\"\n}\n";
        let after = member(text).unwrap();
        for kept in [
            "// my servers",
            "// keep",
            "\"other\"",
            "\"theme\": \"dark\"",
            "\"memoir\"",
        ] {
            assert!(after.contains(kept), "{kept}: {after}");
        }
        assert_eq!(
            member(&after).unwrap(),
            after,
            "a second time changes nothing"
        );
        assert_eq!(member("").unwrap(), member("{}").unwrap());
    }

    #[test]
    fn what_has_another_form_is_left_alone() {
        for text in [
            "[1]",
            "{\"mcpServers\": []}",
            "{\"mcpServers\": {",
            "not json",
        ] {
            assert!(member(text).is_err(), "{text}");
        }
    }

    #[test]
    fn hooks_are_added_once_beside_those_of_others() {
        let hooks = [("Stop", "/bin/memoir hook store --agent codex".to_owned())];
        let text = r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "beep"}]}]}}"#;
        let once = Hooks(&hooks).apply(text).unwrap();
        let twice = Hooks(&hooks).apply(&once).unwrap();
        let parsed: Value = serde_json::from_str(&twice).unwrap();
        let groups = parsed["hooks"]["Stop"].as_array().unwrap();
        assert_eq!(groups.len(), 2, "{twice}");
        assert_eq!(groups[0]["hooks"][0]["command"], "beep");
    }

    #[test]
    fn values_of_a_toml_table_are_added_or_replaced() {
        let table = |command: &str| Table {
            within: "mcp_servers",
            name: "memoir",
            values: vec![("command", command.into())],
        };
        let first = table("a").apply("# see [mcp_servers.memoir] below\nmodel = \"x\"\n");
        let first = first.unwrap();
        assert_eq!(
            first,
            "# see [mcp_servers.memoir] below\nmodel = \"x\"\n\n[mcp_servers.memoir]\ncommand = \"a\"\n"
        );
        let more = format!(
            "{first}enabled = false # for now\n  [mcp_servers.memoir.env]\n  A = \"1\"\n\n# mine\n[other]\nkey = 1\n"
        );
        let second = table("b").apply(&more).unwrap();
        assert_eq!(second, more.replace("\"a\"", "\"b\""));
        let inline = "mcp_servers = { memoir = { command = \"z\" } }\n";
        assert!(table("a").apply(inline).unwrap().contains("\"a\""));
        assert!(table("a").apply("mcp_servers = 5\n").is_err());
        assert!(table("a").apply("= nonsense").is_err());
    }
}
