//! The document that describes everything.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use turnwire_surfaces::ResponseEvent;

use crate::world::Plan;

async fn document() -> Value {
    let world = Plan::new([]).start().await;
    let (_, document) = world.get("/openapi.json").await;
    world.close().await;
    document
}

/// Every `const` or single-valued `enum` of a `type` property in `schema`.
fn type_names(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(map) => {
            if let Some(kind) = map.get("properties").and_then(|properties| properties.get("type"))
            {
                let names = kind["enum"].as_array().into_iter().flatten().chain([&kind["const"]]);
                found.extend(names.filter_map(Value::as_str).map(str::to_owned));
            }
            map.values().for_each(|value| type_names(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| type_names(value, found)),
        _ => {}
    }
}

/// S1-FR-012, S1-FR-013, S1-SC-003: the types that can be sent, the enum and the schemas are the
/// same, and there are at least thirty.
#[tokio::test]
async fn the_document_lists_what_can_be_sent() {
    let document = document().await;
    let schemas = &document["components"]["schemas"];
    let listed: BTreeSet<String> = schemas["StreamEventType"]["enum"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap().to_owned())
        .collect();
    let sent: BTreeSet<String> = ResponseEvent::TYPES_STRICT
        .iter()
        .chain(ResponseEvent::TYPES_EXTENDED)
        .map(|name| (*name).to_owned())
        .collect();
    assert_eq!(listed, sent);
    assert!(ResponseEvent::TYPES_STRICT.len() >= 30);
    let mut described = BTreeSet::new();
    type_names(&schemas["ResponseEvent"], &mut described);
    let described: BTreeSet<String> =
        described.into_iter().filter(|name| sent.contains(name)).collect();
    assert_eq!(described, sent);
    for nine in [
        "response.mcp_call.in_progress",
        "response.mcp_call.completed",
        "response.mcp_call.failed",
        "response.file_search_call.in_progress",
        "response.file_search_call.searching",
        "response.file_search_call.completed",
        "response.web_search_call.in_progress",
        "response.web_search_call.searching",
        "response.web_search_call.completed",
    ] {
        assert!(listed.contains(nine), "{nine}");
    }
}

/// Everything that `document` refers to.
fn references<'a>(document: &'a Value, found: &mut BTreeSet<&'a str>) {
    match document {
        Value::Object(map) => {
            found.extend(map.get("$ref").and_then(Value::as_str));
            map.values().for_each(|value| references(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

/// S1-FR-012: whatever the document refers to is in it.
#[tokio::test]
async fn no_reference_dangles() {
    let document = document().await;
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    assert!(found.len() > 100, "{found:?}");
    let is_there = |reference: &&str| {
        document.pointer(reference.strip_prefix('#').unwrap_or("/nowhere")).is_some()
    };
    let dangling: Vec<&str> = found.into_iter().filter(|reference| !is_there(reference)).collect();
    assert_eq!(dangling, [""; 0]);
}

/// S1-FR-012: every parameter has a description, and no description has a label of a requirement.
#[tokio::test]
async fn every_parameter_is_described() {
    let document = document().await;
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let name = &parameter["name"];
                assert!(parameter["description"].is_string(), "{name} of {method} {path}");
            }
        }
    }
    let text = document.to_string();
    let labels = text.match_indices("(R").map(|(at, _)| text.split_at(at + 2).1);
    let labels = labels.filter(|rest| rest.starts_with(|first: char| first.is_ascii_digit()));
    assert_eq!(labels.count(), 0, "a label such as (R17) means nothing to a reader");
}

/// Every operation says what it answers when something is wrong, in the one shape.
#[tokio::test]
async fn every_refusal_is_described() {
    let document = document().await;
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let answers = operation["responses"].as_object().unwrap();
            let mut expected = vec!["403", "500"];
            if path.contains('{') {
                expected.push("404");
            }
            if operation.get("requestBody").is_some() {
                expected.extend(["400", "404", "408", "413"]);
            }
            for status in expected {
                assert!(answers.contains_key(status), "{status} of {method} {path}");
            }
            for (status, answer) in answers.iter().filter(|(status, _)| status.as_str() >= "400") {
                let schema = &answer["content"]["application/json"]["schema"]["$ref"];
                let is_health = path == "/readyz" && status == "503";
                let shapes =
                    if is_health { &["Health"][..] } else { &["ErrorBody", "FailedRunBody"] };
                let shape = schema.as_str().unwrap().strip_prefix("#/components/schemas/").unwrap();
                assert!(shapes.contains(&shape), "{shape} for {status} of {method} {path}");
            }
        }
    }
}

/// Where a run can fail, a request can be refused with the same status: one schema has both.
#[tokio::test]
async fn a_failed_run_and_a_refusal_have_one_schema() {
    let document = document().await;
    let schemas = &document["components"]["schemas"];
    let required = &schemas["FailedRunError"]["required"];
    assert_eq!(required, &schemas["ErrorDetails"]["required"]);
}

