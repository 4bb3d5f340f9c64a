//! Our MCP client against servers that say too much: what one answer, list, note or form may cost.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on should fall over"
)]

#[expect(dead_code, reason = "shared with the other tests of our MCP client")]
mod mcp_world;

use std::{fs, sync::Arc, time::Duration};

use axum::body::Bytes;
use futures::{StreamExt, stream};
use mcp_world::{LABEL, Listener, call_with, known, names, one, tool, tools};
use serde_json::{Map, Value, json};
use tokio::time::timeout;
use turnwire_contract::{
    Reply, TenantId, ToolError, ToolNote, ToolOutput, ToolServers, WhyLeftOut,
};
use turnwire_testkit::{
    HostileMcp,
    hostile_mcp::{
        Answer, fine, list_changed, newer, notification, question, result_of, tool as simple,
        tool_with,
    },
};
use turnwire_tools::{McpServerOptions, McpServers};

const MIB: usize = 1024 * 1024;

/// What the sockets of both sides may hold beside what is read.
const IN_SOCKETS: usize = 16 * MIB;

/// How much more memory an answer may take than its limit.
const MULTIPLE: usize = 8;

/// The most memory that this process had so far. Each test is a process of its own.
fn peak() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    let kilobytes: usize = line.trim().trim_end_matches(" kB").parse().expect("a size");
    kilobytes * 1024
}

fn client_of(server: &HostileMcp) -> McpServers {
    one(McpServerOptions::http(server.url()))
}

async fn call(servers: &McpServers, name: &str) -> Result<ToolOutput, ToolError> {
    let tool = tool(servers, name).await;
    let nobody = Arc::default();
    // More than our patience: much has to be sent before the limit is reached.
    let calling = call_with(tool.as_ref(), json!({}), &nobody);
    timeout(Duration::from_mins(2), calling).await.expect("the call takes too long")
}

/// A server with two tools, of which `huge` has this answer.
async fn with_huge(answer: fn() -> Answer) -> HostileMcp {
    HostileMcp::start(vec![simple("huge"), simple("small")], move |_, request| {
        let is_it = request.pointer("/params/name").is_some_and(|name| name == "huge");
        is_it.then(answer)
    })
    .await
}

/// A19: a result over 16 MiB fails its call with a message that says so, whatever its form, and
/// only that call. No more is read, and memory stays within a multiple of the limit.
#[tokio::test]
async fn a_result_is_read_up_to_its_limit() {
    let answers: [fn() -> Answer; 2] =
        [|| Answer::Long(400 * MIB), || Answer::LongEvent(400 * MIB)];
    for answer in answers {
        let server = with_huge(answer).await;
        let servers = client_of(&server);
        tools(&servers).await.unwrap();
        let before = peak();
        let failed = call(&servers, "huge").await;
        let words = "the answer of the server `props` has more than 16 MiB or 250,000 values and \
                     was not read; the call may have been executed";
        assert_eq!(failed, Err(ToolError::failed(words)));
        let cost = peak() - before;
        assert!(cost < MULTIPLE * 16 * MIB, "it cost {} MiB", cost / MIB);
        assert!(server.n_sent() < 16 * MIB + IN_SOCKETS, "{} MiB are sent", server.n_sent() / MIB);
        assert_eq!(call(&servers, "small").await, Ok(ToolOutput::text("fine")));
        assert_eq!(server.asked("tools/list"), 1, "the connection is the same");
    }
}

/// A19, A13: a result at the limit is read, with memory within a multiple of it.
#[tokio::test]
async fn a_result_at_the_limit_is_read() {
    let server = with_huge(|| Answer::Long(16 * MIB - 1024)).await;
    let servers = client_of(&server);
    tools(&servers).await.unwrap();
    let before = peak();
    let result = call(&servers, "huge").await.unwrap();
    let cost = peak() - before;
    assert_eq!(result.text.len(), 16 * MIB - 1024);
    assert!(cost < MULTIPLE * 16 * MIB, "it cost {} MiB", cost / MIB);
}

