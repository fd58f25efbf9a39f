//! The OpenAPI document: what each handler declares, plus what applies to all of them.
//!
//! Generated as 3.1; `to_json` also writes 3.0 for generators that do not support 3.1.

mod downlevel;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use axum::http::Method;
use serde_json::{Map, Value, json};
use utoipa::openapi::path::{Operation, ParameterBuilder, ParameterIn};
use utoipa::openapi::response::Response;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Ref, RefOr, Required};
use utoipa::{OpenApi, ToResponse};

use super::error::{Problem, ProblemField};
use super::roles;
use crate::base::problems;

/// Which version of the specification to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    V3_0,
    V3_1,
}

/// Any error: a problem document that says what happened and what to do.
#[derive(ToResponse)]
#[response(
    description = "What went wrong and what to do about it.",
    content_type = "application/problem+json"
)]
#[expect(dead_code, reason = "only its description is used")]
pub struct ProblemResponse(Problem);

#[derive(OpenApi)]
#[openapi(
    info(
        title = "memoir",
        description = "A memory service for LLM applications. memoir stores text verbatim, files it under a \
             category hierarchy that a model builds, answers queries with citations, and stores a \
             receipt of every query. It also stores conversations, selects memories for prompts, \
             and composes prompts.\n\nEvery request may select a space (`X-Memoir-Space`, \
             default `default`); spaces share no data. Errors are problem documents (RFC 9457) \
             with a machine-readable `code` and a `remediation`.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    servers((url = "/", description = "This server")),
    tags(
        (name = "system", description = "The installation: health, settings, metrics and this document."),
        (name = "admin", description = "Administration of API keys and spaces."),
        (name = "tokens", description = "Counting tokens."),
        (name = "models", description = "The available models and their usage."),
        (name = "search", description = "Search without a walk: by keyword, by meaning, or both."),
        (name = "memory", description = "Memories for a prompt, and the policy that selects them."),
        (name = "queries", description = "Queries find chunks, fit them to a token budget, answer from them with citations, and store a receipt."),
        (name = "conversations", description = "Threads and their messages, facts about end users, the vocabulary, and contexts for prompts."),
        (name = "prompts", description = "The prompt workbench: the workspace, composed prompts, and runs."),
        (name = "jobs", description = "Background work: every 202 response returns a job."),
        (name = "sources", description = "Sources, their versions and their contextual helpers."),
        (name = "documents", description = "Retrieval of one version by metadata and time, and the manifest of all files."),
        (name = "ingestions", description = "Ingestion of texts."),
        (name = "categories", description = "The hierarchy, and the chunks filed under it."),
    ),
    components(schemas(Problem, ProblemField), responses(ProblemResponse))
)]
struct Base;

/// The parts of the document other than the operations.
pub fn base() -> utoipa::openapi::OpenApi {
    let mut document = Base::openapi();
    let components = document.components.get_or_insert_default();
    let scheme = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some(
            "A key from auth.keys, or one created with POST /v1/admin/keys.",
        ))
        .build();

    components.add_security_scheme("api_key", SecurityScheme::Http(scheme));
    // Without any key the service is open, hence the empty alternative.
    document.security = Some(vec![
        SecurityRequirement::new("api_key", [""; 0]),
        SecurityRequirement::default(),
    ]);

    document
}

/// The whole document.
pub fn document() -> utoipa::openapi::OpenApi {
    let mut document = super::api().into_openapi();
    for (path, item) in &mut document.paths.paths {
        let operations = [
            (Method::GET, &mut item.get),
            (Method::POST, &mut item.post),
            (Method::PUT, &mut item.put),
            (Method::PATCH, &mut item.patch),
            (Method::DELETE, &mut item.delete),
        ];
        for (method, operation) in operations {
            if let Some(operation) = operation {
                add_common(path, operation);
                add_role(&method, path, operation);
            }
        }
    }

    document
}

/// The document as text, with a trailing newline.
pub fn to_json(version: Version) -> String {
    let document = document();
    let mut json = serde_json::to_value(&document).unwrap_or_default();
    tidy(&mut json);
    if version == Version::V3_0 {
        downlevel::to_3_0(&mut json);
    }

    let mut text = serde_json::to_string_pretty(&json).unwrap_or_default();
    text.push('\n');
    text
}

/// Adds what the derive macros cannot express: a parameter or a body may be absent but is never null,
/// and a response has all its fields.
fn tidy(document: &mut Value) {
    let operations = document["paths"]
        .as_object_mut()
        .into_iter()
        .flat_map(|paths| paths.values_mut());

    for operation in operations
        .filter_map(Value::as_object_mut)
        .flat_map(|item| item.values_mut())
    {
        for parameter in operation
            .get_mut("parameters")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            let kind = &mut parameter["schema"]["type"];
            if let Some([Value::String(only), _]) = kind.as_array().map(Vec::as_slice) {
                *kind = only.clone().into();
            }

            let known = [
                ("Idempotency-Key", "^[!-~]{1,255}$"),
                ("Last-Event-ID", "^[0-9]{1,18}$"),
            ];

            if let Some((_, pattern)) = known.iter().find(|(name, _)| parameter["name"] == *name) {
                parameter["schema"]["pattern"] = (*pattern).into();
            }
        }

        let body = operation.pointer_mut("/requestBody/content/application~1json/schema");
        if let Some(schema) = body
            && let Some(named) = schema.pointer("/oneOf/0").cloned()
        {
            *schema = named;
        }
    }

    let Some(schemas) = document["components"]["schemas"].as_object_mut() else {
        return;
    };
    for fields in schemas
        .values_mut()
        .filter_map(|schema| schema.get_mut("properties")?.as_object_mut())
    {
        // A field that may be absent but is never null must not have null as its default.
        for field in fields.values_mut().filter_map(Value::as_object_mut) {
            if field.get("type").is_some_and(Value::is_string)
                && field.get("default").is_some_and(Value::is_null)
            {
                field.remove("default");
            }
        }
    }

    if let Some(problem) = schemas.get_mut("Problem") {
        list_codes(problem);
    }

    let known = schemas.clone();
    for (_, schema) in schemas
        .iter_mut()
        .filter(|(name, _)| name.ends_with("Response"))
    {
        flatten(schema, &known);
        if let Some(fields) = schema.get("properties").and_then(Value::as_object) {
            schema["required"] = fields.keys().cloned().collect();
        }
    }
}

