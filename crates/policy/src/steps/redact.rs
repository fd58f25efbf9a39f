//! Replaces what the patterns match.

use super::super::candidate::Entry;
use super::super::explain::{Effect, Reason, Step};
use super::super::patterns::CompiledPatterns;
use super::super::time_limit::TimeLimit;

pub const NAME: &str = "redaction";

pub fn apply(
    entries: &mut Vec<Entry>,
    patterns: &CompiledPatterns,
    replacement: &str,
    limit: TimeLimit,
) -> Step {
    let before = entries.len();
    let mut effects = Vec::new();

    entries.retain_mut(|entry| {
        let redacted = match patterns.redact(entry.content(), replacement, limit) {
            Ok(None) => return true,
            Ok(Some(redacted)) => redacted,
            Err(slow) => {
                let pattern = slow.pattern;
                let reason = Reason::RedactionTooSlow { pattern };
                effects.push(Effect::new(entry.id(), reason));
                return false;
            }
        };

        entry.candidate.content = redacted.text;
        entry.was_redacted = true;
        let reason = Reason::Redacted {
            matches: redacted.matches,
            patterns: redacted.patterns,
        };
        effects.push(Effect::new(entry.id(), reason));
        true
    });

    Step {
        name: NAME,
        before,
        after: entries.len(),
        effects,
    }
}
