//! `[taxonomy]`: the depth of the hierarchy, and the number of categories allowed.

use serde::Deserialize;
use serde_json::{Map, Value};
use strum::IntoStaticStr;

use super::{Violation, Violations, layers};

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Taxonomy {
    pub hierarchy_depth: u64,
    max_children: u64,
    max_categories_default: Option<u64>,
    max_categories_per_level: Map<String, Value>,
    limit_scope: ScopeSetting,
    pub second_look: bool,
    pub leaf_target: u64,
    pub children_target: u64,
    pub auto_care: AutoCare,
}

/// When memoir balances the hierarchy on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AutoCare {
    /// After texts that the embedded model has filed.
    Auto,
    Always,
    Never,
}

/// What the limits in force count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum LimitScope {
    /// All categories of a level.
    Level,
    /// The children of one parent.
    Parent,
}

/// The scope as it is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ScopeSetting {
    /// Decided by [`settle_scope`], before a section is read.
    Auto,
    Level,
    Parent,
}

const SECTION: &str = "taxonomy";
const SCOPE: &str = "limit_scope";
const CHILDREN: &str = "taxonomy.max_children";
const DEFAULT: &str = "taxonomy.max_categories_default";
const PER_LEVEL: &str = "taxonomy.max_categories_per_level";
/// The limits of whole levels. Whoever sets one of them wants levels to be limited.
const LEVEL_LIMITS: [&str; 2] = ["max_categories_default", "max_categories_per_level"];

/// Whether a file or the environment limits whole levels.
pub fn limits_levels(layer: &Map<String, Value>) -> bool {
    let section = layer.get(SECTION);
    LEVEL_LIMITS
        .iter()
        .any(|key| section.is_some_and(|section| section.get(key).is_some()))
}

/// Replaces `auto` with the scope in force, so that everything which shows settings shows it.
pub fn settle_scope(tree: &mut Map<String, Value>, limits_levels: bool) {
    let scope = tree
        .get_mut(SECTION)
        .and_then(|section| section.get_mut(SCOPE));
    if let Some(scope) = scope.filter(|scope| *scope == "auto") {
        let in_force = if limits_levels {
            LimitScope::Level
        } else {
            LimitScope::Parent
        };
        *scope = in_force.into_str().into();
    }
}

impl Taxonomy {
    pub fn validate(&self, violations: &mut Violations) {
        violations.check_range("taxonomy.hierarchy_depth", self.hierarchy_depth, 1..=100, 3);
        violations.check_range("taxonomy.leaf_target", self.leaf_target, 4..=1000, 48);
        violations.check_range(
            "taxonomy.children_target",
            self.children_target,
            4..=1000,
            60,
        );
        self.validate_children(violations);
        self.validate_levels(violations);
    }

    fn validate_children(&self, violations: &mut Violations) {
        if self.max_children == 0 {
            violations.add(
                Violation::new(CHILDREN, "0")
                    .allowed("a whole number greater than 0")
                    .example("max_children = 200"),
            );
        }

        if self.scope() == LimitScope::Level {
            return;
        }

        let usual = layers::defaults()[SECTION]["max_categories_default"].as_u64();
        let refused = [
            (
                DEFAULT,
                self.max_categories_default
                    .filter(|own| Some(*own) != usual && *own > 0)
                    .map(|own| own.to_string()),
            ),
            (
                PER_LEVEL,
                (!self.max_categories_per_level.is_empty())
                    .then(|| Value::from(self.max_categories_per_level.clone()).to_string()),
            ),
        ];
        for (key, given) in refused {
            if let Some(given) = given {
                violations.add(
                    Violation::new(key, given)
                        .allowed(
                            "no limit of a level while limit_scope is \"parent\": max_children limits \
                             the children of each parent",
                        )
                        .example("max_children = 200, or limit_scope = \"level\""),
                );
            }
        }
    }

    fn validate_levels(&self, violations: &mut Violations) {
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

        if self.max_categories_default.is_none() && self.scope() == LimitScope::Level {
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

    /// What the limits count.
    pub fn scope(&self) -> LimitScope {
        match self.limit_scope {
            ScopeSetting::Level => LimitScope::Level,
            ScopeSetting::Parent | ScopeSetting::Auto => LimitScope::Parent,
        }
    }

    /// The maximum number of categories on a level, which starts at 1, or of a parent's children
    /// on it.
    pub fn limit(&self, level: u64) -> u64 {
        if self.scope() == LimitScope::Parent {
            return self.max_children.max(1);
        }

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
