//! Whose data a key opens, and what it allows: every route of the document, for every kind of
//! caller.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt, future::join_all};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio_tungstenite::{
    connect_async,
    tungstenite::{Message, client::IntoClientRequest},
};
use turnwire_contract::{Scope, TenantId, Timestamp};
use turnwire_gateway::{AppOptions, NewApiKey};
use turnwire_models::{Scripted, Turn};
use turnwire_oidc::{ClaimRules, Oidc, OidcOptions};
use turnwire_stores::{Store, StoreOptions};
use turnwire_testkit::{
    Behaviour, FakeTool, IdentityProvider,
    identity_provider::SigningKey,
    services::{postgres_url, tenant_role},
};

use crate::{
    lifecycle::Sleeper,
    world::{Plan, World},
};

/// Everything but the management of other tenants.
const OF_ONE_TENANT: [Scope; 6] =
    [Scope::RunsRead, Scope::RunsWrite, Scope::Approve, Scope::Files, Scope::Metrics, Scope::Admin];

/// A key in the store of the server.
pub(crate) async fn new_key(
    world: &World,
    tenant: &str,
    scopes: impl IntoIterator<Item = Scope>,
) -> TestKey {
    key_until(world, tenant, scopes, None).await
}

pub(crate) struct TestKey {
    pub(crate) key_id: String,
    pub(crate) text: String,
}

async fn key_until(
    world: &World,
    tenant: &str,
    scopes: impl IntoIterator<Item = Scope>,
    expires_at: Option<Timestamp>,
) -> TestKey {
    let new = NewApiKey {
        tenant: TenantId::from(tenant),
        project: Some("tests".to_owned()),
        name: format!("of {tenant}"),
        scopes: scopes.into_iter().collect(),
        created_at: world.app.runs().now(),
        expires_at,
    };
    let (record, text) = new.make().unwrap();
    let key_id = record.key_id.clone();
    world.app.runs().api_keys().create_key(record).await.unwrap();
    TestKey { key_id, text }
}