/// Every path of the design is there.
#[tokio::test]
async fn every_path_is_described() {
    let document = document().await;
    let paths: BTreeSet<&str> =
        document["paths"].as_object().unwrap().keys().map(String::as_str).collect();
    for path in [
        "/v1/responses",
        "/v1/responses/{response_id}",
        "/v1/responses/{response_id}/cancel",
        "/v1/responses/{response_id}/input_items",
        "/v1/responses/input_tokens",
        "/v1/responses/compact",
        "/v1/conversations",
        "/v1/conversations/{conversation_id}/items",
        "/v1/files",
        "/v1/vector_stores",
        "/v1/models",
        "/chat",
        "/chat/stream",
        "/ws/chat",
        "/ai-sdk/chat",
        "/ai-sdk/chat/{chat_id}/stream",
        "/ai-sdk/chat/{chat_id}/stop",
        "/v1/runs",
        "/v1/runs/{run_id}",
        "/v1/runs/{run_id}/events",
        "/v1/runs/{run_id}/cancel",
        "/v1/runs/{run_id}/calls/{call_id}/cancel",
        "/v1/runs/{run_id}/calls/{call_id}/retry",
        "/v1/runs/{run_id}/calls/{call_id}/approve",
        "/v1/runs/{run_id}/calls/{call_id}/input",
        "/v1/runs/{run_id}/calls/{call_id}/result",
        "/healthz",
        "/readyz",
    ] {
        assert!(paths.contains(path), "{path} is not in the document");
    }
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
}

/// A2: the document says how one says who one is, and what is answered otherwise, on every
/// route where it matters.
#[tokio::test]
async fn the_document_describes_the_door() {
    let document = document().await;
    let scheme = &document["components"]["securitySchemes"]["api_key"];
    assert_eq!((&scheme["type"], &scheme["scheme"]), (&"http".into(), &"bearer".into()));
    for (path, operations) in document["paths"].as_object().unwrap() {
        // A share link takes the place of a key.
        let is_open =
            matches!(path.as_str(), "/healthz" | "/readyz") || path.starts_with("/v1/shared/");
        for (method, operation) in operations.as_object().unwrap() {
            assert_eq!(operation["security"].is_array(), !is_open, "{method} {path}");
            let refused = &operation["responses"]["401"]["content"]["application/json"]["schema"];
            assert_eq!(refused["$ref"] == "#/components/schemas/ErrorBody", !is_open, "{path}");
        }
    }
    let read = &document["paths"]["/v1/responses/{response_id}"]["get"]["responses"]["200"];
    let kinds: Vec<&String> = read["content"].as_object().unwrap().keys().collect();
    assert_eq!(kinds, ["application/json", "text/event-stream"]);
}

/// C9: wherever a run can be made over HTTP, the key is described.
#[tokio::test]
async fn the_document_describes_the_key() {
    let document = document().await;
    let retry = "/v1/runs/{run_id}/calls/{call_id}/retry";
    let tried = "/v1/mcp_servers/{server_name}/tools/{tool_name}/try";
    for path in ["/v1/responses", "/chat", "/chat/stream", retry, tried] {
        let parameters = document["paths"][path]["post"]["parameters"].as_array().unwrap();
        let key = parameters.iter().find(|it| it["name"] == "Idempotency-Key").unwrap();
        assert_eq!((&key["in"], &key["required"]), (&"header".into(), &false.into()), "{path}");
        assert_eq!(key["schema"]["maxLength"], 255, "{path}");
    }
}

/// Two types of the same name become one schema, of which the document shows only one: generated
/// clients then refuse what the other sends.
#[test]
fn every_schema_has_a_name_of_its_own() {
    let mut types: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for file in source_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..")) {
        for name in schema_names(&fs::read_to_string(&file).unwrap()) {
            types.entry(name).or_default().push(file.clone());
        }
    }
    assert!(types.len() > 200, "only {} types were found", types.len());
    types.retain(|_, files| files.len() > 1);
    assert!(types.is_empty(), "add `#[schema(as = …)]` to one of each: {types:#?}");
}

/// All files of the crates that are compiled into the program.
fn source_files(crates: &Path) -> Vec<PathBuf> {
    let list = |folder: &Path| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<PathBuf> =
        list(crates).map(|name| name.join("src")).filter(|folder| folder.is_dir()).collect();
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        let (below, here): (Vec<_>, Vec<_>) = list(&folder).partition(|path| path.is_dir());
        folders.extend(below);
        files.extend(here.into_iter().filter(|path| path.extension().is_some_and(|it| it == "rs")));
    }
    files
}

/// The names of the schemas that are derived in a source file.
fn schema_names(source: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut derived: Option<Option<String>> = None;
    for line in source.lines().map(str::trim) {
        let renamed = line.split_once("as = ").filter(|_| line.starts_with("#[schema("));
        let declared =
            line.split_whitespace().skip_while(|word| !matches!(*word, "struct" | "enum"));
        if line.contains("ToSchema") {
            derived = Some(None);
        } else if line.starts_with("#[derive(") {
            derived = None;
        } else if let (Some(_), Some((_, name))) = (&derived, renamed) {
            derived = Some(Some(identifier(name)));
        } else if let (Some(name), false) = (declared.clone().nth(1), line.starts_with("//"))
            && let Some(renamed) = derived.take()
        {
            names.push(renamed.unwrap_or_else(|| identifier(name)));
        }
    }
    names
}

fn identifier(text: &str) -> String {
    text.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
}
