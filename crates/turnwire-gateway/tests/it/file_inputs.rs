//! Files that requests only name. C29: a run keeps the name, and the model is shown the file.

use base64::{Engine, prelude::BASE64_STANDARD};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use turnwire_contract::{Content, Item, Prompt};
use turnwire_models::{Scripted, Turn};

use crate::world::{Plan, World, of_type};

async fn upload(world: &World, name: &str, content: &[u8]) -> String {
    let mut form =
        b"--edge\r\ncontent-disposition: form-data; name=\"purpose\"\r\n\r\nuser_data\r\n".to_vec();
    form.extend(
        format!(
            "--edge\r\ncontent-disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n"
        )
        .bytes(),
    );
    form.extend(content);
    form.extend(b"\r\n--edge--\r\n");
    let request = world
        .request(Method::POST, "/v1/files")
        .header("content-type", "multipart/form-data; boundary=edge")
        .body(form);
    let file: Value = serde_json::from_str(&world.text(request).await).unwrap();
    assert_eq!(file["bytes"], content.len());
    file["id"].as_str().unwrap().to_owned()
}

/// Everything that the model was shown by address, pictures of tools included.
fn shown(prompt: &Prompt) -> Vec<String> {
    let addresses = prompt.items.iter().flat_map(|item| match &**item {
        Item::Message { content, .. } => content
            .iter()
            .filter_map(|part| match part {
                Content::Image { url, .. } | Content::File { url, .. } => Some(url.clone()),
                Content::Text { .. } | Content::Refusal { .. } => None,
            })
            .collect(),
        Item::CallResult { images, .. } => {
            images.iter().map(turnwire_contract::Image::data_url).collect()
        }
        _ => Vec::new(),
    });
    addresses.collect()
}

fn plan() -> (Plan, Scripted) {
    let model = Scripted::new([Turn::new().text("I see.")]).repeat_last();
    (Plan::with_model(model.clone()), model)
}

/// C29: whatever names a file, and however often, costs its name in the journal and in the
/// conversation; the model is shown all of it, in every turn; the client is told the name.
#[tokio::test]
async fn a_named_file_is_kept_by_its_name() {
    let (plan, model) = plan();
    let world = plan.start().await;
    let content = vec![b'x'; 2_000_000];
    let (text, picture) =
        (upload(&world, "a.txt", &content).await, upload(&world, "a.png", b"PNG").await);
    let first = world
        .respond(json!({ "input": [{ "role": "user", "content": [
            { "type": "input_file", "file_id": text },
            { "type": "input_image", "file_id": picture },
        ] }] }))
        .await;
    let expected = [
        format!("data:text/plain;base64,{}", BASE64_STANDARD.encode(&content)),
        format!("data:image/png;base64,{}", BASE64_STANDARD.encode("PNG")),
    ];
    assert_eq!(shown(&model.prompts()[0]), expected);

    let id = first["id"].as_str().unwrap();
    let next = json!({ "input": "And now?", "previous_response_id": id });
    world.respond(next).await;
    assert_eq!(shown(&model.prompts()[1]), expected);

    let run = id.replacen("resp_", "run_", 1);
    let journal = world.text(world.request(Method::GET, &format!("/v1/runs/{run}/events"))).await;
    assert!(journal.len() < 20_000, "{}", journal.len());
    let (_, items) = world.get(&format!("/v1/responses/{id}/input_items")).await;
    let parts = &items["data"][0]["content"];
    assert_eq!(parts[0], json!({ "type": "input_file", "filename": "a.txt", "file_id": text }));
    let image = json!({ "type": "input_image", "file_id": picture, "detail": "auto" });
    assert_eq!(parts[1], image);
    // What was told can be sent again.
    world.respond(json!({ "input": [{ "role": "user", "content": parts }] })).await;
    assert_eq!(shown(&model.prompts()[2]), expected);
    world.close().await;
}