/// A request with a key, and its answer.
pub(crate) async fn ask(
    world: &World,
    key: &str,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> (StatusCode, Value) {
    let mut request = world.request(method, path).bearer_auth(key);
    if let Some(body) = body {
        request = request.json(body);
    }
    let response = request.send().await.unwrap();
    let status = response.status();
    if status == StatusCode::OK && path.ends_with("/changes") {
        // It has no end.
        return (status, Value::Null);
    }
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

pub(crate) async fn made(world: &World, key: &str, path: &str, body: Value) -> Value {
    let (status, made) = ask(world, key, Method::POST, path, Some(&body)).await;
    assert_eq!(status, StatusCode::OK, "{path}: {made:#}");
    made
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// Objects of a tenant, by the names of the path parameters.
async fn objects(world: &World, key: &TestKey) -> BTreeMap<&'static str, String> {
    let key_id = key.key_id.clone();
    let key = key.text.as_str();
    let conversation = text(&made(world, key, "/v1/conversations", json!({})).await["id"]);
    let asked = json!({ "input": "?", "conversation": conversation, "store": true });
    let response = text(&made(world, key, "/v1/responses", asked).await["id"]);
    let (_, runs) = ask(world, key, Method::GET, "/v1/runs", None).await;
    let run = text(&runs["data"][0]["run_id"]);
    let items = format!("/v1/conversations/{conversation}/items");
    let (_, items) = ask(world, key, Method::GET, &items, None).await;
    let share = made(world, key, &format!("/v1/runs/{run}/share"), json!({})).await;
    let form = "--b\r\ncontent-disposition: form-data; name=purpose\r\n\r\nassistants\r\n--b\r\n\
                content-disposition: form-data; name=file; filename=a.txt\r\n\r\nA secret.\r\n--b--\r\n";
    let upload = world
        .request(Method::POST, "/v1/files")
        .bearer_auth(key)
        .header("content-type", "multipart/form-data; boundary=b")
        .body(form);
    let file: Value = upload.send().await.unwrap().json().await.unwrap();
    let file = text(&file["id"]);
    let store = made(world, key, "/v1/vector_stores", json!({ "file_ids": [file] })).await;
    let store = text(&store["id"]);
    let batches = format!("/v1/vector_stores/{store}/file_batches");
    let batch = made(world, key, &batches, json!({ "file_ids": [file] })).await;
    BTreeMap::from([
        ("run_id", run),
        ("response_id", response),
        ("conversation_id", conversation),
        ("item_id", text(&items["data"][0]["id"])),
        ("share_id", text(&share["share_id"])),
        // Those that exist are in `webhooks.rs`.
        ("delivery_id", "evt_1".to_owned()),
        ("file_id", file),
        ("vector_store_id", store),
        ("batch_id", text(&batch["id"])),
        ("key_id", key_id),
        ("call_id", "call_1".to_owned()),
        ("chat_id", "chat_1".to_owned()),
        ("model", "default".to_owned()),
        ("server_name", "none".to_owned()),
        ("tool_name", "none".to_owned()),
    ])
}

/// An operation of the document.
#[derive(Debug, Clone)]
struct Route {
    method: Method,
    template: String,
    scope: Option<Scope>,
}

impl Route {
    /// The path, with the parameters filled in.
    fn path(&self, ids: &BTreeMap<&'static str, String>) -> String {
        let parts = self.template.split('/').map(|part| {
            let name = part.strip_prefix('{').and_then(|part| part.strip_suffix('}'));
            name.map_or(part, |name| {
                ids.get(name).unwrap_or_else(|| panic!("no {name} to try {self:?} with")).as_str()
            })
        });
        parts.collect::<Vec<_>>().join("/")
    }

    /// A body that is good enough to reach the object that the path names.
    fn body(&self, ids: &BTreeMap<&str, String>) -> Option<Value> {
        if self.method != Method::POST {
            return None;
        }
        let last = self.template.rsplit('/').next().unwrap();
        Some(match last {
            "items" => json!({ "items": [{ "role": "user", "content": "?" }] }),
            "approve" => json!({ "decision": "approve" }),
            "input" => json!({ "action": "decline" }),
            "{conversation_id}" => json!({ "metadata": {} }),
            "{file_id}" => json!({ "attributes": {} }),
            "files" => json!({ "file_id": ids["file_id"] }),
            "file_batches" => json!({ "file_ids": [ids["file_id"]] }),
            "search" => json!({ "query": "secret" }),
            "keys" => json!({ "name": "another" }),
            _ => json!({}),
        })
    }

    /// Whether the path names something that belongs to a tenant.
    fn names_an_object(&self) -> bool {
        let of_all = ["{model}", "{server_name}", "{tool_name}", "{call_id}", "{chat_id}"];
        self.template.split('/').any(|part| part.starts_with('{') && !of_all.contains(&part))
    }
}

fn routes() -> Vec<Route> {
    let document = serde_json::to_value(turnwire_gateway::openapi::document()).unwrap();
    let mut routes = Vec::new();
    for (template, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let scope = operation["security"][0]["api_key"][0].as_str();
            let scope = scope.map(|scope| scope.parse().unwrap());
            routes.push(Route { method, template: template.clone(), scope });
        }
    }
    routes
}

fn is_public(route: &Route) -> bool {
    // A share link takes the place of a key: `shares.rs`.
    matches!(route.template.as_str(), "/healthz" | "/readyz")
        || route.template.starts_with("/v1/shared/")
}

fn chatty() -> Plan {
    let model = Scripted::new([Turn::new().text("The owl flies at night.")]).repeat_last();
    Plan::with_model(model).options(|options| {
        options.admission.connections_per_key = 10_000;
        options.admission.runs_per_key = 10_000;
    })
}

pub(crate) fn accept_tokens(options: &mut AppOptions, provider: &IdentityProvider) {
    let oidc = Oidc::new(OidcOptions {
        issuer: provider.issuer(),
        audiences: vec!["turnwire".to_owned()],
        claims: ClaimRules { tenant_claim: Some("org".to_owned()), ..ClaimRules::default() },
    });
    options.auth.tokens = Some(Arc::new(oidc.unwrap()));
}

pub(crate) fn token_of(
    provider: &IdentityProvider,
    tenant: &str,
    scopes: &[Scope],
    more: Value,
) -> String {
    let scopes: Vec<&str> = scopes.iter().map(Scope::as_str).collect();
    let mut claims =
        provider.claims("turnwire", json!({ "org": tenant, "scope": scopes.join(" ") }));
    claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    provider.sign(&claims)
}

/// Tokens of the owner that are not valid, one for each reason.
fn foreign_tokens(provider: &IdentityProvider) -> Vec<String> {
    let token = |more| token_of(provider, "owner", &OF_ONE_TENANT, more);
    let valid = token(json!({}));
    let (head, _) = valid.rsplit_once('.').unwrap();
    let (_, body) = head.split_once('.').unwrap();
    let claims = provider.claims("turnwire", json!({ "org": "owner", "scope": "runs:read admin" }));
    vec![
        token(json!({ "aud": "somebody_else" })),
        token(json!({ "iss": "https://login.example.com" })),
        token(json!({ "exp": 1_000 })),
        SigningKey::elliptic("key_0").sign(&claims),
        SigningKey::rsa("key_0").sign(&claims),
        format!("{head}.AAAA"),
        // {"alg":"none"}
        format!("eyJhbGciOiJub25lIn0.{body}."),
        "eyJhbGciOiJub25lIn0..".to_owned(),
    ]
}

/// A16: what was opened with a token ends when the token expires; the subject is recorded; and a
/// provider that cannot be reached is not taken for a token that is not valid.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_ends_what_was_opened_with_it() {
    let provider = IdentityProvider::start().await;
    let waits = FakeTool::new("wait", Behaviour::WaitsToBeStopped);
    let plan = Plan::new([Turn::new().call("wait", json!({}))]).tool(waits);
    let world = plan.options(|options| accept_tokens(options, &provider)).start().await;
    // The leeway for clocks that differ is 30 seconds.
    let end = json!({ "exp": turnwire_testkit::identity_provider::now() - 28 });
    let short = token_of(&provider, "acme", &Scope::USUAL, end);
    let long = token_of(&provider, "acme", &Scope::USUAL, json!({ "sub": "grace" }));
    let body = json!({ "input": "?", "background": true, "tools": [{ "type": "function", "name": "wait" }] });
    made(&world, &long, "/v1/responses", body).await;
    let (_, runs) = ask(&world, &long, Method::GET, "/v1/runs", None).await;
    let run = text(&runs["data"][0]["run_id"]);
    let path = format!("/v1/runs/{run}/events");
    let open = |token: &str| world.request(Method::GET, &path).bearer_auth(token).send();
    let (short_stream, long_stream) = tokio::join!(open(&short), open(&long));
    let mut short_stream = short_stream.unwrap().bytes_stream();
    let mut long_stream = long_stream.unwrap().bytes_stream();
    short_stream.next().await.unwrap().unwrap();
    while let Some(Ok(_)) = short_stream.next().await {}
    let (status, answer) = ask(&world, &short, Method::GET, "/v1/models", None).await;
    assert_eq!(
        (status, &answer["error"]["code"]),
        (StatusCode::UNAUTHORIZED, &json!("invalid_token"))
    );
    let begin = long_stream.next().await.unwrap().unwrap();
    let begin = String::from_utf8_lossy(&begin);
    assert!(begin.contains(r#""asked_by":{"subject":"grace"}"#), "{begin}");
    let (status, _) = ask(&world, &long, Method::GET, "/v1/models", None).await;
    assert_eq!(status, StatusCode::OK);
    world.close().await;

    provider.set_away(true);
    let world = chatty().options(|options| accept_tokens(options, &provider)).start().await;
    let (status, answer) = ask(&world, &long, Method::GET, "/v1/models", None).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{answer}");
    let (status, _) = ask(&world, "", Method::GET, "/v1/models", None).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED, "a server with a provider is never open");
    world.close().await;
}

/// A message of `/ws/chat` about the objects of somebody.
fn socket_message(kind: &str, ids: &BTreeMap<&'static str, String>) -> Value {
    let call = &ids["call_id"];
    let mut message = match kind {
        "message" => json!({ "conversation_id": ids["conversation_id"], "content": "?" }),
        "ping" | "hello" | "tools" | "cancel" => json!({}),
        "tool_cancel" | "tool_retry" => json!({ "tool_call_id": call }),
        "approval" => json!({ "tool_call_id": call, "approved": true }),
        "input" => json!({ "tool_call_id": call, "action": "decline" }),
        "resume" => json!({ "run_id": ids["run_id"] }),
        other => panic!("no message to try `{other}` with"),
    };
    message["type"] = json!(kind);
    message
}

/// What a socket answers to a message, up to the answer to a ping after it.
async fn answers(world: &World, key: &str, message: &Value) -> String {
    let mut socket = world.socket_of("/ws/chat", key).await;
    socket.send(message.clone()).await;
    socket.send(json!({ "type": "ping" })).await;
    let mut answers = String::new();
    let mut n_pongs = if message["type"] == "ping" { 2 } else { 1 };
    while n_pongs > 0 {
        let answer = socket.next().await.expect("it ended");
        n_pongs -= i32::from(answer["type"] == "pong");
        answers.push_str(&answer.to_string());
        answers.push('\n');
    }
    answers
}

/// A1, A2: every message of the socket, about objects of another tenant, is answered as if they
/// did not exist; and without its scope it is refused. A message that is new in the document and
/// not here fails.
#[tokio::test]
async fn the_matrix_of_socket_messages() {
    let world = chatty().start().await;
    let SocketCallers { owner: _, stranger, writer, ids, unknown } = socket_callers(&world).await;
    let document = serde_json::to_value(turnwire_gateway::openapi::document()).unwrap();
    let schema = &document["components"]["schemas"]["WsRequest"]["oneOf"];
    let kinds: Vec<String> = schema.as_array().unwrap().iter().map(kind_of).collect();
    assert!(kinds.len() >= 10, "{kinds:?}");
    for kind in &kinds {
        let of_owner = answers(&world, &stranger.text, &socket_message(kind, &ids)).await;
        let of_nobody = answers(&world, &stranger.text, &socket_message(kind, &unknown)).await;
        let (seen, expected) = (without_ids(&of_owner, &ids), without_ids(&of_nobody, &unknown));
        assert_eq!(seen, expected, "`{kind}` tells that it exists");
        assert!(!of_owner.contains("owl"), "`{kind}`: {of_owner}");
    }
    let refused = answers(&world, &writer.text, &socket_message("resume", &ids)).await;
    assert!(refused.contains("runs:read") && !refused.contains("owl"), "{refused}");
    world.close().await;
}

/// Who sends messages to a socket, and about what.
struct SocketCallers {
    owner: TestKey,
    stranger: TestKey,
    /// Of the owner's tenant, and allowed to start runs alone.
    writer: TestKey,
    /// Objects of the owner.
    ids: BTreeMap<&'static str, String>,
    unknown: BTreeMap<&'static str, String>,
}

async fn socket_callers(world: &World) -> SocketCallers {
    let owner = new_key(world, "owner", OF_ONE_TENANT).await;
    let stranger = new_key(world, "stranger", OF_ONE_TENANT).await;
    let writer = new_key(world, "owner", [Scope::RunsWrite]).await;
    let ids = objects(world, &owner).await;
    let unknown = unknown_ids(&ids);
    SocketCallers { owner, stranger, writer, ids, unknown }
}

/// Ids of the same form that nothing has.
fn unknown_ids<'a>(ids: &BTreeMap<&'a str, String>) -> BTreeMap<&'a str, String> {
    let unknown = |id: &str| id.replace(|c: char| c.is_ascii_digit(), "7");
    ids.iter().map(|(name, id)| (*name, unknown(id))).collect()
}

