//! Properties of every stream, for the tests of this folder.
//!
//! Frames are checked as JSON, so that the checks do not depend on the types that made them.

use std::{collections::HashMap, ffi::OsString, fs, path::PathBuf, sync::OnceLock};

use async_openai::types::responses::ResponseStreamEvent;
use jsonschema::Validator;
use serde_json::{Value, json};

use super::{Profile, Response, ResponseEvent, Responses, SequencedEvent};
use crate::story::Story;

/// Event types that official clients know.
pub(super) const OFFICIAL: [&str; 59] = [
    "error",
    "response.audio.delta",
    "response.audio.done",
    "response.audio.transcript.delta",
    "response.audio.transcript.done",
    "response.code_interpreter_call.completed",
    "response.code_interpreter_call.in_progress",
    "response.code_interpreter_call.interpreting",
    "response.code_interpreter_call_code.delta",
    "response.code_interpreter_call_code.done",
    "response.compaction.compacting",
    "response.completed",
    "response.content_part.added",
    "response.content_part.done",
    "response.created",
    "response.custom_tool_call_input.delta",
    "response.custom_tool_call_input.done",
    "response.failed",
    "response.file_search_call.completed",
    "response.file_search_call.in_progress",
    "response.file_search_call.searching",
    "response.function_call_arguments.delta",
    "response.function_call_arguments.done",
    "response.image_generation_call.completed",
    "response.image_generation_call.generating",
    "response.image_generation_call.in_progress",
    "response.image_generation_call.partial_image",
    "response.in_progress",
    "response.incomplete",
    "response.mcp_call.completed",
    "response.mcp_call.failed",
    "response.mcp_call.in_progress",
    "response.mcp_call_arguments.delta",
    "response.mcp_call_arguments.done",
    "response.mcp_list_tools.completed",
    "response.mcp_list_tools.failed",
    "response.mcp_list_tools.in_progress",
    "response.output_item.added",
    "response.output_item.done",
    "response.output_text.annotation.added",
    "response.output_text.delta",
    "response.output_text.done",
    "response.queued",
    "response.reasoning_summary_part.added",
    "response.reasoning_summary_part.done",
    "response.reasoning_summary_text.delta",
    "response.reasoning_summary_text.done",
    "response.reasoning_text.delta",
    "response.reasoning_text.done",
    "response.refusal.delta",
    "response.refusal.done",
    "response.shell_call_command.added",
    "response.shell_call_command.delta",
    "response.shell_call_command.done",
    "response.shell_call_output_content.delta",
    "response.shell_call_output_content.done",
    "response.web_search_call.completed",
    "response.web_search_call.in_progress",
    "response.web_search_call.searching",
];

/// The stream of a story, checked: its frames, and the response after its last event.
#[track_caller]
pub(super) fn told(story: Story, profile: Profile) -> (Vec<SequencedEvent>, Response) {
    let mut projection = Responses::new(profile);
    let frames = story.seen_by(&mut projection);
    check_stream(&frames, profile);
    let response = projection.response();
    check_response(&response);
    if let Some(last) = frames.iter().map(to_json).next_back().filter(is_terminal) {
        assert_eq!(last["response"], to_json(&response), "the last frame is not the answer");
    }
    (frames, response)
}

pub(super) fn to_json(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap()
}

fn is_terminal(frame: &Value) -> bool {
    let terminal = ["response.completed", "response.failed", "response.incomplete"];
    terminal.contains(&frame["type"].as_str().unwrap())
}

/// Checks the properties of any stream, finished or not.
#[track_caller]
pub(super) fn check_stream(frames: &[SequencedEvent], profile: Profile) {
    let mut items: Vec<SeenItem> = Vec::new();
    let mut is_over = false;
    // Only the extended profile reports that a turn was withdrawn.
    let mut may_leave_out = profile == Profile::Strict;
    for (n, event) in frames.iter().enumerate() {
        let frame = to_json(event);
        let kind = frame["type"].as_str().unwrap();
        assert_eq!(kind, event.event_type(), "the type on the wire");
        assert_eq!(frame["sequence_number"], json!(n), "numbers have gaps at {frame}");
        assert_eq!(event.sequence_number, n as u64);
        assert!(!is_over, "something follows the end: {frame}");
        assert_eq!(kind == "response.created", n == 0, "one beginning, and it comes first");
        assert_eq!(frame.get("error").is_some(), kind == "error", "a client raises at {frame}");
        check_name(kind, profile);
        check_official_shape(&frame);
        check_open_responses(&frame);
        match kind {
            "response.output_item.added" => {
                assert_eq!(frame["output_index"], json!(items.len()), "places have gaps");
                items.push(SeenItem::new(&frame["item"]));
            }
            "response.output_item.done" => item_of(&mut items, &frame).done(&frame["item"]),
            _ if frame.get("output_index").is_some() => {
                item_of(&mut items, &frame).note(kind, &frame);
            }
            _ if is_terminal(&frame) => {
                is_over = true;
                check_end(&items, &frame["response"], may_leave_out);
            }
            "turnwire:turn_abandoned" => may_leave_out = true,
            _ => {}
        }
    }
}

