//! Whether another preset of the vocabulary fits imported messages better than the built-in one, as
//! the embedded model understands them. It runs here, so that no classification has to be awaited.

use memoir_embedded_model::{EmbeddedModel, Vocabulary};
use memoir_text::presets::{self, Preset, Term};

/// Messages that are looked at, spread over all.
const MAX_READ: usize = 300;
/// Fewer messages say nothing about a vocabulary.
const MIN_READ: usize = 5;

/// A preset that fits the messages better.
#[derive(Debug, PartialEq, Eq)]
pub struct Better {
    pub preset: &'static str,
    /// How many of the messages that were looked at the built-in one fits.
    pub fitting: usize,
    pub read: usize,
}

/// The preset that fits most of the messages, if the built-in one fits fewer than a third of them and
/// not half as many.
pub fn better_than_built_in(messages: &[&str]) -> Option<Better> {
    let step = messages.len().div_ceil(MAX_READ).max(1);
    let read: Vec<&str> = messages.iter().copied().step_by(step).collect();
    let built_in = presets::built_in();
    let fitting = fitting(&read, built_in);
    if read.len() < MIN_READ || fitting * 3 >= read.len() {
        return None;
    }

    let others = presets::all().iter().filter(|preset| *preset != built_in);
    let others = others.map(|preset| (self::fitting(&read, preset), preset));
    let (count, preset) = others.reduce(|best, next| if next.0 > best.0 { next } else { best })?;
    (count * 3 >= read.len() && count > fitting * 2).then_some(Better {
        preset: preset.name,
        fitting,
        read: read.len(),
    })
}

/// How many messages have a topic of the preset.
fn fitting(messages: &[&str], preset: &Preset) -> usize {
    let list =
        |terms: &[Term]| -> Vec<String> { terms.iter().map(|term| term.name.to_owned()).collect() };
    let topics = list(&preset.topics);
    let terms = Vocabulary {
        topics: &topics,
        categories: &[],
        message_types: &[],
        entity_types: &[],
    };
    let fits = |message: &&&str| EmbeddedModel::fits(message, &terms);
    messages.iter().filter(fits).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyday_messages_suggest_the_personal_preset_and_those_of_customers_none() {
        let everyday = [
            "My daughter starts school in September.",
            "I baked a loaf of rye bread on Sunday.",
            "The dentist says I need a crown.",
            "Our cat had four kittens.",
            "I ran ten kilometres in the forest.",
            "My grandmother is in hospital.",
            "We went hiking in Norway last summer.",
        ];
        let found = better_than_built_in(&everyday).map(|better| better.preset);
        assert_eq!(found, Some("personal"));

        let customers = [
            "Where is my refund?",
            "Please cancel my subscription.",
            "The shipping took three weeks.",
            "I was charged twice, please check the payment.",
            "How do I return the lamp?",
            "I cannot access my account.",
        ];
        assert_eq!(better_than_built_in(&customers), None);
        assert_eq!(
            better_than_built_in(&everyday[..3]),
            None,
            "too few to tell"
        );
        assert_eq!(better_than_built_in(&[]), None);
    }
}
