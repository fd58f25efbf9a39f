//! `[taxonomy]`: the depth of the hierarchy, and the number of categories allowed.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Violation, Violations};

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Taxonomy {
    pub hierarchy_depth: u64,
    max_categories_default: Option<u64>,
    max_categories_per_level: Map<String, Value>,
    pub limit_scope: LimitScope,
    pub second_look: bool,
}

/// Whether limits apply per level or per parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitScope {
    /// All categories of a level.
    Level,
    /// The children of one parent.
    Parent,
}

const DEFAULT: &str = "taxonomy.max_categories_default";
const PER_LEVEL: &str = "taxonomy.max_categories_per_level";

impl Taxonomy {
    pub fn validate(&self, violations: &mut Violations) {
        violations.check_range("taxonomy.hierarchy_depth", self.hierarchy_depth, 1..=100, 3);
        if self.max_categories_default == Some(0) {
            violations.add(
                Violation::new(DEFAULT, "0")
                    .allowed("a whole number greater than 0")
                    .example("128"),
            );
        }

        let refuse = |violations: &mut Violations, level: &str, given: String, rule: &str| {
            let example =
                format!("max_categories_per_level = {{ \"2\" = 500 }}, or {DEFAULT} = 128");
            violations.add(
                Violation::new(&format!("{PER_LEVEL}.{level}"), given)
                    .allowed(rule)
                    .example(&example),
            );
        };

        for (level, limit) in &self.max_categories_per_level {
            let number = level
                .parse::<u64>()
                .ok()
                .filter(|number| number.to_string() == *level);
            if !number.is_some_and(|number| (1..=self.hierarchy_depth).contains(&number)) {
                let rule = format!(
                    "a level from 1 to {}, the depth of the hierarchy",
                    self.hierarchy_depth
                );
                refuse(violations, level, limit.to_string(), &rule);
            } else if positive(limit).is_none() {
                refuse(
                    violations,
                    level,
                    limit.to_string(),
                    "a whole number greater than 0",
                );
            }
        }

        if self.max_categories_default.is_none() {
            // Depth is at most 100 once it is valid.
            for level in (1..=self.hierarchy_depth.min(100)).map(|level| level.to_string()) {
                if !self.max_categories_per_level.contains_key(&level) {
                    refuse(
                        violations,
                        &level,
                        "(none)".to_owned(),
                        "a limit, because there is no default for all levels",
                    );
                }
            }
        }
    }

    /// The maximum number of categories on a level, which starts at 1.
    pub fn limit(&self, level: u64) -> u64 {
        let own = self
            .max_categories_per_level
            .get(&level.to_string())
            .and_then(positive);
        own.or(self.max_categories_default).unwrap_or(1)
    }
}

/// Parses a limit, which is a string if it comes from the environment.
fn positive(value: &Value) -> Option<u64> {
    let number = value
        .as_u64()
        .or_else(|| value.as_str()?.trim().parse().ok());
    number.filter(|number| *number > 0)
}
