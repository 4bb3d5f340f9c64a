use expect_test::{Expect, expect};
use serde_json::{Value, json};
use turnwire_contract::{
    Approvals, Completeness, DiscoveryOutcome, Finish, Image, LeftOut, ToolKind, ToolOutcome,
    ToolOutput,
};

use super::*;
use crate::{
    preview::WIRE_BYTES,
    responses::{
        checks::{to_json, told},
        stories::{self, announced, asking, called, found, mcp_tool, server_spec, tool},
    },
    story::{Story, check_that_size_does_not_matter, failed, request, succeeded},
};

/// A frame on one line, without constant fields.
fn line(frame: &SequencedEvent) -> String {
    let mut frame = to_json(frame);
    let facts = frame.as_object_mut().unwrap();
    let (number, kind) = (facts["sequence_number"].clone(), facts["type"].clone());
    facts.retain(|key, _| !["sequence_number", "type", "logprobs"].contains(&key.as_str()));
    if let Some(note) = facts.get_mut("turnwire").and_then(Value::as_object_mut) {
        note.shift_remove("at");
    }
    facts.shift_remove("at");
    if let Some(response) = facts.get("response") {
        let ids = response["output"].as_array().unwrap().iter().map(|item| item["id"].clone());
        let ids: Vec<Value> = ids.collect();
        let status = response["status"].clone();
        return format!("{number} {} {status} {}", kind.as_str().unwrap(), Value::from(ids));
    }
    format!("{number} {} {frame}", kind.as_str().unwrap())
}

fn lines(story: Story, profile: Profile) -> String {
    let lines: Vec<String> = told(story, profile).0.iter().map(line).collect();
    lines.join("\n")
}

#[track_caller]
fn check(story: Story, expected: Expect) {
    expected.assert_eq(&lines(story, Profile::Strict));
}

#[track_caller]
fn check_extended(story: Story, expected: Expect) {
    expected.assert_eq(&lines(story, Profile::Extended));
}

/// S1-US1-AS4, S1-FR-010: no tools, no tool frames.
#[test]
fn text() {
    check(
        stories::text(),
        expect![[r#"
        0 response.created "in_progress" []
        1 response.in_progress "in_progress" []
        2 response.output_item.added {"output_index":0,"item":{"type":"message","id":"msg_1","status":"in_progress","role":"assistant","content":[]}}
        3 response.content_part.added {"item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}
        4 response.output_text.delta {"item_id":"msg_1","output_index":0,"content_index":0,"delta":"It is "}
        5 response.output_text.delta {"item_id":"msg_1","output_index":0,"content_index":0,"delta":"20."}
        6 response.output_text.done {"item_id":"msg_1","output_index":0,"content_index":0,"text":"It is 20."}
        7 response.content_part.done {"item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","text":"It is 20.","annotations":[],"logprobs":[]}}
        8 response.output_item.done {"output_index":0,"item":{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"It is 20.","annotations":[],"logprobs":[]}]}}
        9 response.completed "completed" ["msg_1"]"#]],
    );
}

