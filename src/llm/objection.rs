//! Interprets why a provider rejects the form of a request: a parameter, the size of a closed
//! choice, or the output mode.

use super::profile::Parameter;
use super::provider::Mode;

/// What to omit or change so that the provider accepts the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Objection {
    Parameter(Parameter),
    /// The closed choice or the limits in the schema are too large for the provider's grammar.
    Schema,
    /// The output mode.
    Mode,
}

/// Interprets a rejection (400 or 422); `None` if it has another reason.
pub fn objection(message: &str, mode: Mode) -> Option<Objection> {
    let said = message.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| said.contains(word));
    if says(&[
        "context length",
        "context_length",
        "maximum context",
        "too long",
        "api key",
        "api_key",
        "credit",
        "billing",
        "content policy",
        "content_policy",
        "safety",
    ]) {
        return None;
    }

    if says(&["does not exist", "not found"]) && said.contains("model") {
        return None;
    }

    let parameters = [
        ("max_completion_tokens", Parameter::MaxCompletionTokens),
        ("max_tokens", Parameter::MaxTokens),
        ("temperature", Parameter::Temperature),
        ("seed", Parameter::Seed),
        ("stream_options", Parameter::StreamOptions),
    ];

    let minds = says(&[
        "unsupported",
        "not support",
        "does not",
        "unknown",
        "unrecognized",
        "unexpected",
        "not permitted",
        "extra",
        "deprecated",
        "only the default",
        "invalid",
        "not allowed",
        "use '",
    ]);

    if minds {
        // OpenAI mentions the new parameter when it rejects the old one: the first one named is
        // meant.
        let named = parameters
            .iter()
            .filter_map(|(name, parameter)| Some((said.find(name)?, *parameter)));
        if let Some((_, parameter)) = named.min_by_key(|(place, _)| *place) {
            return Some(Objection::Parameter(parameter));
        }
    }

    if matches!(mode, Mode::Prompted | Mode::Text) {
        return None;
    }

    if says(&[
        "too many states",
        "grammar is too large",
        "enum",
        "too complex",
        "maxitems",
        "maxlength",
        "minitems",
    ]) {
        return Some(Objection::Schema);
    }

    // A rejection without a reason ("invalid argument", an empty body) is most likely about the
    // form as well.
    let about_form = [
        "schema",
        "format",
        "tool",
        "grammar",
        "json",
        "structured",
        "output",
        "unsupported",
        "not support",
        "invalid argument",
    ];

    (said.trim().is_empty() || says(&about_form)).then_some(Objection::Mode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interprets_rejections_of_many_providers() {
        use Objection::{Mode as Form, Parameter as P, Schema};

        for (message, wanted) in [
            (
                "Unsupported value: 'temperature' does not support 0 with this model.",
                Some(P(Parameter::Temperature)),
            ),
            (
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
                Some(P(Parameter::MaxTokens)),
            ),
            (
                "Unrecognized request argument supplied: max_completion_tokens",
                Some(P(Parameter::MaxCompletionTokens)),
            ),
            ("property 'seed' is unsupported", Some(P(Parameter::Seed))),
            (
                "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.",
                Some(Form),
            ),
            (
                "Thinking may not be enabled when tool_choice forces tool use.",
                Some(Form),
            ),
            ("The compiled grammar is too large", Some(Schema)),
            (
                "The specified schema produces a constraint that has too many states for serving.",
                Some(Schema),
            ),
            ("Request contains an invalid argument.", Some(Form)),
            ("", Some(Form)),
            ("Bad request", None),
            ("This model's maximum context length is 8192 tokens", None),
            ("Your credit balance is too low", None),
            ("The model `gpt-9` does not exist", None),
        ] {
            assert_eq!(objection(message, Mode::Native), wanted, "{message}");
        }

        assert_eq!(
            objection("Request contains an invalid argument.", Mode::Prompted),
            None
        );
    }
}
