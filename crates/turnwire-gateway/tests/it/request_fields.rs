//! C30: what becomes of each field of a request, as `docs/request-fields.tsv` has it.
//!
//! Each row is tried on a gateway whose model is behind the real adapter for the Responses API, and
//! a provider that keeps what it is sent.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    path::Path,
    sync::{Arc, Mutex},
};

use axum::{Json, Router, extract::State, http::header::CONTENT_TYPE, routing::post};
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use turnwire_contract::{
    Capabilities, CustomTools, Model, ModelError, ModelStream, Prompt, TenantId, ToolKind,
};
use turnwire_models::{OpenAiResponses, OpenAiResponsesOptions, Scripted, Turn};
use turnwire_surfaces::responses::ids;
use turnwire_testkit::{Behaviour, FakeTool};

use crate::world::{Plan, World};

const TABLE: &str = include_str!("../../../../docs/request-fields.tsv");

/// What a row says becomes of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Becomes {
    Forwarded,
    Honoured,
    Refused,
    Reported,
    Descriptive,
}

#[derive(Debug)]
struct Row {
    field: &'static str,
    becomes: Becomes,
    example: Option<Value>,
    check: &'static str,
}

fn rows() -> Vec<Row> {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    let rows = lines.skip(1).map(|line| {
        let mut cells = line.split('\t');
        let mut cell = || cells.next().unwrap_or_default();
        let (field, becomes, example, check) = (cell(), cell(), cell(), cell());
        let becomes = match becomes {
            "forwarded" => Becomes::Forwarded,
            "honoured" => Becomes::Honoured,
            "refused" => Becomes::Refused,
            "reported" => Becomes::Reported,
            "descriptive" => Becomes::Descriptive,
            other => panic!("{field}: nothing becomes {other:?}"),
        };
        let example = (!example.is_empty()).then(|| serde_json::from_str(example).unwrap());
        Row { field, becomes, example, check }
    });
    rows.collect()
}

/// A provider that speaks the Responses API, says one word and keeps what it was sent.
#[derive(Debug, Clone, Default)]
struct Provider(Arc<Mutex<Vec<Value>>>);

impl Provider {
    async fn start(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/v1/responses", post(answer)).with_state(self.clone());
        #[expect(clippy::disallowed_methods, reason = "it ends with the test")]
        tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
        format!("http://{address}/v1")
    }

    fn last(&self) -> Value {
        self.0.lock().unwrap().last().cloned().unwrap_or_default()
    }
}

