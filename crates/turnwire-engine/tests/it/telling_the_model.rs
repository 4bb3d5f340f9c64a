//! What the model is shown: history, results, and what was left out of them.

use serde_json::json;
use turnwire_contract::{Item, ModelPart, Role, TenantId, ToolKind, ToolOutcome, ToolSpec};
use turnwire_models::{Scripted, Turn};
use turnwire_testkit::{Behaviour, FakeTool, TestBench};

use crate::{calls, outcome_of, returns, told};
use std::{sync::Arc, time::Duration};

fn stage(model: &Scripted) -> TestBench {
    TestBench::with_model(Arc::new(model.clone()))
}

/// I7: results come in the order of the calls, whoever was first.
#[tokio::test(start_paused = true)]
async fn results_are_told_in_call_order() {
    let model = Scripted::new([calls(&["slow", "quick", "none"]), Turn::new().text("ok")]);
    stage(&model)
        .tool(FakeTool::new("slow", Behaviour::Takes(Duration::from_secs(1), "late".into())))
        .tool(returns("quick", "early"))
        .play()
        .await;
    let prompts = model.prompts();
    assert_eq!(
        told(&prompts[1].items),
        [
            ("call_1".into(), "late".into(), false),
            ("call_2".into(), "early".into(), false),
            ("call_3".into(), "Error: Tool not found: none. There are: quick, slow.".into(), true),
        ]
    );
}