/// Lists every kind of problem in the schema of problem documents, with its remedy.
fn list_codes(problem: &mut Value) {
    let codes: Vec<&str> = problems::ALL.iter().map(|kind| kind.code).collect();
    problem["properties"]["code"]["enum"] = codes.into();

    let mut description = problem["description"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    description.push_str("\n\n| code | status | title | remedy |\n| --- | --- | --- | --- |\n");
    for kind in problems::ALL {
        let (code, status, title, remedy) = (kind.code, kind.status, kind.title, kind.remedy);
        let _ = writeln!(description, "| `{code}` | {status} | {title} | {remedy} |");
    }
    problem["description"] = description.into();
}

/// Inlines the fields of a flattened schema, because generators disagree about `allOf`.
fn flatten(schema: &mut Value, known: &Map<String, Value>) {
    let Some(parts) = schema.get("allOf").and_then(Value::as_array).cloned() else {
        return;
    };
    let mut fields = Map::new();
    for part in &parts {
        let name = part["$ref"]
            .as_str()
            .and_then(|reference| reference.rsplit('/').next());
        let part = name.and_then(|name| known.get(name)).unwrap_or(part);
        fields.extend(part["properties"].as_object().cloned().unwrap_or_default());
    }

    *schema = json!({"type": "object", "description": schema["description"], "properties": fields});
}

/// Documents the role that a key must have, and that it may be rate-limited.
fn add_role(method: &Method, path: &str, operation: &mut Operation) {
    if !path.starts_with("/v1/") && path != "/metrics" {
        return;
    }

    let role = roles::needed(method, path).into_str();
    let said = operation.description.take().unwrap_or_default();
    let or_higher = if role == "admin" { "" } else { " or higher" };
    let needs =
        format!("Requires a key with the role `{role}`{or_higher} if authentication is enabled.");
    operation.description = Some(format!("{said}\n\n{needs}"));
    let problem: RefOr<Response> = RefOr::Ref(Ref::from_response_name("ProblemResponse"));

    operation
        .responses
        .responses
        .entry("429".to_owned())
        .or_insert(problem);
}

/// Adds the responses that every operation may return, and the header that the whole API accepts.
fn add_common(path: &str, operation: &mut Operation) {
    let mut answers: BTreeMap<&str, &str> = BTreeMap::from([("500", ""), ("503", "")]);
    if path.starts_with("/v1/") || path == "/metrics" {
        answers.extend([("401", ""), ("403", ""), ("422", "")]);
    }

    if path.starts_with("/v1/") {
        let space = ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some("^[a-z0-9_-]{1,64}$"))
            .build();

        let parameter = ParameterBuilder::new()
            .name("X-Memoir-Space")
            .parameter_in(ParameterIn::Header)
            .required(Required::False)
            .description(Some(
                "The space to work in; if omitted, the key's own space or `default`.",
            ))
            .schema(Some(space));

        operation
            .parameters
            .get_or_insert_default()
            .push(RefOr::T(parameter.build()));
    }

    if path.starts_with("/v1/") && operation.request_body.is_some() {
        let redacted = ObjectBuilder::new()
            .schema_type(Type::String)
            .enum_values(Some(["secrets"]))
            .build();

        let parameter = ParameterBuilder::new()
            .name("X-Memoir-Redact")
            .parameter_in(ParameterIn::Header)
            .required(Required::False)
            .description(Some(
                "`secrets` redacts keys and tokens (`api_key`, `bearer_token`, `private_key`) in the \
                 memories, messages, titles, sources and helpers that the request stores, in \
                 addition to what the policy of the space redacts.",
            ))
            .schema(Some(redacted));

        operation
            .parameters
            .get_or_insert_default()
            .push(RefOr::T(parameter.build()));
    }

    if path.contains('{') {
        answers.extend([("400", ""), ("404", "")]);
    }

    let has = |name: &str| {
        let mut parameters = operation.parameters.iter().flatten();
        parameters.any(|one| matches!(one, RefOr::T(one) if one.name == name))
    };
    if has("cursor") {
        answers.insert("400", "");
    }

    // The text of the first response was deleted meanwhile.
    if has("Idempotency-Key") {
        answers.insert("410", "");
    }

    if operation.request_body.is_some() {
        answers.extend([("400", ""), ("408", ""), ("413", ""), ("415", "")]);
    }

    for status in answers.keys() {
        let problem: RefOr<Response> = RefOr::Ref(Ref::from_response_name("ProblemResponse"));
        operation
            .responses
            .responses
            .entry((*status).to_owned())
            .or_insert(problem);
    }
}
