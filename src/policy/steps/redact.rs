//! Replaces what the patterns match.

use super::super::candidate::Entry;
use super::super::explain::{Effect, Reason, Step};
use super::super::patterns::CompiledPatterns;

pub const NAME: &str = "redaction";

pub fn apply(entries: &mut [Entry], patterns: &CompiledPatterns, replacement: &str) -> Step {
    let before = entries.len();
    let mut effects = Vec::new();

    for entry in entries.iter_mut() {
        let Some(redacted) = patterns.redact(entry.content(), replacement) else {
            continue;
        };
        entry.candidate.content = redacted.text;
        entry.was_redacted = true;
        let reason = Reason::Redacted {
            matches: redacted.matches,
            patterns: redacted.patterns,
        };
        effects.push(Effect::new(entry.id(), reason));
    }

    Step {
        name: NAME,
        before,
        after: before,
        effects,
    }
}