fn without_ids(text: &str, ids: &BTreeMap<&str, String>) -> String {
    ids.values().fold(text.to_owned(), |text, id| text.replace(id.as_str(), "none"))
}

/// Requests that name the objects of somebody, each in another way.
fn naming_requests(ids: &BTreeMap<&'static str, String>) -> Vec<Value> {
    let file = json!({ "type": "input_file", "file_id": ids["file_id"] });
    let search = json!({ "type": "file_search", "vector_store_ids": [ids["vector_store_id"]] });
    let approval = json!({ "type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": true });
    vec![
        json!({ "input": "?", "previous_response_id": ids["response_id"] }),
        json!({ "input": "?", "conversation": ids["conversation_id"] }),
        json!({ "input": [{ "role": "user", "content": [file] }] }),
        json!({ "input": "?", "tools": [search] }),
        json!({ "input": [{ "type": "item_reference", "id": ids["item_id"] }] }),
        json!({ "input": [approval], "previous_response_id": ids["response_id"] }),
    ]
}

/// What OpenAI's WebSocket answers to a request, without what differs each time.
async fn response_on_a_socket(world: &World, key: &str, request: &Value) -> Value {
    let mut socket = world.socket_of("/v1/responses", key).await;
    let mut message = request.clone();
    message["type"] = json!("response.create");
    socket.send(message).await;
    loop {
        let answer = socket.next().await.expect("an answer");
        match answer["type"].as_str() {
            Some("error") => return answer,
            Some("response.completed") => return answer["response"]["output"].clone(),
            _ => {}
        }
    }
}