/// I14 and lesson 1.2: what the model wrote is handed back as legal JSON.
#[tokio::test(start_paused = true)]
async fn arguments_are_handed_back_as_legal_json() {
    let model = Scripted::new([
        Turn::new()
            .call_raw("t", ["{\"a\": "])
            .call_raw("t", [""])
            .call_raw("t", [" {\"a\": 1} "])
            .call_raw("t", ["[1]"]),
        Turn::new().text("ok"),
    ]);
    stage(&model).tool(returns("t", "x")).play().await;
    let arguments: Vec<String> = model.prompts()[1]
        .items
        .iter()
        .filter_map(|item| match &**item {
            Item::Call { arguments, .. } => Some(arguments.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(
        arguments,
        [
            "{\"invalid_arguments\":\"{\\\"a\\\":\"}",
            "{}",
            "{\"a\": 1}",
            "{\"invalid_arguments\":\"[1]\"}"
        ]
    );
}

/// R17, S2-Q1: a big result is kept whole beside the journal, and cut for the model, aloud.
#[tokio::test(start_paused = true)]
async fn big_results_are_never_cut_silently() {
    let text = "é".repeat(1_000);
    let model = Scripted::new([calls(&["t"]), Turn::new().text("ok")]);
    let played = stage(&model)
        .tool(returns("t", &text))
        .limits(|limits| (limits.output_in_journal, limits.output_to_model) = (101, 51))
        .play()
        .await;
    let ToolOutcome::Succeeded { output } = outcome_of(&played, "call_1") else { panic!() };
    assert_eq!(output.text, "é".repeat(50));
    assert_eq!(output.total_bytes(), 2_000);
    let rest = output.rest.clone().unwrap();
    assert_eq!((rest.blob.as_str(), rest.bytes), ("blob_1", 2_000));
    let kept = played.runs.blobs().get(&TenantId::default(), &rest.blob).await.unwrap();
    assert_eq!(kept, text);
    let said = format!("{}\n[cut here: 50 of 2000 bytes shown]", "é".repeat(25));
    assert_eq!(told(&model.prompts()[1].items), [("call_1".into(), said, false)]);
}

/// A result of exactly the limit is whole.
#[tokio::test(start_paused = true)]
async fn a_result_at_the_limit_is_not_cut() {
    let model = Scripted::new([calls(&["t"]), Turn::new().text("ok")]);
    let played = stage(&model)
        .tool(returns("t", "0123456789"))
        .limits(|limits| (limits.output_in_journal, limits.output_to_model) = (10, 10))
        .play()
        .await;
    let ToolOutcome::Succeeded { output } = outcome_of(&played, "call_1") else { panic!() };
    assert_eq!(output.rest, None);
    assert_eq!(told(&model.prompts()[1].items), [("call_1".into(), "0123456789".into(), false)]);
}

/// R19, L44: an empty result says so; a picture is a result.
#[tokio::test(start_paused = true)]
async fn empty_results_and_pictures_are_told_apart() {
    let model = Scripted::new([calls(&["empty", "draw"]), Turn::new().text("ok")]);
    stage(&model)
        .tool(returns("empty", ""))
        .tool(FakeTool::new("draw", Behaviour::Draws))
        .play()
        .await;
    let prompts = model.prompts();
    assert_eq!(
        told(&prompts[1].items),
        [("call_1".into(), "(no output)".into(), false), ("call_2".into(), String::new(), false)]
    );
    let has_picture = prompts[1]
        .items
        .iter()
        .any(|item| matches!(&**item, Item::CallResult { images, .. } if images.len() == 1));
    assert!(has_picture);
}

/// The model is reminded of what it said and thought, with the provider's encrypted content.
#[tokio::test(start_paused = true)]
async fn thoughts_and_words_enter_the_history() {
    let model = Scripted::new([
        Turn::new()
            .reasoning("Hm.")
            .part(ModelPart::EncryptedContent("sealed".into()))
            .part(ModelPart::EncryptedContent("hidden".into()))
            .text("Look: ")
            .refusal("not that")
            .call_with_id("call_1", "t", json!({})),
        Turn::new().text("ok"),
    ]);
    stage(&model).tool(returns("t", "x")).play().await;
    let prompts = model.prompts();
    let items: Vec<Item> = prompts[1].items.iter().map(|item| Item::clone(item)).collect();
    assert_eq!(
        items,
        [
            Item::user("Go."),
            Item::Reasoning { text: "Hm.".into(), encrypted_content: Some("sealed".into()) },
            Item::Reasoning { text: String::new(), encrypted_content: Some("hidden".into()) },
            Item::Message {
                role: Role::Assistant,
                content: vec![
                    turnwire_contract::Content::text("Look: "),
                    turnwire_contract::Content::Refusal { text: "not that".into() },
                ],
            },
            Item::call("call_1", "t", "{}"),
            Item::CallResult {
                call_id: "call_1".into(),
                output: "x".into(),
                images: Vec::new(),
                failed: false,
                custom: false,
            },
        ]
    );
}

/// The prompt is what the request says.
#[tokio::test(start_paused = true)]
async fn the_prompt_carries_the_request() {
    let model = Scripted::new([Turn::new().text("ok")]);
    stage(&model)
        .tool(returns("t", "x"))
        .request(|request| {
            request.instructions = Some("Be brief.".into());
            request.parallel_tool_calls = false;
            request.generation.temperature = Some(0.5);
            request.tool_choice = turnwire_contract::ToolChoice::Required;
        })
        .play()
        .await;
    let prompt = &model.prompts()[0];
    assert_eq!(prompt.model, "scripted");
    assert_eq!(prompt.instructions.as_deref(), Some("Be brief."));
    assert!(!prompt.parallel_tool_calls);
    assert_eq!(prompt.generation.temperature, Some(0.5));
    assert_eq!(prompt.tool_choice, turnwire_contract::ToolChoice::Required);
    assert_eq!(prompt.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["t"]);
}

/// R3: a call for the client ends the run; the server's own calls are carried out first.
#[tokio::test(start_paused = true)]
async fn a_client_call_ends_the_run_and_stays_open() {
    let model = Scripted::new([calls(&["locate", "t"])]);
    let server = returns("t", "x");
    let client = ToolSpec { kind: ToolKind::Client, ..ToolSpec::new("locate", "") };
    let played = stage(&model)
        .tool(server.clone())
        .request(|request| request.tools.push(Arc::new(client)))
        .play()
        .await;
    assert_eq!(played.outcome, turnwire_contract::RunOutcome::Completed);
    assert_eq!(server.n_calls(), 1);
    let Some(turnwire_contract::Event::RunQueued { request }) = played.events().next() else {
        panic!()
    };
    let request = Arc::clone(request);
    let ended: Vec<&str> = played
        .events()
        .filter_map(|event| match event {
            turnwire_contract::Event::ToolFinished { call_id, .. } => Some(call_id.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(ended, ["call_2"]);
    // I7: what the server did is in the history, what the client owes is not.
    let mut state = turnwire_engine::RunState::new(played.run.id(), request, Vec::new());
    played.events().for_each(|event| state.apply(event));
    let items: Vec<_> = state.added().iter().map(|e| Arc::clone(&e.item)).collect();
    assert_eq!(told(&items), [("call_2".into(), "x".into(), false)]);
}

/// Reasoning between two calls stays between them.
#[tokio::test(start_paused = true)]
async fn an_answer_is_told_in_its_order() {
    let model = Scripted::new([
        Turn::new()
            .part(ModelPart::Reasoning("First.".into()))
            .part(ModelPart::EncryptedContent("one".into()))
            .call("t", json!({}))
            .part(ModelPart::EncryptedContent("two".into()))
            .call("t", json!({}))
            .text("Both."),
        Turn::new().text("ok"),
    ]);
    stage(&model).tool(returns("t", "x")).play().await;
    let order: Vec<&str> = model.prompts()[1]
        .items
        .iter()
        .map(|item| match &**item {
            Item::Message { .. } => "message",
            Item::Reasoning { .. } => "reasoning",
            Item::Call { .. } => "call",
            Item::CallResult { .. } => "result",
        })
        .collect();
    let answer = ["reasoning", "call", "reasoning", "call", "message"];
    assert_eq!(order, [&["message"], &answer[..], &["result", "result"]].concat());
}
