//! Merges three layers into one tree: compiled-in defaults, a file, the environment.
//!
//! Within a layer a secret may be given by a file (`url_file`). It is read here, before the layers
//! are merged, so that both spellings have the same precedence.

use std::collections::HashMap;
use std::path::Path;
use std::sync::LazyLock;

use config::{Environment, File, FileFormat, Source};
use serde_json::{Map, Value};

use super::mask::{SECRETS, shown};
use super::{DEFAULT_TOML, Origin, Violation, Violations, taxonomy};

type Tree = Map<String, Value>;

/// The only table whose entries have user-defined names.
const PROVIDERS: &str = "llm.providers";

/// The only number that may be unset: every level then needs its own limit.
const NULLABLE: &str = "taxonomy.max_categories_default";

static DEFAULTS: LazyLock<Value> = LazyLock::new(|| {
    // Read directly, as the layering crate does not keep the order of keys.
    toml::from_str(DEFAULT_TOML)
        .unwrap_or_else(|error| unreachable!("config/default.toml is checked by a test: {error}"))
});

/// The compiled-in defaults, which are also the schema.
pub fn defaults() -> &'static Value {
    &DEFAULTS
}

/// Merges the layers; an invalid entry is reported and skipped.
pub fn merge(origin: &Origin, violations: &mut Violations) -> Tree {
    let mut tree = defaults().as_object().cloned().unwrap_or_default();
    let mut limits_levels = false;
    if let Some(path) = &origin.file {
        match read_file(path) {
            Ok(layer) => {
                limits_levels |= taxonomy::limits_levels(&layer);
                apply(layer, &mut tree, violations);
            }
            Err(reason) => violations.add(
                Violation::new("--config", path.display().to_string())
                    .allowed(&format!("a readable TOML, YAML or JSON file: {reason}"))
                    .example("memoir --config memoir.toml"),
            ),
        }
    }

    // Spellings that other tools share, such as DATABASE_URL; memoir's own names for them win.
    apply(shared_names(&origin.environment), &mut tree, violations);
    let environment = Environment::with_prefix("MEMOIR")
        .prefix_separator("__")
        .separator("__")
        .ignore_empty(true)
        .source(Some(origin.environment.clone()));

    for name in origin.environment.keys() {
        check_underscores(name, violations);
    }

    match read(environment) {
        Ok(layer) => {
            limits_levels |= taxonomy::limits_levels(&layer);
            apply(layer, &mut tree, violations);
        }
        Err(reason) => violations.add(Violation::new("MEMOIR__…", "").allowed(&reason)),
    }

    taxonomy::settle_scope(&mut tree, limits_levels);
    tree
}

/// A single underscore instead of two would otherwise be ignored silently.
fn check_underscores(name: &str, violations: &mut Violations) {
    let Some(rest) = name
        .strip_prefix("MEMOIR_")
        .filter(|rest| !rest.starts_with('_'))
    else {
        return;
    };

    let rest = rest.to_ascii_lowercase();
    for (section, fields) in defaults().as_object().into_iter().flatten() {
        let field = rest
            .strip_prefix(section.as_str())
            .map(|field| field.trim_start_matches('_'));
        if let Some(field) = field.filter(|field| fields.get(*field).is_some()) {
            let right = format!(
                "MEMOIR__{}__{}",
                section.to_ascii_uppercase(),
                field.to_ascii_uppercase()
            );
            violations.add(
                Violation::new(name, "…")
                    .allowed("a name with two underscores between its parts")
                    .example(&right),
            );
        }
    }
}

fn shared_names(environment: &HashMap<String, String>) -> Tree {
    const SHARED: &[(&str, &str, &str)] = &[
        ("DATABASE_URL", "database", "url"),
        ("DATABASE_URL_FILE", "database", "url_file"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "telemetry", "otlp_endpoint"),
    ];

    let mut tree = Tree::new();
    for (variable, section, key) in SHARED {
        if let Some(value) = environment.get(*variable).filter(|value| !value.is_empty()) {
            let section = tree
                .entry(*section)
                .or_insert_with(|| Value::Object(Tree::new()));
            if let Some(fields) = section.as_object_mut() {
                fields.insert((*key).to_owned(), value.as_str().into());
            }
        }
    }

    tree
}

fn read_file(path: &Path) -> Result<Tree, String> {
    // Opened by hand first, as the crate's own message names neither a missing file nor its
    // permissions.
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let format = match path.extension().and_then(|extension| extension.to_str()) {
        Some("yml" | "yaml") => FileFormat::Yaml,
        Some("json") => FileFormat::Json,
        _ => FileFormat::Toml,
    };

    if text.trim().is_empty() {
        return Ok(Tree::new());
    }

    read(File::from_str(&text, format))
}