/// A1, A2: on OpenAI's WebSocket, too, what belongs to another tenant does not exist, and what a
/// request names needs its scope. The owner is answered.
#[tokio::test]
async fn the_matrix_of_requests_on_the_responses_socket() {
    let world = chatty().start().await;
    let SocketCallers { owner, stranger, writer, ids, unknown } = socket_callers(&world).await;
    for (request, none) in naming_requests(&ids).iter().zip(&naming_requests(&unknown)) {
        let of_owner = response_on_a_socket(&world, &stranger.text, request).await;
        let of_nobody = response_on_a_socket(&world, &stranger.text, none).await;
        assert_eq!(of_owner["type"], "error", "{request}: {of_owner}");
        let seen = without_ids(&of_owner.to_string(), &ids);
        assert_eq!(seen, without_ids(&of_nobody.to_string(), &unknown), "{request}");
    }
    let mut missing = Vec::new();
    for request in naming_requests(&ids) {
        let answer = response_on_a_socket(&world, &writer.text, &request).await;
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        missing.push(message.split('`').nth(1).unwrap_or_default().to_owned());
    }
    // Who may start runs may continue those of the tenant.
    assert_eq!(missing, ["", "", "files", "files", "", "approve"]);
    for request in &naming_requests(&ids)[..4] {
        let answer = response_on_a_socket(&world, &owner.text, request).await;
        assert!(answer.to_string().contains("owl"), "{request}: {answer}");
    }
    world.close().await;
}

/// The `type` of a message, by its schema.
fn kind_of(schema: &Value) -> String {
    let parts = schema["allOf"].as_array().into_iter().flatten().chain([schema]);
    let mut kinds = parts.filter_map(|part| {
        let kind = &part["properties"]["type"];
        kind["enum"][0].as_str().or_else(|| kind["const"].as_str()).map(str::to_owned)
    });
    kinds.next_back().unwrap_or_else(|| panic!("{schema:#}"))
}

/// A2: a model that is for one tenant does not exist for others, on any surface.
#[tokio::test]
async fn a_model_of_one_tenant_does_not_exist_for_others() {
    let special = Scripted::new([Turn::new().text("Special.")]).repeat_last();
    let plan = chatty().model("special", Arc::new(special)).model_for("special", "owner");
    let world = plan.start().await;
    let owner = new_key(&world, "owner", OF_ONE_TENANT).await.text;
    let stranger = new_key(&world, "stranger", OF_ONE_TENANT).await.text;
    let names = async |key: &str| {
        let (_, list) = ask(&world, key, Method::GET, "/v1/models", None).await;
        list["data"].as_array().unwrap().iter().map(|model| text(&model["id"])).collect::<Vec<_>>()
    };
    assert_eq!(names(&owner).await, ["default", "special"]);
    assert_eq!(names(&stranger).await, ["default"]);
    let asked = [
        (Method::GET, "/v1/models/special", None),
        (Method::POST, "/v1/responses", Some(json!({ "model": "special", "input": "?" }))),
        (Method::POST, "/chat", Some(json!({ "model": "special", "message": "?" }))),
        (
            Method::POST,
            "/v1/chat/completions",
            Some(json!({ "model": "special", "messages": [{ "role": "user", "content": "?" }] })),
        ),
    ];
    for (method, path, body) in asked {
        let (status, answer) = ask(&world, &owner, method.clone(), path, body.as_ref()).await;
        assert_eq!(status, StatusCode::OK, "{path}: {answer}");
        let (status, answer) = ask(&world, &stranger, method.clone(), path, body.as_ref()).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}: {answer}");
        let none = |value: &Value| value.to_string().replace("special", "none");
        let body = body.map(|body| serde_json::from_str::<Value>(&none(&body)).unwrap());
        let path = path.replace("special", "none");
        let (_, unknown) = ask(&world, &stranger, method, &path, body.as_ref()).await;
        assert_eq!(none(&answer), unknown.to_string(), "{path} tells that it exists");
    }
    world.close().await;
}

/// A1: how long the 404 for an object of another tenant takes says nothing: the medians differ by
/// less than 10 % from those for objects that never existed.
#[tokio::test]
async fn a_404_takes_as_long_for_what_exists() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("runs.db").display());
    let store = Store::open(StoreOptions::at(url)).await.unwrap();
    let world = chatty().store(store.clone()).log(store).start().await;
    let owner = new_key(&world, "owner", OF_ONE_TENANT).await;
    let stranger = new_key(&world, "stranger", OF_ONE_TENANT).await;
    let ids = objects(&world, &owner).await;
    let unknown: BTreeMap<&str, String> = ids
        .iter()
        .map(|(name, id)| (*name, id.replace(|c: char| c.is_ascii_digit(), "7")))
        .collect();
    let reads = ["/v1/runs/{run_id}", "/v1/responses/{response_id}"];
    let mut medians = Vec::new();
    // Tried again: another process may have taken the machine meanwhile.
    for _ in 0..5 {
        medians.clear();
        for template in reads {
            let route = Route { method: Method::GET, template: template.to_owned(), scope: None };
            let paths = [route.path(&ids), route.path(&unknown)];
            let mut times: [Vec<Duration>; 2] = [Vec::new(), Vec::new()];
            for _ in 0..150 {
                for (path, times) in paths.iter().zip(&mut times) {
                    let begin = Instant::now();
                    let (status, _) = ask(&world, &stranger.text, Method::GET, path, None).await;
                    times.push(begin.elapsed());
                    assert_eq!(status, StatusCode::NOT_FOUND, "{path}");
                }
            }
            let [existing, unknown] = times.map(|mut times| {
                times.sort();
                times[times.len() / 2].as_secs_f64()
            });
            medians.push((template, existing / unknown));
        }
        if medians.iter().all(|(_, ratio)| (0.9..1.1).contains(ratio)) {
            break;
        }
    }
    assert!(medians.iter().all(|(_, ratio)| (0.9..1.1).contains(ratio)), "{medians:?}");
    world.close().await;
}

