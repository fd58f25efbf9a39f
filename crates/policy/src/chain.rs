//! Runs the whole chain over the candidates of one search.

use memoir_text::tokens::quarter_estimate;

use super::candidate::{Candidate, Entry, by_score};
use super::explain::Step;
use super::patterns::{CompiledPatterns, TooSlow};
use super::settings::{RedactAt, Settings, SettingsFault};
use super::steps::{budget, clip, deduplicate, interleave, redact, threshold};
use super::time_limit::TimeLimit;

/// Settings that were checked, with their patterns compiled once.
#[derive(Debug, Clone)]
pub struct Policy {
    settings: Settings,
    patterns: CompiledPatterns,
}

impl Policy {
    pub fn new(settings: Settings) -> Result<Self, SettingsFault> {
        let patterns = settings.check()?;
        Ok(Self { settings, patterns })
    }

    /// This policy with the values of a request; the compiled patterns are kept.
    #[must_use]
    pub fn with_settings(&self, settings: Settings) -> Self {
        Self {
            settings,
            patterns: self.patterns.clone(),
        }
    }

    /// Whether texts are redacted before they are stored.
    pub fn redacts_before_storing(&self) -> bool {
        self.settings.retrieval.enable_redaction && self.settings.redaction.at == RedactAt::Write
    }

    /// The redacted text; `None` if nothing matches.
    pub fn redact(&self, text: &str, limit: TimeLimit) -> Result<Option<String>, TooSlow> {
        let replacement = &self.settings.redaction.replacement;
        let redacted = self.patterns.redact(text, replacement, limit)?;
        Ok(redacted.map(|redacted| redacted.text))
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub fn patterns(&self) -> &CompiledPatterns {
        &self.patterns
    }
}

/// What the chain made of the candidates.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    pub entries: Vec<Entry>,
    /// Candidates before any step.
    pub total_results: usize,
    /// A quarter of the characters of each entry, rounded up and added.
    pub total_tokens: usize,
    /// Every step that ran, in order.
    pub steps: Vec<Step>,
}

impl Outcome {
    /// The names of the steps that ran, as the metadata lists them.
    pub fn applied_filters(&self) -> Vec<&'static str> {
        self.steps.iter().map(|step| step.name).collect()
    }

    /// How many entries deduplication saw.
    pub fn deduplicated_from(&self) -> usize {
        let step = self
            .steps
            .iter()
            .find(|step| step.name == deduplicate::NAME);
        step.map_or(0, |step| step.before)
    }

    /// How many of the entries that deduplication saw repeated another one.
    pub fn duplicates(&self) -> usize {
        self.steps
            .iter()
            .filter(|step| step.name == deduplicate::NAME)
            .flat_map(|step| &step.effects)
            .filter(|effect| deduplicate::is_duplicate(effect))
            .count()
    }
}

/// From candidates to the entries of a payload. The query decides which sentences match; it may be
/// empty. The limit is for redaction; the other steps take linear time.
pub fn run(policy: &Policy, candidates: Vec<Candidate>, query: &str, limit: TimeLimit) -> Outcome {
    let settings = &policy.settings;
    let retrieval = &settings.retrieval;
    let total_results = candidates.len();

    let mut entries: Vec<Entry> = candidates.into_iter().map(Entry::new).collect();
    entries.sort_by(by_score);

    let mut steps = vec![
        threshold::apply(&mut entries, retrieval.min_score),
        deduplicate::apply(&mut entries, retrieval.top_k),
        interleave::apply(&mut entries, settings.interleaving, retrieval.top_k),
    ];
    if retrieval.enable_redaction {
        let replacement = &settings.redaction.replacement;
        let patterns = &policy.patterns;
        steps.push(redact::apply(&mut entries, patterns, replacement, limit));
    }
    let clipping = (retrieval.clipping, retrieval.clip_sentences);
    steps.push(clip::apply(&mut entries, clipping, query));
    steps.push(budget::apply(&mut entries, retrieval.max_tokens));

    Outcome {
        total_tokens: entries
            .iter()
            .map(|entry| quarter_estimate(entry.content()))
            .sum(),
        total_results,
        entries,
        steps,
    }
}
