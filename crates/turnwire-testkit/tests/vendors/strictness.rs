//! The doubles refuse: each rule about what is given back, on a request that is right but for it.

use serde_json::{Value, json};
use turnwire_contract::RunOutcome;
use turnwire_testkit::vendors::{Vendor, VendorDouble, plan, rules::Rules};

use super::world::World;

/// Sends a request as it is, and returns the rule that it breaks.
async fn rule_of(double: &VendorDouble, path: &str, body: &Value) -> Option<&'static str> {
    let n_before = double.broken().len();
    let request = reqwest::Client::new().post(format!("{}{path}", double.url())).json(body);
    let request = request.header("anthropic-version", "2023-06-01");
    let request = match path {
        "/v1/messages" => request.header("x-api-key", "key-1"),
        _ => request.bearer_auth("key-1"),
    };
    let status = request.send().await.unwrap().status();
    let rule = double.broken().into_iter().nth(n_before).map(|broken| broken.rule);
    assert_eq!(status.is_success(), rule.is_none());
    rule
}

/// A conversation of two turns with thinking and calls, and its last request.
async fn conversation(vendor: Vendor) -> (World, Value) {
    let mut world = World::new(vendor, true).await;
    world.request.generation.reasoning_effort = Some("medium".to_owned());
    for _ in 0..2 {
        let answers = plan(&[&["think", "work"], &["think", "say"]]);
        let input = vec![turnwire_contract::Item::user(answers)];
        assert_eq!(world.say(input).await, RunOutcome::Completed);
    }
    let last = world.double().requests().pop().unwrap();
    (world, last)
}

fn changed(request: &Value, change: impl FnOnce(&mut Value)) -> Value {
    let mut request = request.clone();
    change(&mut request);
    request
}

/// The blocks of the message at this place.
fn blocks(request: &mut Value, message: usize) -> &mut Vec<Value> {
    let content = request.pointer_mut(&format!("/messages/{message}/content"));
    content.unwrap().as_array_mut().unwrap()
}

/// Thinking that is bound to a conversation is refused when anything before it changed, and marks
/// of the cache are no change.
#[tokio::test]
async fn bound_thinking_is_bound_to_what_came_before() {
    let (world, request) = conversation(Vendor::AnthropicPreserved).await;
    let (double, path) = (world.double(), "/v1/messages");
    let other_text = |request: &mut Value| blocks(request, 1)[0]["thinking"] = json!("Else.");
    let other_token = |request: &mut Value| blocks(request, 1)[0]["signature"] = json!("abc");
    let other_system = |request: &mut Value| request["system"] = json!("Else.");
    let other_tools = |request: &mut Value| drop(request["tools"].as_array_mut().unwrap().pop());
    let other_result = |request: &mut Value| blocks(request, 2)[0]["content"] = json!("Short.");
    let one_left_out = |request: &mut Value| drop(blocks(request, 1).remove(0));
    let marked = |request: &mut Value| {
        blocks(request, 0)[0]["cache_control"] = json!({ "type": "ephemeral" });
    };
    // Fields in another order, and a text as a list, are no change either.
    let rewritten = |request: &mut Value| {
        let name = request["tools"][0].as_object_mut().unwrap().shift_remove("name");
        request["tools"][0]["name"] = name.unwrap();
        let system = request["system"].take();
        request["system"] = json!([{ "type": "text", "text": system }]);
    };
    let rule = async |request: Value| rule_of(double, path, &request).await;
    assert_eq!(rule(request.clone()).await, None);
    assert_eq!(rule(changed(&request, marked)).await, None);
    assert_eq!(rule(changed(&request, rewritten)).await, None);
    assert_eq!(rule(changed(&request, other_text)).await, Some("signature"));
    assert_eq!(rule(changed(&request, other_token)).await, Some("signature"));
    assert_eq!(rule(changed(&request, other_system)).await, Some("bound_thinking"));
    assert_eq!(rule(changed(&request, other_tools)).await, Some("bound_thinking"));
    assert_eq!(rule(changed(&request, other_result)).await, Some("bound_thinking"));
    assert_eq!(rule(changed(&request, one_left_out)).await, Some("bound_thinking"));
}

/// Thinking that is only signed may follow other instructions, but stays as it was, where it was.
#[tokio::test]
async fn signed_thinking_stays_in_its_place() {
    let (world, request) = conversation(Vendor::Anthropic).await;
    let (double, path) = (world.double(), "/v1/messages");
    let rule = async |request: Value| rule_of(double, path, &request).await;
    let other_system = |request: &mut Value| request["system"] = json!("Else.");
    let moved = |request: &mut Value| blocks(request, 5).swap(0, 1);
    let other_text = |request: &mut Value| blocks(request, 5)[0]["thinking"] = json!("Else.");
    let left_out = |request: &mut Value| drop(blocks(request, 5).remove(0));
    let blank = |request: &mut Value| blocks(request, 0)[0]["text"] = json!(" \n");
    let no_result = |request: &mut Value| drop(blocks(request, 2).remove(0));
    assert_eq!(rule(request.clone()).await, None);
    assert_eq!(rule(changed(&request, other_system)).await, None);
    assert_eq!(rule(changed(&request, left_out)).await, None);
    assert_eq!(rule(changed(&request, moved)).await, Some("moved_thinking"));
    assert_eq!(rule(changed(&request, other_text)).await, Some("signature"));
    assert_eq!(rule(changed(&request, blank)).await, Some("blank_text"));
    assert_eq!(rule(changed(&request, no_result)).await, Some("blank_text"));
}