/// A2: a new route cannot be called until it says which scope it needs.
#[test]
fn every_route_names_its_scope() {
    for route in routes().iter().filter(|route| !is_public(route)) {
        assert!(route.scope.is_some(), "{route:?} is not in the table of scopes");
    }
}

/// A1, A2, A16: every route, called with no key, garbage, a revoked and an expired one, with a key
/// of the tenant that lacks the scope, and with a key of another tenant.
#[tokio::test]
async fn the_matrix_of_routes_and_callers() {
    matrix(chatty()).await;
}

/// A1, A2, A16: the same on PostgreSQL with row-level security.
#[tokio::test]
async fn the_matrix_holds_with_row_level_security() {
    let mut options = StoreOptions::at(postgres_url());
    options.tenant_role = Some(tenant_role(&options.url));
    let store = Store::open(options).await.unwrap();
    matrix(chatty().on(&store).keys_of(&store)).await;
    store.close().await;
}

async fn matrix(plan: Plan) {
    let provider = IdentityProvider::start().await;
    let world = plan.options(|options| accept_tokens(options, &provider)).start().await;
    let owner = new_key(&world, "owner", OF_ONE_TENANT).await;
    let stranger = new_key(&world, "stranger", OF_ONE_TENANT).await;
    let strange_token = token_of(&provider, "stranger", &OF_ONE_TENANT, json!({}));
    let revoked = new_key(&world, "owner", OF_ONE_TENANT).await;
    let now = world.app.runs().now();
    let expired = key_until(&world, "owner", OF_ONE_TENANT, Some(now)).await;
    world.app.runs().api_keys().revoke_key(None, &revoked.key_id, now).await.unwrap();
    let ids = objects(&world, &owner).await;
    let unknown: BTreeMap<&str, String> = ids.keys().map(|name| (*name, "none".into())).collect();
    let foreign_tokens = foreign_tokens(&provider);
    let mut n_tried = 0;
    for route in routes().into_iter().filter(|route| !is_public(route)) {
        let (path, body) = (route.path(&ids), route.body(&ids));
        let scope = route.scope.unwrap();
        let others = OF_ONE_TENANT.into_iter().filter(|other| *other != scope);
        let others: Vec<Scope> = others.collect();
        let sibling = new_key(&world, "owner", others.iter().copied()).await;
        let sibling_token = token_of(&provider, "owner", &others, json!({}));
        let garbage = "tw_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
        let refused = [
            (revoked.text.as_str(), StatusCode::UNAUTHORIZED),
            (&expired.text, StatusCode::UNAUTHORIZED),
            ("", StatusCode::UNAUTHORIZED),
            (garbage, StatusCode::UNAUTHORIZED),
            ("' or 1=1 --", StatusCode::UNAUTHORIZED),
            (&sibling.text, StatusCode::FORBIDDEN),
            (&sibling_token, StatusCode::FORBIDDEN),
        ];
        let tokens = foreign_tokens.iter().map(|token| (token.as_str(), StatusCode::UNAUTHORIZED));
        for (key, expected) in refused.into_iter().chain(tokens) {
            let (status, answer) =
                ask(&world, key, route.method.clone(), &path, body.as_ref()).await;
            assert_eq!(status, expected, "{route:?} with {key}: {answer}");
            n_tried += 1;
        }
        let of = |path: String, key: String| {
            let (world, route, body) = (&world, route.clone(), body.clone());
            async move { ask(world, &key, route.method, &path, body.as_ref()).await }
        };
        let (status, answer) = of(path.clone(), stranger.text.clone()).await;
        let (of_token, _) = of(path.clone(), strange_token.clone()).await;
        if route.method == Method::GET {
            assert_eq!(of_token, status, "{route:?} with a token of a stranger");
        } else {
            assert_ne!(of_token, StatusCode::UNAUTHORIZED, "{route:?}");
        }
        if route.names_an_object() {
            let (known_as, nothing) = of(route.path(&unknown), stranger.text.clone()).await;
            assert_eq!(status, known_as, "{route:?}: {answer}");
            assert!(status.is_client_error(), "{route:?}: {answer}");
            let without_ids =
                ids.values().fold(answer.to_string(), |text, id| text.replace(id, "none"));
            assert_eq!(without_ids, nothing.to_string(), "{route:?} tells that it exists");
        } else {
            for (name, id) in ids.iter().filter(|(_, id)| id.contains('_') && id.len() > 10) {
                assert!(!answer.to_string().contains(id), "{route:?} tells a {name}: {answer}");
            }
        }
        n_tried += 1;
    }
    assert!(n_tried >= 800, "{n_tried}");
    let owner_token = token_of(&provider, "owner", &OF_ONE_TENANT, json!({}));
    let run = format!("/v1/runs/{}", ids["run_id"]);
    assert_eq!(ask(&world, &owner_token, Method::GET, &run, None).await.0, StatusCode::OK);
    owner_reaches_everything(&world, &owner.text, &ids).await;
    world.close().await;
}

/// The owner gets to everything that others do not; what is destroyed comes last.
async fn owner_reaches_everything(world: &World, key: &str, ids: &BTreeMap<&'static str, String>) {
    let order = |route: &Route| match route.method {
        Method::GET | Method::HEAD => 0,
        Method::POST => 1,
        _ => 2 + usize::MAX / 2 - route.template.len(),
    };
    // What needs an operator is not the owner's.
    let is_theirs = |route: &Route| !is_public(route) && route.scope != Some(Scope::Operator);
    let mut all: Vec<Route> = routes().into_iter().filter(is_theirs).collect();
    all.sort_by_key(order);
    // These name something that was not made.
    let without = [
        "{call_id}",
        "{chat_id}",
        "{delivery_id}",
        "{server_name}",
        "/rotate",
        "/admin/keys/{key_id}",
    ];
    for route in
        all.iter().filter(|route| !without.iter().any(|part| route.template.contains(part)))
    {
        let (status, answer) =
            ask(world, key, route.method.clone(), &route.path(ids), route.body(ids).as_ref()).await;
        let refused = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN];
        assert!(!refused.contains(&status), "{route:?}: {answer}");
        let is_found = status != StatusCode::NOT_FOUND || answer["error"]["param"].is_string();
        assert!(is_found, "{route:?}: {answer}");
    }
}

