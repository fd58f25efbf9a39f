//! Configuration errors with everything needed to fix them: key, value, rule, example.

use std::collections::BTreeMap;
use std::fmt;

/// A setting that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub key: String,
    pub given: String,
    pub allowed: String,
    pub example: String,
}

impl Violation {
    /// Starts with the key and the given value; the caller must mask secrets.
    pub fn new(key: &str, given: impl Into<String>) -> Self {
        Self {
            key: key.to_owned(),
            given: given.into(),
            allowed: String::new(),
            example: String::new(),
        }
    }

    #[must_use]
    pub fn allowed(mut self, rule: &str) -> Self {
        rule.clone_into(&mut self.allowed);
        self
    }

    #[must_use]
    pub fn example(mut self, example: &str) -> Self {
        example.clone_into(&mut self.example);
        self
    }
}

/// The violations found so far.
#[derive(Debug, Default)]
pub struct Violations {
    found: Vec<Violation>,
    /// Numbers that do not fit into their type, by key; they were replaced by a limit of the type.
    out_of_range: BTreeMap<String, String>,
}

impl Violations {
    pub fn add(&mut self, mut violation: Violation) {
        if let Some(given) = self.out_of_range.remove(&violation.key) {
            violation.given = given;
        }
        self.found.push(violation);
    }

    /// Remembers a number that does not fit into its type, for the check of the setting's range.
    pub fn note_out_of_range(&mut self, key: &str, given: &str) {
        self.out_of_range.insert(key.to_owned(), given.to_owned());
    }

    /// Whether there already is a violation for this key or a key below it.
    #[must_use]
    pub fn concern(&self, key: &str) -> bool {
        self.found
            .iter()
            .any(|violation| violation.key.starts_with(key))
    }

    /// Reports a number outside its range.
    pub fn check_range(
        &mut self,
        key: &str,
        value: u64,
        range: std::ops::RangeInclusive<u64>,
        default: u64,
    ) {
        if !range.contains(&value) {
            let name = key.rsplit('.').next().unwrap_or(key);
            self.add(
                Violation::new(key, value.to_string())
                    .allowed(&format!(
                        "a whole number from {} to {}",
                        range.start(),
                        range.end()
                    ))
                    .example(&format!("{name} = {default}")),
            );
        }
    }

    pub fn into_result(self) -> Result<(), ConfigurationError> {
        let mut violations = self.found;
        // The range of a setting without a check of its own is that of its type.
        for (key, given) in self.out_of_range {
            let rule = format!("a whole number from 0 to {}", i64::MAX);
            violations.push(Violation::new(&key, given).allowed(&rule));
        }

        // In a fixed order, because the environment has none.
        violations.sort_by(|one, other| one.key.cmp(&other.key));
        if violations.is_empty() {
            Ok(())
        } else {
            Err(ConfigurationError { violations })
        }
    }
}

/// The settings cannot be used; exit code 2.
#[derive(Debug, Clone, thiserror::Error)]
pub struct ConfigurationError {
    pub violations: Vec<Violation>,
}

impl fmt::Display for ConfigurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.violations.len();
        let noun = if count == 1 {
            "setting needs"
        } else {
            "settings need"
        };

        write!(f, "ConfigurationError: {count} {noun} a correction")?;
        for violation in &self.violations {
            write!(f, "\n\n  {} = {}", violation.key, violation.given)?;
            write!(f, "\n    allowed: {}", violation.allowed)?;
            if !violation.example.is_empty() {
                write!(f, "\n    example: {}", violation.example)?;
            }
        }

        Ok(())
    }
}
