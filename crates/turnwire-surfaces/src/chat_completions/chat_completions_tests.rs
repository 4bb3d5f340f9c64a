use proptest::prelude::*;
use serde_json::{Value, json};
use turnwire_contract::{Annotation, Completeness, Finish, IncompleteReason, ToolKind};

use super::*;
use crate::{
    story::{Story, request, succeeded},
    tests::{tell, turns},
};

const USAGE: CompletionOptions =
    CompletionOptions { profile: Profile::Strict, include_usage: true };

fn frames(story: Story, options: CompletionOptions) -> Vec<String> {
    let frames = story.seen_by(&mut ChatCompletions::new(options));
    frames.iter().map(CompletionFrame::data).collect()
}

fn completion(story: Story) -> Result<ChatCompletion, Failure> {
    let mut projection = ChatCompletions::new(CompletionOptions::default());
    story.seen_by(&mut projection);
    projection.completion()
}

fn client_tool(name: &str, kind: ToolKind) -> ToolRef {
    ToolRef { name: name.to_owned(), kind, server: None }
}

/// The message that a client of this dialect builds from a stream, its finish reason and its usage.
fn accumulated(frames: &[String]) -> (Value, Value, Value) {
    let mut message = json!({ "content": "", "refusal": "", "reasoning_content": "" });
    let (mut calls, mut finish, mut usage) = (Vec::<Value>::new(), Value::Null, Value::Null);
    for frame in frames.iter().filter(|frame| *frame != "[DONE]") {
        let chunk: Value = serde_json::from_str(frame).unwrap();
        usage = chunk.get("usage").cloned().unwrap_or_default();
        let Some(choice) = chunk["choices"].get(0) else { continue };
        for name in ["content", "refusal", "reasoning_content"] {
            if let Some(text) = choice["delta"][name].as_str() {
                message[name] = json!(format!("{}{text}", message[name].as_str().unwrap()));
            }
        }
        for call in choice["delta"]["tool_calls"].as_array().into_iter().flatten() {
            let n = usize::try_from(call["index"].as_u64().unwrap()).unwrap();
            if n == calls.len() {
                calls.push(call.clone());
                continue;
            }
            let (kind, text) = if call["custom"].is_null() {
                ("function", "arguments")
            } else {
                ("custom", "input")
            };
            let so_far = calls[n][kind][text].as_str().unwrap().to_owned();
            calls[n][kind][text] = json!(so_far + call[kind][text].as_str().unwrap());
        }
        finish = choice["finish_reason"].clone();
    }
    message["tool_calls"] = json!(calls);
    (message, finish, usage)
}

/// S1-FR-001: the text of all turns, and nothing of the tools that the server executes.
#[test]
fn a_run_with_a_tool_is_a_clean_stream_of_text() {
    let story = || {
        Story::new()
            .turn()
            .says(&["Let me see."])
            .calls("call_1", "multiply", r#"{"a":5,"b":4}"#)
            .turn_done(Finish::CalledTools)
            .started("call_1")
            .finished("call_1", succeeded("20"))
            .turn()
            .says(&["It is ", "20."])
            .turn_done(Finish::Answered)
            .ended(RunOutcome::Completed)
    };
    let frames = frames(story(), USAGE);
    assert_eq!(
        frames.first().unwrap(),
        r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","created":0,"model":"test","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}"#
    );
    assert_eq!(frames.last().unwrap(), "[DONE]");
    let (message, finish, usage) = accumulated(&frames);
    assert_eq!(message["content"], "Let me see.\n\nIt is 20.");
    assert_eq!((finish, message["tool_calls"].clone()), (json!("stop"), json!([])));
    assert!(usage["total_tokens"].is_u64());
    let whole = completion(story()).unwrap();
    assert_eq!(whole.choices[0].message.content.as_deref(), Some("Let me see.\n\nIt is 20."));
    assert_eq!(json!(whole.usage), usage);
}

