//! Models, MCP servers and tools that not everybody may use: for the others they do not exist, on
//! any surface, and after a run has moved to another server.

use std::{collections::BTreeSet, sync::Arc};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use turnwire_contract::{Scope, TenantId};
use turnwire_engine::{Access, AccessRules, ServerAccess};
use turnwire_models::{Scripted, Turn};
use turnwire_testkit::{Behaviour, FakeTool};

use crate::{
    tenants::{ask, made, new_key},
    world::{Plan, World},
};

/// What every key here may do.
const USUAL: [Scope; 3] = [Scope::RunsRead, Scope::RunsWrite, Scope::Approve];

fn own(name: &str) -> Scope {
    name.parse().unwrap()
}

fn needs(name: &str) -> Access {
    Access { tenants: None, scopes: Some([own(name)].into()) }
}

fn rules() -> AccessRules {
    let delete = ("delete".to_owned(), needs("use:crm-admin"));
    let crm = ServerAccess { server: needs("use:crm"), tools: [delete].into() };
    let tenants: BTreeSet<TenantId> = [TenantId::from("acme")].into();
    AccessRules {
        models: [("large".to_owned(), needs("use:large"))].into(),
        tools: [
            ("weather".to_owned(), needs("use:weather")),
            ("web_search".to_owned(), Access { tenants: Some(tenants), scopes: None }),
        ]
        .into(),
        servers: [("crm".to_owned(), crm)].into(),
        ..AccessRules::default()
    }
}

fn tool(name: &str) -> FakeTool {
    FakeTool::new(name, Behaviour::Returns(format!("done by {name}")))
}

fn plan(turns: impl IntoIterator<Item = Turn>) -> Plan {
    let search = tool("web_search").with(|spec| spec.kind = turnwire_contract::ToolKind::WebSearch);
    Plan::new(turns)
        .model("large", Arc::new(Scripted::new(vec![Turn::new().text("Hi."); 20])))
        .tool(tool("weather"))
        .tool(search)
        .server("crm", [tool("find"), tool("delete")])
        .server("open", [tool("ping")])
        .access(rules())
}

async fn key_with(world: &World, names: &[&str]) -> String {
    let scopes = names.iter().map(|name| own(name)).chain(USUAL);
    new_key(world, "acme", scopes).await.text
}

/// The tools that the model was offered in its last turn.
fn offered(world: &World) -> Vec<String> {
    let prompts = world.model.prompts();
    let tools = &prompts.last().unwrap().tools;
    tools.iter().map(|tool| tool.name.clone()).collect()
}

fn names(list: &Value, key: &str) -> Vec<String> {
    let data = list.as_array().unwrap().iter();
    data.map(|entry| entry[key].as_str().unwrap().to_owned()).collect()
}

/// A caller without one of its scopes sees a model as if it did not exist: in the list, by its
/// name, and in requests of every kind, with the answer that any unknown name gets.
#[tokio::test]
async fn a_model_needs_one_of_its_scopes() {
    let world = plan(vec![Turn::new().text("Hi."); 20]).start().await;
    let with = key_with(&world, &["use:large"]).await;
    let without = key_with(&world, &["use:other"]).await;
    let (_, models) = ask(&world, &with, Method::GET, "/v1/models", None).await;
    assert!(names(&models["data"], "id").contains(&"large".to_owned()), "{models}");
    let (_, models) = ask(&world, &without, Method::GET, "/v1/models", None).await;
    assert!(!models.to_string().contains("large"), "{models}");
    let by_name = async |key: &str, name: &str| {
        ask(&world, key, Method::GET, &format!("/v1/models/{name}"), None).await
    };
    assert_eq!(by_name(&with, "large").await.0, StatusCode::OK);
    let (hidden, unknown) = (by_name(&without, "large").await, by_name(&without, "xxxxx").await);
    assert_eq!(hidden.0, StatusCode::NOT_FOUND);
    let like_unknown = hidden.1.to_string().replace("large", "xxxxx");
    assert_eq!(like_unknown, unknown.1.to_string(), "nothing tells the two apart");
    let message = json!([{ "role": "user", "content": "?" }]);
    for (path, body) in [
        ("/v1/responses", json!({ "model": "large", "input": "?" })),
        ("/v1/responses/input_tokens", json!({ "model": "large", "input": "?" })),
        ("/v1/responses/compact", json!({ "model": "large", "input": "?" })),
        ("/v1/chat/completions", json!({ "model": "large", "messages": message })),
        ("/chat", json!({ "model": "large", "message": "?" })),
    ] {
        let (status, refused) = ask(&world, &without, Method::POST, path, Some(&body)).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}: {refused}");
        assert_eq!(refused["error"]["code"], "model_not_found", "{path}: {refused}");
    }
    made(&world, &with, "/v1/responses", json!({ "model": "large", "input": "?" })).await;
    let all = key_with(&world, &["use:*"]).await;
    made(&world, &all, "/v1/responses", json!({ "model": "large", "input": "?" })).await;
    world.close().await;
}

