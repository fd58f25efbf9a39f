//! The committed OpenAPI documents are up to date and suitable for client generators.

use std::collections::BTreeSet;
use std::path::Path;

use memoir::http::openapi::{Version, to_json};
use serde_json::Value;

fn operations(document: &Value) -> Vec<(String, &Value)> {
    let paths = document["paths"].as_object().unwrap();
    let each = paths.iter().flat_map(|(path, item)| {
        item.as_object()
            .unwrap()
            .iter()
            .map(move |(method, operation)| (format!("{method} {path}"), operation))
    });

    each.collect()
}

#[test]
fn the_committed_documents_are_up_to_date() {
    for (name, version) in [
        ("openapi.json", Version::V3_1),
        ("openapi-3.0.json", Version::V3_0),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("openapi")
            .join(name);
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == to_json(version),
            "openapi/{name} is stale: run `cargo run -- openapi --write openapi`"
        );
    }
}

#[test]
fn every_operation_has_one_tag_a_unique_id_and_a_description() {
    let document: Value = serde_json::from_str(&to_json(Version::V3_1)).unwrap();
    assert_eq!(document["openapi"], "3.1.0");
    let declared: BTreeSet<&str> = document["tags"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tag| tag["name"].as_str().unwrap())
        .collect();

    let mut names = BTreeSet::new();
    for (place, operation) in operations(&document) {
        let tags = operation["tags"].as_array().unwrap();
        assert!(
            tags.len() == 1 && declared.contains(tags[0].as_str().unwrap()),
            "{place}: {tags:?}"
        );

        assert!(
            names.insert(operation["operationId"].as_str().unwrap()),
            "{place} repeats a name"
        );

        for text in ["summary", "description"] {
            assert!(
                operation[text]
                    .as_str()
                    .is_some_and(|text| !text.is_empty()),
                "{place} has no {text}"
            );
        }
    }

    assert!(names.len() >= 12);
}

#[test]
fn every_operation_has_one_success_and_one_error_schema() {
    let document: Value = serde_json::from_str(&to_json(Version::V3_1)).unwrap();
    for (place, operation) in operations(&document) {
        let responses = operation["responses"].as_object().unwrap();
        // A job that will contain the answer has another schema than the answer.
        let job = |response: &Value| {
            response["content"]
                .to_string()
                .contains("JobSummaryResponse")
        };

        let answer = |(status, response): &(&String, &Value)| {
            status.starts_with('2')
                && !(*status == "202" && responses.contains_key("200") && job(response))
                // A dry run says what would change where the operation itself has nothing to say.
                && !(*status == "204" && responses.contains_key("200"))
        };

        let successes = responses.iter().filter(answer);
        let bodies: BTreeSet<String> = successes
            .map(|(_, response)| response["content"].to_string())
            .collect();
        assert_eq!(bodies.len(), 1, "{place}");
        for (status, response) in responses
            .iter()
            .filter(|(status, _)| *status >= &"400".to_owned())
        {
            assert_eq!(
                response["$ref"], "#/components/responses/ProblemResponse",
                "{place} {status}"
            );
        }
    }
}

#[test]
fn bodies_are_named_schemas_with_examples() {
    let document: Value = serde_json::from_str(&to_json(Version::V3_1)).unwrap();
    for (place, operation) in operations(&document) {
        if let Some(schema) = operation.pointer("/requestBody/content/application~1json/schema") {
            let name = schema["$ref"]
                .as_str()
                .unwrap_or_else(|| panic!("{place} has an unnamed body"));
            let target = document.pointer(name.trim_start_matches('#')).unwrap();
            assert!(
                target.get("example").or(target.get("examples")).is_some(),
                "{name} has no example"
            );
        }
    }
}

#[test]
fn the_3_0_document_uses_only_3_0_features() {
    let text = to_json(Version::V3_0);
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["openapi"], "3.0.3");

    for newer in [
        "\"null\"",
        "\"const\"",
        // A property may have this name, but its schema is an object.
        "\"examples\": [",
        "\"identifier\"",
        "\"type\": [",
    ] {
        assert!(!text.contains(newer), "{newer}");
    }
}