/// S1-D: a refusal has frames of its own, and each part is closed before the next.
#[test]
fn refusal() {
    check(
        stories::refusal(),
        expect![[r#"
        0 response.created "in_progress" []
        1 response.in_progress "in_progress" []
        2 response.output_item.added {"output_index":0,"item":{"type":"message","id":"msg_1","status":"in_progress","role":"assistant","content":[]}}
        3 response.content_part.added {"item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}
        4 response.output_text.delta {"item_id":"msg_1","output_index":0,"content_index":0,"delta":"Well, "}
        5 response.output_text.done {"item_id":"msg_1","output_index":0,"content_index":0,"text":"Well, "}
        6 response.content_part.done {"item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","text":"Well, ","annotations":[],"logprobs":[]}}
        7 response.content_part.added {"item_id":"msg_1","output_index":0,"content_index":1,"part":{"type":"refusal","refusal":""}}
        8 response.refusal.delta {"item_id":"msg_1","output_index":0,"content_index":1,"delta":"I "}
        9 response.refusal.delta {"item_id":"msg_1","output_index":0,"content_index":1,"delta":"cannot."}
        10 response.refusal.done {"item_id":"msg_1","output_index":0,"content_index":1,"refusal":"I cannot."}
        11 response.content_part.done {"item_id":"msg_1","output_index":0,"content_index":1,"part":{"type":"refusal","refusal":"I cannot."}}
        12 response.content_part.added {"item_id":"msg_1","output_index":0,"content_index":2,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}
        13 response.output_text.delta {"item_id":"msg_1","output_index":0,"content_index":2,"delta":"Sorry."}
        14 response.output_text.done {"item_id":"msg_1","output_index":0,"content_index":2,"text":"Sorry."}
        15 response.content_part.done {"item_id":"msg_1","output_index":0,"content_index":2,"part":{"type":"output_text","text":"Sorry.","annotations":[],"logprobs":[]}}
        16 response.output_item.done {"output_index":0,"item":{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Well, ","annotations":[],"logprobs":[]},{"type":"refusal","refusal":"I cannot."},{"type":"output_text","text":"Sorry.","annotations":[],"logprobs":[]}]}}
        17 response.completed "completed" ["msg_1"]"#]],
    );
}

/// Reasoning is a summary, with both event families; encrypted reasoning is included because it was
/// requested.
#[test]
fn reasoning_shows_as_summary() {
    check(
        stories::reasoning(),
        expect![[r#"
        0 response.created "in_progress" []
        1 response.in_progress "in_progress" []
        2 response.output_item.added {"output_index":0,"item":{"type":"reasoning","id":"rs_1","status":"in_progress","summary":[]}}
        3 response.reasoning_summary_part.added {"item_id":"rs_1","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":""}}
        4 response.reasoning_summary_text.delta {"item_id":"rs_1","output_index":0,"summary_index":0,"delta":"Five "}
        5 response.reasoning_summary_text.delta {"item_id":"rs_1","output_index":0,"summary_index":0,"delta":"times."}
        6 response.reasoning_summary_text.done {"item_id":"rs_1","output_index":0,"summary_index":0,"text":"Five times."}
        7 response.reasoning_summary_part.done {"item_id":"rs_1","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":"Five times."}}
        8 response.output_item.done {"output_index":0,"item":{"type":"reasoning","id":"rs_1","status":"completed","summary":[{"type":"summary_text","text":"Five times."}],"encrypted_content":"seal"}}
        9 response.output_item.added {"output_index":1,"item":{"type":"reasoning","id":"rs_2","status":"in_progress","summary":[]}}
        10 response.output_item.done {"output_index":1,"item":{"type":"reasoning","id":"rs_2","status":"completed","summary":[],"encrypted_content":"mute"}}
        11 response.output_item.added {"output_index":2,"item":{"type":"message","id":"msg_1","status":"in_progress","role":"assistant","content":[]}}
        12 response.content_part.added {"item_id":"msg_1","output_index":2,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}
        13 response.output_text.delta {"item_id":"msg_1","output_index":2,"content_index":0,"delta":"20"}
        14 response.output_text.done {"item_id":"msg_1","output_index":2,"content_index":0,"text":"20"}
        15 response.content_part.done {"item_id":"msg_1","output_index":2,"content_index":0,"part":{"type":"output_text","text":"20","annotations":[],"logprobs":[]}}
        16 response.output_item.done {"output_index":2,"item":{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"20","annotations":[],"logprobs":[]}]}}
        17 response.completed "completed" ["rs_1","rs_2","msg_1"]"#]],
    );
}

#[test]
fn a_source_has_a_frame_and_a_place_in_the_text() {
    check(
        stories::annotated(),
        expect![[r#"
        0 response.created "in_progress" []
        1 response.in_progress "in_progress" []
        2 response.output_item.added {"output_index":0,"item":{"type":"message","id":"msg_1","status":"in_progress","role":"assistant","content":[]}}
        3 response.content_part.added {"item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}
        4 response.output_text.delta {"item_id":"msg_1","output_index":0,"content_index":0,"delta":"20"}
        5 response.output_text.annotation.added {"item_id":"msg_1","output_index":0,"content_index":0,"annotation_index":0,"annotation":{"type":"url_citation","url":"https://a.example","title":"A","start_index":0,"end_index":2}}
        6 response.output_text.done {"item_id":"msg_1","output_index":0,"content_index":0,"text":"20"}
        7 response.content_part.done {"item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","text":"20","annotations":[{"type":"url_citation","url":"https://a.example","title":"A","start_index":0,"end_index":2}],"logprobs":[]}}
        8 response.output_item.done {"output_index":0,"item":{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"20","annotations":[{"type":"url_citation","url":"https://a.example","title":"A","start_index":0,"end_index":2}],"logprobs":[]}]}}
        9 response.completed "completed" ["msg_1"]"#]],
    );
}

/// S1-E4, R3: a function of the client has an item only, and ends the response.
#[test]
fn a_function_of_the_client_ends_the_response() {
    check(
        stories::client_function(),
        expect![[r#"
        0 response.created "in_progress" []
        1 response.in_progress "in_progress" []
        2 response.output_item.added {"output_index":0,"item":{"type":"function_call","id":"fc_call_1","status":"in_progress","arguments":"","call_id":"call_1","name":"weather"}}
        3 response.function_call_arguments.delta {"item_id":"fc_call_1","output_index":0,"delta":"{\"city\":"}
        4 response.function_call_arguments.delta {"item_id":"fc_call_1","output_index":0,"delta":"\"Bonn\"}"}
        5 response.function_call_arguments.done {"item_id":"fc_call_1","output_index":0,"name":"weather","arguments":"{\"city\":\"Bonn\"}"}
        6 response.output_item.done {"output_index":0,"item":{"type":"function_call","id":"fc_call_1","status":"completed","arguments":"{\"city\":\"Bonn\"}","call_id":"call_1","name":"weather"}}
        7 response.completed "completed" ["fc_call_1"]"#]],
    );
}

/// S1-E4, R3: a function of the server is a call and then an output.
#[test]
fn a_function_of_the_server_has_an_output_item() {
    check(
        stories::server_function(),
        expect![[r#"
        0 response.created "in_progress" []
        1 response.in_progress "in_progress" []
        2 response.output_item.added {"output_index":0,"item":{"type":"function_call","id":"fc_a","status":"in_progress","arguments":"","call_id":"a","name":"multiply"}}
        3 response.function_call_arguments.delta {"item_id":"fc_a","output_index":0,"delta":"{\"a\":5}"}
        4 response.function_call_arguments.done {"item_id":"fc_a","output_index":0,"name":"multiply","arguments":"{\"a\":5}"}
        5 response.output_item.done {"output_index":0,"item":{"type":"function_call","id":"fc_a","status":"completed","arguments":"{\"a\":5}","call_id":"a","name":"multiply"}}
        6 response.output_item.added {"output_index":1,"item":{"type":"function_call","id":"fc_b","status":"in_progress","arguments":"","call_id":"b","name":"nothing"}}
        7 response.function_call_arguments.delta {"item_id":"fc_b","output_index":1,"delta":"{}"}
        8 response.function_call_arguments.done {"item_id":"fc_b","output_index":1,"name":"nothing","arguments":"{}"}
        9 response.output_item.done {"output_index":1,"item":{"type":"function_call","id":"fc_b","status":"completed","arguments":"{}","call_id":"b","name":"nothing"}}
        10 response.output_item.added {"output_index":2,"item":{"type":"function_call_output","id":"fco_a","status":"completed","call_id":"a","output":"20"}}
        11 response.output_item.done {"output_index":2,"item":{"type":"function_call_output","id":"fco_a","status":"completed","call_id":"a","output":"20"}}
        12 response.output_item.added {"output_index":3,"item":{"type":"function_call_output","id":"fco_b","status":"completed","call_id":"b","output":"Error: there is no `nothing`","turnwire":{"failure":{"code":"not_found","message":"there is no `nothing`"}}}}
        13 response.output_item.done {"output_index":3,"item":{"type":"function_call_output","id":"fco_b","status":"completed","call_id":"b","output":"Error: there is no `nothing`","turnwire":{"failure":{"code":"not_found","message":"there is no `nothing`"}}}}
        14 response.output_item.added {"output_index":4,"item":{"type":"message","id":"msg_1","status":"in_progress","role":"assistant","content":[]}}
        15 response.content_part.added {"item_id":"msg_1","output_index":4,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}
        16 response.output_text.delta {"item_id":"msg_1","output_index":4,"content_index":0,"delta":"20"}
        17 response.output_text.done {"item_id":"msg_1","output_index":4,"content_index":0,"text":"20"}
        18 response.content_part.done {"item_id":"msg_1","output_index":4,"content_index":0,"part":{"type":"output_text","text":"20","annotations":[],"logprobs":[]}}
        19 response.output_item.done {"output_index":4,"item":{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"20","annotations":[],"logprobs":[]}]}}
        20 response.completed "completed" ["fc_a","fc_b","fco_a","fco_b","msg_1"]"#]],
    );
}

/// S1-US1-AS2, S1-US3-AS1, S1-FR-002, S1-FR-005, S1-FR-006, S1-O1, S1-FR-011.
#[test]
fn a_tool_of_a_server() {
    check(
        stories::mcp(),
        expect![[r#"
        0 response.created "in_progress" []
        1 response.in_progress "in_progress" []
        2 response.output_item.added {"output_index":0,"item":{"type":"mcp_call","id":"mcp_a","status":"in_progress","approval_request_id":null,"arguments":"","error":null,"name":"ask","output":null,"server_label":"docs"}}
        3 response.mcp_call.in_progress {"item_id":"mcp_a","output_index":0,"name":"ask","call_id":"a","server_label":"docs","turnwire":{}}
        4 response.mcp_call_arguments.delta {"item_id":"mcp_a","output_index":0,"delta":"{\"q\":"}
        5 response.mcp_call_arguments.delta {"item_id":"mcp_a","output_index":0,"delta":"1}"}
        6 response.mcp_call_arguments.done {"item_id":"mcp_a","output_index":0,"name":"ask","arguments":"{\"q\":1}"}
        7 response.mcp_call.in_progress {"item_id":"mcp_a","output_index":0,"name":"ask","call_id":"a","server_label":"docs","turnwire":{"attempt":1,"message":"q=1"}}
        8 response.mcp_call.completed {"item_id":"mcp_a","output_index":0,"name":"ask","call_id":"a","server_label":"docs","turnwire":{"attempt":1,"duration_ms":42}}
        9 response.output_item.done {"output_index":0,"item":{"type":"mcp_call","id":"mcp_a","status":"completed","approval_request_id":null,"arguments":"{\"q\":1}","error":null,"name":"ask","output":"yes","server_label":"docs"}}
        10 response.output_item.added {"output_index":1,"item":{"type":"message","id":"msg_1","status":"in_progress","role":"assistant","content":[]}}
        11 response.content_part.added {"item_id":"msg_1","output_index":1,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}
        12 response.output_text.delta {"item_id":"msg_1","output_index":1,"content_index":0,"delta":"Yes."}
        13 response.output_text.done {"item_id":"msg_1","output_index":1,"content_index":0,"text":"Yes."}
        14 response.content_part.done {"item_id":"msg_1","output_index":1,"content_index":0,"part":{"type":"output_text","text":"Yes.","annotations":[],"logprobs":[]}}
        15 response.output_item.done {"output_index":1,"item":{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Yes.","annotations":[],"logprobs":[]}]}}
        16 response.completed "completed" ["mcp_a","msg_1"]"#]],
    );
}

/// S1-US1-AS3, S1-US3-AS2, R7: the failure is in the item, and the response continues.
#[test]
fn a_tool_of_a_server_that_fails() {
    check(
        stories::mcp_failed(),
        expect![[r#"
        0 response.created "in_progress" []
        1 response.in_progress "in_progress" []
        2 response.output_item.added {"output_index":0,"item":{"type":"mcp_call","id":"mcp_a","status":"in_progress","approval_request_id":null,"arguments":"","error":null,"name":"ask","output":null,"server_label":"docs"}}
        3 response.mcp_call.in_progress {"item_id":"mcp_a","output_index":0,"name":"ask","call_id":"a","server_label":"docs","turnwire":{}}
        4 response.mcp_call_arguments.delta {"item_id":"mcp_a","output_index":0,"delta":"{}"}
        5 response.mcp_call_arguments.done {"item_id":"mcp_a","output_index":0,"name":"ask","arguments":"{}"}
        6 response.mcp_call.in_progress {"item_id":"mcp_a","output_index":0,"name":"ask","call_id":"a","server_label":"docs","turnwire":{"attempt":1}}
        7 response.mcp_call.failed {"item_id":"mcp_a","output_index":0,"name":"ask","call_id":"a","server_label":"docs","turnwire":{"attempt":1,"duration_ms":42,"failure":{"code":"tool_failed","message":"no such page"}}}
        8 response.output_item.done {"output_index":0,"item":{"type":"mcp_call","id":"mcp_a","status":"failed","approval_request_id":null,"arguments":"{}","error":{"type":"mcp_tool_execution_error","content":[{"type":"text","text":"no such page"}]},"name":"ask","output":null,"server_label":"docs","turnwire":{"failure":{"code":"tool_failed","message":"no such page"}}}}
        9 response.output_item.added {"output_index":1,"item":{"type":"message","id":"msg_1","status":"in_progress","role":"assistant","content":[]}}
        10 response.content_part.added {"item_id":"msg_1","output_index":1,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}
        11 response.output_text.delta {"item_id":"msg_1","output_index":1,"content_index":0,"delta":"No."}
        12 response.output_text.done {"item_id":"msg_1","output_index":1,"content_index":0,"text":"No."}
        13 response.content_part.done {"item_id":"msg_1","output_index":1,"content_index":0,"part":{"type":"output_text","text":"No.","annotations":[],"logprobs":[]}}
        14 response.output_item.done {"output_index":1,"item":{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"No.","annotations":[],"logprobs":[]}]}}
        15 response.completed "completed" ["mcp_a","msg_1"]"#]],
    );
}

/// S1-FR-007: a call that never started has one start and one end.
#[test]
fn a_call_that_never_started() {
    check(
        stories::mcp_never_started(),
        expect![[r#"
        0 response.created "in_progress" []
        1 response.in_progress "in_progress" []
        2 response.output_item.added {"output_index":0,"item":{"type":"mcp_call","id":"mcp_a","status":"in_progress","approval_request_id":null,"arguments":"","error":null,"name":"ask","output":null,"server_label":"docs"}}
        3 response.mcp_call.in_progress {"item_id":"mcp_a","output_index":0,"name":"ask","call_id":"a","server_label":"docs","turnwire":{}}
        4 response.mcp_call_arguments.delta {"item_id":"mcp_a","output_index":0,"delta":"{"}
        5 response.mcp_call_arguments.done {"item_id":"mcp_a","output_index":0,"name":"ask","arguments":"{"}
        6 response.mcp_call.failed {"item_id":"mcp_a","output_index":0,"name":"ask","call_id":"a","server_label":"docs","turnwire":{"duration_ms":0,"failure":{"code":"invalid_arguments","message":"invalid arguments: not JSON"}}}
        7 response.output_item.done {"output_index":0,"item":{"type":"mcp_call","id":"mcp_a","status":"failed","approval_request_id":null,"arguments":"{","error":{"type":"mcp_protocol_error","code":-32602,"message":"invalid arguments: not JSON"},"name":"ask","output":null,"server_label":"docs","turnwire":{"failure":{"code":"invalid_arguments","message":"invalid arguments: not JSON"}}}}
        8 response.completed "completed" ["mcp_a"]"#]],
    );
}

/// R5: progress repeats the official event.
#[test]
fn news_of_a_tool_at_work() {
    check(
        stories::mcp_at_work(),
        expect![[r#"
        0 response.created "in_progress" []
        1 response.in_progress "in_progress" []
        2 response.output_item.added {"output_index":0,"item":{"type":"mcp_call","id":"mcp_a","status":"in_progress","approval_request_id":null,"arguments":"","error":null,"name":"ask","output":null,"server_label":"docs"}}
        3 response.mcp_call.in_progress {"item_id":"mcp_a","output_index":0,"name":"ask","call_id":"a","server_label":"docs","turnwire":{}}
        4 response.mcp_call_arguments.delta {"item_id":"mcp_a","output_index":0,"delta":"{}"}
        5 response.mcp_call_arguments.done {"item_id":"mcp_a","output_index":0,"name":"ask","arguments":"{}"}
        6 response.mcp_call.in_progress {"item_id":"mcp_a","output_index":0,"name":"ask","call_id":"a","server_label":"docs","turnwire":{"attempt":1}}
        7 response.mcp_call.in_progress {"item_id":"mcp_a","output_index":0,"name":"ask","call_id":"a","server_label":"docs","turnwire":{"attempt":1,"message":"connecting"}}
        8 response.mcp_call.in_progress {"item_id":"mcp_a","output_index":0,"name":"ask","call_id":"a","server_label":"docs","turnwire":{"attempt":1,"progress":1.0,"total":2.0,"message":"half"}}
        9 response.mcp_call.in_progress {"item_id":"mcp_a","output_index":0,"name":"ask","call_id":"a","server_label":"docs","turnwire":{"attempt":1,"duration_ms":300}}
        10 response.mcp_call.in_progress {"item_id":"mcp_a","output_index":0,"name":"ask","call_id":"a","server_label":"docs","turnwire":{"attempt":2,"failure":{"code":"tool_failed","message":"busy"}}}
        11 response.mcp_call.completed {"item_id":"mcp_a","output_index":0,"name":"ask","call_id":"a","server_label":"docs","turnwire":{"attempt":2,"duration_ms":42}}
        12 response.output_item.done {"output_index":0,"item":{"type":"mcp_call","id":"mcp_a","status":"completed","approval_request_id":null,"arguments":"{}","error":null,"name":"ask","output":"yes","server_label":"docs"}}
        13 response.completed "completed" ["mcp_a"]"#]],
    );
}

/// S1-US2-AS1, S1-FR-004, S1-A3.
#[test]
fn a_web_search() {
    check(
        stories::web_search(),
        expect![[r#"
            0 response.created "in_progress" []
            1 response.in_progress "in_progress" []
            2 response.output_item.added {"output_index":0,"item":{"type":"web_search_call","id":"ws_a","status":"in_progress"}}
            3 response.web_search_call.in_progress {"item_id":"ws_a","output_index":0,"name":"web_search","call_id":"a","turnwire":{}}
            4 response.web_search_call.searching {"item_id":"ws_a","output_index":0,"name":"web_search","call_id":"a","turnwire":{"attempt":1,"message":"bonn"}}
            5 response.web_search_call.searching {"item_id":"ws_a","output_index":0,"name":"web_search","call_id":"a","turnwire":{"attempt":1,"progress":1.0,"total":2.0,"message":"half"}}
            6 response.web_search_call.completed {"item_id":"ws_a","output_index":0,"name":"web_search","call_id":"a","turnwire":{"attempt":1,"duration_ms":42}}
            7 response.output_item.done {"output_index":0,"item":{"type":"web_search_call","id":"ws_a","status":"completed","action":{"type":"search","query":"bonn","queries":["bonn"],"sources":[{"type":"url","url":"https://a.example"}]}}}
            8 response.output_item.added {"output_index":1,"item":{"type":"message","id":"msg_1","status":"in_progress","role":"assistant","content":[]}}
            9 response.content_part.added {"item_id":"msg_1","output_index":1,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}
            10 response.output_text.delta {"item_id":"msg_1","output_index":1,"content_index":0,"delta":"A."}
            11 response.output_text.done {"item_id":"msg_1","output_index":1,"content_index":0,"text":"A."}
            12 response.content_part.done {"item_id":"msg_1","output_index":1,"content_index":0,"part":{"type":"output_text","text":"A.","annotations":[],"logprobs":[]}}
            13 response.output_item.done {"output_index":1,"item":{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"A.","annotations":[],"logprobs":[]}]}}
            14 response.completed "completed" ["ws_a","msg_1"]"#]],
    );
}

/// S1-US1-AS3, R6: no `completed` event, and the item has the status `failed`.
#[test]
fn a_web_search_that_fails() {
    check(
        stories::web_search_failed(),
        expect![[r#"
            0 response.created "in_progress" []
            1 response.in_progress "in_progress" []
            2 response.output_item.added {"output_index":0,"item":{"type":"web_search_call","id":"ws_a","status":"in_progress"}}
            3 response.web_search_call.in_progress {"item_id":"ws_a","output_index":0,"name":"web_search","call_id":"a","turnwire":{}}
            4 response.web_search_call.searching {"item_id":"ws_a","output_index":0,"name":"web_search","call_id":"a","turnwire":{"attempt":1,"message":"bonn"}}
            5 response.output_item.done {"output_index":0,"item":{"type":"web_search_call","id":"ws_a","status":"failed","action":{"type":"search","query":"bonn","queries":["bonn"]},"turnwire":{"failure":{"code":"timed_out","message":"timed out after 5 s"}}}}
            6 response.output_item.added {"output_index":1,"item":{"type":"web_search_call","id":"ws_b","status":"in_progress"}}
            7 response.web_search_call.in_progress {"item_id":"ws_b","output_index":1,"name":"web_search","call_id":"b","turnwire":{}}
            8 response.output_item.done {"output_index":1,"item":{"type":"web_search_call","id":"ws_b","status":"failed","action":{"type":"search","query":"","queries":[]},"turnwire":{"failure":{"code":"invalid_arguments","message":"invalid arguments: not JSON"}}}}
            9 response.completed "completed" ["ws_a","ws_b"]"#]],
    );
}

/// S1-FR-003, S1-FR-004, R5: a search that reports its searching phase gets one `searching` event;
/// every other phase is sent as progress.
#[test]
fn searching_is_said_once() {
    for (kind, name) in [(ToolKind::WebSearch, "web_search"), (ToolKind::FileSearch, "file_search")]
    {
        let story = called(Story::new().turn(), "a", tool(name, kind, None), &["{}"]);
        let story = story.turn_done(Finish::CalledTools).started("a");
        let phase = |phase: &str| Event::ToolPhase { call_id: "a".into(), phase: phase.to_owned() };
        let story = story.then(phase("searching")).then(phase("reading"));
        let story = story.finished("a", succeeded("x")).ended(RunOutcome::Completed);
        let frames: Vec<Value> = told(story, Profile::Strict).0.iter().map(to_json).collect();
        let life: Vec<(&str, &Value)> = frames
            .iter()
            .filter_map(|frame| {
                let kind = frame["type"].as_str().unwrap();
                let step = kind.strip_prefix(&format!("response.{name}_call."))?;
                Some((step, &frame["turnwire"]["message"]))
            })
            .collect();
        let nothing = &Value::Null;
        assert_eq!(
            life,
            [
                ("in_progress", nothing),
                ("searching", nothing),
                ("searching", &json!("reading")),
                ("completed", nothing),
            ]
        );
    }
}

/// S1-US2-AS2, S1-FR-003.
#[test]
fn a_file_search() {
    check(
        stories::file_search(),
        expect![[r#"
            0 response.created "in_progress" []
            1 response.in_progress "in_progress" []
            2 response.output_item.added {"output_index":0,"item":{"type":"file_search_call","id":"fs_a","status":"in_progress","queries":[],"results":null}}
            3 response.file_search_call.in_progress {"item_id":"fs_a","output_index":0,"name":"file_search","call_id":"a","turnwire":{}}
            4 response.file_search_call.searching {"item_id":"fs_a","output_index":0,"name":"file_search","call_id":"a","turnwire":{"attempt":1,"message":"tax"}}
            5 response.file_search_call.completed {"item_id":"fs_a","output_index":0,"name":"file_search","call_id":"a","turnwire":{"attempt":1,"duration_ms":42}}
            6 response.output_item.done {"output_index":0,"item":{"type":"file_search_call","id":"fs_a","status":"completed","queries":["tax"],"results":[{"file_id":"file_1","filename":"a.md","score":0.5,"text":"Taxes.","attributes":{}}]}}
            7 response.output_item.added {"output_index":1,"item":{"type":"message","id":"msg_1","status":"in_progress","role":"assistant","content":[]}}
            8 response.content_part.added {"item_id":"msg_1","output_index":1,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}
            9 response.output_text.delta {"item_id":"msg_1","output_index":1,"content_index":0,"delta":"Taxes."}
            10 response.output_text.done {"item_id":"msg_1","output_index":1,"content_index":0,"text":"Taxes."}
            11 response.content_part.done {"item_id":"msg_1","output_index":1,"content_index":0,"part":{"type":"output_text","text":"Taxes.","annotations":[],"logprobs":[]}}
            12 response.output_item.done {"output_index":1,"item":{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Taxes.","annotations":[],"logprobs":[]}]}}
            13 response.completed "completed" ["fs_a","msg_1"]"#]],
    );
}

/// S1-E1: frames of parallel calls interleave, each with its own item.
#[test]
fn three_calls_side_by_side() {
    check(
        stories::side_by_side(),
        expect![[r#"
            0 response.created "in_progress" []
            1 response.in_progress "in_progress" []
            2 response.output_item.added {"output_index":0,"item":{"type":"mcp_call","id":"mcp_a","status":"in_progress","approval_request_id":null,"arguments":"","error":null,"name":"ask","output":null,"server_label":"docs"}}
            3 response.mcp_call.in_progress {"item_id":"mcp_a","output_index":0,"name":"ask","call_id":"a","server_label":"docs","turnwire":{}}
            4 response.output_item.added {"output_index":1,"item":{"type":"mcp_call","id":"mcp_b","status":"in_progress","approval_request_id":null,"arguments":"","error":null,"name":"ask","output":null,"server_label":"docs"}}
            5 response.mcp_call.in_progress {"item_id":"mcp_b","output_index":1,"name":"ask","call_id":"b","server_label":"docs","turnwire":{}}
            6 response.mcp_call_arguments.delta {"item_id":"mcp_a","output_index":0,"delta":"{"}
            7 response.mcp_call_arguments.delta {"item_id":"mcp_b","output_index":1,"delta":"{}"}
            8 response.mcp_call_arguments.delta {"item_id":"mcp_a","output_index":0,"delta":"}"}
            9 response.mcp_call_arguments.done {"item_id":"mcp_a","output_index":0,"name":"ask","arguments":"{}"}
            10 response.mcp_call_arguments.done {"item_id":"mcp_b","output_index":1,"name":"ask","arguments":"{}"}
            11 response.mcp_call.in_progress {"item_id":"mcp_a","output_index":0,"name":"ask","call_id":"a","server_label":"docs","turnwire":{"attempt":1}}
            12 response.mcp_call.in_progress {"item_id":"mcp_b","output_index":1,"name":"ask","call_id":"b","server_label":"docs","turnwire":{"attempt":1}}
            13 response.output_item.added {"output_index":2,"item":{"type":"web_search_call","id":"ws_c","status":"in_progress"}}
            14 response.web_search_call.in_progress {"item_id":"ws_c","output_index":2,"name":"web_search","call_id":"c","turnwire":{}}
            15 response.web_search_call.searching {"item_id":"ws_c","output_index":2,"name":"web_search","call_id":"c","turnwire":{"attempt":1,"message":"x"}}
            16 response.web_search_call.completed {"item_id":"ws_c","output_index":2,"name":"web_search","call_id":"c","turnwire":{"attempt":1,"duration_ms":42}}
            17 response.output_item.done {"output_index":2,"item":{"type":"web_search_call","id":"ws_c","status":"completed","action":{"type":"search","query":"x","queries":["x"]}}}
            18 response.mcp_call.failed {"item_id":"mcp_b","output_index":1,"name":"ask","call_id":"b","server_label":"docs","turnwire":{"attempt":1,"duration_ms":42,"failure":{"code":"tool_failed","message":"no"}}}
            19 response.output_item.done {"output_index":1,"item":{"type":"mcp_call","id":"mcp_b","status":"failed","approval_request_id":null,"arguments":"{}","error":{"type":"mcp_tool_execution_error","content":[{"type":"text","text":"no"}]},"name":"ask","output":null,"server_label":"docs","turnwire":{"failure":{"code":"tool_failed","message":"no"}}}}
            20 response.mcp_call.completed {"item_id":"mcp_a","output_index":0,"name":"ask","call_id":"a","server_label":"docs","turnwire":{"attempt":1,"duration_ms":42}}
            21 response.output_item.done {"output_index":0,"item":{"type":"mcp_call","id":"mcp_a","status":"completed","approval_request_id":null,"arguments":"{}","error":null,"name":"ask","output":"A","server_label":"docs"}}
            22 response.output_item.added {"output_index":3,"item":{"type":"message","id":"msg_1","status":"in_progress","role":"assistant","content":[]}}
            23 response.content_part.added {"item_id":"msg_1","output_index":3,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}
            24 response.output_text.delta {"item_id":"msg_1","output_index":3,"content_index":0,"delta":"Done."}
            25 response.output_text.done {"item_id":"msg_1","output_index":3,"content_index":0,"text":"Done."}
            26 response.content_part.done {"item_id":"msg_1","output_index":3,"content_index":0,"part":{"type":"output_text","text":"Done.","annotations":[],"logprobs":[]}}
            27 response.output_item.done {"output_index":3,"item":{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Done.","annotations":[],"logprobs":[]}]}}
            28 response.completed "completed" ["mcp_a","mcp_b","ws_c","msg_1"]"#]],
    );
}

/// S1-E2: no frame of the second call comes before the first has ended.
#[test]
fn calls_one_after_the_other() {
    check(
        stories::one_after_the_other(),
        expect![[r#"
        0 response.created "in_progress" []
        1 response.in_progress "in_progress" []
        2 response.output_item.added {"output_index":0,"item":{"type":"mcp_call","id":"mcp_a","status":"in_progress","approval_request_id":null,"arguments":"","error":null,"name":"ask","output":null,"server_label":"docs"}}
        3 response.mcp_call.in_progress {"item_id":"mcp_a","output_index":0,"name":"ask","call_id":"a","server_label":"docs","turnwire":{}}
        4 response.mcp_call_arguments.delta {"item_id":"mcp_a","output_index":0,"delta":"{}"}
        5 response.mcp_call_arguments.done {"item_id":"mcp_a","output_index":0,"name":"ask","arguments":"{}"}
        6 response.mcp_call.in_progress {"item_id":"mcp_a","output_index":0,"name":"ask","call_id":"a","server_label":"docs","turnwire":{"attempt":1}}
        7 response.mcp_call.completed {"item_id":"mcp_a","output_index":0,"name":"ask","call_id":"a","server_label":"docs","turnwire":{"attempt":1,"duration_ms":42}}
        8 response.output_item.done {"output_index":0,"item":{"type":"mcp_call","id":"mcp_a","status":"completed","approval_request_id":null,"arguments":"{}","error":null,"name":"ask","output":"A","server_label":"docs"}}
        9 response.output_item.added {"output_index":1,"item":{"type":"mcp_call","id":"mcp_b","status":"in_progress","approval_request_id":null,"arguments":"","error":null,"name":"ask","output":null,"server_label":"docs"}}
        10 response.mcp_call.in_progress {"item_id":"mcp_b","output_index":1,"name":"ask","call_id":"b","server_label":"docs","turnwire":{}}
        11 response.mcp_call_arguments.delta {"item_id":"mcp_b","output_index":1,"delta":"{}"}
        12 response.mcp_call_arguments.done {"item_id":"mcp_b","output_index":1,"name":"ask","arguments":"{}"}
        13 response.mcp_call.in_progress {"item_id":"mcp_b","output_index":1,"name":"ask","call_id":"b","server_label":"docs","turnwire":{"attempt":1}}
        14 response.mcp_call.completed {"item_id":"mcp_b","output_index":1,"name":"ask","call_id":"b","server_label":"docs","turnwire":{"attempt":1,"duration_ms":42}}
        15 response.output_item.done {"output_index":1,"item":{"type":"mcp_call","id":"mcp_b","status":"completed","approval_request_id":null,"arguments":"{}","error":null,"name":"ask","output":"B","server_label":"docs"}}
        16 response.completed "completed" ["mcp_a","mcp_b"]"#]],
    );
}

/// A19: what is left out of a list is said in the item, with the reason.
#[test]
fn discovery_with_left_out() {
    check(
        stories::discovery_with_left_out(),
        expect![[r#"
            0 response.created "in_progress" []
            1 response.in_progress "in_progress" []
            2 response.output_item.added {"output_index":0,"item":{"type":"mcp_list_tools","id":"mcpl_1","server_label":"docs","tools":[]}}
            3 response.mcp_list_tools.in_progress {"item_id":"mcpl_1","output_index":0,"server_label":"docs","turnwire":{}}
            4 response.mcp_list_tools.completed {"item_id":"mcpl_1","output_index":0,"server_label":"docs","turnwire":{}}
            5 response.output_item.done {"output_index":0,"item":{"type":"mcp_list_tools","id":"mcpl_1","server_label":"docs","tools":[{"name":"ask","description":"Asks.","input_schema":{"type":"object","properties":{}}}],"turnwire":{"left_out":{"tools":[{"name":"huge","reason":"its name, title, description and schema have more than 64 KiB"}]}}}}
            6 response.completed "completed" ["mcpl_1"]"#]],
    );
}

/// S1-A4, S1-O2: listing the tools of a server is visible.
#[test]
fn discovery() {
    check(
        stories::discovery(),
        expect![[r#"
            0 response.created "in_progress" []
            1 response.in_progress "in_progress" []
            2 response.output_item.added {"output_index":0,"item":{"type":"mcp_list_tools","id":"mcpl_1","server_label":"docs","tools":[]}}
            3 response.mcp_list_tools.in_progress {"item_id":"mcpl_1","output_index":0,"server_label":"docs","turnwire":{}}
            4 response.mcp_list_tools.completed {"item_id":"mcpl_1","output_index":0,"server_label":"docs","turnwire":{}}
            5 response.output_item.done {"output_index":0,"item":{"type":"mcp_list_tools","id":"mcpl_1","server_label":"docs","tools":[{"name":"ask","description":"Asks.","input_schema":{"type":"object","properties":{}}},{"name":"find","description":"Asks.","input_schema":{"type":"object","properties":{}}}]}}
            6 response.output_item.added {"output_index":1,"item":{"type":"mcp_call","id":"mcp_a","status":"in_progress","approval_request_id":null,"arguments":"","error":null,"name":"find","output":null,"server_label":"docs"}}
            7 response.mcp_call.in_progress {"item_id":"mcp_a","output_index":1,"name":"find","call_id":"a","server_label":"docs","turnwire":{}}
            8 response.mcp_call_arguments.delta {"item_id":"mcp_a","output_index":1,"delta":"{}"}
            9 response.mcp_call_arguments.done {"item_id":"mcp_a","output_index":1,"name":"find","arguments":"{}"}
            10 response.mcp_call.in_progress {"item_id":"mcp_a","output_index":1,"name":"find","call_id":"a","server_label":"docs","turnwire":{"attempt":1}}
            11 response.mcp_call.completed {"item_id":"mcp_a","output_index":1,"name":"find","call_id":"a","server_label":"docs","turnwire":{"attempt":1,"duration_ms":42}}
            12 response.output_item.done {"output_index":1,"item":{"type":"mcp_call","id":"mcp_a","status":"completed","approval_request_id":null,"arguments":"{}","error":null,"name":"find","output":"yes","server_label":"docs"}}
            13 response.output_item.added {"output_index":2,"item":{"type":"message","id":"msg_1","status":"in_progress","role":"assistant","content":[]}}
            14 response.content_part.added {"item_id":"msg_1","output_index":2,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}
            15 response.output_text.delta {"item_id":"msg_1","output_index":2,"content_index":0,"delta":"Yes."}
            16 response.output_text.done {"item_id":"msg_1","output_index":2,"content_index":0,"text":"Yes."}
            17 response.content_part.done {"item_id":"msg_1","output_index":2,"content_index":0,"part":{"type":"output_text","text":"Yes.","annotations":[],"logprobs":[]}}
            18 response.output_item.done {"output_index":2,"item":{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Yes.","annotations":[],"logprobs":[]}]}}
            19 response.completed "completed" ["mcpl_1","mcp_a","msg_1"]"#]],
    );
}

/// S1-A4, S1-O2.
#[test]
fn discovery_that_fails() {
    check(
        stories::discovery_failed(),
        expect![[r#"
        0 response.created "in_progress" []
        1 response.in_progress "in_progress" []
        2 response.output_item.added {"output_index":0,"item":{"type":"mcp_list_tools","id":"mcpl_1","server_label":"docs","tools":[]}}
        3 response.mcp_list_tools.in_progress {"item_id":"mcpl_1","output_index":0,"server_label":"docs","turnwire":{}}
        4 response.mcp_list_tools.failed {"item_id":"mcpl_1","output_index":0,"server_label":"docs","turnwire":{"failure":{"code":"server_unreachable","message":"the server did not tell its tools: gone"}}}
        5 response.output_item.done {"output_index":0,"item":{"type":"mcp_list_tools","id":"mcpl_1","server_label":"docs","tools":[],"error":"the server did not tell its tools: gone"}}
        6 response.output_item.added {"output_index":1,"item":{"type":"message","id":"msg_1","status":"in_progress","role":"assistant","content":[]}}
        7 response.content_part.added {"item_id":"msg_1","output_index":1,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}
        8 response.output_text.delta {"item_id":"msg_1","output_index":1,"content_index":0,"delta":"No."}
        9 response.output_text.done {"item_id":"msg_1","output_index":1,"content_index":0,"text":"No."}
        10 response.content_part.done {"item_id":"msg_1","output_index":1,"content_index":0,"part":{"type":"output_text","text":"No.","annotations":[],"logprobs":[]}}
        11 response.output_item.done {"output_index":1,"item":{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"No.","annotations":[],"logprobs":[]}]}}
        12 response.completed "completed" ["mcpl_1","msg_1"]"#]],
    );
}

/// A call that needs an approval becomes an approval request, and the response completes.
#[test]
fn a_call_that_must_be_allowed_is_handed_back() {
    check(
        stories::handed_back(),
        expect![[r#"
            0 response.created "in_progress" []
            1 response.in_progress "in_progress" []
            2 response.output_item.added {"output_index":0,"item":{"type":"mcp_list_tools","id":"mcpl_1","server_label":"docs","tools":[]}}
            3 response.mcp_list_tools.in_progress {"item_id":"mcpl_1","output_index":0,"server_label":"docs","turnwire":{}}
            4 response.mcp_list_tools.completed {"item_id":"mcpl_1","output_index":0,"server_label":"docs","turnwire":{}}
            5 response.output_item.done {"output_index":0,"item":{"type":"mcp_list_tools","id":"mcpl_1","server_label":"docs","tools":[{"name":"ask","description":"Asks.","input_schema":{"type":"object","properties":{}}}]}}
            6 response.output_item.added {"output_index":1,"item":{"type":"mcp_approval_request","id":"mcpr_a","arguments":"{\"q\":1}","name":"ask","server_label":"docs"}}
            7 response.output_item.done {"output_index":1,"item":{"type":"mcp_approval_request","id":"mcpr_a","arguments":"{\"q\":1}","name":"ask","server_label":"docs"}}
            8 response.completed "completed" ["mcpl_1","mcpr_a"]"#]],
    );
}

/// The call refers to its approval request.
#[test]
fn an_allowed_call_names_its_question() {
    check(
        stories::answered(),
        expect![[r#"
            0 response.created "in_progress" []
            1 response.in_progress "in_progress" []
            2 response.output_item.added {"output_index":0,"item":{"type":"mcp_call","id":"mcp_a","status":"in_progress","approval_request_id":"mcpr_a","arguments":"","error":null,"name":"ask","output":null,"server_label":"docs"}}
            3 response.mcp_call.in_progress {"item_id":"mcp_a","output_index":0,"name":"ask","call_id":"a","server_label":"docs","turnwire":{}}
            4 response.mcp_call_arguments.delta {"item_id":"mcp_a","output_index":0,"delta":"{\"q\":1}"}
            5 response.mcp_call_arguments.done {"item_id":"mcp_a","output_index":0,"name":"ask","arguments":"{\"q\":1}"}
            6 response.mcp_call.in_progress {"item_id":"mcp_a","output_index":0,"name":"ask","call_id":"a","server_label":"docs","turnwire":{"attempt":1,"message":"q=1"}}
            7 response.mcp_call.completed {"item_id":"mcp_a","output_index":0,"name":"ask","call_id":"a","server_label":"docs","turnwire":{"attempt":1,"duration_ms":42}}
            8 response.output_item.done {"output_index":0,"item":{"type":"mcp_call","id":"mcp_a","status":"completed","approval_request_id":"mcpr_a","arguments":"{\"q\":1}","error":null,"name":"ask","output":"yes","server_label":"docs"}}
            9 response.output_item.added {"output_index":1,"item":{"type":"message","id":"msg_1","status":"in_progress","role":"assistant","content":[]}}
            10 response.content_part.added {"item_id":"msg_1","output_index":1,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}
            11 response.output_text.delta {"item_id":"msg_1","output_index":1,"content_index":0,"delta":"Yes."}
            12 response.output_text.done {"item_id":"msg_1","output_index":1,"content_index":0,"text":"Yes."}
            13 response.content_part.done {"item_id":"msg_1","output_index":1,"content_index":0,"part":{"type":"output_text","text":"Yes.","annotations":[],"logprobs":[]}}
            14 response.output_item.done {"output_index":1,"item":{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Yes.","annotations":[],"logprobs":[]}]}}
            15 response.completed "completed" ["mcp_a","msg_1"]"#]],
    );
}

/// S1-D, R18: a text that was cut off is incomplete, with the reason.
#[test]
fn an_answer_cut_by_its_length() {
    check(
        stories::length(),
        expect![[r#"
        0 response.created "in_progress" []
        1 response.in_progress "in_progress" []
        2 response.output_item.added {"output_index":0,"item":{"type":"message","id":"msg_1","status":"in_progress","role":"assistant","content":[]}}
        3 response.content_part.added {"item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}
        4 response.output_text.delta {"item_id":"msg_1","output_index":0,"content_index":0,"delta":"It"}
        5 response.output_text.done {"item_id":"msg_1","output_index":0,"content_index":0,"text":"It"}
        6 response.content_part.done {"item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","text":"It","annotations":[],"logprobs":[]}}
        7 response.output_item.done {"output_index":0,"item":{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"It","annotations":[],"logprobs":[]}]}}
        8 response.output_item.added {"output_index":1,"item":{"type":"function_call","id":"fc_a","status":"in_progress","arguments":"","call_id":"a","name":"multiply"}}
        9 response.function_call_arguments.delta {"item_id":"fc_a","output_index":1,"delta":"{\"a\":"}
        10 response.function_call_arguments.done {"item_id":"fc_a","output_index":1,"name":"multiply","arguments":"{\"a\":"}
        11 response.output_item.done {"output_index":1,"item":{"type":"function_call","id":"fc_a","status":"incomplete","arguments":"{\"a\":","call_id":"a","name":"multiply"}}
        12 response.incomplete "incomplete" ["msg_1","fc_a"]"#]],
    );
}

/// R8.
#[test]
fn a_cancelled_run() {
    check(
        stories::cancelled(),
        expect![[r#"
        0 response.created "in_progress" []
        1 response.in_progress "in_progress" []
        2 response.output_item.added {"output_index":0,"item":{"type":"mcp_call","id":"mcp_a","status":"in_progress","approval_request_id":null,"arguments":"","error":null,"name":"ask","output":null,"server_label":"docs"}}
        3 response.mcp_call.in_progress {"item_id":"mcp_a","output_index":0,"name":"ask","call_id":"a","server_label":"docs","turnwire":{}}
        4 response.mcp_call_arguments.delta {"item_id":"mcp_a","output_index":0,"delta":"{}"}
        5 response.mcp_call_arguments.done {"item_id":"mcp_a","output_index":0,"name":"ask","arguments":"{}"}
        6 response.output_item.added {"output_index":1,"item":{"type":"message","id":"msg_1","status":"in_progress","role":"assistant","content":[]}}
        7 response.content_part.added {"item_id":"msg_1","output_index":1,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}
        8 response.output_text.delta {"item_id":"msg_1","output_index":1,"content_index":0,"delta":"It"}
        9 response.output_text.done {"item_id":"msg_1","output_index":1,"content_index":0,"text":"It"}
        10 response.content_part.done {"item_id":"msg_1","output_index":1,"content_index":0,"part":{"type":"output_text","text":"It","annotations":[],"logprobs":[]}}
        11 response.output_item.done {"output_index":1,"item":{"type":"message","id":"msg_1","status":"incomplete","role":"assistant","content":[{"type":"output_text","text":"It","annotations":[],"logprobs":[]}]}}
        12 response.mcp_call.failed {"item_id":"mcp_a","output_index":0,"name":"ask","call_id":"a","server_label":"docs","turnwire":{"duration_ms":0,"failure":{"code":"cancelled","message":"cancelled"}}}
        13 response.output_item.done {"output_index":0,"item":{"type":"mcp_call","id":"mcp_a","status":"failed","approval_request_id":null,"arguments":"{}","error":{"type":"mcp_protocol_error","code":-32800,"message":"cancelled"},"name":"ask","output":null,"server_label":"docs","turnwire":{"failure":{"code":"cancelled","message":"cancelled"}}}}
        14 response.incomplete "cancelled" ["mcp_a","msg_1"]"#]],
    );
}

/// S1-D, R9: an error in both formats, then the failed response.
#[test]
fn a_run_that_fails() {
    check(
        stories::run_failed(),
        expect![[r#"
        0 response.created "in_progress" []
        1 response.in_progress "in_progress" []
        2 error {"code":"server_error","message":"the model is not available right now","param":null,"error":{"type":"server_error","code":"server_error","message":"the model is not available right now","param":null},"turnwire":{"code":"model_unavailable"}}
        3 response.failed "failed" []"#]],
    );
}

/// R20, R21: one start, however many workers; the unfinished message is closed, the call continues.
#[test]
fn a_run_taken_over() {
    check(
        stories::taken_over(),
        expect![[r#"
            0 response.created "in_progress" []
            1 response.in_progress "in_progress" []
            2 response.output_item.added {"output_index":0,"item":{"type":"message","id":"msg_1","status":"in_progress","role":"assistant","content":[]}}
            3 response.content_part.added {"item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}
            4 response.output_text.delta {"item_id":"msg_1","output_index":0,"content_index":0,"delta":"It i"}
            5 response.output_text.done {"item_id":"msg_1","output_index":0,"content_index":0,"text":"It i"}
            6 response.content_part.done {"item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","text":"It i","annotations":[],"logprobs":[]}}
            7 response.output_item.done {"output_index":0,"item":{"type":"message","id":"msg_1","status":"incomplete","role":"assistant","content":[{"type":"output_text","text":"It i","annotations":[],"logprobs":[]}]}}
            8 response.output_item.added {"output_index":1,"item":{"type":"mcp_call","id":"mcp_a","status":"in_progress","approval_request_id":null,"arguments":"","error":null,"name":"ask","output":null,"server_label":"docs"}}
            9 response.mcp_call.in_progress {"item_id":"mcp_a","output_index":1,"name":"ask","call_id":"a","server_label":"docs","turnwire":{}}
            10 response.mcp_call_arguments.delta {"item_id":"mcp_a","output_index":1,"delta":"{}"}
            11 response.mcp_call_arguments.done {"item_id":"mcp_a","output_index":1,"name":"ask","arguments":"{}"}
            12 response.mcp_call.in_progress {"item_id":"mcp_a","output_index":1,"name":"ask","call_id":"a","server_label":"docs","turnwire":{"attempt":1}}
            13 response.mcp_call.in_progress {"item_id":"mcp_a","output_index":1,"name":"ask","call_id":"a","server_label":"docs","turnwire":{"attempt":2}}
            14 response.mcp_call.completed {"item_id":"mcp_a","output_index":1,"name":"ask","call_id":"a","server_label":"docs","turnwire":{"attempt":2,"duration_ms":42}}
            15 response.output_item.done {"output_index":1,"item":{"type":"mcp_call","id":"mcp_a","status":"completed","approval_request_id":null,"arguments":"{}","error":null,"name":"ask","output":"20","server_label":"docs"}}
            16 response.output_item.added {"output_index":2,"item":{"type":"message","id":"msg_2","status":"in_progress","role":"assistant","content":[]}}
            17 response.content_part.added {"item_id":"msg_2","output_index":2,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}
            18 response.output_text.delta {"item_id":"msg_2","output_index":2,"content_index":0,"delta":"It is 20."}
            19 response.output_text.done {"item_id":"msg_2","output_index":2,"content_index":0,"text":"It is 20."}
            20 response.content_part.done {"item_id":"msg_2","output_index":2,"content_index":0,"part":{"type":"output_text","text":"It is 20.","annotations":[],"logprobs":[]}}
            21 response.output_item.done {"output_index":2,"item":{"type":"message","id":"msg_2","status":"completed","role":"assistant","content":[{"type":"output_text","text":"It is 20.","annotations":[],"logprobs":[]}]}}
            22 response.completed "completed" ["mcp_a","msg_2"]"#]],
    );
}

#[test]
fn a_background_run_is_queued_first() {
    check(
        stories::background(),
        expect![[r#"
        0 response.created "queued" []
        1 response.queued "queued" []
        2 response.in_progress "in_progress" []
        3 response.output_item.added {"output_index":0,"item":{"type":"message","id":"msg_1","status":"in_progress","role":"assistant","content":[]}}
        4 response.content_part.added {"item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}
        5 response.output_text.delta {"item_id":"msg_1","output_index":0,"content_index":0,"delta":"20"}
        6 response.output_text.done {"item_id":"msg_1","output_index":0,"content_index":0,"text":"20"}
        7 response.content_part.done {"item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","text":"20","annotations":[],"logprobs":[]}}
        8 response.output_item.done {"output_index":0,"item":{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"20","annotations":[],"logprobs":[]}]}}
        9 response.completed "completed" ["msg_1"]"#]],
    );
}

/// A part that could not be read, in the current turn of a story.
fn skipped(turn: u32) -> Event {
    let reason = Failure::new("model_unreadable", "a part could not be read");
    Event::PartSkipped { turn, bytes: 40, reason }
}

/// The metadata of the final response.
fn metadata(story: Story) -> Value {
    let story = story.turn_done(Finish::Answered).ended(RunOutcome::Completed);
    to_json(&told(story, Profile::Strict).1)["metadata"].clone()
}

/// A gap is told with the final response, in a text that fits a value of metadata.
#[test]
fn a_gap_is_told_at_the_end() {
    let request = || asking(json!({ "metadata": { "mine": "stays" } }));
    let begun = || Story::of(request()).turn().says(&["It"]);
    assert_eq!(metadata(begun()), json!({ "mine": "stays" }));
    let one = "model_unreadable: a part of the model's answer could not be read and is missing";
    let expected = json!({ "mine": "stays", "turnwire_warnings": one });
    assert_eq!(metadata(begun().then(skipped(1))), expected);
    let all = (0..16).fold(begun(), |story, _| story.then(skipped(1)));
    let told = metadata(all)["turnwire_warnings"].as_str().unwrap().to_owned();
    assert!(told.contains("16 parts") && told.chars().count() <= 512, "{told}");
}

/// What could not be read in an attempt that was thrown away is missing nowhere.
#[test]
fn gaps_of_a_withdrawn_turn_are_not_told() {
    let reason = Failure::new("model_broke_off", "the stream ended");
    let retried = Event::TurnRetried { turn: 1, attempt: 2, reason, delay_ms: 0 };
    let asked_again = Story::new().turn().then(skipped(1)).then(retried).says(&["It"]);
    assert_eq!(metadata(asked_again), json!({}));
    let died = Story::new().turn().then(skipped(1)).then(Event::taken_over(2));
    let died = died.then(Event::TurnAbandoned { turn: 1 });
    assert_eq!(metadata(died.then(Event::TurnStarted { turn: 1 }).says(&["It"])), json!({}));
}

/// R1: the extended profile has additional events, for every kind of tool.
#[test]
fn the_extended_profile_tells_of_functions() {
    check_extended(
        stories::server_function(),
        expect![[r#"
            0 response.created "in_progress" []
            1 response.in_progress "in_progress" []
            2 turnwire:turn_started {"turn":1}
            3 response.output_item.added {"output_index":0,"item":{"type":"function_call","id":"fc_a","status":"in_progress","arguments":"","call_id":"a","name":"multiply"}}
            4 response.function_call_arguments.delta {"item_id":"fc_a","output_index":0,"delta":"{\"a\":5}"}
            5 response.function_call_arguments.done {"item_id":"fc_a","output_index":0,"name":"multiply","arguments":"{\"a\":5}"}
            6 response.output_item.done {"output_index":0,"item":{"type":"function_call","id":"fc_a","status":"completed","arguments":"{\"a\":5}","call_id":"a","name":"multiply"}}
            7 response.output_item.added {"output_index":1,"item":{"type":"function_call","id":"fc_b","status":"in_progress","arguments":"","call_id":"b","name":"nothing"}}
            8 response.function_call_arguments.delta {"item_id":"fc_b","output_index":1,"delta":"{}"}
            9 response.function_call_arguments.done {"item_id":"fc_b","output_index":1,"name":"nothing","arguments":"{}"}
            10 response.output_item.done {"output_index":1,"item":{"type":"function_call","id":"fc_b","status":"completed","arguments":"{}","call_id":"b","name":"nothing"}}
            11 turnwire:tool_started {"call_id":"a","item_id":"fc_a","output_index":0,"name":"multiply","attempt":1,"label":"a=5"}
            12 turnwire:tool_progress {"call_id":"a","item_id":"fc_a","output_index":0,"name":"multiply","progress":1.0,"total":2.0,"message":"half"}
            13 turnwire:tool_output_added {"call_id":"a","item_id":"fc_a","output_index":0,"name":"multiply","delta":"2"}
            14 response.output_item.added {"output_index":2,"item":{"type":"function_call_output","id":"fco_a","status":"completed","call_id":"a","output":"20"}}
            15 response.output_item.done {"output_index":2,"item":{"type":"function_call_output","id":"fco_a","status":"completed","call_id":"a","output":"20"}}
            16 turnwire:tool_finished {"call_id":"a","item_id":"fc_a","output_index":0,"name":"multiply","success":true,"failure":null,"duration_ms":42}
            17 response.output_item.added {"output_index":3,"item":{"type":"function_call_output","id":"fco_b","status":"completed","call_id":"b","output":"Error: there is no `nothing`","turnwire":{"failure":{"code":"not_found","message":"there is no `nothing`"}}}}
            18 response.output_item.done {"output_index":3,"item":{"type":"function_call_output","id":"fco_b","status":"completed","call_id":"b","output":"Error: there is no `nothing`","turnwire":{"failure":{"code":"not_found","message":"there is no `nothing`"}}}}
            19 turnwire:tool_finished {"call_id":"b","item_id":"fc_b","output_index":1,"name":"nothing","success":false,"failure":{"code":"not_found","message":"there is no `nothing`"},"duration_ms":0}
            20 turnwire:turn_started {"turn":2}
            21 response.output_item.added {"output_index":4,"item":{"type":"message","id":"msg_1","status":"in_progress","role":"assistant","content":[]}}
            22 response.content_part.added {"item_id":"msg_1","output_index":4,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}
            23 response.output_text.delta {"item_id":"msg_1","output_index":4,"content_index":0,"delta":"20"}
            24 response.output_text.done {"item_id":"msg_1","output_index":4,"content_index":0,"text":"20"}
            25 response.content_part.done {"item_id":"msg_1","output_index":4,"content_index":0,"part":{"type":"output_text","text":"20","annotations":[],"logprobs":[]}}
            26 response.output_item.done {"output_index":4,"item":{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"20","annotations":[],"logprobs":[]}]}}
            27 response.completed "completed" ["fc_a","fc_b","fco_a","fco_b","msg_1"]"#]],
    );
}

/// R1.
#[test]
fn the_extended_profile_tells_of_a_tool_at_work() {
    check_extended(
        stories::mcp_at_work(),
        expect![[r#"
        0 response.created "in_progress" []
        1 response.in_progress "in_progress" []
        2 turnwire:turn_started {"turn":1}
        3 response.output_item.added {"output_index":0,"item":{"type":"mcp_call","id":"mcp_a","status":"in_progress","approval_request_id":null,"arguments":"","error":null,"name":"ask","output":null,"server_label":"docs"}}
        4 response.mcp_call.in_progress {"item_id":"mcp_a","output_index":0,"name":"ask","call_id":"a","server_label":"docs","turnwire":{}}
        5 response.mcp_call_arguments.delta {"item_id":"mcp_a","output_index":0,"delta":"{}"}
        6 response.mcp_call_arguments.done {"item_id":"mcp_a","output_index":0,"name":"ask","arguments":"{}"}
        7 response.mcp_call.in_progress {"item_id":"mcp_a","output_index":0,"name":"ask","call_id":"a","server_label":"docs","turnwire":{"attempt":1}}
        8 turnwire:tool_started {"call_id":"a","item_id":"mcp_a","output_index":0,"name":"ask","server_label":"docs","attempt":1,"label":""}
        9 response.mcp_call.in_progress {"item_id":"mcp_a","output_index":0,"name":"ask","call_id":"a","server_label":"docs","turnwire":{"attempt":1,"message":"connecting"}}
        10 turnwire:tool_phase {"call_id":"a","item_id":"mcp_a","output_index":0,"name":"ask","server_label":"docs","phase":"connecting"}
        11 response.mcp_call.in_progress {"item_id":"mcp_a","output_index":0,"name":"ask","call_id":"a","server_label":"docs","turnwire":{"attempt":1,"progress":1.0,"total":2.0,"message":"half"}}
        12 turnwire:tool_progress {"call_id":"a","item_id":"mcp_a","output_index":0,"name":"ask","server_label":"docs","progress":1.0,"total":2.0,"message":"half"}
        13 response.mcp_call.in_progress {"item_id":"mcp_a","output_index":0,"name":"ask","call_id":"a","server_label":"docs","turnwire":{"attempt":1,"duration_ms":300}}
        14 turnwire:tool_silent {"call_id":"a","item_id":"mcp_a","output_index":0,"name":"ask","server_label":"docs","elapsed_ms":300}
        15 response.mcp_call.in_progress {"item_id":"mcp_a","output_index":0,"name":"ask","call_id":"a","server_label":"docs","turnwire":{"attempt":2,"failure":{"code":"tool_failed","message":"busy"}}}
        16 turnwire:tool_retried {"call_id":"a","item_id":"mcp_a","output_index":0,"name":"ask","server_label":"docs","attempt":2,"failure":{"code":"tool_failed","message":"busy"}}
        17 response.mcp_call.completed {"item_id":"mcp_a","output_index":0,"name":"ask","call_id":"a","server_label":"docs","turnwire":{"attempt":2,"duration_ms":42}}
        18 response.output_item.done {"output_index":0,"item":{"type":"mcp_call","id":"mcp_a","status":"completed","approval_request_id":null,"arguments":"{}","error":null,"name":"ask","output":"yes","server_label":"docs"}}
        19 turnwire:tool_finished {"call_id":"a","item_id":"mcp_a","output_index":0,"name":"ask","server_label":"docs","success":true,"failure":null,"duration_ms":42}
        20 response.completed "completed" ["mcp_a"]"#]],
    );
}

/// R1.
#[test]
fn the_extended_profile_tells_of_a_failed_search() {
    check_extended(
        stories::web_search_failed(),
        expect![[r#"
            0 response.created "in_progress" []
            1 response.in_progress "in_progress" []
            2 turnwire:turn_started {"turn":1}
            3 response.output_item.added {"output_index":0,"item":{"type":"web_search_call","id":"ws_a","status":"in_progress"}}
            4 response.web_search_call.in_progress {"item_id":"ws_a","output_index":0,"name":"web_search","call_id":"a","turnwire":{}}
            5 response.web_search_call.searching {"item_id":"ws_a","output_index":0,"name":"web_search","call_id":"a","turnwire":{"attempt":1,"message":"bonn"}}
            6 turnwire:tool_started {"call_id":"a","item_id":"ws_a","output_index":0,"name":"web_search","attempt":1,"label":"bonn"}
            7 response.web_search_call.failed {"item_id":"ws_a","output_index":0,"name":"web_search","call_id":"a","turnwire":{"attempt":1,"duration_ms":42,"failure":{"code":"timed_out","message":"timed out after 5 s"}}}
            8 response.output_item.done {"output_index":0,"item":{"type":"web_search_call","id":"ws_a","status":"failed","action":{"type":"search","query":"bonn","queries":["bonn"]},"turnwire":{"failure":{"code":"timed_out","message":"timed out after 5 s"}}}}
            9 turnwire:tool_finished {"call_id":"a","item_id":"ws_a","output_index":0,"name":"web_search","success":false,"failure":{"code":"timed_out","message":"timed out after 5 s"},"duration_ms":42}
            10 response.output_item.added {"output_index":1,"item":{"type":"web_search_call","id":"ws_b","status":"in_progress"}}
            11 response.web_search_call.in_progress {"item_id":"ws_b","output_index":1,"name":"web_search","call_id":"b","turnwire":{}}
            12 response.web_search_call.failed {"item_id":"ws_b","output_index":1,"name":"web_search","call_id":"b","turnwire":{"duration_ms":0,"failure":{"code":"invalid_arguments","message":"invalid arguments: not JSON"}}}
            13 response.output_item.done {"output_index":1,"item":{"type":"web_search_call","id":"ws_b","status":"failed","action":{"type":"search","query":"","queries":[]},"turnwire":{"failure":{"code":"invalid_arguments","message":"invalid arguments: not JSON"}}}}
            14 turnwire:tool_finished {"call_id":"b","item_id":"ws_b","output_index":1,"name":"web_search","success":false,"failure":{"code":"invalid_arguments","message":"invalid arguments: not JSON"},"duration_ms":0}
            15 response.completed "completed" ["ws_a","ws_b"]"#]],
    );
}

/// R1.
#[test]
fn the_extended_profile_tells_of_questions() {
    check_extended(
        stories::handed_back(),
        expect![[r#"
            0 response.created "in_progress" []
            1 response.in_progress "in_progress" []
            2 response.output_item.added {"output_index":0,"item":{"type":"mcp_list_tools","id":"mcpl_1","server_label":"docs","tools":[]}}
            3 response.mcp_list_tools.in_progress {"item_id":"mcpl_1","output_index":0,"server_label":"docs","turnwire":{}}
            4 response.mcp_list_tools.completed {"item_id":"mcpl_1","output_index":0,"server_label":"docs","turnwire":{}}
            5 response.output_item.done {"output_index":0,"item":{"type":"mcp_list_tools","id":"mcpl_1","server_label":"docs","tools":[{"name":"ask","description":"Asks.","input_schema":{"type":"object","properties":{}}}]}}
            6 turnwire:turn_started {"turn":1}
            7 response.output_item.added {"output_index":1,"item":{"type":"mcp_approval_request","id":"mcpr_a","arguments":"{\"q\":1}","name":"ask","server_label":"docs"}}
            8 response.output_item.done {"output_index":1,"item":{"type":"mcp_approval_request","id":"mcpr_a","arguments":"{\"q\":1}","name":"ask","server_label":"docs"}}
            9 turnwire:approval_requested {"call_id":"a","item_id":"mcpr_a","output_index":1,"name":"ask","server_label":"docs"}
            10 response.completed "completed" ["mcpl_1","mcpr_a"]"#]],
    );
}

/// R1.
#[test]
fn the_extended_profile_tells_of_takeovers() {
    check_extended(
        stories::taken_over(),
        expect![[r#"
            0 response.created "in_progress" []
            1 response.in_progress "in_progress" []
            2 turnwire:turn_started {"turn":1}
            3 response.output_item.added {"output_index":0,"item":{"type":"message","id":"msg_1","status":"in_progress","role":"assistant","content":[]}}
            4 response.content_part.added {"item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}
            5 response.output_text.delta {"item_id":"msg_1","output_index":0,"content_index":0,"delta":"It i"}
            6 turnwire:run_taken_over {"attempt":2}
            7 response.output_text.done {"item_id":"msg_1","output_index":0,"content_index":0,"text":"It i"}
            8 response.content_part.done {"item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","text":"It i","annotations":[],"logprobs":[]}}
            9 response.output_item.done {"output_index":0,"item":{"type":"message","id":"msg_1","status":"incomplete","role":"assistant","content":[{"type":"output_text","text":"It i","annotations":[],"logprobs":[]}]}}
            10 turnwire:turn_abandoned {"turn":1}
            11 turnwire:turn_started {"turn":1}
            12 response.output_item.added {"output_index":1,"item":{"type":"mcp_call","id":"mcp_a","status":"in_progress","approval_request_id":null,"arguments":"","error":null,"name":"ask","output":null,"server_label":"docs"}}
            13 response.mcp_call.in_progress {"item_id":"mcp_a","output_index":1,"name":"ask","call_id":"a","server_label":"docs","turnwire":{}}
            14 response.mcp_call_arguments.delta {"item_id":"mcp_a","output_index":1,"delta":"{}"}
            15 response.mcp_call_arguments.done {"item_id":"mcp_a","output_index":1,"name":"ask","arguments":"{}"}
            16 response.mcp_call.in_progress {"item_id":"mcp_a","output_index":1,"name":"ask","call_id":"a","server_label":"docs","turnwire":{"attempt":1}}
            17 turnwire:tool_started {"call_id":"a","item_id":"mcp_a","output_index":1,"name":"ask","server_label":"docs","attempt":1,"label":""}
            18 turnwire:run_taken_over {"attempt":3}
            19 response.mcp_call.in_progress {"item_id":"mcp_a","output_index":1,"name":"ask","call_id":"a","server_label":"docs","turnwire":{"attempt":2}}
            20 turnwire:tool_started {"call_id":"a","item_id":"mcp_a","output_index":1,"name":"ask","server_label":"docs","attempt":2,"label":""}
            21 response.mcp_call.completed {"item_id":"mcp_a","output_index":1,"name":"ask","call_id":"a","server_label":"docs","turnwire":{"attempt":2,"duration_ms":42}}
            22 response.output_item.done {"output_index":1,"item":{"type":"mcp_call","id":"mcp_a","status":"completed","approval_request_id":null,"arguments":"{}","error":null,"name":"ask","output":"20","server_label":"docs"}}
            23 turnwire:tool_finished {"call_id":"a","item_id":"mcp_a","output_index":1,"name":"ask","server_label":"docs","success":true,"failure":null,"duration_ms":42}
            24 turnwire:turn_started {"turn":2}
            25 response.output_item.added {"output_index":2,"item":{"type":"message","id":"msg_2","status":"in_progress","role":"assistant","content":[]}}
            26 response.content_part.added {"item_id":"msg_2","output_index":2,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}
            27 response.output_text.delta {"item_id":"msg_2","output_index":2,"content_index":0,"delta":"It is 20."}
            28 response.output_text.done {"item_id":"msg_2","output_index":2,"content_index":0,"text":"It is 20."}
            29 response.content_part.done {"item_id":"msg_2","output_index":2,"content_index":0,"part":{"type":"output_text","text":"It is 20.","annotations":[],"logprobs":[]}}
            30 response.output_item.done {"output_index":2,"item":{"type":"message","id":"msg_2","status":"completed","role":"assistant","content":[{"type":"output_text","text":"It is 20.","annotations":[],"logprobs":[]}]}}
            31 response.completed "completed" ["mcp_a","msg_2"]"#]],
    );
}

/// The types of all frames, without the numbers.
fn names(story: Story) -> Vec<&'static str> {
    told(story, Profile::Strict).0.iter().map(SequencedEvent::event_type).collect()
}

/// The output items, as JSON.
fn output(story: Story) -> Vec<Value> {
    told(story, Profile::Strict).1.output.iter().map(to_json).collect()
}

/// S1-A1, S1-E4: the kind of a tool decides, whatever its name is.
#[test]
fn the_kind_decides_and_not_the_name() {
    let types = |kind, server| {
        let tool = tool("web_search", kind, server);
        let story = called(Story::new().turn(), "a", tool, &["{}"]).started("a");
        let output = output(story.finished("a", succeeded("yes")).ended(RunOutcome::Completed));
        output.iter().map(|item| item["type"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(types(ToolKind::Client, None), ["function_call"]);
    assert_eq!(types(ToolKind::Function, None), ["function_call", "function_call_output"]);
    assert_eq!(types(ToolKind::Mcp, Some("docs")), ["mcp_call"]);
    assert_eq!(types(ToolKind::WebSearch, None), ["web_search_call"]);
    assert_eq!(types(ToolKind::FileSearch, None), ["file_search_call"]);
}

/// S1-FR-011, S1-FR-010: without the tool frames, the stream is that of the items alone, in every
/// story: each item is added once and then done once, in the order of their indexes, and the done
/// item is the one in the response.
#[test]
fn tool_frames_come_beside_the_items() {
    for (name, story) in stories::all() {
        let (frames, response) = told(story, Profile::Strict);
        let frames: Vec<Value> = frames.iter().map(to_json).collect();
        let of_items = |step: &str| -> Vec<(u64, Value)> {
            let kind = format!("response.output_item.{step}");
            let frames = frames.iter().filter(|frame| frame["type"] == kind);
            frames.map(|it| (it["output_index"].as_u64().unwrap(), it["item"].clone())).collect()
        };
        let (added, mut done) = (of_items("added"), of_items("done"));
        let in_order = |items: &[(u64, Value)]| {
            let output_indices: Vec<u64> =
                items.iter().map(|(output_index, _)| *output_index).collect();
            output_indices == (0..items.len() as u64).collect::<Vec<_>>()
        };
        assert!(in_order(&added), "{name}: {added:#?}");
        // Parallel items may end in another order than they started.
        done.sort_by_key(|(output_index, _)| *output_index);
        assert!(in_order(&done), "{name}: {done:#?}");
        assert_eq!(added.len(), done.len(), "{name}");
        for ((_, added), (_, done)) in added.iter().zip(&done) {
            assert_eq!((&added["id"], &added["type"]), (&done["id"], &done["type"]), "{name}");
        }
        let done: Vec<Value> = done.into_iter().map(|(_, item)| item).collect();
        let output: Vec<Value> = response.output.iter().map(to_json).collect();
        let superseded = |item: &&Value| item["status"] == "incomplete" && !output.contains(item);
        let done: Vec<&Value> = done.iter().filter(|item| !superseded(item)).collect();
        assert_eq!(done, output.iter().collect::<Vec<_>>(), "{name}");
    }
}

/// S1-FR-006: `in_progress` is sent before the tool starts, for every kind.
#[test]
fn in_progress_is_told_before_the_tool_works() {
    for kind in [ToolKind::Mcp, ToolKind::WebSearch, ToolKind::FileSearch] {
        let tool = tool("x", kind, Some("docs").filter(|_| kind == ToolKind::Mcp));
        let story = called(Story::new().turn(), "a", tool, &["{}"]).started("a");
        let begun = |name: &&str| name.ends_with("_call.in_progress");
        assert!(names(story).iter().any(begun), "{kind:?}");
    }
}

/// S1-US1-AS3, R7: each kind of failure, as the error of an MCP call.
#[test]
fn every_way_to_fail() {
    let text = || "why".to_owned();
    let panicked = Failure::new("tool_panicked", "it crashed");
    let ways = [
        (ToolOutcome::Failed { failure: panicked }, -32603),
        (ToolOutcome::TimedOut { after_ms: 1000 }, -32001),
        (ToolOutcome::Cancelled, -32800),
        (ToolOutcome::Denied { reason: text() }, -32003),
        (ToolOutcome::InvalidArguments { message: text() }, -32602),
        (ToolOutcome::NotFound { message: text() }, -32601),
        (ToolOutcome::Skipped { reason: text() }, -32004),
        (ToolOutcome::OutcomeUnknown { message: text() }, -32005),
    ];
    for (outcome, code) in ways {
        let story = called(Story::new().turn(), "a", mcp_tool(), &["{}"]);
        let story = story.finished("a", outcome.clone()).ended(RunOutcome::Completed);
        let error =
            json!({ "type": "mcp_protocol_error", "code": code, "message": outcome.problem() });
        assert_eq!(output(story)[0]["error"], error);
    }
}

/// R17: a result that is too large for the wire is cut off, and the item says so.
#[test]
fn a_big_result_is_cut_and_says_so() {
    let long = "ä".repeat(WIRE_BYTES);
    for tool in [mcp_tool(), tool("x", ToolKind::Function, None)] {
        let story = called(Story::new().turn(), "a", tool, &["{}"]).started("a");
        let items = output(story.finished("a", succeeded(&long)).ended(RunOutcome::Completed));
        let item = items.last().unwrap();
        assert_eq!(item["output"].as_str().unwrap().len(), WIRE_BYTES);
        let note = json!({
            "truncated": true,
            "result_bytes": 2 * WIRE_BYTES,
            "result_ref": "/v1/runs/run_1/calls/a/result",
        });
        assert_eq!(item["turnwire"], note);
    }
}

/// R17: images of a function are included if they fit, and counted otherwise.
#[test]
fn pictures_are_shown_or_counted() {
    let image = |n_bytes| Image { media_type: "image/png".to_owned(), base64: "A".repeat(n_bytes) };
    let images = vec![image(4), image(WIRE_BYTES), image(4)];
    let returned = ToolOutput { images, ..ToolOutput::text("two") };
    let outcome = ToolOutcome::Succeeded { output: returned };
    let function = tool("x", ToolKind::Function, None);
    let story = called(Story::new().turn(), "a", function, &["{}"]);
    let items = output(story.finished("a", outcome.clone()).ended(RunOutcome::Completed));
    let shown = json!([
        { "type": "input_text", "text": "two" },
        { "type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto" },
    ]);
    assert_eq!(items[1]["output"], shown);
    assert_eq!(items[1]["turnwire"], json!({ "images": 2 }));
    let story = called(Story::new().turn(), "a", mcp_tool(), &["{}"]);
    let items = output(story.finished("a", outcome).ended(RunOutcome::Completed));
    assert_eq!(items[0]["turnwire"], json!({ "images": 3 }));
}

/// R17: the results of a file search are cut off too, all chunks together.
#[test]
fn pieces_of_files_are_cut_together() {
    let piece = json!({ "file_id": "f", "filename": "f.md", "text": "a".repeat(WIRE_BYTES) });
    let results = json!({ "results": [piece, piece] });
    let request = asking(json!({ "include": ["file_search_call.results"] }));
    let search = tool("file_search", ToolKind::FileSearch, None);
    let story = called(Story::of(request).turn(), "a", search, &["{}"]).started("a");
    let items = output(story.finished("a", found("", results)).ended(RunOutcome::Completed));
    let lengths = items[0]["results"].as_array().unwrap().iter();
    let lengths: Vec<usize> = lengths.map(|one| one["text"].as_str().unwrap().len()).collect();
    assert_eq!(lengths, [WIRE_BYTES, 0]);
    let note = json!({ "truncated": true, "result_ref": "/v1/runs/run_1/calls/a/result" });
    assert_eq!(items[0]["turnwire"], note);
}

/// Output that was not requested is not included.
#[test]
fn sources_results_and_proofs_show_only_if_asked_for() {
    let web = tool("web_search", ToolKind::WebSearch, None);
    let files = tool("file_search", ToolKind::FileSearch, None);
    let story = stories::thinking(Story::new().turn(), "rs_1", &["Hm."], Some("seal"));
    let story = called(story, "a", web, &[r#"{"query":"x"}"#]).started("a");
    let sources = json!({ "sources": [{ "url": "https://a.example" }] });
    let story = called(story.finished("a", found("", sources)), "b", files, &["{}"]).started("b");
    let results = json!({ "queries": ["y"], "results": [{ "file_id": "f" }] });
    let story = story.finished("b", found("", results)).ended(RunOutcome::Completed);
    let [thought, web, files] = &output(story)[..] else { panic!("three items") };
    assert_eq!(thought.get("encrypted_content"), None);
    assert_eq!(thought.get("content"), None);
    assert_eq!(web["action"], json!({ "type": "search", "query": "x", "queries": ["x"] }));
    assert_eq!(files["queries"], json!(["y"]));
    assert_eq!(files["results"], Value::Null);
}

/// A snapshot of a running response has the items so far.
#[test]
fn a_snapshot_shows_what_there_is() {
    let story = Story::new().turn().message().text("It i");
    let story = announced(story, "a", mcp_tool()).writes("a", "{");
    let search = tool("web_search", ToolKind::WebSearch, None);
    let story = called(story, "b", search, &["{}"]).started("b");
    let response = told(story, Profile::Strict).1;
    let output: Vec<Value> = response.output.iter().map(to_json).collect();
    assert_eq!(response.status, ResponseStatus::InProgress);
    assert_eq!(response.usage, None);
    assert_eq!(output[0]["content"][0]["text"], "It i");
    assert_eq!(output[0]["status"], "in_progress");
    assert_eq!(output[1]["arguments"], "{");
    assert_eq!(
        output[2],
        json!({ "type": "web_search_call", "id": "ws_b", "status": "searching" })
    );
}

/// S1-D, R8: the response has the reason why it is incomplete, and its usage.
#[test]
fn the_end_says_why() {
    let end = |story| {
        let response = told(story, Profile::Strict).1;
        let reason = response.incomplete_details.map(|details| details.reason);
        let error = response.error.map(|error| (error.code, error.turnwire.code));
        (to_json(&response.status), reason, error, response.completed_at.is_some())
    };
    assert_eq!(end(stories::text()), (json!("completed"), None, None, true));
    let cut = (json!("incomplete"), Some("max_output_tokens"), None, false);
    assert_eq!(end(stories::length()), cut);
    assert_eq!(end(stories::cancelled()), (json!("cancelled"), Some("cancelled"), None, false));
    let error = Some(("server_error".to_owned(), "model_unavailable".to_owned()));
    assert_eq!(end(stories::run_failed()), (json!("failed"), None, error, false));
    let usage = told(stories::text(), Profile::Strict).1.usage;
    let expected = json!({
        "input_tokens": 2000,
        "input_tokens_details": { "cached_tokens": 0, "cache_write_tokens": 0 },
        "output_tokens": 120,
        "output_tokens_details": { "reasoning_tokens": 0 },
        "total_tokens": 2120,
    });
    assert_eq!(to_json(&usage), expected);
}

/// A call that waits for an approval inside the run is shown as a call.
#[test]
fn a_call_that_waits_in_the_run_shows_as_a_call() {
    let tools = vec![server_spec("ask", true)];
    let story = Story::of(RunRequest { tools, ..request() }).turn();
    let story = called(story, "a", mcp_tool(), &["{}"]).turn_done(Finish::CalledTools);
    let story = story.then(Event::approval_requested(CallId::from("a")));
    let story = story.started("a").finished("a", succeeded("yes")).ended(RunOutcome::Completed);
    let items = output(story);
    assert_eq!((items.len(), &items[0]["type"]), (1, &json!("mcp_call")));
    assert_eq!(items[0]["approval_request_id"], Value::Null);
}

/// A call that was held back and never needed an approval is shown before its end.
#[test]
fn a_call_held_back_and_never_asked_about_is_shown_with_its_end() {
    let tools = vec![server_spec("ask", true)];
    let approvals = Approvals::HandBack;
    let story = Story::of(RunRequest { tools, approvals, ..request() }).turn();
    let story = called(story, "a", mcp_tool(), &["{", "}"]);
    let skipped = ToolOutcome::Skipped { reason: "the run was cancelled".to_owned() };
    let story = story.finished_after("a", skipped, 0).ended(RunOutcome::Cancelled);
    let expected = [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.mcp_call.in_progress",
        "response.mcp_call_arguments.delta",
        "response.mcp_call_arguments.done",
        "response.mcp_call.failed",
        "response.output_item.done",
        "response.incomplete",
    ];
    assert_eq!(names(story), expected);
}

/// A function of the server that needs an approval is handed back in the same way.
#[test]
fn a_function_that_must_be_allowed_is_handed_back_too() {
    let mut spec = turnwire_contract::ToolSpec::new("erase", "Erases.");
    spec.needs_approval = true;
    let (tools, approvals) = (vec![Arc::new(spec)], Approvals::HandBack);
    let story = Story::of(RunRequest { tools, approvals, ..request() }).turn();
    let story = story.calls("a", "erase", "{}").turn_done(Finish::CalledTools);
    let story = story.then(Event::approval_requested(CallId::from("a")));
    let asked = json!({
        "type": "mcp_approval_request",
        "id": "mcpr_fc_a",
        "arguments": "{}",
        "name": "erase",
        "server_label": "turnwire",
    });
    assert_eq!(output(story.ended(RunOutcome::Completed)), [asked]);
}

/// If the approval comes while the run is still in progress, the call follows its approval request.
#[test]
fn a_call_that_was_handed_back_can_still_begin() {
    let (tools, approvals) = (vec![server_spec("ask", true)], Approvals::HandBack);
    let story = Story::of(RunRequest { tools, approvals, ..request() }).turn();
    let story = called(story, "a", mcp_tool(), &["{}"]);
    let story = story.then(Event::approval_requested(CallId::from("a")));
    let story = story.started("a").finished("a", succeeded("yes")).ended(RunOutcome::Completed);
    let items = output(story);
    assert_eq!(items[0]["id"], "mcpr_a");
    assert_eq!(items[1]["id"], "mcp_a");
    assert_eq!(items[1]["approval_request_id"], "mcpr_a");
}

/// A journal that lost its end leaves nothing open either.
#[test]
fn whatever_is_open_is_closed_before_the_end() {
    let story = Story::new().turn().message().text("It i");
    let item_id = ItemId::from("rs_1");
    let story = story.then(Event::ReasoningAdded { item_id, text: "Hm".to_owned() });
    let (item_id, server) = (ItemId::from("mcpl_1"), "docs".to_owned());
    let story = story.then(Event::DiscoveryStarted { item_id, server });
    let story = announced(story, "a", mcp_tool()).writes("a", "{");
    let story = announced(story, "b", tool("x", ToolKind::Client, None)).writes("b", "{");
    let story = announced(story, "c", tool("web_search", ToolKind::WebSearch, None));
    let items = output(story.ended(RunOutcome::Cancelled));
    let statuses: Vec<&Value> = items.iter().map(|item| &item["status"]).collect();
    let (cut, failed) = (&json!("incomplete"), &json!("failed"));
    assert_eq!(statuses, [cut, cut, &Value::Null, failed, cut, failed]);
    assert_eq!(items[2]["error"], "the run ended before the server answered");
}

/// There are no events about items that have ended.
#[test]
fn late_events_change_nothing() {
    let story = called(Story::new().turn().says(&["Hi"]), "a", mcp_tool(), &["{}"]).started("a");
    let (item_id, server) = (ItemId::from("mcpl_1"), "docs".to_owned());
    let outcome = DiscoveryOutcome::Listed { tools: Vec::new() };
    let left_out = LeftOut::default();
    let answered = Event::ToolsDiscovered { item_id, server, outcome, left_out };
    let story = story.then(answered.clone()).finished("a", succeeded("yes"));
    let mut projection = Responses::new(Profile::Extended);
    let story = story.then(answered).text("late").finished("a", failed("late")).started("a");
    let events = announced(story, "a", mcp_tool()).events();
    let (early, late) = events.split_at(events.len() - 5);
    for recorded in early {
        projection.project(recorded);
    }
    let late: Vec<_> = late.iter().flat_map(|recorded| projection.project(recorded)).collect();
    assert_eq!(late, []);
    let over = stories::text().then(Event::taken_over(2)).turn();
    assert_eq!(lines(over, Profile::Extended), lines(stories::text(), Profile::Extended));
}

/// A run that was taken over before it started has one start.
#[test]
fn a_run_taken_over_before_it_began_begins_once() {
    let story = Story::default().then(Event::RunQueued { request: Arc::new(request()) });
    let story = story.then(Event::taken_over(1)).then(Event::RunStarted);
    assert_eq!(names(story), ["response.created", "response.in_progress"]);
}

/// A message that was not streamed is sent in one piece.
#[test]
fn what_was_not_streamed_comes_at_once() {
    let item_id = ItemId::from("msg_1");
    let (text, refusal) = ("Yes".to_owned(), "but no".to_owned());
    let completeness = Completeness::Complete;
    let whole = Event::MessageFinished { item_id, text, refusal, completeness };
    let item_id = ItemId::from("rs_1");
    let (text, encrypted_content) = ("Hm".to_owned(), None);
    let thought = Event::ReasoningFinished { item_id, text, encrypted_content, completeness };
    let story = Story::new().turn().then(whole).then(thought).ended(RunOutcome::Completed);
    let [message, thought] = &output(story)[..] else { panic!("two items") };
    assert_eq!(message["content"][0]["text"], "Yes");
    assert_eq!(message["content"][1]["refusal"], "but no");
    assert_eq!(thought["summary"], json!([{ "type": "summary_text", "text": "Hm" }]));
}

/// The cost of a delta does not depend on the length of the text.
#[test]
fn a_delta_does_not_cost_more_the_longer_the_text_is() {
    let grown_to = |n_bytes| {
        let mut responses = Responses::new(Profile::Strict);
        Story::new().turn().message().text(&"a".repeat(n_bytes)).seen_by(&mut responses);
        responses
    };
    let event = Story::new().turn().message().text("token").events().pop().unwrap();
    check_that_size_does_not_matter(grown_to, |responses: &mut Responses| {
        assert_eq!(responses.project(&event).len(), 1);
    });
}

/// A call that comes with the request is already decided: it is not held back again.
#[test]
fn a_call_that_comes_first_shows_at_once() {
    let (tools, approvals) = (vec![server_spec("ask", true)], Approvals::HandBack);
    let story = Story::of(RunRequest { tools, approvals, ..request() });
    let story = announced(story.then(Event::TurnStarted { turn: 0 }), "a", mcp_tool());
    assert_eq!(names(story).last(), Some(&"response.mcp_call.in_progress"));
}