fn read(source: impl Source + Send + Sync + 'static) -> Result<Tree, String> {
    let layer = config::Config::builder().add_source(source).build();
    layer
        .and_then(config::Config::try_deserialize)
        .map_err(|error| error.to_string())
}

fn apply(mut layer: Tree, tree: &mut Tree, violations: &mut Violations) {
    for key in SECRETS {
        read_secret_file(&mut layer, key, violations);
    }

    read_provider_keys(&mut layer, violations);
    for (name, given) in layer {
        overlay(&name, &name, given, tree, violations);
    }
}

/// Replaces `x_file` with `x` and the content of the file.
fn read_secret_file(layer: &mut Tree, key: &str, violations: &mut Violations) {
    let Some((section, name)) = key.rsplit_once('.') else {
        return;
    };
    let Some(fields) = layer.get_mut(section).and_then(Value::as_object_mut) else {
        return;
    };
    read_file_twin(fields, name, key, violations);
}

/// Reads the key of each provider that is given by a file.
fn read_provider_keys(layer: &mut Tree, violations: &mut Violations) {
    let providers = layer
        .get_mut("llm")
        .and_then(|llm| llm.get_mut("providers"))
        .and_then(Value::as_object_mut);
    for (name, entry) in providers.into_iter().flatten() {
        if let Some(fields) = entry.as_object_mut() {
            read_file_twin(
                fields,
                "api_key",
                &format!("{PROVIDERS}.{name}.api_key"),
                violations,
            );
        }
    }
}

fn read_file_twin(fields: &mut Tree, name: &str, key: &str, violations: &mut Violations) {
    let Some(path) = fields.remove(&format!("{name}_file")) else {
        return;
    };
    let path = path.as_str().unwrap_or_default();
    let given = || Violation::new(&format!("{key}_file"), path);
    if fields.contains_key(name) {
        violations.add(given().allowed(&format!("either {key} or {key}_file, not both")));
        return;
    }

    match std::fs::read_to_string(path) {
        Ok(content) if content.trim().is_empty() => {
            violations.add(given().allowed(&format!(
                "a file that contains the value of {key}; this one is empty"
            )));
        }
        Ok(content) => {
            fields.insert(name.to_owned(), content.trim().into());
        }
        Err(error) => violations.add(
            given()
                .allowed(&format!(
                    "a readable file that contains the value of {key}: {error}"
                ))
                .example(&format!("{name}_file = \"/run/secrets/{name}\"")),
        ),
    }
}

fn overlay(path: &str, name: &str, given: Value, into: &mut Tree, violations: &mut Violations) {
    if path == PROVIDERS {
        overlay_providers(given, into, violations);
        return;
    }

    let Some(slot) = into.get_mut(name) else {
        let near = nearest(name, into.keys().map(String::as_str));
        violations.add(
            // The value of a mistyped name may be a secret.
            Violation::new(path, "(value not shown)")
                .allowed("the name of an existing setting; this one does not exist")
                .example(&near.map_or_else(
                    || "memoir config print lists every key".to_owned(),
                    |near| format!("did you mean {}?", path.replace(name, near)),
                )),
        );

        return;
    };

    match (slot, given) {
        (slot, Value::Null) if path == NULLABLE => *slot = Value::Null,
        // Empty by default, because the names are user-defined.
        (Value::Object(fields), Value::Object(given)) if fields.is_empty() => *fields = given,
        (Value::Object(fields), Value::Object(given)) => {
            for (name, value) in given {
                overlay(&format!("{path}.{name}"), &name, value, fields, violations);
            }
        }
        (slot, given) => match coerce(slot, &given) {
            Ok(value) => *slot = value,
            Err(_) if let Some(limit) = nearest_limit(slot, &given) => {
                violations.note_out_of_range(path, &shown(path, &given.to_string()));
                *slot = limit;
            }
            Err(allowed) => violations.add(
                Violation::new(path, shown(path, &given.to_string()))
                    .allowed(allowed)
                    .example(&assignment(name, slot)),
            ),
        },
    }
}

