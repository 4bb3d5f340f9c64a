//! Tools that a server lists and no model is offered.

use serde_json::{Value, json};
use turnwire_testkit::{
    HostileMcp,
    hostile_mcp::{tool, tool_with},
    upstreams::Upstreams,
};

use crate::{
    serve::{Gateway, json_of},
    world::World,
};

/// A19: of a server with a tool that is too large, one whose schema is nested too deeply, and one
/// that is fine, everybody is told which two are not offered and why: by the event, the snapshot,
/// the response, the list of servers, `turnwire mcp` and `turnwire run`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everybody_is_told_which_tools_are_not_offered() {
    let deep = (0..70).fold(json!({}), |inner, _| json!({ "items": inner }));
    let server = HostileMcp::listing(vec![
        tool_with("huge", "A tool.", &json!({ "type": "object", "title": "x".repeat(70_000) })),
        tool_with("deep", "A tool.", &json!({ "type": "object", "properties": { "x": deep } })),
        tool("fine"),
    ])
    .await;
    let model = Upstreams::start(0).await.unwrap();
    let settings = format!(
        "[models.default]\nkind = \"chat_completions\"\nbase_url = \"{}\"\nmodel = \"scripted\"\n\
         [mcp_servers.odd]\nurl = \"{}\"\n",
        model.model_url(),
        server.url()
    );
    let world = World::new().with_file("turnwire.toml", &settings);
    let left_out = json!({ "tools": [
        {
            "name": "huge",
            "reason": "its name, title, description and schema have more than 64 KiB",
        },
        { "name": "deep", "reason": "the schema is nested more than 64 levels deep" },
    ] });

    let gateway = Gateway::start(&world, &["serve", "--json", "--listen", "127.0.0.1:0"]);
    let script = json!({ "turns": [{ "text": "Done." }] }).to_string();
    let odd = json!({ "type": "mcp", "server_label": "odd" });
    let body = json!({ "input": script, "tools": [odd] });
    let (_, response) = json_of(gateway.post("/v1/responses", &body)).await;
    let list = &response["output"][0];
    assert_eq!(list["tools"].as_array().unwrap().len(), 1, "{response:#}");
    assert_eq!(list["turnwire"]["left_out"], left_out);

    let (_, runs) = json_of(gateway.get("/v1/runs")).await;
    let path = format!("/v1/runs/{}", runs["data"][0]["run_id"].as_str().unwrap());
    let (_, snapshot) = json_of(gateway.get(&path)).await;
    assert_eq!(snapshot["servers"][0]["tools"], json!(["fine"]), "{snapshot:#}");
    assert_eq!(snapshot["servers"][0]["left_out"], left_out);
    let events = gateway.get(&format!("{path}/events")).send().await.unwrap().text().await.unwrap();
    let mut events = events.lines().filter_map(|line| line.strip_prefix("data: "));
    let listed = events.find(|event| event.contains("\"tools_discovered\"")).unwrap();
    let listed: Value = serde_json::from_str(listed).unwrap();
    assert_eq!(listed["event"]["left_out"], left_out, "{listed:#}");
    let (_, servers) = json_of(gateway.get("/v1/mcp_servers")).await;
    assert_eq!(servers["data"][0]["tools"].as_array().unwrap().len(), 1, "{servers:#}");
    assert_eq!(servers["data"][0]["left_out"], left_out);

    let done = world.run(&["mcp", "list", "--json"]);
    let servers: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(servers[0]["left_out"], left_out, "{servers:#}");
    let line = "huge (its name, title, description and schema have more than 64 KiB), \
                deep (the schema is nested more than 64 levels deep)";
    let done = world.run(&["mcp", "test", "odd"]);
    assert!(done.stdout.contains(&format!("\n  not offered: {line}\n")), "{}", done.stdout);
    let done = world.run(&["run", &script]);
    let told = format!("tools of odd not offered: {line}\n");
    assert!(done.stderr.contains(&told), "{}", done.stderr);
    assert_eq!(done.stdout, "Done.\n");
}