/// A19: small values take much more memory than bytes, so they are counted.
#[tokio::test]
async fn a_result_of_many_values_is_not_read() {
    let of_many = |request: &Value, n: usize| {
        let (id, more) = (&request["id"], ",{}".repeat(n));
        let data = format!(r#"{{"content":[],"structuredContent":{{"x":[0{more}]}}}}"#);
        Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{data}}}"#))
    };
    let server = HostileMcp::start(vec![simple("few"), simple("many")], move |_, request| {
        let n = match request["params"]["name"].as_str()? {
            "few" => 100_000,
            _ => 5_000_000,
        };
        Some(Answer::Raw(Vec::new(), of_many(request, n)))
    })
    .await;
    let servers = client_of(&server);
    let few = call(&servers, "few").await.unwrap();
    assert_eq!(few.structured.unwrap()["x"].as_array().unwrap().len(), 100_001);
    let before = peak();
    let many = call(&servers, "many").await;
    assert!(matches!(&many, Err(ToolError::Failed(why)) if why.contains("250,000 values")));
    let cost = peak().saturating_sub(before);
    assert!(cost < MULTIPLE * 16 * MIB, "it cost {} MiB", cost / MIB);
}

/// A19: of an HTTP error, no more than its beginning is read, and nothing of it is kept.
#[tokio::test]
async fn an_http_error_is_read_up_to_its_limit() {
    for (status, kind) in
        [(400, "text/plain"), (400, "application/json"), (500, "application/json")]
    {
        let server = HostileMcp::start(vec![simple("huge")], move |_, request| {
            let is_call = request["method"] == "tools/call";
            is_call.then_some(Answer::Status(status, kind, 400 * MIB))
        })
        .await;
        let servers = client_of(&server);
        tools(&servers).await.unwrap();
        let before = peak();
        let failed = call(&servers, "huge").await.unwrap_err();
        assert!(failed.to_string().len() < 1_000, "{failed}");
        let cost = peak() - before;
        assert!(cost < 32 * MIB, "{status} {kind} cost {} MiB", cost / MIB);
        assert!(server.n_sent() < IN_SOCKETS, "{} MiB are sent", server.n_sent() / MIB);
    }
}

/// A19: a compressed answer is not unpacked, since none was asked for.
#[tokio::test]
async fn a_compressed_answer_is_not_unpacked() {
    let server = HostileMcp::start(vec![simple("packed")], |_, request| {
        let packed = Bytes::from_static(b"\x1f\x8b\x08\x00 and so on");
        let is_call = request["method"] == "tools/call";
        is_call.then(|| Answer::Raw(vec![("content-encoding", "gzip")], packed))
    })
    .await;
    let failed = call(&client_of(&server), "packed").await;
    let words = "the server `props` returned an invalid response to the call";
    assert_eq!(failed, Err(ToolError::OutcomeUnknown(words.to_owned())));
}

/// A19: a server whose handshake or list is too large is unavailable, and says why.
#[tokio::test]
async fn a_server_that_describes_itself_too_long_is_unavailable() {
    let handshake = "its answer to the handshake has more than 4 MiB or 250,000 values";
    let list = "a page of its tool list has more than 4 MiB or 250,000 values";
    let tenant = TenantId::default();
    for (methods, what) in [
        (["initialize", "initialize"], handshake),
        (["server/discover", "initialize"], handshake),
        (["tools/list", "tools/list"], list),
    ] {
        let server = HostileMcp::start(Vec::new(), move |_, request| {
            let is_it = methods.contains(&request["method"].as_str()?);
            is_it.then_some(Answer::Long(400 * MIB))
        })
        .await;
        let servers = client_of(&server);
        let before = peak();
        let asked = timeout(Duration::from_mins(1), servers.tools(&tenant, LABEL.into()));
        let failed = asked.await.expect("it takes too long").err();
        let words = format!("the tool server `props` is not available: {what}");
        assert_eq!(failed, Some(ToolError::Transient(words)));
        let cost = peak() - before;
        assert!(cost < MULTIPLE * 8 * MIB, "{methods:?} cost {} MiB", cost / MIB);
    }
}