/// Merges providers, which have user-defined names; `llm.provider_defaults` defines the fields of
/// an entry.
fn overlay_providers(given: Value, llm: &mut Tree, violations: &mut Violations) {
    let Value::Object(given) = given else {
        violations.add(
            Violation::new(PROVIDERS, "")
                .allowed("a table of providers")
                .example("[llm.providers.mine]"),
        );
        return;
    };

    let schema = defaults()["llm"]["provider_defaults"]
        .as_object()
        .cloned()
        .unwrap_or_default();

    for (name, entry) in given {
        let mut checked = schema.clone();
        let Value::Object(entry) = entry else {
            let key = format!("{PROVIDERS}.{name}");
            violations.add(
                Violation::new(&key, "")
                    .allowed("a table")
                    .example(&format!("[{key}]")),
            );

            continue;
        };

        let Some(providers) = llm.get_mut("providers").and_then(Value::as_object_mut) else {
            return;
        };
        let slot = providers
            .entry(name.clone())
            .or_insert_with(|| Value::Object(Tree::new()));
        for (field, value) in entry {
            overlay(
                &format!("{PROVIDERS}.{name}.{field}"),
                &field,
                value,
                &mut checked,
                violations,
            );
            if let (Some(value), Some(slot)) = (checked.get(&field), slot.as_object_mut()) {
                slot.insert(field, value.clone());
            }
        }
    }
}

/// For a whole number that does not fit into its type: the limit of the type that it exceeds. The
/// check of the setting then reports the valid range.
fn nearest_limit(default: &Value, given: &Value) -> Option<Value> {
    if !default.is_u64() {
        return None;
    }

    let text = match given {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.trim().to_owned(),
        _ => return None,
    };
    let number: i128 = text.parse().ok()?;
    Some(if number < 0 { 0 } else { u64::MAX }.into())
}

/// Converts a value to the type of its default; the environment has only strings.
fn coerce(default: &Value, given: &Value) -> Result<Value, &'static str> {
    match (default, given) {
        (Value::Number(number), _) if number.is_f64() => {
            amount(given).ok_or("a number of at least 0")
        }
        (Value::Number(_), Value::String(text)) => match text.trim().parse::<u64>() {
            Ok(number) => Ok(number.into()),
            Err(_) => Err("a whole number of at least 0"),
        },
        (Value::Number(_), Value::Number(number)) if number.is_u64() => Ok(given.clone()),
        (Value::Number(_), _) => Err("a whole number of at least 0"),
        (Value::Bool(_), Value::Bool(_))
        | (Value::String(_), Value::String(_))
        | (Value::Array(_), Value::Array(_))
        | (Value::Null, _) => Ok(given.clone()),
        (Value::Bool(_), Value::String(text)) => match text.trim() {
            "true" | "1" => Ok(true.into()),
            "false" | "0" => Ok(false.into()),
            _ => Err("true or false"),
        },
        (Value::Bool(_), _) => Err("true or false"),
        (Value::String(_), Value::Number(number)) => Ok(number.to_string().into()),
        (Value::String(_), _) => Err("text"),
        (Value::Array(_), Value::String(text)) if text.trim_start().starts_with('[') => {
            serde_json::from_str::<Vec<Value>>(text)
                .map(Value::Array)
                .map_err(|_| "a list; in the environment, as JSON")
        }
        (Value::Array(_), Value::String(text)) if !text.trim_start().starts_with('{') => Ok(text
            .split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty())
            .map(Value::from)
            .collect()),
        (Value::Array(_), _) => Err("a list; in the environment, as JSON"),
        (Value::Object(fields), Value::String(text)) if fields.is_empty() => {
            serde_json::from_str::<Tree>(text)
                .map(Value::Object)
                .map_err(|_| "a table; in the environment, as JSON")
        }
        (Value::Object(_), _) => Err("a section with its own keys"),
    }
}

fn amount(given: &Value) -> Option<Value> {
    let number = given
        .as_f64()
        .or_else(|| given.as_str()?.trim().parse().ok())?;
    (number >= 0.0).then(|| number.into())
}

/// A line of TOML, for an example.
pub fn assignment(path: &str, value: &Value) -> String {
    // The default is an empty list and would show nothing of the format.
    if path.starts_with("keys") {
        return super::auth::EXAMPLE.to_owned();
    }
    format!("{} = {value}", path.rsplit('.').next().unwrap_or(path))
}

/// Follows a path in the format of `serde_path_to_error` (`retry.tries`, `keys[0].role`).
pub fn pointer<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    value.pointer(&json_pointer(path))
}

pub fn pointer_mut<'a>(value: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    value.pointer_mut(&json_pointer(path))
}

fn json_pointer(path: &str) -> String {
    let plain = path.replace('[', ".").replace(']', "");
    plain
        .split('.')
        .filter(|part| !part.is_empty())
        .fold(String::new(), |pointer, part| format!("{pointer}/{part}"))
}

/// The existing name that is closest to the wrong one.
fn nearest<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let scored = names.map(|name| (strsim::damerau_levenshtein(wrong, name), name));
    scored
        .filter(|(distance, name)| *distance <= name.len() / 2)
        .min()
        .map(|(_, name)| name)
}