async fn answer(
    State(provider): State<Provider>,
    Json(body): Json<Value>,
) -> ([(axum::http::HeaderName, &'static str); 1], String) {
    provider.0.lock().unwrap().push(body);
    let part = json!({ "type": "output_text", "text": "Yes.", "annotations": [] });
    let message =
        json!({ "type": "message", "id": "msg_1", "role": "assistant", "content": [part] });
    let response = json!({ "id": "resp_1", "status": "completed", "output": [message] });
    let event = json!({ "type": "response.completed", "sequence_number": 0, "response": response });
    ([(CONTENT_TYPE, "text/event-stream")], format!("data: {event}\n\n"))
}

async fn world() -> (World, Provider) {
    let provider = Provider::default();
    let base_url = provider.start().await;
    let options = OpenAiResponsesOptions { base_url, ..OpenAiResponsesOptions::default() };
    let model: Arc<dyn Model> = Arc::new(OpenAiResponses::new(options).unwrap());
    let found = Behaviour::Returns("a page".to_owned());
    let search =
        FakeTool::new("web_search", found.clone()).with(|spec| spec.kind = ToolKind::WebSearch);
    let plan = Plan::new([])
        .tool(search)
        .server("props", [FakeTool::new("add", found)])
        .model("m", model.clone())
        .model("other", model);
    (plan.start().await, provider)
}

/// What the examples call the vector store that they search.
const STORE: &str = "vs_example";

/// The ID of a vector store to search.
async fn vector_store(world: &World) -> String {
    let (status, store) = world.post("/v1/vector_stores", json!({})).await;
    assert_eq!(status, StatusCode::OK, "{store:#}");
    store["id"].as_str().unwrap().to_owned()
}

/// The body of a request with this example in it.
fn body_of(example: &Value, store: &str) -> Value {
    let mut body = json!({ "model": "m", "input": "x" });
    for (name, value) in example.as_object().unwrap() {
        body[name] = serde_json::from_str(&value.to_string().replace(STORE, store)).unwrap();
    }
    body
}

/// What the check of a row expects to find where.
fn expected(check: &str) -> (&str, Value) {
    let (place, value) = check.split_once(" = ").unwrap_or_else(|| panic!("no check: {check}"));
    (place, serde_json::from_str(value).unwrap())
}

fn at(value: &Value, place: &str) -> Value {
    value.pointer(place).cloned().unwrap_or_default()
}

/// What the run of a response was asked.
async fn run_of(world: &World, response: &Value) -> Value {
    let run_id = ids::run_id(response["id"].as_str().unwrap()).unwrap();
    let record = world.app.runs().find(&TenantId::default(), &run_id).await.unwrap();
    serde_json::to_value(&*record.request).unwrap()
}

/// What is wrong with a row; nothing if it holds.
async fn mistake(world: &World, provider: &Provider, store: &str, row: &Row) -> Option<String> {
    let example = row.example.as_ref()?;
    let (status, response) = world.post("/v1/responses", body_of(example, store)).await;
    let is_made = status == StatusCode::OK;
    let ignored = response.pointer("/turnwire/ignored").cloned().unwrap_or_else(|| json!([]));
    let ignores_nothing = ignored == json!([]);
    let (seen, holds) = match row.becomes {
        Becomes::Refused => {
            let code = at(&response, "/error/code");
            (json!([status.as_u16(), code]), status.is_client_error() && code == row.check)
        }
        Becomes::Reported => {
            (ignored.clone(), is_made && ignored.as_array()?.iter().any(|name| name == row.check))
        }
        Becomes::Descriptive => (ignored, is_made && ignores_nothing),
        Becomes::Forwarded => {
            let (place, value) = expected(row.check);
            let sent = at(&provider.last(), place);
            (json!([sent, ignored]), is_made && ignores_nothing && sent == value)
        }
        Becomes::Honoured => {
            let (place, value) = expected(row.check);
            let asked = if is_made { at(&run_of(world, &response).await, place) } else { response };
            let is_it = asked == value || value == STORE && asked == store;
            (json!([asked, ignored]), is_made && ignores_nothing && is_it)
        }
    };
    (!holds).then(|| format!("{} is not {:?} ({}): {seen}", row.field, row.becomes, row.check))
}

/// C30.
#[tokio::test]
async fn every_row_of_the_table_holds() {
    let (world, provider) = world().await;
    let store = vector_store(&world).await;
    let mut mistakes = String::new();
    for row in rows().iter().filter(|row| !row.check.starts_with("test ")) {
        if let Some(mistake) = mistake(&world, &provider, &store, row).await {
            writeln!(mistakes, "{mistake}").unwrap();
        }
    }
    assert!(mistakes.is_empty(), "{mistakes}");
}

/// C30: A row that cannot be tried with one request names the test that shows it.
#[test]
fn rows_without_an_example_name_a_test_that_is_there() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let files = std::fs::read_dir(tests).unwrap();
    let text: String =
        files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect();
    for row in rows() {
        match (row.check.strip_prefix("test "), row.becomes, &row.example) {
            (Some(name), ..) => {
                assert!(text.contains(&format!("async fn {name}(")), "{}: {name}", row.field);
            }
            (None, Becomes::Descriptive, _) | (None, _, Some(_)) => {}
            (None, ..) => panic!("{} has neither an example nor a test", row.field),
        }
    }
}

/// C30: A new field of our own request type without a row fails too: the document says which there
/// are.
#[tokio::test]
async fn every_field_of_the_document_has_a_row() {
    let (world, _) = world().await;
    let (_, document) = world.get("/openapi.json").await;
    let fields = &document["components"]["schemas"]["CreateResponse"]["properties"];
    let fields: BTreeSet<&str> = fields.as_object().unwrap().keys().map(String::as_str).collect();
    let rows = rows();
    let has_row = |field: &&str| {
        rows.iter().any(|row| row.field == *field || row.field.trim_end_matches('*') == *field)
    };
    let missing: Vec<&str> = fields.iter().copied().filter(|field| !has_row(field)).collect();
    assert_eq!(missing, Vec::<&str>::new());
}

/// A model that can be told nothing but the question.
struct Terse(Scripted, CustomTools);

#[async_trait::async_trait]
impl Model for Terse {
    async fn stream(&self, prompt: Prompt) -> Result<ModelStream, ModelError> {
        self.0.stream(prompt).await
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { parameters: Vec::new(), custom_tools: self.1 }
    }
}

fn terse(custom_tools: CustomTools) -> Arc<dyn Model> {
    Arc::new(Terse(Scripted::new([Turn::new().text("Yes.")]), custom_tools))
}

/// C30: What a kind of provider cannot be told is reported, wherever the response is seen.
#[tokio::test]
async fn what_the_model_cannot_be_told_is_reported() {
    let plan = Plan::new([Turn::new().text("Yes.")]);
    let world = plan.model("terse", terse(CustomTools::AsFunctions)).start().await;
    let format = json!({ "type": "grammar", "syntax": "regex", "definition": "a+" });
    let mut body = json!({
        "model": "terse",
        "input": "x",
        "seed": 7,
        "temperature": 0.5,
        "truncation": "disabled",
        "service_tier": "auto",
        "text": { "format": { "type": "json_object" }, "verbosity": "low" },
        "tools": [{ "type": "custom", "name": "c", "format": format }],
    });
    let events = world.stream(body.clone()).await;
    let expected = json!({ "ignored": [
        "seed", "temperature", "text.format", "text.verbosity", "tools[].format",
    ] });
    let first = &events[0]["response"];
    assert_eq!(first["turnwire"], expected);
    assert_eq!(events.last().unwrap()["response"]["turnwire"], expected);
    let path = format!("/v1/responses/{}", first["id"].as_str().unwrap());
    assert_eq!(world.get(&path).await.1["turnwire"], expected);
    body["model"] = json!("default");
    let response = world.respond(body).await;
    assert_eq!(response.get("turnwire"), None, "a model that is told everything");
    world.close().await;
}

#[tokio::test]
async fn custom_tools_are_refused_where_there_are_none() {
    let plan = Plan::new([]).model("terse", terse(CustomTools::Refused));
    let world = plan.start().await;
    let tools = json!([{ "type": "custom", "name": "c" }]);
    let body = json!({ "model": "terse", "input": "x", "tools": tools });
    let (status, refused) = world.post("/v1/responses", body).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(refused["error"]["code"], "unsupported_tool");
    assert_eq!(refused["error"]["param"], "tools");
    world.close().await;
}

/// A search that nobody has set up is refused in the words of the client, wherever one can be
/// requested: the model would answer from memory what it was told to look up.
#[tokio::test]
async fn a_search_that_is_not_there() {
    let world = Plan::new([]).start().await;
    let function = json!({ "type": "function", "name": "f" });
    let kinds = ["web_search", "web_search_2025_08_26", "web_search_preview"];
    let mut cases: Vec<(&str, Value, &str)> = Vec::new();
    for kind in kinds {
        let tools = json!([function, { "type": kind }]);
        cases.push(("/v1/responses", json!({ "input": "x", "tools": tools }), "tools[1].type"));
    }
    let messages = json!([{ "role": "user", "content": "x" }]);
    let search = json!([{ "type": "web_search" }]);
    let completions = "/v1/chat/completions";
    cases.extend([
        (
            completions,
            json!({ "messages": messages, "web_search_options": {} }),
            "web_search_options",
        ),
        (completions, json!({ "messages": messages, "tools": search }), "tools[0].type"),
        ("/v1/responses/input_tokens", json!({ "input": "x", "tools": search }), "tools[0].type"),
        ("/chat", json!({ "message": "x", "tools": search }), "tools[0].type"),
        ("/chat/stream", json!({ "message": "x", "tools": search }), "tools[0].type"),
    ]);
    for (path, body, param) in cases {
        let (status, refused) = world.post(path, body.clone()).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{path} {body}");
        let message = "This server has no web search: leave the tool out, or have its operator \
                       set one up with [web_search] in the settings.";
        let expected = json!({
            "message": message,
            "type": "invalid_request_error",
            "param": param,
            "code": "unsupported_tool",
        });
        assert_eq!(refused["error"], expected, "{path} {body}");
    }
    world.close().await;
}

/// A search in files needs files to search.
#[tokio::test]
async fn a_file_search_without_a_vector_store() {
    let world = Plan::new([]).start().await;
    for tool in
        [json!({ "type": "file_search" }), json!({ "type": "file_search", "vector_store_ids": [] })]
    {
        let body = json!({ "input": "x", "tools": [tool] });
        let (status, refused) = world.post("/v1/responses", body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{tool}");
        assert_eq!(refused["error"]["code"], "missing_required_parameter", "{tool}");
        assert_eq!(refused["error"]["param"], "tools[0].vector_store_ids", "{tool}");
    }
    world.close().await;
}

/// C30: A search that stays off the web, which Codex requests unasked, is left out and reported,
/// unless the request counts on it.
#[tokio::test]
async fn a_search_off_the_web_that_is_not_there() {
    let world = Plan::new([Turn::new().text("Yes.")]).start().await;
    let function = json!({ "type": "function", "name": "f" });
    let search = json!({ "type": "web_search", "external_web_access": false });
    let body = json!({ "input": "x", "tools": [function, search] });
    let response = world.respond(body).await;
    assert_eq!(response["turnwire"], json!({ "ignored": ["tools[1]"] }));
    let choices = [
        (json!({ "type": "web_search" }), json!([function, search])),
        (json!({ "type": "web_search_preview" }), json!([search])),
        (
            json!({ "type": "allowed_tools", "mode": "auto", "tools": [search] }),
            json!([function, search]),
        ),
        (json!("required"), json!([search])),
    ];
    for (choice, tools) in choices {
        let body = json!({ "input": "x", "tools": tools, "tool_choice": choice });
        let (status, refused) = world.post("/v1/responses", body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{choice}");
        assert_eq!(refused["error"]["code"], "unsupported_tool", "{choice}");
        assert_eq!(refused["error"]["param"], "tool_choice", "{choice}");
    }
    world.close().await;
}

/// A name that no model goes by is refused, unless the operator says who answers for it; and the
/// response says who did.
#[tokio::test]
async fn a_model_that_nobody_configured() {
    let world = Plan::new([]).start().await;
    for stream in [false, true] {
        let body = json!({ "model": "gpt-none", "input": "x", "stream": stream });
        let (status, refused) = world.post("/v1/responses", body).await;
        assert_eq!(status, StatusCode::NOT_FOUND);
        assert_eq!(refused["error"]["code"], "model_not_found");
        assert_eq!(refused["error"]["param"], "model");
    }
    world.close().await;

    let plan = Plan::new([Turn::new().text("Yes.")]);
    let plan = plan.options(|options| options.fallback_model = Some("default".to_owned()));
    let world = plan.start().await;
    let response = world.respond(json!({ "model": "gpt-none", "input": "x" })).await;
    assert_eq!(response["model"], "default");
    assert_eq!(world.model.prompts()[0].model, "default");
    world.close().await;
}

/// A mistake of a client is told with what was meant.
#[tokio::test]
async fn an_unknown_field_is_refused_with_what_was_meant() {
    let world = Plan::new([]).start().await;
    let body = json!({ "input": "x", "max_ouput_tokens": 5 });
    let (status, refused) = world.post("/v1/responses", body).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(
        refused["error"],
        json!({
            "message":
                "Unknown parameter: 'max_ouput_tokens'. Did you mean 'max_output_tokens'?",
            "type": "invalid_request_error",
            "param": "max_ouput_tokens",
            "code": "unknown_parameter",
        })
    );
    world.close().await;
}

/// C30: The other bodies have no unknown fields either.
#[tokio::test]
async fn other_routes_refuse_unknown_fields() {
    let world = Plan::new([]).start().await;
    let (_, conversation) = world.post("/v1/conversations", json!({})).await;
    let conversation = format!("/v1/conversations/{}", conversation["id"].as_str().unwrap());
    let (_, store) = world.post("/v1/vector_stores", json!({})).await;
    let store = format!("/v1/vector_stores/{}", store["id"].as_str().unwrap());
    let in_conversation = format!("{conversation}/items");
    let search = format!("{store}/search");
    let files = format!("{store}/files");
    for (path, body, param, meant) in [
        ("/chat", json!({ "message": "x", "sesion_id": "s" }), "sesion_id", "session_id"),
        ("/chat/stream", json!({ "message": "x", "toknes": true }), "toknes", "tokens"),
        ("/v1/conversations", json!({ "metdata": {} }), "metdata", "metadata"),
        (&conversation, json!({ "metadata": {}, "items": [] }), "items", ""),
        (&in_conversation, json!({ "items": [], "metadata": {} }), "metadata", ""),
        ("/v1/vector_stores", json!({ "nam": "x" }), "nam", "name"),
        (
            "/v1/vector_stores",
            json!({ "expires_after": { "anchor": "last_active_at", "day": 1 } }),
            "expires_after.day",
            "expires_after.days",
        ),
        (&store, json!({ "descripton": "x" }), "descripton", "description"),
        (&search, json!({ "query": "x", "max_results": 1 }), "max_results", ""),
        (
            &search,
            json!({ "query": "x", "ranking_options": { "score": 1 } }),
            "ranking_options.score",
            "",
        ),
        (&files, json!({ "file_id": "file_1", "atributes": {} }), "atributes", "attributes"),
    ] {
        let (status, refused) = world.post(path, body).await;
        let error = &refused["error"];
        assert_eq!(status, StatusCode::BAD_REQUEST, "{path}: {refused}");
        assert_eq!(error["code"], "unknown_parameter", "{path}: {refused}");
        assert_eq!(error["param"], param, "{path}");
        let message = error["message"].as_str().unwrap();
        assert!(meant.is_empty() || message.contains(&format!("'{meant}'")), "{message}");
    }
    let form = "--b\r\nContent-Disposition: form-data; name=\"purpse\"\r\n\r\nx\r\n--b--\r\n";
    let upload = world.request(reqwest::Method::POST, "/v1/files").body(form);
    let upload = upload.header(CONTENT_TYPE, "multipart/form-data; boundary=b");
    let refused: Value = upload.send().await.unwrap().json().await.unwrap();
    assert_eq!(refused["error"]["code"], "unknown_parameter", "{refused}");
    assert_eq!(refused["error"]["param"], "purpse");
    world.close().await;
}

/// C30: What these routes take and do not heed is told where there is an answer to tell it in.
#[tokio::test]
async fn other_routes_report_what_they_do_not_heed() {
    let world = Plan::new([Turn::new().text("Short.")]).start().await;
    let item = json!({ "role": "assistant", "content": "x", "phase": "commentary" });
    let note = json!({ "ignored": ["items[].phase"] });
    let (_, opened) = world.post("/v1/conversations", json!({ "items": [item] })).await;
    assert_eq!(opened["turnwire"], note);
    let path = format!("/v1/conversations/{}/items", opened["id"].as_str().unwrap());
    let (_, added) = world.post(&path, json!({ "items": [item] })).await;
    assert_eq!(added["turnwire"], note);

    let body = json!({ "model": "default", "input": "x", "temperature": 1, "tools": [] });
    let (_, compacted) = world.post("/v1/responses/compact", body.clone()).await;
    assert_eq!(compacted["turnwire"], json!({ "ignored": ["temperature", "tools"] }));
    let (_, counted) = world.post("/v1/responses/input_tokens", body).await;
    assert_eq!(counted["turnwire"], json!({ "ignored": ["temperature"] }));

    let (_, store) = world.post("/v1/vector_stores", json!({})).await;
    let path = format!("/v1/vector_stores/{}/search", store["id"].as_str().unwrap());
    let body = json!({ "query": "x", "rewrite_query": true, "ranking_options": { "ranker": "a" } });
    let (_, found) = world.post(&path, body).await;
    let expected = json!({ "ignored": ["rewrite_query", "ranking_options.ranker"] });
    assert_eq!(found["turnwire"], expected, "{found}");

    let described = json!({ "name": "n", "description": "d" });
    let (_, store) = world.post("/v1/vector_stores", described).await;
    assert_eq!(store["turnwire"], json!({ "ignored": ["description"] }));
    let path = format!("/v1/vector_stores/{}", store["id"].as_str().unwrap());
    let late = json!({ "chunking_strategy": { "type": "auto" } });
    let (_, refused) = world.post(&path, late).await;
    assert_eq!(refused["error"]["code"], "unsupported_parameter");
    assert_eq!(refused["error"]["param"], "chunking_strategy");

    for (name, items) in [
        ("tools", json!([{ "type": "additional_tools", "role": "developer", "tools": [] }])),
        (
            "tools",
            json!([{ "type": "additional_tools", "role": "developer",
            "tools": [{ "type": "function", "name": "f" }] }]),
        ),
        (
            "an answer",
            json!([
                { "type": "mcp_approval_request", "id": "r", "name": "n", "server_label": "s",
                  "arguments": "{}" },
                { "type": "mcp_approval_response", "approval_request_id": "r", "approve": true },
            ]),
        ),
    ] {
        let (status, refused) = world.post("/v1/conversations", json!({ "items": items })).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{name}");
        assert_eq!(refused["error"]["code"], "unsupported_item", "{name}: {refused}");
    }
    for name in ["tokens", "approvals", "inputs"] {
        let (status, refused) = world.post("/chat", json!({ "message": "x", name: true })).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{name}");
        assert_eq!(refused["error"]["code"], "unsupported_parameter", "{name}");
        assert_eq!(refused["error"]["param"], name);
    }
    world.close().await;
}
