//! Every call of the API as a tool, made from its OpenAPI document, for those who want more than the few that an
//! agent needs.

use std::collections::BTreeMap;

use http::Method;
use rmcp::model::{CallToolResult, JsonObject, Tool};
use serde_json::{Map, Value, json};

use super::super::api::{ApiRequest, query, segment};
use super::super::bounded::{Output, cut, fitted};
use super::super::call::{Call, ToolError};
use super::{DELETES, READS, WRITES, annotations, object};

/// Calls that other tools make better, that never end, that are files of a page, or that open files of the server.
const LEFT_OUT: &[&str] = &[
    "create_ingestion",
    "create_ingestion_batch",
    "get_docs",
    "get_live",
    "get_metrics",
    "get_openapi",
    "get_page",
    "get_ready",
    "watch_job",
];
/// The parameter that limits a call to an end user.
const USER: &str = "user_id";
const SHORTENED: &str = "\n[… shortened: ask for less, or for the next page]";

/// All tools made from the document, by name.
pub struct EveryCall(BTreeMap<String, ApiTool>);

/// A call of the API.
pub struct ApiTool {
    tool: Tool,
    method: Method,
    path: String,
    in_path: Vec<String>,
    in_query: Vec<String>,
    has_body: bool,
}

impl EveryCall {
    /// The calls of a document in OpenAPI 3.1; without those that delete, if that is not allowed.
    pub fn of(document: &Value, allow_forget: bool) -> Self {
        let schemas = &document["components"]["schemas"];
        let paths = document["paths"].as_object().into_iter().flatten();
        let operations = paths.flat_map(|(path, item)| {
            let item = item.as_object().into_iter().flatten();
            item.filter_map(move |(method, operation)| {
                let method = Method::from_bytes(method.to_ascii_uppercase().as_bytes()).ok()?;
                ApiTool::of(method, path, operation, schemas)
            })
        });
        let allowed = operations
            .filter(|one| allow_forget || one.method != Method::DELETE)
            .filter(|one| !LEFT_OUT.contains(&&*one.tool.name));
        Self(
            allowed
                .map(|one| (one.tool.name.to_string(), one))
                .collect(),
        )
    }

    /// The tools; for a single user only those whose call is limited to a user.
    pub fn tools(&self, for_a_user: bool) -> impl Iterator<Item = &Tool> {
        let offered = self
            .0
            .values()
            .filter(move |one| !for_a_user || one.takes_user());
        offered.map(|one| &one.tool)
    }

    pub fn find(&self, name: &str, for_a_user: bool) -> Option<&ApiTool> {
        self.0
            .get(name)
            .filter(|one| !for_a_user || one.takes_user())
    }
}

impl ApiTool {
    fn of(method: Method, path: &str, operation: &Value, schemas: &Value) -> Option<Self> {
        let name = operation["operationId"].as_str()?.to_owned();
        let text = |field: &str| operation[field].as_str().unwrap_or_default();
        let (mut in_path, mut in_query) = (Vec::new(), Vec::new());
        let (mut properties, mut required) = (Map::new(), Vec::new());
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let field = parameter["name"].as_str()?.to_owned();
            match parameter["in"].as_str()? {
                "path" => {
                    required.push(Value::from(field.as_str()));
                    in_path.push(field.clone());
                }
                "query" => in_query.push(field.clone()),
                _ => continue,
            }
            let mut schema = object(&parameter["schema"]);
            schema.insert("description".to_owned(), parameter["description"].clone());
            properties.insert(field, schema.into());
        }

        let body = &operation["requestBody"]["content"]["application/json"]["schema"];
        if !body.is_null() {
            properties.insert("body".to_owned(), body.clone());
            required.push("body".into());
        }