#[track_caller]
fn check_name(kind: &str, profile: Profile) {
    let own = ResponseEvent::TYPES_EXTENDED;
    let is_known = ResponseEvent::TYPES_STRICT.contains(&kind) && OFFICIAL.contains(&kind);
    assert!(is_known || profile == Profile::Extended && own.contains(&kind), "{kind}");
}

#[track_caller]
fn check_end(items: &[SeenItem], response: &Value, may_leave_out: bool) {
    let output = response["output"].as_array().unwrap();
    assert!(may_leave_out || output.len() == items.len(), "an item is left out: {response}");
    let mut shown = output.iter().peekable();
    for item in items {
        assert!(item.last.is_some(), "an item was not done before the end");
        item.check_life();
        // Items of a withdrawn turn end like the rest, and are not part of the answer (R20).
        shown.next_if(|shown| item.last.as_ref() == Some(shown));
    }
    assert_eq!(shown.next(), None, "the answer has what was never done");
}

#[track_caller]
fn item_of<'a>(items: &'a mut [SeenItem], frame: &Value) -> &'a mut SeenItem {
    let output_index = usize::try_from(frame["output_index"].as_u64().unwrap()).unwrap();
    let item = items.get_mut(output_index).unwrap_or_else(|| panic!("not added yet: {frame}"));
    let id = frame.get("item_id").unwrap_or_else(|| &frame["item"]["id"]);
    assert_eq!(*id, item.first["id"], "the wrong item: {frame}");
    item
}

/// What a client knows of an item.
struct SeenItem {
    first: Value,
    last: Option<Value>,
    /// The official events about it, without deltas.
    life: Vec<String>,
    deltas: HashMap<String, String>,
}

impl SeenItem {
    fn new(first: &Value) -> Self {
        Self { first: first.clone(), last: None, life: Vec::new(), deltas: HashMap::new() }
    }

    #[track_caller]
    fn done(&mut self, last: &Value) {
        assert!(self.last.is_none(), "done twice: {last}");
        for fact in ["id", "type", "call_id", "name", "server_label"] {
            assert_eq!(self.first.get(fact), last.get(fact), "{fact} has changed: {last}");
        }
        assert_ne!(last["status"], "in_progress", "{last}");
        self.last = Some(last.clone());
    }

    #[track_caller]
    fn note(&mut self, kind: &str, frame: &Value) {
        if kind.starts_with("turnwire:") {
            return;
        }
        assert!(self.last.is_none(), "it is done already: {frame}");
        if let Some(delta) = frame.get("delta") {
            let so_far = self.deltas.entry(part_key(kind, ".delta", frame)).or_default();
            so_far.push_str(delta.as_str().unwrap());
            return;
        }
        let whole = ["text", "refusal", "arguments"].iter().find_map(|key| frame.get(*key));
        if let Some(whole) = whole {
            let so_far = self.deltas.remove(&part_key(kind, ".done", frame)).unwrap_or_default();
            assert_eq!(so_far, whole.as_str().unwrap(), "deltas make up the whole: {frame}");
        }
        if let Some(note) = frame.get("turnwire") {
            assert!(note["at"].is_string(), "S1-FR-005, R2: {frame}");
            let is_question = self.first["type"] == "mcp_list_tools";
            assert!(is_question || frame["name"].is_string(), "S1-FR-005: {frame}");
            assert!(is_question || frame["call_id"].is_string(), "R2: {frame}");
            assert_eq!(frame.get("server_label"), self.first.get("server_label"), "R2");
        }
        self.life.push(kind.rsplit('.').next().unwrap().to_owned());
    }

    /// S1-SC-004, S1-FR-007: one start before anything else, one end after everything.
    #[track_caller]
    fn check_life(&self) {
        let (kind, life) = (self.first["type"].as_str().unwrap(), &self.life);
        let last = self.last.as_ref().unwrap();
        let n_ends = life.iter().filter(|step| ["completed", "failed"].contains(&step.as_str()));
        let n_ends = n_ends.count();
        match kind {
            "mcp_call" | "mcp_list_tools" => {
                assert_eq!(life.first().unwrap(), "in_progress", "{last}");
                assert_eq!(n_ends, 1, "{last}");
                let has_failed = !last["error"].is_null();
                let end = if has_failed { "failed" } else { "completed" };
                assert_eq!(life.last().unwrap(), end, "{last}");
            }
            "web_search_call" | "file_search_call" => {
                assert_eq!(life.first().unwrap(), "in_progress", "{last}");
                let has_completed = life.iter().any(|step| step == "completed");
                assert_eq!(has_completed, last["status"] == "completed", "R6: {last}");
                assert!(n_ends <= 1, "{last}");
                assert!(n_ends == 0 || ["completed", "failed"].contains(&&*life[life.len() - 1]));
            }
            _ => assert_eq!(n_ends, 0, "S1-E4: {last}"),
        }
    }
}

fn part_key(kind: &str, end: &str, frame: &Value) -> String {
    format!("{}{}{}", kind.trim_end_matches(end), frame["content_index"], frame["summary_index"])
}