/// A19: the pages of a list are read up to 16 MiB together, the server stays available, and where
/// the list was cut is said.
#[tokio::test]
async fn a_list_of_many_pages_is_read_up_to_its_limit() {
    let server = HostileMcp::start(Vec::new(), |server, request| {
        let text = "x".repeat(3 * MIB);
        let page = server.asked("tools/list");
        let tools = [tool_with(&format!("tool_{page}"), &text, &json!({ "type": "object" }))];
        let is_list = request["method"] == "tools/list";
        is_list.then(|| Answer::Result(json!({ "tools": tools, "nextCursor": "more" })))
    })
    .await;
    let servers = client_of(&server);
    tools(&servers).await.unwrap();
    assert_eq!(server.asked("tools/list"), 6);
    let left_out = servers.left_out(&TenantId::default(), LABEL.into());
    let [unread] = left_out.tools.as_slice() else { panic!("{left_out:?}") };
    assert_eq!((unread.name.as_str(), left_out.more), ("tool_6", 0));
    assert_eq!(unread.reason, WhyLeftOut::Unread.to_string());
}

/// A list whose answer says that it has changed already.
async fn always_changing() -> HostileMcp {
    HostileMcp::start(vec![simple("one")], |server, request| {
        let lists = server.asked("tools/list");
        let tools = [simple(&format!("tool_{lists}"))];
        let is_list = request["method"] == "tools/list";
        let answer = result_of(request, &json!({ "tools": tools }));
        is_list.then(|| Answer::events([list_changed(), answer]))
    })
    .await
}