        let mut schema = json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false,
        });
        if let Some(definitions) = definitions(&schema, schemas) {
            schema["$defs"] = definitions;
        }
        point_to_definitions(&mut schema);

        let effect = match (&method, text("description").contains("role `read`")) {
            (&Method::DELETE, _) => DELETES,
            (_, true) => READS,
            _ => WRITES,
        };
        let title = text("summary").to_owned();
        let description = format!("{title}. {}", text("description"));
        let tool = Tool::new(name, description, object(&schema)).with_title(title.clone());
        Some(Self {
            tool: tool.with_annotations(annotations(&title, effect)),
            has_body: !body.is_null(),
            method,
            path: path.to_owned(),
            in_path,
            in_query,
        })
    }

    pub async fn run(
        &self,
        call: &Call<'_>,
        mut given: JsonObject,
    ) -> Result<CallToolResult, ToolError> {
        let request = self.request(call, &mut given)?;
        if let Some(unknown) = given.keys().next() {
            let rule = format!("{}: is no argument of this tool", cut(unknown, 100, "…"));
            return Err(ToolError::Argument(rule));
        }

        let reply = call
            .send(request)
            .await?
            .accepted()
            .map_err(ToolError::from)?;
        Ok(fitted(call.max_result_tokens, |chars| Output {
            text: cut(&reply, chars, SHORTENED),
            data: Value::Null,
        }))
    }

    /// The request; what it used is taken out of the arguments.
    fn request(&self, call: &Call<'_>, given: &mut JsonObject) -> Result<ApiRequest, ToolError> {
        let mut path = self.path.clone();
        for name in &self.in_path {
            let value = plain(given.shift_remove(name)).filter(|value| !value.is_empty());
            let value = value.ok_or_else(|| ToolError::Argument(format!("{name}: is missing")))?;
            path = path.replace(&format!("{{{name}}}"), &segment(&value));
        }

        let mut parameters: Vec<(&str, Option<String>)> = Vec::new();
        for name in &self.in_query {
            parameters.push((name, plain(given.shift_remove(name))));
        }
        let body = given.shift_remove("body");
        let mut body = self.has_body.then(|| body.unwrap_or_else(|| json!({})));
        if let Some(user) = &call.user {
            for (name, value) in &mut parameters {
                if *name == USER {
                    *value = Some(user.clone());
                }
            }
            if self.has_user_in_body()
                && let Some(body) = body.as_mut().and_then(Value::as_object_mut)
            {
                body.insert(USER.to_owned(), user.as_str().into());
            }
        }

        let parameters: Vec<(&str, Option<&str>)> = parameters
            .iter()
            .map(|(name, value)| (*name, value.as_deref()))
            .collect();
        Ok(ApiRequest {
            method: self.method.clone(),
            path: format!("{path}{}", query(&parameters)),
            body,
        })
    }

    /// Whether the call sees and changes only what belongs to the user that it names.
    fn takes_user(&self) -> bool {
        self.in_query.iter().any(|name| name == USER) || self.has_user_in_body()
    }

    fn has_user_in_body(&self) -> bool {
        let schema = &self.tool.input_schema;
        let name = schema["properties"]["body"]["$ref"].as_str();
        let name = name.and_then(|name| name.rsplit('/').next());
        let definitions = schema.get("$defs").zip(name);
        definitions.is_some_and(|(all, name)| !all[name]["properties"][USER].is_null())
    }
}

/// A parameter as it stands in a path.
fn plain(value: Option<Value>) -> Option<String> {
    match value? {
        Value::Null => None,
        Value::String(text) => Some(text),
        other => Some(other.to_string()),
    }
}

const IN_DOCUMENT: &str = "#/components/schemas/";

/// The schemas that a schema refers to, however deep.
fn definitions(schema: &Value, schemas: &Value) -> Option<Value> {
    let mut wanted = Vec::new();
    named(schema, &mut wanted);
    let mut found = BTreeMap::new();
    while let Some(name) = wanted.pop() {
        if !found.contains_key(&name) {
            named(&schemas[&name], &mut wanted);
            found.insert(name.clone(), schemas[&name].clone());
        }
    }

    (!found.is_empty()).then(|| json!(found))
}

fn named(schema: &Value, names: &mut Vec<String>) {
    match schema {
        Value::Object(fields) => {
            let name = fields.get("$ref").and_then(Value::as_str);
            names.extend(
                name.and_then(|name| name.strip_prefix(IN_DOCUMENT))
                    .map(str::to_owned),
            );
            fields.values().for_each(|value| named(value, names));
        }
        Value::Array(items) => items.iter().for_each(|item| named(item, names)),
        _ => {}
    }
}

fn point_to_definitions(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::String(name)) = fields.get_mut("$ref") {
                *name = name.replace(IN_DOCUMENT, "#/$defs/");
            }
            fields.values_mut().for_each(point_to_definitions);
        }
        Value::Array(items) => items.iter_mut().for_each(point_to_definitions),
        _ => {}
    }
}