/// Checks that the official types can read an official frame.
#[track_caller]
fn check_official_shape(frame: &Value) {
    if OFFICIAL.contains(&frame["type"].as_str().unwrap()) {
        let read = serde_json::from_value::<ResponseStreamEvent>(frame.clone());
        assert!(read.is_ok(), "{read:?}\n{frame}");
    }
}

/// Checks that all keys are present, and that the official types can read the response.
#[track_caller]
pub(super) fn check_response(response: &Response) {
    let response = to_json(response);
    for key in REQUIRED {
        assert!(response.get(key).is_some(), "`{key}` is missing");
    }
    let read = serde_json::from_value::<async_openai::types::responses::Response>(response.clone());
    assert!(read.is_ok(), "{read:?}\n{response}");
    if has_core_items_only(&response) {
        check_against("ResponseResource", &response);
    }
}

/// The keys that Open Responses requires in every response.
const REQUIRED: [&str; 31] = [
    "id",
    "object",
    "created_at",
    "completed_at",
    "status",
    "incomplete_details",
    "model",
    "previous_response_id",
    "instructions",
    "output",
    "error",
    "tools",
    "tool_choice",
    "truncation",
    "parallel_tool_calls",
    "text",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
    "top_logprobs",
    "temperature",
    "reasoning",
    "usage",
    "max_output_tokens",
    "max_tool_calls",
    "store",
    "background",
    "service_tier",
    "metadata",
    "safety_identifier",
    "prompt_cache_key",
];

/// Checks frames against the Open Responses schema, if the document is available.
#[track_caller]
fn check_open_responses(frame: &Value) {
    let is_known = match frame.get("response").or_else(|| frame.get("item")) {
        Some(object) => has_core_items_only(object),
        None => {
            ResponseEvent::TYPES_STRICT.contains(&frame["type"].as_str().unwrap())
                && !is_beyond_open_responses(frame)
        }
    };
    if is_known {
        check_against("stream", frame);
    }
}

/// Whether a frame is about tools that Open Responses does not know.
fn is_beyond_open_responses(frame: &Value) -> bool {
    let kind = frame["type"].as_str().unwrap();
    ["mcp_", "web_search", "file_search", "custom_tool"].iter().any(|tool| kind.contains(tool))
}

/// Whether Open Responses knows all of the items and tools in `object`.
fn has_core_items_only(object: &Value) -> bool {
    let core = ["message", "function_call", "function_call_output", "reasoning"];
    let is_core = |item: &Value| core.contains(&item["type"].as_str().unwrap());
    match object["output"].as_array().filter(|_| object["object"] == "response") {
        Some(output) => {
            let tools = object["tools"].as_array().unwrap();
            output.iter().all(is_core) && tools.iter().all(|tool| tool["type"] == "function")
        }
        None => is_core(object),
    }
}

#[track_caller]
fn check_against(schema: &str, object: &Value) {
    let Some(schemas) = open_responses() else { return };
    let problems: Vec<String> =
        schemas[schema].iter_errors(object).map(|problem| problem.to_string()).collect();
    assert!(problems.is_empty(), "{problems:?}\n{object}");
}

/// The schemas of the Open Responses document, if there is one: at the path in the variable, or
/// beside the repository.
fn open_responses() -> Option<&'static HashMap<&'static str, Validator>> {
    static SCHEMAS: OnceLock<Option<HashMap<&'static str, Validator>>> = OnceLock::new();
    SCHEMAS.get_or_init(read_open_responses).as_ref()
}

fn read_open_responses() -> Option<HashMap<&'static str, Validator>> {
    let named = std::env::var_os("TURNWIRE_OPENRESPONSES").map(PathBuf::from);
    let here = PathBuf::from(OsString::from(env!("CARGO_MANIFEST_DIR")));
    let beside = here.ancestors().map(|dir| dir.join("shared/data/openresponses-openapi.json"));
    let text = named.into_iter().chain(beside).find_map(|path| fs::read_to_string(path).ok())?;
    let document: Value = serde_json::from_str(&text).unwrap();
    let answers = &document["paths"]["/responses"]["post"]["responses"]["200"]["content"];
    let stream = answers["text/event-stream"]["schema"].clone();
    let resource = answers["application/json"]["schema"].clone();
    let validator = |mut schema: Value| {
        schema["components"] = document["components"].clone();
        jsonschema::draft202012::new(&schema).unwrap()
    };
    let schemas = [("stream", validator(stream)), ("ResponseResource", validator(resource))];
    Some(HashMap::from(schemas))
}

/// The available schemas refuse invalid frames.
#[test]
fn the_open_responses_schema_refuses_what_is_wrong() {
    let Some(schemas) = open_responses() else { return };
    let done = |item: Value| json!({ "type": "response.output_item.done", "sequence_number": 0, "output_index": 0, "item": item });
    let message = json!({
        "type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": []
    });
    assert!(schemas["stream"].is_valid(&done(message.clone())));
    let mut wrong = message;
    wrong["phase"] = Value::Null;
    assert!(!schemas["stream"].is_valid(&done(wrong)));
    assert!(!schemas["ResponseResource"].is_valid(&json!({ "id": "resp_1" })));
}
