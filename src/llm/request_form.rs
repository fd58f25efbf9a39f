//! The form of a request: its instruction, schema and parameters in an output mode, without what the
//! model rejects.

use memoir_text::tokens::TokenCounter;
use serde_json::{Map, Value, json};

use super::profile::{Learnt, Parameter};
use super::provider::{Mode, Parameters};
use super::send::Target;
use super::task::Task;
use super::{Llm, schema};

/// Any number, as long as it never changes.
const SEED: u64 = 7;

impl Llm {
    /// What an output mode may add to the instruction and the message of a task, in each form that
    /// the request can take: a model may reject a mode, write endlessly or be replaced by the
    /// fallback model. Empty if the answer is computed in this process.
    pub fn additions<T: Task>(&self, wished: Option<&str>, task: &T) -> Vec<String> {
        let model = wished.unwrap_or_else(|| self.model_of(T::STAGE));
        let fallback = self.settings().fallback_model.as_str();
        let models = [model, fallback]
            .into_iter()
            .filter(|name| !name.is_empty());
        let targets = models.filter_map(|name| self.target(name).ok());
        targets
            .flat_map(|target| self.additions_of(&target, task))
            .collect()
    }

    fn additions_of<T: Task>(&self, target: &Target, task: &T) -> Vec<String> {
        let profile = &target.profile;
        let mut learnt = profile.learnt(&target.model);
        let mut mode = Some(suited::<T>(profile.mode(&learnt)));
        learnt.bounded |= profile.can_be_bounded();
        let schema = self.schema_for(task, &learnt);

        let instruction = task.instruction();
        let mut additions = Vec::new();
        while let Some(one) = mode.filter(|mode| *mode != Mode::Embedded) {
            let words = system_in(instruction, one, &schema).split_off(instruction.len());
            let members = members(one, T::TOOL.unwrap_or(T::STAGE), T::DESCRIPTION, &schema);
            additions.push(words + &written(members));
            mode = one.lower();
        }

        additions
    }

    /// The schema of a task's answers, with the limits that the model supports.
    pub(super) fn schema_for<T: Task>(&self, task: &T, learnt: &Learnt) -> Value {
        if let Some(mut own) = task.own_schema().filter(|_| !learnt.plain_schema) {
            if learnt.bounded {
                bound(task, &mut own);
            }

            return own;
        }

        let mut schema = self.forms::<T>().schema.clone();
        if !learnt.plain_schema {
            task.narrow(&mut schema);
            if learnt.bounded {
                bound(task, &mut schema);
            }
        }

        schema
    }

    /// The parameters of a request, and their form in the record.
    pub(super) fn parameters(&self, deterministic: bool, learnt: &Learnt) -> (Parameters, Value) {
        let takes = |parameter| !learnt.refused.contains(&parameter);
        let settings = self.settings();
        let wanted = if deterministic {
            0.0
        } else {
            settings.temperature
        };

        let max = takes(Parameter::MaxTokens) || takes(Parameter::MaxCompletionTokens);
        let parameters = Parameters {
            temperature: takes(Parameter::Temperature).then_some(wanted),
            seed: (deterministic && takes(Parameter::Seed)).then_some(SEED),
            max_output_tokens: max.then_some(settings.max_output_tokens),
            new_name_for_max: !takes(Parameter::MaxTokens),
            stream_usage: takes(Parameter::StreamOptions),
        };

        let shown = |sent: Option<Value>| sent.unwrap_or_else(|| "unsupported".into());
        let mut params = json!({
            "temperature": shown(parameters.temperature.map(Value::from)),
            "max_output_tokens": shown(parameters.max_output_tokens.map(Value::from)),
        });

        if deterministic {
            params["seed"] = shown(parameters.seed.map(Value::from));
        }

        (parameters, params)
    }
}

/// The mode for a task: one with its own tool does not use a better one.
pub(super) fn suited<T: Task>(mode: Mode) -> Mode {
    match mode {
        Mode::Embedded => mode,
        _ if T::FREE_TEXT => Mode::Text,
        Mode::Native if T::TOOL.is_some() => Mode::Tool,
        mode => mode,
    }
}

/// The members of a request that demand an answer by the schema, in OpenAI's form. Other protocols
/// send the same in other words.
pub(super) fn members(
    mode: Mode,
    name: &str,
    description: &str,
    schema: &Value,
) -> Map<String, Value> {
    let members = match mode {
        Mode::Native => json!({"response_format": {"type": "json_schema", "json_schema": {
            "name": name, "description": description, "schema": schema, "strict": true,
        }}}),
        Mode::Tool => json!({
            "tools": [{"type": "function", "function": {
                "name": name, "description": description, "parameters": schema,
            }}],
            "tool_choice": {"type": "function", "function": {"name": name}},
        }),
        Mode::Prompted | Mode::Text | Mode::Embedded => Value::Null,
    };

    match members {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// Members as they are counted; nothing if there are none.
pub(super) fn written(members: Map<String, Value>) -> String {
    if members.is_empty() {
        String::new()
    } else {
        Value::Object(members).to_string()
    }
}

pub(super) fn system_in(instruction: &str, mode: Mode, schema: &Value) -> String {
    match mode {
        Mode::Prompted => prompted(instruction, schema),
        _ => instruction.to_owned(),
    }
}

/// The instruction for a model that supports neither schemas nor tools.
fn prompted(system: &str, schema: &Value) -> String {
    let form = schema::form(schema);
    format!(
        "{system}\n\nAnswer with one JSON object of the form {form}, which keeps to this JSON schema: {schema}\n\
         Write the JSON only: no explanation, no Markdown, no code fence, and not the schema itself."
    )
}

/// How the note about a wrong answer begins.
pub(super) const NOT_USED: &str = "The previous answer could not be used";

pub(super) fn repair_note(faults: &[String]) -> String {
    let listed: String = faults
        .iter()
        .fold(String::new(), |text, fault| format!("{text}- {fault}\n"));
    format!("\n\n{NOT_USED}:\n{listed}Answer again, complete and correct.")
}

/// The note with as many errors as fit into this many tokens; empty if not even one fits.
pub(super) fn repair_note_within(faults: &[String], counter: TokenCounter, room: usize) -> String {
    let notes = (1..=faults.len())
        .rev()
        .map(|count| repair_note(&faults[..count]));
    let mut fitting = notes.filter(|note| counter.count(note) <= room);
    fitting.next().unwrap_or_default()
}

/// Limits lists and texts, for models that write endlessly.
fn bound<T: Task>(task: &T, schema: &mut Value) {
    task.bound(schema);
    schema::limit_rest(schema);
}