/// A1: two tenants do the same things at the same time; neither sees anything of the other.
#[tokio::test]
async fn two_tenants_side_by_side() {
    let world = chatty().start().await;
    let keys = [
        new_key(&world, "left", OF_ONE_TENANT).await,
        new_key(&world, "right", OF_ONE_TENANT).await,
    ];
    let mut random = 0x2545_F491_4F6C_DD1D_u64;
    let mut next = |n: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from(random % n).unwrap()
    };
    let mut seen: [Vec<String>; 2] = [Vec::new(), Vec::new()];
    for round in 0..100 {
        let turn = next(2);
        let (key, animal) = (keys[turn].text.as_str(), ["heron", "otter"][turn]);
        let asked = json!({ "input": format!("{animal} {round}"), "user": animal });
        let (status, answer) = match next(5) {
            0 => ask(&world, key, Method::POST, "/v1/responses", Some(&asked)).await,
            1 => {
                let message = json!({ "message": format!("{animal} {round}") });
                ask(&world, key, Method::POST, "/chat", Some(&message)).await
            }
            2 => ask(&world, key, Method::GET, "/v1/runs", None).await,
            3 => {
                let body = json!({ "metadata": { "animal": animal } });
                ask(&world, key, Method::POST, "/v1/conversations", Some(&body)).await
            }
            _ => {
                // An id of the other tenant.
                let other = &seen[1 - turn];
                let Some(id) = other.get(next(other.len().max(1) as u64)) else { continue };
                let folder = match id.split('_').next().unwrap() {
                    "conv" => "conversations",
                    "run" => "runs",
                    _ => "responses",
                };
                let path = format!("/v1/{folder}/{id}");
                let (status, answer) = ask(&world, key, Method::GET, &path, None).await;
                assert_eq!(status, StatusCode::NOT_FOUND, "{path}: {answer}");
                continue;
            }
        };
        assert_eq!(status, StatusCode::OK, "{answer}");
        let told = answer.to_string();
        assert!(!told.contains(["otter", "heron"][turn]), "{told}");
        assert!(!seen[1 - turn].iter().any(|id| told.contains(id.as_str())), "{told}");
        let id = answer["id"].as_str().or_else(|| answer["data"][0]["run_id"].as_str());
        seen[turn].extend(id.map(str::to_owned));
        if let Some(counts) = answer["counts"].as_object() {
            let total: u64 = counts.values().filter_map(Value::as_u64).sum();
            let listed = answer["data"].as_array().unwrap().len() as u64;
            assert!(total >= listed && total < 100, "counts of one tenant: {answer}");
        }
    }
    assert!(seen.iter().all(|ids| ids.len() > 10), "{seen:?}");
    world.close().await;
}

/// A16: a revoked key ends all streams and sockets that were opened with it within a second, 1,000
/// of 1,000, and leaves those of others alone.
#[tokio::test(flavor = "multi_thread")]
async fn revoking_a_key_ends_what_is_open() {
    let waits = FakeTool::new("wait", Behaviour::WaitsToBeStopped);
    let world = Plan::new([Turn::new().call("wait", json!({}))])
        .tool(waits)
        .options(|options| options.admission.connections_per_key = 10_000)
        .start()
        .await;
    let key = new_key(&world, "owner", OF_ONE_TENANT).await;
    let other = new_key(&world, "owner", OF_ONE_TENANT).await;
    let body = json!({ "input": "?", "background": true, "tools": [{ "type": "function", "name": "wait" }] });
    made(&world, &key.text, "/v1/responses", body).await;
    let (_, runs) = ask(&world, &key.text, Method::GET, "/v1/runs", None).await;
    let path = world.url(&format!("/v1/runs/{}/events", text(&runs["data"][0]["run_id"])));
    let mut streams = Vec::new();
    for _ in 0..9 {
        // A connection has at most 100 streams.
        let client = reqwest::Client::builder().no_proxy().http2_prior_knowledge();
        let client = client.build().unwrap();
        let open = || client.get(&path).bearer_auth(&key.text).send();
        let opened = join_all((0..100).map(|_| open())).await;
        streams.extend(opened.into_iter().map(|response| response.unwrap().bytes_stream()));
    }
    let mut sockets = Vec::new();
    for path in ["/ws/chat", "/v1/responses", "/ai-sdk/chat"] {
        for _ in 0..34 {
            let url = format!("ws://{}{path}", world.address);
            let mut request = url.into_client_request().unwrap();
            let bearer = format!("Bearer {}", key.text).parse().unwrap();
            request.headers_mut().insert("authorization", bearer);
            sockets.push(connect_async(request).await.unwrap().0);
        }
    }
    let mut others =
        world.http.get(&path).bearer_auth(&other.text).send().await.unwrap().bytes_stream();
    for stream in &mut streams {
        stream.next().await.unwrap().unwrap();
    }
    let (sleeper, begin) = (Sleeper::new(), Instant::now());
    let now = world.app.runs().now();
    world.app.runs().api_keys().revoke_key(None, &key.key_id, now).await.unwrap();
    let ended = streams.into_iter().map(|mut stream| async move {
        while let Some(Ok(_)) = stream.next().await {}
        begin.elapsed()
    });
    let closed = sockets.into_iter().map(|mut socket| async move {
        let mut code = None;
        while let Some(Ok(message)) = socket.next().await {
            if let Message::Close(Some(frame)) = message {
                code = Some(u16::from(frame.code));
            }
        }
        assert_eq!(code, Some(1008), "the socket says why");
        begin.elapsed()
    });
    let (ended, closed) = tokio::join!(join_all(ended), join_all(closed));
    let times: Vec<Duration> = ended.into_iter().chain(closed).collect();
    let in_time = Duration::from_secs(1) + sleeper.lost();
    let n_late = times.iter().filter(|time| **time > in_time).count();
    assert_eq!((times.len(), n_late), (1_002, 0), "{:?}", times.iter().max());
    let (status, _) = ask(&world, &key.text, Method::GET, "/v1/models", None).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    others.next().await.unwrap().unwrap();
    let (status, _) = ask(&world, &other.text, Method::GET, "/v1/models", None).await;
    assert_eq!(status, StatusCode::OK, "the other key is valid");
    world.close().await;
}