#[test]
fn calls_of_the_client_stream_with_their_arguments() {
    let story = || {
        Story::new()
            .turn()
            .announced_as("call_1", client_tool("add", ToolKind::Client))
            .writes("call_1", r#"{"a":"#)
            .writes("call_1", "1}")
            .written("call_1", r#"{"a":1}"#)
            .announced_as("call_2", client_tool("shell", ToolKind::Custom))
            .written("call_2", "ls")
            .turn_done(Finish::CalledTools)
            .ended(RunOutcome::Completed)
    };
    let (message, finish, _) = accumulated(&frames(story(), USAGE));
    let expected = json!([
        { "index": 0, "id": "call_1", "type": "function",
            "function": { "name": "add", "arguments": r#"{"a":1}"# } },
        { "index": 1, "id": "call_2", "type": "custom",
            "custom": { "name": "shell", "input": "ls" } },
    ]);
    assert_eq!((message["tool_calls"].clone(), finish), (expected, json!("tool_calls")));
    let whole = json!(completion(story()).unwrap().choices[0]);
    assert_eq!(whole["finish_reason"], "tool_calls");
    assert_eq!(whole["message"]["content"], Value::Null);
    assert_eq!(whole["message"]["tool_calls"][0]["function"]["arguments"], r#"{"a":1}"#);
    assert_eq!(whole["message"]["tool_calls"][1]["custom"]["input"], "ls");
}

/// C9: text of a worker that failed cannot be taken back from a stream, but is not part of the
/// completion.
#[test]
fn text_of_a_superseded_turn_is_followed_by_its_replacement() {
    let story = || {
        Story::new()
            .turn()
            .message()
            .text("It is tw")
            .message_done(Completeness::Superseded)
            .then(Event::TurnAbandoned { turn: 1 })
            .turn()
            .says(&["It is 20."])
            .turn_done(Finish::Answered)
            .ended(RunOutcome::Completed)
    };
    let (message, ..) = accumulated(&frames(story(), USAGE));
    assert_eq!(message["content"], "It is tw\n\nIt is 20.");
    let whole = completion(story()).unwrap();
    assert_eq!(whole.choices[0].message.content.as_deref(), Some("It is 20."));
}

/// C9: a client must not execute the calls of a turn that was replaced.
#[test]
fn a_superseded_call_of_the_client_ends_the_stream_with_an_error() {
    let story = || {
        Story::new()
            .turn()
            .announced_as("call_1", client_tool("add", ToolKind::Client))
            .writes("call_1", "{")
            .then(Event::TurnAbandoned { turn: 1 })
            .turn()
            .announced_as("call_2", client_tool("add", ToolKind::Client))
            .written("call_2", "{}")
            .turn_done(Finish::CalledTools)
            .ended(RunOutcome::Completed)
    };
    let frames = frames(story(), USAGE);
    let [.., error, done] = frames.as_slice() else { panic!("{frames:?}") };
    let error: Value = serde_json::from_str(error).unwrap();
    assert_eq!(error["error"]["turnwire"]["code"], "turn_superseded");
    assert_eq!(done, "[DONE]");
    let whole = json!(completion(story()).unwrap().choices[0].message.tool_calls);
    assert_eq!(whole.as_array().unwrap().len(), 1);
    assert_eq!(whole[0]["id"], "call_2");
}

#[test]
fn every_outcome_has_its_finish_reason_or_an_error() {
    let ended = |outcome: RunOutcome| {
        let story = || Story::new().turn().says(&["a"]).ended(outcome.clone());
        let last = frames(story(), CompletionOptions::default());
        let last: Value = serde_json::from_str(&last[last.len() - 2]).unwrap();
        let whole = completion(story()).map(|whole| json!(whole.choices[0].finish_reason));
        let streamed = last["choices"][0]["finish_reason"].clone();
        match whole {
            Ok(reason) => assert_eq!(reason, streamed),
            Err(failure) => {
                assert_eq!(last["error"]["turnwire"]["code"], failure.code);
                return json!(failure.code);
            }
        }
        streamed
    };
    let incomplete = |reason| ended(RunOutcome::Incomplete { reason });
    assert_eq!(ended(RunOutcome::Completed), "stop");
    assert_eq!(incomplete(IncompleteReason::MaxOutputTokens), "length");
    assert_eq!(incomplete(IncompleteReason::TimeLimit), "length");
    assert_eq!(incomplete(IncompleteReason::ContentFilter), "content_filter");
    assert_eq!(ended(RunOutcome::Cancelled), "cancelled");
    let failure = Failure::new("model_unavailable", "no");
    assert_eq!(ended(RunOutcome::Failed { failure }), "model_unavailable");
}

#[test]
fn refusals_and_reasoning_have_fields_of_their_own() {
    let item_id = ItemId::new("rs_1");
    let story = Story::new()
        .turn()
        .then(Event::ReasoningAdded { item_id: item_id.clone(), text: "Hm".to_owned() })
        .then(Event::ReasoningFinished {
            item_id,
            text: "Hm.".to_owned(),
            encrypted_content: None,
            completeness: Completeness::Complete,
        })
        .message()
        .refusal("No.")
        .message_done(Completeness::Complete)
        .ended(RunOutcome::Completed);
    let (message, ..) = accumulated(&frames(story, USAGE));
    assert_eq!(message["reasoning_content"], "Hm.", "the finishing event brought the rest");
    assert_eq!((&message["refusal"], &message["content"]), (&json!("No."), &json!("")));
}

/// Positions count from the start of the whole content, which has the text of earlier turns too.
#[test]
fn citations_of_pages_are_moved_with_their_text() {
    let citation = |kind: &str| Event::AnnotationAdded {
        item_id: ItemId::new("msg_2"),
        annotation: Annotation {
            kind: kind.to_owned(),
            source: json!({ "url": "https://a", "title": "A", "start_index": 1, "end_index": 2 }),
        },
    };
    let added =
        |id: &str, text: &str| Event::TextAdded { item_id: ItemId::new(id), text: text.to_owned() };
    let story = Story::new()
        .turn()
        .then(added("msg_1", "früh"))
        .turn()
        .then(added("msg_2", "[1]"))
        .then(citation("url_citation"))
        .then(citation("file_citation"))
        .ended(RunOutcome::Completed);
    let whole = json!(completion(story).unwrap().choices[0].message);
    let page = json!({ "url": "https://a", "title": "A", "start_index": 7, "end_index": 8 });
    let expected = json!([{ "type": "url_citation", "url_citation": page }]);
    assert_eq!(whole["annotations"], expected, "\"früh\" and a blank line are 6 characters");
}

/// The lifecycle of tools is there for clients that ask, on chunks that others skip.
#[test]
fn the_extended_profile_adds_events_and_changes_nothing_else() {
    let extended = CompletionOptions { profile: Profile::Extended, include_usage: true };
    let story = || {
        Story::new()
            .turn()
            .calls("call_1", "multiply", "{}")
            .turn_done(Finish::CalledTools)
            .started("call_1")
            .finished("call_1", succeeded("20"))
            .turn()
            .says(&["20."])
            .ended(RunOutcome::Completed)
    };
    let (more, plain) = (frames(story(), extended), frames(story(), USAGE));
    let is_event = |frame: &&String| frame.contains(r#""choices":[],"usage":null,"turnwire""#);
    let rest: Vec<&String> = more.iter().filter(|frame| !is_event(frame)).collect();
    assert_eq!(rest, plain.iter().collect::<Vec<_>>());
    let events = more.iter().filter(is_event).filter_map(|frame| {
        let chunk: Value = serde_json::from_str(frame).unwrap();
        Some(chunk["turnwire"]["event"]["event"]["type"].as_str()?.to_owned())
    });
    let expected = [
        "turn_started",
        "call_announced",
        "arguments_finished",
        "turn_finished",
        "tool_started",
        "tool_finished",
        "turn_started",
    ];
    assert_eq!(events.collect::<Vec<_>>(), expected);
}

/// Fields that were ignored are listed once, at the end.
#[test]
fn ignored_fields_are_listed() {
    let mut request = request();
    request.surface_data.insert(IGNORED.to_owned(), json!(["top_k"]));
    let story = || Story::of(request.clone()).turn().says(&["a"]).ended(RunOutcome::Completed);
    let frames = frames(story(), CompletionOptions::default());
    assert_eq!(frames.iter().filter(|frame| frame.contains("top_k")).count(), 1);
    let whole = completion(story()).unwrap();
    assert_eq!(whole.turnwire.unwrap().ignored.unwrap(), ["top_k"]);
}

proptest! {
    /// I8, I11: whatever happens, there is one end and nothing after it, and the stream adds up to
    /// the completion unless a turn was superseded.
    #[test]
    fn a_stream_has_one_end_and_adds_up(turns in turns()) {
        let story = tell(&turns);
        let events = story.events();
        let superseded =
            events.iter().any(|recorded| matches!(recorded.event, Event::TurnAbandoned { .. }));
        let mut projection = ChatCompletions::new(USAGE);
        let frames: Vec<String> = events
            .iter()
            .flat_map(|recorded| projection.project(recorded))
            .map(|frame| frame.data())
            .collect();
        let n_done = frames.iter().filter(|frame| *frame == "[DONE]").count();
        prop_assert_eq!(n_done, 1);
        prop_assert_eq!(frames.last().map(String::as_str), Some("[DONE]"));
        if let (Ok(whole), false) = (projection.completion(), superseded) {
            let (message, finish, usage) = accumulated(&frames);
            let choice = json!(whole.choices[0]);
            prop_assert_eq!(&finish, &choice["finish_reason"]);
            prop_assert_eq!(usage, json!(whole.usage));
            let content = choice["message"]["content"].as_str().unwrap_or_default();
            prop_assert_eq!(message["content"].as_str(), Some(content));
        }
    }
}

/// A gap is told with the end of the answer, unless the model was asked again.
#[test]
fn a_gap_is_told_at_the_end() {
    let reason = Failure::new("model_unreadable", "a part could not be read");
    let skipped = || Event::PartSkipped { turn: 1, bytes: 40, reason: reason.clone() };
    let ended = |story: Story| story.turn_done(Finish::Answered).ended(RunOutcome::Completed);
    let gap = || ended(Story::new().turn().then(skipped()).says(&["It"]));
    let warning = "model_unreadable: a part of the model's answer could not be read and is missing";
    let told = |frame: &String| frame.contains("warnings");
    let frames_told: Vec<String> = frames(gap(), USAGE).into_iter().filter(told).collect();
    let [last] = &frames_told[..] else { panic!("{frames_told:?}") };
    let last: Value = serde_json::from_str(last).unwrap();
    assert_eq!(last["choices"][0]["finish_reason"], "stop");
    assert_eq!(last["turnwire"], json!({ "warnings": [warning] }));
    let whole = completion(gap()).unwrap().turnwire.unwrap();
    assert_eq!(whole.warnings, Some(vec![warning.to_owned()]));

    let retried = Event::TurnRetried { turn: 1, attempt: 2, reason: reason.clone(), delay_ms: 0 };
    let again = ended(Story::new().turn().then(skipped()).then(retried).says(&["It"]));
    assert_eq!(completion(again).unwrap().turnwire, None);
}