/// Encrypted reasoning opens for its account only, and may be left out.
#[tokio::test]
async fn encrypted_reasoning_opens_for_its_account() {
    let (world, request) = conversation(Vendor::OpenAi).await;
    let (double, path) = (world.double(), "/responses");
    let rule = async |request: Value| rule_of(double, path, &request).await;
    let input = |request: &mut Value| request["input"].as_array_mut().unwrap().clone();
    let place = |request: &mut Value, kind: &str| {
        input(request).iter().position(|item| item["type"] == kind).unwrap()
    };
    let foreign = |request: &mut Value| {
        let at = place(request, "reasoning");
        request["input"][at]["encrypted_content"] = json!("abc");
    };
    let without = |kind: &'static str| {
        move |request: &mut Value| {
            let at = place(request, kind);
            request["input"].as_array_mut().unwrap().remove(at);
        }
    };
    assert_eq!(rule(request.clone()).await, None);
    assert_eq!(rule(changed(&request, without("reasoning"))).await, None);
    assert_eq!(rule(changed(&request, foreign)).await, Some("foreign_reasoning"));
    let unanswered = changed(&request, without("function_call_output"));
    assert_eq!(rule(unanswered).await, Some("call_without_result"));
    let unasked = changed(&request, without("function_call"));
    assert_eq!(rule(unasked).await, Some("result_without_call"));
}

/// A request of Chat Completions with one call in the current turn.
fn one_call(call: &Value, fields: &Value) -> Value {
    let mut message = json!({ "role": "assistant", "content": null, "tool_calls": [call] });
    message.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let result = json!({ "role": "tool", "tool_call_id": call["id"], "content": "ok" });
    json!({
        "model": "some-model",
        "messages": [{ "role": "user", "content": "Go." }, message, result],
    })
}

/// What chat dialects want back, and which ids and orders they take.
#[tokio::test]
async fn chat_dialects_want_their_reasoning_back() {
    let call = |id: &str, extra: Value| {
        let function = json!({ "name": "work", "arguments": "{}" });
        let mut call = json!({ "id": id, "type": "function", "function": function });
        call.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        call
    };
    let signed =
        |token: &str| json!({ "extra_content": { "google": { "thought_signature": token } } });
    let plain = || json!({});
    let thought = json!({ "reasoning_content": "" });
    let nine = "a1B2c3D4e";
    for (vendor, request, rule) in [
        (Vendor::Gemini, one_call(&call("c", plain()), &plain()), Some("thought_signature")),
        (Vendor::Gemini, one_call(&call("c", signed("abc")), &plain()), Some("foreign_signature")),
        (
            Vendor::Gemini,
            one_call(&call("c", signed("skip_thought_signature_validator")), &plain()),
            None,
        ),
        (Vendor::DeepSeek, one_call(&call("c", plain()), &plain()), Some("reasoning_content")),
        (Vendor::DeepSeek, one_call(&call("c", plain()), &thought), None),
        (Vendor::Mistral, one_call(&call(nine, plain()), &thought), Some("message_field")),
        (Vendor::Mistral, one_call(&call("call_123", plain()), &plain()), Some("call_id")),
        (Vendor::Mistral, one_call(&call(nine, plain()), &plain()), None),
        (Vendor::Groq, one_call(&call("c", plain()), &thought), Some("message_field")),
        (Vendor::Vllm, one_call(&call("c", plain()), &thought), None),
    ] {
        let double = VendorDouble::start(vendor).await.unwrap();
        assert_eq!(rule_of(&double, "/chat/completions", &request).await, rule, "{vendor:?}");
    }
}

/// A rule about which reports disagree is off, and can be switched on.
#[tokio::test]
async fn disputed_rules_are_switches() {
    let signed = json!({ "google": { "thought_signature": "skip_thought_signature_validator" } });
    let function = json!({ "name": "work", "arguments": "{}" });
    let call =
        json!({ "id": "c", "type": "function", "function": function, "extra_content": signed });
    let request = one_call(&call, &json!({}));
    for (named_results, rule) in [(false, None), (true, Some("result_without_name"))] {
        let rules = Rules { named_results, ..Rules::of(Vendor::Gemini) };
        let double = VendorDouble::with_rules(Vendor::Gemini, rules, true).await.unwrap();
        assert_eq!(rule_of(&double, "/chat/completions", &request).await, rule);
    }
}