/// A16: an expiring key ends what is open, too.
#[tokio::test]
async fn an_expired_key_ends_what_is_open() {
    let world = chatty().start().await;
    let soon = world.app.runs().now().later(Duration::from_millis(300));
    let key = key_until(&world, "owner", OF_ONE_TENANT, Some(soon)).await;
    let changes = world.request(Method::GET, "/v1/runs/changes").bearer_auth(&key.text);
    let mut changes = changes.send().await.unwrap().bytes_stream();
    let begin = Instant::now();
    let to_the_end = async { while let Some(Ok(_)) = changes.next().await {} };
    tokio::time::timeout(Duration::from_secs(10), to_the_end).await.expect("the stream ends");
    assert!(begin.elapsed() < Duration::from_millis(1_300), "{:?}", begin.elapsed());
    world.close().await;
}

/// A server without keys is open to all of its machine, until the first key is created; it does not
/// become open again when the last one is revoked.
#[tokio::test]
async fn the_first_key_locks_the_server() {
    let world = chatty().start().await;
    let (status, _) = world.get("/v1/models").await;
    assert_eq!(status, StatusCode::OK);
    let (status, refused) = world.post("/v1/admin/keys", json!({ "name": "first" })).await;
    assert_eq!(
        (status, &refused["error"]["code"]),
        (StatusCode::FORBIDDEN, &json!("needs_first_key"))
    );
    let key = new_key(&world, "default", Scope::USUAL).await;
    let until = Instant::now() + Duration::from_secs(5);
    while world.get("/v1/models").await.0 == StatusCode::OK {
        assert!(Instant::now() < until, "the server stays open");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (status, _) = ask(&world, &key.text, Method::GET, "/v1/models", None).await;
    assert_eq!(status, StatusCode::OK);
    let now = world.app.runs().now();
    world.app.runs().api_keys().revoke_key(None, &key.key_id, now).await.unwrap();
    assert_eq!(world.get("/v1/models").await.0, StatusCode::UNAUTHORIZED);
    world.close().await;
}

/// A2: nobody gives away more than they have, nor to another tenant; and a rotated key goes on for
/// as long as was asked.
#[tokio::test]
async fn keys_are_managed_within_bounds() {
    let world = chatty().start().await;
    let admin = new_key(&world, "acme", [Scope::Admin, Scope::RunsRead]).await;
    let operator = new_key(&world, "ops", [Scope::Operator]).await;
    let create = async |key: &TestKey, body: Value| {
        ask(&world, &key.text, Method::POST, "/v1/admin/keys", Some(&body)).await
    };
    for (body, param) in [
        (json!({ "name": "x", "scopes": ["runs:write"] }), "scopes"),
        (json!({ "name": "x", "scopes": ["operator"] }), "scopes"),
        (json!({ "name": "x", "tenant": "other" }), "tenant"),
    ] {
        let (status, refused) = create(&admin, body).await;
        assert_eq!((status, &refused["error"]["param"]), (StatusCode::FORBIDDEN, &json!(param)));
    }
    for body in [
        json!({}),
        json!({ "name": "" }),
        json!({ "name": "a\u{7}" }),
        json!({ "name": "x".repeat(201) }),
        json!({ "name": "x", "scopes": [] }),
        json!({ "name": "x", "scopes": ["root"] }),
        json!({ "name": "x", "expires_in_sec": 0 }),
    ] {
        assert_eq!(create(&admin, body).await.0, StatusCode::BAD_REQUEST);
    }
    let (status, child) = create(&admin, json!({ "name": "reader", "project": "search" })).await;
    assert_eq!(status, StatusCode::OK, "{child}");
    assert_eq!((&child["tenant"], &child["scopes"]), (&json!("acme"), &json!(["runs:read"])));
    let (status, of_other) =
        create(&operator, json!({ "name": "x", "tenant": "other", "scopes": ["admin"] })).await;
    assert_eq!((status, &of_other["tenant"]), (StatusCode::OK, &json!("other")));
    let list = async |key: &TestKey, path: &str| {
        let (_, keys) = ask(&world, &key.text, Method::GET, path, None).await;
        keys["data"].as_array().map_or(0, Vec::len)
    };
    assert_eq!(list(&admin, "/v1/admin/keys").await, 2);
    assert_eq!(list(&admin, "/v1/admin/keys?tenant=other").await, 0);
    let (status, _) =
        ask(&world, &admin.text, Method::GET, "/v1/admin/keys?tenant=%00", None).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(list(&operator, "/v1/admin/keys").await, 4);
    let (_, keys) = ask(&world, &admin.text, Method::GET, "/v1/admin/keys", None).await;
    assert!(!keys.to_string().contains(&text(&child["key"])), "a key is shown once");
    let of_other = format!("/v1/admin/keys/{}", text(&of_other["key_id"]));
    let (status, _) = ask(&world, &admin.text, Method::DELETE, &of_other, None).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    let stronger = new_key(&world, "acme", [Scope::RunsWrite]).await;
    let stronger = format!("/v1/admin/keys/{}", stronger.key_id);
    let (status, _) = ask(&world, &admin.text, Method::DELETE, &stronger, None).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "what one cannot give one cannot take");
    let soon = world.app.runs().now().later(Duration::from_mins(1));
    let temporary = key_until(&world, "acme", [Scope::Admin], Some(soon)).await;
    let (_, heir) = create(&temporary, json!({ "name": "x", "scopes": ["admin"] })).await;
    assert_eq!(heir["expires_at"], json!(soon), "a key cannot outlive the key that creates it");
    let (status, _) = create(&temporary, json!({ "name": "x" })).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "a key that allows nothing");
    rotates(&world, &admin, &text(&child["key_id"]), &text(&child["key"])).await;
    world.close().await;
}