/// C29: the same in the outputs of tools that the client runs, as far as they are pictures; texts
/// become a part of the output, and so they have a limit.
#[tokio::test]
async fn a_file_in_the_output_of_a_tool() {
    let (plan, model) = plan();
    let world = plan.start().await;
    let picture = upload(&world, "a.png", b"PNG").await;
    let at_limit = upload(&world, "a.txt", &vec![b'x'; 1024 * 1024]).await;
    let past_it = upload(&world, "b.txt", &vec![b'x'; 1024 * 1024 + 1]).await;
    let ask = async |part: Value| {
        let input = json!([
            { "type": "function_call", "call_id": "c", "name": "f", "arguments": "{}" },
            { "type": "function_call_output", "call_id": "c", "output": [part] },
        ]);
        let tools = json!([{ "type": "function", "name": "f", "parameters": null }]);
        world.post("/v1/responses", json!({ "input": input, "tools": tools })).await
    };
    let (status, response) = ask(json!({ "type": "input_image", "file_id": picture })).await;
    assert_eq!(status, StatusCode::OK, "{response}");
    let expected = format!("data:image/png;base64,{}", BASE64_STANDARD.encode("PNG"));
    assert_eq!(shown(&model.prompts()[0]), [expected]);

    let (status, response) = ask(json!({ "type": "input_file", "file_id": at_limit })).await;
    assert_eq!(status, StatusCode::OK, "{response}");
    let prompts = model.prompts();
    let told = prompts[1].items.iter().find_map(|item| match &**item {
        Item::CallResult { output, .. } => Some(output.len()),
        _ => None,
    });
    assert_eq!(told, Some("a.txt:\n".len() + 1024 * 1024));
    let (status, refusal) = ask(json!({ "type": "input_file", "file_id": past_it })).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{refusal}");
    assert_eq!(refusal["error"]["code"], "invalid_value");
    world.close().await;
}

/// C29, A1: an address of the library is not something that a client can write.
#[tokio::test]
async fn the_address_of_a_file_cannot_be_sent() {
    let (plan, model) = plan();
    let world = plan.start().await;
    let file = upload(&world, "a.png", b"PNG").await;
    let address = format!("turnwire-file:{file};image/png");
    let parts = [
        json!({ "type": "input_image", "image_url": address }),
        json!({ "type": "input_file", "file_url": address }),
        json!({ "type": "input_file", "file_data": address }),
    ];
    for part in parts {
        let body = json!({ "input": [{ "role": "user", "content": [part] }] });
        let (status, refusal) = world.post("/v1/responses", body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{refusal}");
    }
    assert!(model.prompts().is_empty());
    world.close().await;
}

/// C29: a file that is deleted before the model is asked ends the run, and the client is told which
/// one it was; in a later turn the model is told instead.
#[tokio::test]
async fn a_deleted_file_is_told() {
    let model = Scripted::new([
        Turn::new().text("I see."),
        Turn::new().call("slow", json!({})),
        Turn::new().text("Never said."),
    ]);
    let slow = turnwire_testkit::Behaviour::WaitsToBeStopped;
    let plan = Plan::with_model(model.clone())
        .server("tools", [turnwire_testkit::FakeTool::new("slow", slow)]);
    let world = plan.start().await;
    let file = upload(&world, "a.txt", b"text").await;
    let input = json!([{ "role": "user", "content": [{ "type": "input_file", "file_id": file }] }]);
    let first = world.respond(json!({ "input": input })).await;

    let tools = json!([{ "type": "mcp", "server_label": "tools", "require_approval": "never" }]);
    let body = json!({ "input": input, "tools": tools, "background": true });
    let second = world.respond(body).await;
    let run = second["id"].as_str().unwrap().replacen("resp_", "run_", 1);
    let call = loop {
        let (_, snapshot) = world.get(&format!("/v1/runs/{run}")).await;
        if snapshot["calls"][0]["state"] == "running" {
            break snapshot["calls"][0]["call_id"].as_str().unwrap().to_owned();
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(world.delete(&format!("/v1/files/{file}")).await.0, StatusCode::OK);
    world.post(&format!("/v1/runs/{run}/calls/{call}/cancel"), json!({})).await;
    let path = format!("/v1/responses/{}?stream=true", second["id"].as_str().unwrap());
    let events = crate::world::events_of(&world.text(world.request(Method::GET, &path)).await);
    let failed = of_type(&events, "response.failed");
    let message = failed[0]["response"]["error"]["message"].as_str().unwrap();
    assert!(message.contains(&file), "{message}");

    let body = json!({ "input": "And?", "previous_response_id": first["id"] });
    let third = world.respond(body).await;
    assert_eq!(third["status"], "completed");
    let told = format!("{:?}", model.prompts().last().unwrap().items);
    assert!(told.contains("has been deleted"), "{told}");
    world.close().await;
}