/// Tools of servers and of the process are listed, offered and called with their scopes alone.
#[tokio::test]
async fn a_tool_needs_one_of_its_scopes() {
    let world = plan(vec![Turn::new().text("Hi."); 20]).start().await;
    let without = key_with(&world, &[]).await;
    let some = key_with(&world, &["use:crm"]).await;
    let all = key_with(&world, &["use:crm", "use:crm-admin", "use:weather"]).await;
    let listed = async |key: &str| {
        let (_, servers) = ask(&world, key, Method::GET, "/v1/mcp_servers", None).await;
        let servers = servers["data"].as_array().unwrap().clone();
        let tools = servers.iter().flat_map(|server| names(&server["tools"], "name"));
        tools.collect::<Vec<_>>()
    };
    assert_eq!(listed(&without).await, ["ping"]);
    assert_eq!(listed(&some).await, ["find", "ping"]);
    assert_eq!(listed(&all).await, ["find", "delete", "ping"]);
    for (key, expected) in [
        (&without, &["web_search", "ping"][..]),
        (&some, &["web_search", "find", "ping"]),
        (&all, &["weather", "web_search", "find", "delete", "ping"]),
    ] {
        made(&world, key, "/chat", json!({ "message": "?" })).await;
        assert_eq!(offered(&world), expected);
    }
    let server = |label: &str| json!({ "type": "mcp", "server_label": label });
    let request = |label: &str| json!({ "input": "?", "tools": [server(label)] });
    let refused = async |label: &str| {
        ask(&world, &without, Method::POST, "/v1/responses", Some(&request(label))).await
    };
    let (hidden, unknown) = (refused("crm").await, refused("xxx").await);
    assert_eq!(hidden.1.to_string().replace("crm", "xxx"), unknown.1.to_string());
    made(&world, &some, "/v1/responses", request("crm")).await;
    assert_eq!(offered(&world), ["find"]);
    let tried = async |key: &str, tool: &str| {
        let path = format!("/v1/mcp_servers/crm/tools/{tool}/try");
        ask(&world, key, Method::POST, &path, Some(&json!({}))).await.0
    };
    assert_eq!(tried(&without, "find").await, StatusCode::NOT_FOUND);
    assert_eq!(tried(&some, "delete").await, StatusCode::NOT_FOUND);
    assert_eq!(tried(&all, "delete").await, StatusCode::CREATED);
    world.close().await;
}

/// A function of the server is the client's own for whoever may not use it, and a search is
/// refused.
#[tokio::test]
async fn tools_of_the_process_may_belong_to_tenants() {
    let world = plan(vec![Turn::new().text("Hi."); 20]).start().await;
    let stranger = new_key(&world, "other", USUAL).await.text;
    let acme = key_with(&world, &[]).await;
    let body = json!({ "input": "?", "tools": [{ "type": "web_search" }] });
    made(&world, &acme, "/v1/responses", body.clone()).await;
    assert_eq!(offered(&world), ["web_search"]);
    let (status, refused) =
        ask(&world, &stranger, Method::POST, "/v1/responses", Some(&body)).await;
    assert_eq!(
        (status, &refused["error"]["param"]),
        (StatusCode::BAD_REQUEST, &json!("tools[0].type"))
    );
    world.close().await;
}

/// Whoever continues a response or a conversation does so with their own scopes: a call that waits
/// for approval is not made for somebody who may not use its tool.
#[tokio::test]
async fn a_continued_run_has_the_scopes_of_who_continues_it() {
    let calls = Turn::new().call_with_id("call_1", "delete", json!({}));
    let world = plan([calls, Turn::new().text("Hm."), Turn::new().text("Hm.")]).start().await;
    let admin = key_with(&world, &["use:crm", "use:crm-admin"]).await;
    let user = key_with(&world, &["use:crm"]).await;
    let server = json!({
        "type": "mcp", "server_label": "crm", "require_approval": "always"
    });
    let body = json!({ "input": "?", "tools": [server.clone()] });
    let asked = made(&world, &admin, "/v1/responses", body).await;
    let request = asked["output"].as_array().unwrap().iter();
    let mut request = request.filter(|item| item["type"] == "mcp_approval_request");
    let request = request.next().unwrap_or_else(|| panic!("{asked:#}"));
    let body = json!({
        "previous_response_id": asked["id"],
        "input": [{
            "type": "mcp_approval_response", "approval_request_id": request["id"], "approve": true
        }],
        "tools": [server],
    });
    let answered = made(&world, &user, "/v1/responses", body.clone()).await;
    assert!(!answered.to_string().contains("done by delete"), "{answered:#}");
    assert_eq!(offered(&world), ["find"]);
    let answered = made(&world, &admin, "/v1/responses", body).await;
    assert!(answered.to_string().contains("done by delete"), "{answered:#}");
    world.close().await;
}

/// The journal keeps the scopes that count, for workers that take the run over; whoever has a share
/// link does not see them.
#[tokio::test]
async fn a_run_records_the_scopes_that_count() {
    let world = plan([Turn::new().text("Hi.")]).start().await;
    let key = key_with(&world, &["use:crm", "use:elsewhere"]).await;
    let response = made(&world, &key, "/v1/responses", json!({ "input": "?" })).await;
    let run = response["id"].as_str().unwrap().replacen("resp_", "run_", 1);
    let events = async |path: String, key: &str| {
        let request = world.request(Method::GET, &format!("{path}/events?format=ndjson"));
        world.text(request.bearer_auth(key)).await
    };
    let journal = events(format!("/v1/runs/{run}"), &key).await;
    assert!(journal.contains(r#""uses":["use:crm"]"#), "{journal}");
    let share = made(&world, &key, &format!("/v1/runs/{run}/share"), json!({})).await;
    let shared = events(format!("/v1/shared/{}", share["token"].as_str().unwrap()), "").await;
    assert!(shared.contains("run_queued") && !shared.contains("use:"), "{shared}");
    world.close().await;
}
