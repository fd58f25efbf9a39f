//! The response of `GET /v1/info`: fixed, except that it names the models of this machine once they
//! are noticed.

use axum::body::Bytes;
use serde_json::{Map, Value};

use crate::config::Config;
use crate::config::llm::LOCAL;
use crate::http::{self, AppState};
use crate::llm::LocalModel;
use crate::store::{SCHEMA_VERSION, Store};

/// The response without and with required keys.
pub fn render(config: &Config, store: &Store, local_models: &[LocalModel]) -> [Bytes; 2] {
    [false, true].map(|key_required| {
        let info = http::InfoResponse {
            name: "memoir".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            database: http::DatabaseInfo {
                engine: store.engine().into_str().to_owned(),
                schema_version: SCHEMA_VERSION,
            },
            llm: http::LlmInfo {
                model: config.llm.model.clone(),
                embedded: config.llm.model.starts_with(&format!("{LOCAL}:")),
                local_models: local_models.iter().map(show).collect(),
            },
            auth: http::AuthInfo {
                required: key_required,
            },
            limits: http::LimitsInfo::new(config.limits.max_body_bytes),
            settings: public_settings(config),
        };

        serde_json::to_vec(&info).unwrap_or_default().into()
    })
}

fn show(found: &LocalModel) -> http::LocalModelInfo {
    http::LocalModelInfo {
        model: found.model.clone(),
        how_to_use: found.how_to_use(),
    }
}

/// Looks once for model servers on this machine, and says how to use them; never ends.
pub async fn notice_local_models(config: &Config, state: &AppState, own_port: u16) {
    let found = state.llm.find_local_models(own_port).await;
    for one in &found {
        tracing::info!(model = one.model, "{}", one.how_to_use());
    }

    if !found.is_empty() {
        let _ = state
            .settings
            .info_with_local_models
            .set(render(config, &state.store, &found));
    }

    std::future::pending::<()>().await;
}

/// The settings that any caller may see, without keys and without the addresses of the database and
/// the providers.
fn public_settings(config: &Config) -> Map<String, Value> {
    let mut settings = config.printable().clone();
    settings.shift_remove("auth");
    if let Some(database) = settings.get_mut("database").and_then(Value::as_object_mut) {
        database.shift_remove("url");
    }

    if let Some(llm) = settings.get_mut("llm").and_then(Value::as_object_mut) {
        llm.insert("model".to_owned(), config.llm.model.as_str().into());
        // GET /v1/models shows the public part.
        llm.shift_remove("providers");
        llm.shift_remove("provider_defaults");
    }

    if let Some(workbench) = settings.get_mut("workbench").and_then(Value::as_object_mut) {
        workbench.retain(|name, _| !name.ends_with("_url") && !name.ends_with("_key"));
    }

    if let Some(telemetry) = settings.get_mut("telemetry").and_then(Value::as_object_mut) {
        telemetry.shift_remove("otlp_endpoint");
    }

    settings
}
