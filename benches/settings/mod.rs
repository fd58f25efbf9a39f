//! The settings of a benchmark: the defaults, a database, and what it sets itself.

use memoir::config::{Config, Origin};

/// Names without the prefix `MEMOIR__`. The log shows only errors.
pub fn settings(database: &str, given: &[(&str, &str)]) -> Config {
    let usual = [
        ("DATABASE__URL", database),
        ("TELEMETRY__LOG_LEVEL", "error"),
    ];
    let all = usual.iter().chain(given);
    Config::load(&Origin {
        file: None,
        environment: all
            .map(|(name, value)| (format!("MEMOIR__{name}"), (*value).to_owned()))
            .collect(),
    })
    .unwrap()
}
