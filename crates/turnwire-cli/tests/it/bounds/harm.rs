//! What says too much: a site, MCP servers, a program.

use futures::{StreamExt, stream};
use serde_json::{Value, json};
use turnwire_testkit::{
    HostileMcp,
    hostile_mcp::{Answer, fine, list_changed, notification, question, result_of, tool, tool_with},
};

use super::{KIB, MIB, flood::Flow};

/// A program that answers a call with 160 MiB on one line.
pub(super) const PROGRAM: &str = r#"
while read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    case "$line" in
    *'"method":"initialize"'*) what='"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"p","version":"1"}}' ;;
    *'"method":"tools/list"'*) what='"result":{"tools":[{"name":"huge","inputSchema":{"type":"object"}}]}' ;;
    *'"method":"tools/call"'*)
        printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"' "$id"
        head -c 167772160 /dev/zero | tr '\0' x
        printf '"}]}}\n'
        continue ;;
    *'"id":'*) what='"error":{"code":-32601,"message":"no such method"}' ;;
    *) continue ;;
    esac
    printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$what"
done
"#;

/// What the site says.
pub(super) fn flow(path: &str, body: &str) -> Flow {
    let delta = |delta: Value| {
        let chunk = json!({ "choices": [{ "index": 0, "delta": delta }] });
        format!("data: {chunk}\n\n")
    };
    let called = |index: usize, name: &str, arguments: &str| {
        let function = json!({ "name": name, "arguments": arguments });
        let id = format!("call_{index}");
        json!({ "tool_calls": [{ "index": index, "id": id, "type": "function", "function": function }] })
    };
    let last = "data: [DONE]\n\n";
    match path {
        "/long_line/v1/chat/completions" => {
            let head = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"";
            Flow::events(head, "\"}}]}\n\n").filled(10 * MIB)
        }
        "/long_turn/v1/chat/completions" => {
            let piece = delta(json!({ "content": "x".repeat(32 * KIB) }));
            Flow::events("", last).of(40 * MIB / (32 * KIB), move |_| piece.clone())
        }
        "/many_calls/v1/chat/completions" => {
            Flow::events("", last).of(10_240, move |n| delta(called(n, "nothing", "{}")))
        }
        "/big_arguments/v1/chat/completions" if body.contains("\"role\":\"tool\"") => {
            Flow::events(&delta(json!({ "content": "Done." })), last)
        }
        "/big_arguments/v1/chat/completions" => {
            let begin = delta(called(0, "look", "{\"x\":\""));
            let piece = json!({ "index": 0, "function": { "arguments": "x".repeat(64 * KIB) } });
            let piece = delta(json!({ "tool_calls": [piece] }));
            let end = json!({ "index": 0, "function": { "arguments": "\"}" } });
            let end = delta(json!({ "tool_calls": [end] })) + last;
            Flow::events(&begin, &end).of(40, move |_| piece.clone())
        }
        "/v1/models" => Flow::json("{\"data\":[{\"id\":\"", "\"}]}").filled(160 * MIB),
        "/v1/embeddings" => {
            Flow::json("{\"data\":[{\"index\":0,\"embedding\":[\"", "\"]}]}").filled(160 * MIB)
        }
        "/function" => Flow::json("{\"said\":\"", "\"}").filled(10 * MIB),
        "/search" => {
            let head = "{\"results\":[{\"url\":\"https://a.example/\",\"title\":\"";
            Flow::json(head, "\"}]}").filled(10 * MIB)
        }
        "/page" => Flow::new("text/html", "<p>", "</p>").filled(20 * MIB),
        "/hook" => Flow::json("", "").filled(160 * MIB),
        "/guarded/mcp" => Flow::json("", "").status("401 X", "www-authenticate: Bearer"),
        // Whatever is below /.well-known.
        _ => Flow::json("{\"issuer\":\"", "\"}").filled(160 * MIB),
    }
}

/// A server whose tools answer with too much, each in its own way.
pub(super) async fn busy() -> HostileMcp {
    let values: Vec<Value> = (1..4_000).map(|n| json!({ "const": n })).collect();
    let look = json!({
        "type": "object",
        "properties": { "x": { "type": "array", "items": { "anyOf": values } } },
    });
    let names = ["huge", "whole", "error", "form", "notes", "images"];
    let mut tools = names.map(tool).to_vec();
    tools.push(tool_with("look", "Looks.", &look));
    HostileMcp::start(tools, |server, request| {
        let answer = result_of(request, &fine());
        Some(match request.pointer("/params/name")?.as_str()? {
            "huge" => Answer::Long(160 * MIB),
            "whole" => {
                let text = "w".repeat(8 * MIB);
                Answer::Result(json!({ "content": [{ "type": "text", "text": text }] }))
            }
            "error" => Answer::Status(500, "application/json", 640 * KIB),
            "form" => {
                let field = json!({ "type": "string", "description": "d".repeat(640 * KIB) });
                let form = json!({ "type": "object", "properties": { "x": field } });
                let server = server.clone();
                let last = stream::once(async move {
                    server.replies(1).await;
                    answer
                });
                Answer::Events(stream::iter([question("q", "Please", &form)]).chain(last).boxed())
            }
            "notes" => {
                let token = request["params"]["_meta"]["progressToken"].clone();
                let notes = (0..3_000).map(move |n| match n % 3 {
                    0 => notification(
                        "notifications/message",
                        &json!({ "level": "info", "data": "l".repeat(10 * KIB) }),
                    ),
                    _ => notification(
                        "notifications/progress",
                        &json!({
                            "progressToken": token, "progress": n,
                            "message": "m".repeat(10 * KIB),
                        }),
                    ),
                });
                Answer::events(notes.chain([answer]))
            }
            "images" => {
                let image = |n_bytes: usize| {
                    let data = "A".repeat(n_bytes);
                    json!({ "type": "image", "mimeType": "image/png", "data": data })
                };
                let mut images = vec![image(5 * MIB)];
                images.resize(160, image(60 * KIB));
                Answer::Result(json!({ "content": images }))
            }
            _ => return None,
        })
    })
    .await
}

/// A handshake of 40 MiB.
pub(super) fn greeter(_: &HostileMcp, request: &Value) -> Option<Answer> {
    let is_it = ["initialize", "server/discover"].contains(&request["method"].as_str()?);
    is_it.then_some(Answer::Long(40 * MIB))
}

/// Pages of 3 MiB without an end, with tools of 60 KiB.
pub(super) fn lister(server: &HostileMcp, request: &Value) -> Option<Answer> {
    let (page, text) = (server.asked("tools/list"), "d".repeat(60 * KIB));
    let name = |n| format!("tool_{page}_{n}");
    let tools = || -> Vec<Value> {
        (0..50).map(|n| tool_with(&name(n), &text, &json!({ "type": "object" }))).collect()
    };
    let is_list = request["method"] == "tools/list";
    is_list.then(|| Answer::Result(json!({ "tools": tools(), "nextCursor": "more" })))
}

/// A list whose answer says that it has changed already.
pub(super) fn changing(server: &HostileMcp, request: &Value) -> Option<Answer> {
    let tools = [tool(&format!("tool_{}", server.asked("tools/list")))];
    let answer = result_of(request, &json!({ "tools": tools }));
    (request["method"] == "tools/list").then(|| Answer::events([list_changed(), answer]))
}
