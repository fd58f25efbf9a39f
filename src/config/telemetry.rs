//! `[telemetry]`: the log on stderr.

use serde::Deserialize;

use super::{Violation, Violations};

const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Telemetry {
    pub log_format: LogFormat,
    pub log_level: String,
    pub otlp_endpoint: String,
}

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    Pretty,
    Json,
}

impl Telemetry {
    pub fn validate(&self, violations: &mut Violations) {
        if !LEVELS.contains(&self.log_level.as_str()) {
            violations.add(
                Violation::new("telemetry.log_level", format!("{:?}", self.log_level))
                    .allowed(&format!("one of {}", LEVELS.join(", ")))
                    .example(r#"log_level = "info""#),
            );
        }

        let endpoint = &self.otlp_endpoint;
        if !endpoint.is_empty()
            && !endpoint.starts_with("http://")
            && !endpoint.starts_with("https://")
        {
            violations.add(
                Violation::new("telemetry.otlp_endpoint", "(value not shown)")
                    .allowed("an http or https address")
                    .example(r#"otlp_endpoint = "http://127.0.0.1:4318""#),
            );
        }
    }
}