async fn rotates(world: &World, admin: &TestKey, key_id: &str, old: &str) {
    let path = format!("/v1/admin/keys/{key_id}/rotate");
    let new = made(world, &admin.text, &path, json!({ "overlap_sec": 60 })).await;
    assert_eq!((&new["name"], &new["project"]), (&json!("reader"), &json!("search")));
    let works = async |key: &str| ask(world, key, Method::GET, "/v1/models", None).await.0;
    assert_eq!(
        (works(old).await, works(&text(&new["key"])).await),
        (StatusCode::OK, StatusCode::OK)
    );
    let path = format!("/v1/admin/keys/{}/rotate", text(&new["key_id"]));
    let newer = made(world, &admin.text, &path, json!({})).await;
    let until = Instant::now() + Duration::from_secs(5);
    while works(&text(&new["key"])).await != StatusCode::UNAUTHORIZED {
        assert!(Instant::now() < until, "without an overlap the old key ends");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(works(&text(&newer["key"])).await, StatusCode::OK);
    let (status, refused) = ask(world, &admin.text, Method::POST, &path, Some(&json!({}))).await;
    assert_eq!(
        (status, &refused["error"]["code"]),
        (StatusCode::CONFLICT, &json!("key_not_valid"))
    );
}

/// A17: the journal says who asked for a run and who allowed a call. A share link does not.
#[tokio::test]
async fn the_journal_says_who_asked_and_who_approved() {
    let risky = FakeTool::new("risky", Behaviour::Returns("done".into()));
    let risky = risky.with(|spec| spec.needs_approval = true);
    let turns = [Turn::new().call_with_id("call_1", "risky", json!({})), Turn::new().text("Done.")];
    let world = Plan::new(turns).tool(risky).start().await;
    let asker = new_key(&world, "acme", [Scope::RunsRead, Scope::RunsWrite]).await;
    let approver = new_key(&world, "acme", [Scope::RunsRead, Scope::Approve]).await;
    let body = json!({ "message": "?", "approvals": true });
    let chat = world.request(Method::POST, "/chat/stream").bearer_auth(&asker.text).json(&body);
    let mut chat = chat.send().await.unwrap();
    let first = String::from_utf8(chat.chunk().await.unwrap().unwrap().to_vec()).unwrap();
    assert!(first.contains("approval_request"), "{first}");
    let (_, runs) = ask(&world, &asker.text, Method::GET, "/v1/runs", None).await;
    let run = text(&runs["data"][0]["run_id"]);
    let approve = format!("/v1/runs/{run}/calls/call_1/approve");
    let yes = json!({ "decision": "approve" });
    let (status, _) = ask(&world, &asker.text, Method::POST, &approve, Some(&yes)).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "who asks cannot approve");
    let (status, _) = ask(&world, &approver.text, Method::POST, &approve, Some(&yes)).await;
    assert_eq!(status, StatusCode::OK);
    let journal = async |path: String, key: &str| -> Vec<Value> {
        let request = world.request(Method::GET, &format!("{path}?format=ndjson"));
        let text = world.text(request.bearer_auth(key)).await;
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    };
    let events = journal(format!("/v1/runs/{run}/events"), &approver.text).await;
    let found = |events: &[Value], kind: &str| {
        let mut events = events.iter().map(|recorded| &recorded["event"]);
        events
            .find(|event| event["type"] == kind)
            .cloned()
            .unwrap_or_else(|| panic!("there is no {kind}"))
    };
    let queued = found(&events, "run_queued");
    let asked_by = json!({ "key_id": asker.key_id, "project": "tests" });
    assert_eq!(queued["request"]["asked_by"], asked_by, "{queued}");
    let resolved = found(&events, "approval_resolved");
    assert_eq!(resolved["actor"]["key_id"], json!(approver.key_id), "{resolved}");
    let share = made(&world, &asker.text, &format!("/v1/runs/{run}/share"), json!({})).await;
    let events = journal(format!("/v1/shared/{}/events", text(&share["token"])), "").await;
    assert!(events.len() > 5 && !format!("{events:?}").contains("key_"), "{events:#?}");
    world.close().await;
}

/// A2: a scope is needed for what a request names inside, too, and not for what it does not.
#[tokio::test]
async fn scopes_hold_inside_of_requests() {
    let world = chatty().start().await;
    let owner = new_key(&world, "acme", OF_ONE_TENANT).await;
    let ids = objects(&world, &owner).await;
    let writer = new_key(&world, "acme", [Scope::RunsWrite]).await;
    let file = json!([{ "role": "user", "content": [
        { "type": "input_file", "file_id": ids["file_id"] }
    ] }]);
    let search = json!([{ "type": "file_search", "vector_store_ids": [ids["vector_store_id"]] }]);
    let approval = json!([{
        "type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": true
    }]);
    for body in [
        json!({ "input": file }),
        json!({ "input": "?", "tools": search }),
        json!({ "input": approval }),
    ] {
        let (status, refused) =
            ask(&world, &writer.text, Method::POST, "/v1/responses", Some(&body)).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{body}: {refused}");
        assert_eq!(refused["error"]["code"], "missing_scope", "{refused}");
    }
    made(&world, &writer.text, "/v1/responses", json!({ "input": "?" })).await;
    let resume = world
        .request(Method::POST, "/chat/stream")
        .bearer_auth(&writer.text)
        .header("Last-Event-ID", format!("{}:1", ids["run_id"]))
        .json(&json!({}));
    assert_ne!(resume.send().await.unwrap().status(), StatusCode::OK, "that is reading");
    world.close().await;
}