/// A19: a list that changes on and on is asked for now and then, also by runs.
#[tokio::test]
async fn a_list_that_always_changes_is_read_now_and_then() {
    let server = always_changing().await;
    let servers = client_of(&server);
    tools(&servers).await.unwrap();
    let began = std::time::Instant::now();
    let mut n_asked = 0;
    while began.elapsed() < Duration::from_secs(3) {
        n_asked += 1;
        tools(&servers).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let lists = server.asked("tools/list");
    assert!(lists <= 5, "{lists} lists for {n_asked} questions");
}

/// A19: no change is lost: the last one is seen when it is time.
#[tokio::test]
async fn the_last_change_of_a_list_is_seen() {
    let server = HostileMcp::start(vec![], |server, request| {
        // Four changes in a row, each by the list before.
        let lists = server.asked("tools/list");
        let is_list = request["method"] == "tools/list";
        let answer = result_of(request, &json!({ "tools": [simple(&format!("tool_{lists}"))] }));
        let change = (lists < 5).then(list_changed);
        is_list.then(|| Answer::events(change.into_iter().chain([answer])))
    })
    .await;
    let servers = client_of(&server);
    tools(&servers).await.unwrap();
    let last = timeout(Duration::from_mins(3), async {
        loop {
            if known(&servers).is_some_and(|tools| names(&tools) == ["tool_5"]) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    last.await.expect("the last change is not seen");
}

fn form(n_bytes: usize) -> Value {
    let field = json!({ "type": "string", "description": "d".repeat(n_bytes) });
    json!({ "type": "object", "properties": { "x": field } })
}

fn accepting() -> Arc<Listener> {
    Listener::with_reply(Reply::Accepted { content: Map::new() })
}

/// What a person was asked, in bytes.
fn asked(listener: &Listener) -> Vec<usize> {
    let questions = listener.questions();
    questions.iter().map(|asked| asked.message.len() + asked.schema.to_string().len()).collect()
}

/// A19: a form has at most 64 KiB, and a call asks at most eight times, in the older protocol.
#[tokio::test]
async fn forms_of_the_older_protocol_are_few_and_small() {
    for (n_bytes, n_asked) in [(10, 8), (MIB, 0)] {
        let server = HostileMcp::start(vec![simple("ask")], move |server, request| {
            let (server, answer) = (server.clone(), result_of(request, &fine()));
            let questions =
                (0..12).map(move |n| question(&format!("q{n}"), "Please", &form(n_bytes)));
            let last = stream::once(async move {
                server.replies(12).await;
                answer
            });
            let is_call = request["method"] == "tools/call";
            is_call.then(|| Answer::Events(stream::iter(questions).chain(last).boxed()))
        })
        .await;
        let servers = client_of(&server);
        let (ask, listener) = (tool(&servers, "ask").await, accepting());
        let result = timeout(Duration::from_mins(1), call_with(&*ask, json!({}), &listener));
        assert_eq!(result.await.unwrap(), Ok(ToolOutput::text("fine")));
        let replies = server.replies(12).await;
        let declined = replies.iter().filter(|reply| reply["result"]["action"] == "decline");
        assert_eq!(declined.count(), 12 - n_asked);
        assert_eq!(asked(&listener).len(), n_asked);
    }
}

/// A19: the same in the newer protocol, over all rounds of a call.
#[tokio::test]
async fn forms_of_the_newer_protocol_are_few_and_small() {
    for (n_bytes, n_asked) in [(10, 8), (MIB, 0)] {
        let server =
            HostileMcp::start(vec![simple("ask")], move |server, request| match request["method"]
                .as_str()?
            {
                "server/discover" => Some(newer()),
                "tools/list" => Some(Answer::Result(json!({
                    "resultType": "complete", "tools": [simple("ask")], "ttlMs": 0,
                    "cacheScope": "private",
                }))),
                "tools/call" if server.asked("tools/call") <= 3 => {
                    let params = json!({
                        "mode": "form", "message": "Please", "requestedSchema": form(n_bytes),
                    });
                    let asked = json!({ "method": "elicitation/create", "params": params });
                    let asked: Map<_, _> =
                        (0..4).map(|n| (format!("q{n}"), asked.clone())).collect();
                    Some(Answer::Result(json!({
                        "resultType": "input_required", "inputRequests": asked,
                    })))
                }
                "tools/call" => Some(Answer::Result(json!({
                    "resultType": "complete", "content": [{ "type": "text", "text": "fine" }],
                }))),
                _ => None,
            })
            .await;
        let servers = client_of(&server);
        let (ask, listener) = (tool(&servers, "ask").await, accepting());
        let result = timeout(Duration::from_mins(1), call_with(&*ask, json!({}), &listener));
        assert_eq!(result.await.unwrap(), Ok(ToolOutput::text("fine")));
        assert_eq!(asked(&listener).len(), n_asked);
    }
}

/// A19: a flood of notes costs no memory, and the call ends when its result comes.
#[tokio::test]
async fn a_flood_of_notes_is_thinned_out() {
    const N_NOTES: usize = 20_000;
    let server = HostileMcp::start(vec![simple("flood")], |_, request| {
        let token = request["params"]["_meta"]["progressToken"].clone();
        let answer = result_of(request, &fine());
        let note = |n| match n % 3 {
            0 => json!({ "level": "info", "data": "l".repeat(2_000) }),
            _ => json!({ "progressToken": token, "progress": n, "message": "m".repeat(2_000) }),
        };
        let kind = |n| if n % 3 == 0 { "notifications/message" } else { "notifications/progress" };
        let notes: Vec<_> = (0..3).map(|n| notification(kind(n), &note(n))).collect();
        let is_call = request["method"] == "tools/call";
        is_call.then(|| Answer::events(notes.into_iter().cycle().take(N_NOTES).chain([answer])))
    })
    .await;
    let servers = client_of(&server);
    let (flood, listener) = (tool(&servers, "flood").await, Arc::new(Listener::default()));
    let before = peak();
    let calling = call_with(&*flood, json!({}), &listener);
    let result = timeout(Duration::from_mins(3), calling).await.unwrap();
    assert_eq!(result, Ok(ToolOutput::text("fine")));
    let cost = peak() - before;
    assert!(cost < 64 * MIB, "it cost {} MiB", cost / MIB);
    for (_, note) in listener.notes() {
        let ToolNote::Progress { message: Some(message), .. } = note else {
            panic!("another note")
        };
        assert!(message.len() <= 1024);
    }
}
