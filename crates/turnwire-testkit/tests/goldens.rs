//! S4-19, S4-X: one journal per scenario, and every surface a projection of it.
//!
//! `UPDATE_GOLDENS=1 cargo test -p turnwire-testkit --test goldens` writes the files anew.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on should fall over"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    sync::Arc,
};

use serde_json::{Value, json};
use turnwire_contract::{Event, RecordedEvent, ToolKind};
use turnwire_surfaces::{ResponseEvent, ai_sdk::Dialect, ai_sdk::Span};
use turnwire_testkit::{golden, invariants, scenarios, surfaces};

/// S4-19, T3: what is played is what is written down, and what each surface shows of it too.
/// The journal's format is a promise: read back from its file, it is and shows the same.
///
/// S1-SC-002, S3-T3: what was recorded when a surface was new is compared for ever, so whatever
/// is added beside it, what worked before still works, to the byte.
#[tokio::test(start_paused = true)]
async fn every_scenario_shows_what_is_written_down_on_every_surface() {
    for scenario in scenarios::all() {
        let (name, folder) = (scenario.name, scenario.folder());
        let journal = scenario.play().await;
        for (file, write_down) in surfaces::ALL {
            golden::check(&folder.join(file), &write_down(&journal));
        }
        let text = fs::read_to_string(folder.join("events.jsonl")).unwrap();
        let read: Vec<Arc<RecordedEvent>> =
            text.lines().map(|line| Arc::new(serde_json::from_str(line).unwrap())).collect();
        assert_eq!(read, journal, "{name}");
        let wrong = invariants::violations(journal.iter().map(AsRef::as_ref));
        assert!(wrong.is_empty(), "{name}: {wrong:#?}");
    }
}

/// At least the sixteen kinds of run, and no folder without a scenario or a file without a
/// surface.
#[tokio::test(start_paused = true)]
async fn every_folder_has_its_scenario() {
    let names = |folder: &Path| -> BTreeSet<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let found = names(&folder);
    let expected: BTreeSet<String> =
        scenarios::all().iter().map(|scenario| scenario.name.to_owned()).collect();
    assert_eq!(found, expected);
    assert!(found.len() >= 16, "only {} scenarios", found.len());
    let files: BTreeSet<String> =
        surfaces::ALL.iter().map(|(file, _)| (*file).to_owned()).collect();
    for name in found {
        assert_eq!(names(&folder.join(&name)), files, "{name}");
    }
}

/// S1-FR-005, S1-FR-007, S1-FR-008, S1-FR-011, S1-SC-004, S1-E4, R1, R2, R4, R6, R7: what every
/// stream of the Responses surface keeps, in every scenario and both profiles. The frames are
/// read as a client reads them: as JSON, knowing nothing of the types that made them.
#[tokio::test(start_paused = true)]
async fn every_responses_stream_keeps_its_promises() {
    for scenario in scenarios::all() {
        let name = scenario.name;
        let journal = scenario.play().await;
        let strict = frames(&surfaces::responses(&journal));
        let extended = frames(&surfaces::responses_extended(&journal));
        for stream in [&strict, &extended] {
            Reader::default().read(name, stream, &journal);
        }
        for frame in &strict {
            let kind = kind_of(frame);
            assert!(ResponseEvent::TYPES_STRICT.contains(&kind), "R1: {name}: {kind}");
        }
        let official: Vec<Value> = extended
            .into_iter()
            .filter(|frame| ResponseEvent::TYPES_STRICT.contains(&kind_of(frame)))
            .zip(0..)
            .map(|(frame, n)| with(frame, "sequence_number", json!(n)))
            .collect();
        assert_eq!(official, strict, "R1: {name}: the extended profile only adds");
    }
}

/// S2-10, S2-13, S2-14, S2-20, S2-24, S2-28, R12: what every turn on the chat socket keeps.
#[tokio::test(start_paused = true)]
async fn every_turn_on_the_socket_keeps_its_promises() {
    for scenario in scenarios::all() {
        let name = scenario.name;
        let journal = scenario.play().await;
        let plain = frames(&surfaces::ws_chat(&journal));
        let old = ["token", "complete", "error", "tool_start", "tool_complete"];
        let asked = frames(&surfaces::ws_chat_asked(&journal))
            .into_iter()
            .filter(|message| old.contains(&kind_of(message)))
            .map(|message| without(message, "cursor"));
        assert_eq!(asked.collect::<Vec<_>>(), plain, "{name}: asking only adds messages");
        let mut open = BTreeMap::new();
        for message in &plain {
            check_tool_message(name, message, &mut open);
        }
        assert!(open.is_empty(), "{name}: started and never ended: {open:?}");
        let ends = plain.iter().filter(|message| message.get("outcome").is_some());
        assert_eq!(ends.count(), 1, "{name}: a turn has one end");
        assert!(plain.last().unwrap().get("outcome").is_some(), "{name}: and it comes last");
    }
}

/// The call of a message must have begun, and must not be over.
fn check_tool_message(name: &str, message: &Value, open: &mut BTreeMap<String, String>) {
    let text = |key: &str| message[key].as_str().unwrap_or_default().to_owned();
    let is_tool_error = message["code"] == "TOOL_ERROR";
    match kind_of(message) {
        "tool_start" => {
            assert!(!text("tool_name").is_empty() && !text("tool_input").is_empty(), "{name}");
            let twice = open.insert(text("tool_call_id"), text("tool_name"));
            assert!(twice.is_none(), "{name}: {message}");
        }
        "tool_complete" | "error" if message.get("tool_call_id").is_some() => {
            let started = open.remove(&text("tool_call_id"));
            assert_eq!(started, Some(text("tool_name")), "S2-28: {name}: {message}");
            let has_result = !text("tool_result").is_empty();
            assert!(has_result != is_tool_error, "S2-10: {name}: {message}");
        }
        "error" => {
            assert!(!is_tool_error && message["fatal"].is_boolean(), "R12: {name}: {message}");
        }
        _ => {}
    }
}

/// S3-5, S3-7, S3-13, S3-17, R11: one answer or one error, then `done`; five kinds of frames
/// unless more are asked for.
#[tokio::test(start_paused = true)]
async fn every_chat_stream_keeps_its_promises() {
    for scenario in scenarios::all() {
        let name = scenario.name;
        let text = surfaces::chat_stream(&scenario.play().await);
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        let kinds: Vec<String> = data
            .map(|line| kind_of(&serde_json::from_str(line).unwrap()).to_owned())
            .filter(|kind| !["token", "approval_request", "input_request"].contains(&kind.as_str()))
            .collect();
        let [tools @ .., answer, last] = kinds.as_slice() else { panic!("{name}: {kinds:?}") };
        assert_eq!(last, "done", "{name}");
        assert!(["response", "error"].contains(&answer.as_str()), "{name}: {answer}");
        let is_call = |kind: &&String| *kind == "tool_call";
        assert!(tools.iter().all(|kind| is_call(&kind) || kind == "tool_result"), "{name}");
        assert_eq!(tools.iter().filter(is_call).count() * 2, tools.len(), "{name}");
        let ids: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("id: ")).collect();
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{name}: R11");
    }
}

/// What every UI message stream keeps, in every scenario and dialect: `start` first, `finish` and
/// `[DONE]` last, no `null`, no chunk of another version, starts before deltas, calls before
/// outputs.
#[tokio::test(start_paused = true)]
async fn every_ui_message_stream_keeps_its_promises() {
    for scenario in scenarios::all() {
        let name = scenario.name;
        let journal = scenario.play().await;
        for dialect in Dialect::ALL {
            let stream = surfaces::ui_messages(&journal, dialect);
            let mut known = BTreeSet::new();
            for segment in stream.split_terminator("data: [DONE]\n\n") {
                let data = segment.lines().filter_map(|line| line.strip_prefix("data: "));
                let chunks: Vec<Value> =
                    data.map(|data| serde_json::from_str(data).unwrap()).collect();
                check_ui_segment(&format!("{name} in {dialect}"), dialect, &chunks, &mut known);
            }
            assert!(stream.ends_with("data: [DONE]\n\n"), "{name}");
        }
    }
}

fn check_ui_segment(name: &str, dialect: Dialect, chunks: &[Value], known: &mut BTreeSet<String>) {
    let too_new: &[&str] = match dialect {
        Dialect::V5 => &["tool-approval-request", "tool-output-denied"],
        Dialect::V6 => &["tool-approval-response", "reset-step"],
        Dialect::V7 => &["data-superseded"],
    };
    let mut open = BTreeSet::new();
    for (place, chunk) in chunks.iter().enumerate() {
        let kind = kind_of(chunk);
        assert_eq!(kind == "start", place == 0, "{name}: {chunk}");
        assert_eq!(kind == "finish", place + 1 == chunks.len(), "{name}: {chunk}");
        assert!(!too_new.contains(&kind), "{name}: {chunk}");
        let fields = chunk.as_object().unwrap();
        assert!(fields.values().all(|field| !field.is_null()), "{name}: {chunk}");
        let part = chunk["id"].to_string();
        match kind.rsplit_once('-') {
            Some(("text" | "reasoning", "start")) => assert!(open.insert(part), "{name}: {chunk}"),
            Some(("text" | "reasoning", "delta")) => assert!(open.contains(&part), "{name}"),
            Some(("text" | "reasoning", "end")) => assert!(open.remove(&part), "{name}: {chunk}"),
            _ => {}
        }
        let approval = chunk["approvalId"].to_string();
        match kind {
            "tool-approval-request" => assert!(known.insert(approval), "{name}: {chunk}"),
            "tool-approval-response" => assert!(known.contains(&approval), "{name}: {chunk}"),
            _ => {}
        }
        let call = chunk["toolCallId"].to_string();
        if kind == "tool-input-start" {
            assert!(known.insert(call), "{name}: {chunk}");
        } else if fields.contains_key("toolCallId") {
            assert!(known.contains(&call), "{name}: {chunk}");
        }
    }
    assert!(open.is_empty(), "{name}: {open:?}");
}

/// A client that has the first `n` chunks of a stream and resumes there has the whole stream, to
/// the byte, wherever the run was when the first part was read.
#[tokio::test(start_paused = true)]
async fn every_ui_message_stream_can_be_cut_at_every_chunk() {
    for scenario in scenarios::all() {
        let name = scenario.name;
        let journal = scenario.play().await;
        for dialect in Dialect::ALL {
            for segment in 0.. {
                let span = Span::only(segment);
                let whole = surfaces::ui_stream(&journal, dialect, span);
                if whole.is_empty() {
                    break;
                }
                for n_events in 0..=journal.len() {
                    let so_far = surfaces::ui_stream(&journal[..n_events], dialect, span);
                    assert!(whole.starts_with(&so_far), "{name}, {n_events} events in {dialect}");
                }
            }
        }
    }
}

fn frames(lines: &str) -> Vec<Value> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn kind_of(frame: &Value) -> &str {
    frame["type"].as_str().unwrap()
}

fn with(mut frame: Value, key: &str, value: Value) -> Value {
    frame[key] = value;
    frame
}

fn without(mut frame: Value, key: &str) -> Value {
    frame.as_object_mut().unwrap().remove(key);
    frame
}

/// A client of `/v1/responses` that remembers everything and complains about anything.
#[derive(Default)]
struct Reader {
    items: Vec<SeenItem>,
    is_over: bool,
}

struct SeenItem {
    first: Value,
    last: Option<Value>,
    /// The last words of the official events about it, without deltas.
    life: Vec<String>,
    deltas: BTreeMap<String, String>,
}

impl Reader {
    fn read(mut self, name: &str, stream: &[Value], journal: &[Arc<RecordedEvent>]) {
        for (n, frame) in stream.iter().enumerate() {
            let kind = kind_of(frame);
            assert_eq!(frame["sequence_number"], json!(n), "R4: {name}: {frame}");
            assert!(!self.is_over, "{name}: something follows the end: {frame}");
            assert_eq!(kind == "response.created", n == 0, "{name}: {frame}");
            assert_eq!(frame.get("error").is_some(), kind == "error", "{name}: clients raise");
            self.take(name, kind, frame);
        }
        assert!(self.is_over, "{name}: the stream has no end");
        self.check_pairs(name, journal);
        let calls = announced(journal).filter(|kind| *kind == ToolKind::Mcp).count();
        let shown = self.items.iter().filter(|item| item.first["type"] == "mcp_call").count();
        let asked = self.items.iter().filter(|item| is_question(&item.first)).count();
        assert!(shown <= calls && calls <= shown + asked, "{name}: a call is missing");
    }

    fn take(&mut self, name: &str, kind: &str, frame: &Value) {
        match kind {
            "response.output_item.added" => {
                assert_eq!(frame["output_index"], json!(self.items.len()), "R4: {name}");
                let first = frame["item"].clone();
                let (last, life, deltas) = (None, Vec::new(), BTreeMap::new());
                self.items.push(SeenItem { first, last, life, deltas });
            }
            "response.output_item.done" => self.item_of(name, frame).done(name, &frame["item"]),
            "response.completed" | "response.incomplete" | "response.failed" => {
                self.is_over = true;
                let lasts: Vec<Value> =
                    self.items.iter().map(|item| item.last.clone().unwrap_or_default()).collect();
                assert_eq!(frame["response"]["output"], Value::Array(lasts), "{name}: not done");
                self.items.iter().for_each(|item| item.check_life(name));
            }
            _ if frame.get("output_index").is_some() => {
                self.item_of(name, frame).note(name, kind, frame);
            }
            _ => {}
        }
    }

    fn item_of(&mut self, name: &str, frame: &Value) -> &mut SeenItem {
        let place = usize::try_from(frame["output_index"].as_u64().unwrap()).unwrap();
        let item = self.items.get_mut(place);
        let item = item.unwrap_or_else(|| panic!("R4: {name}: not added yet: {frame}"));
        let id = frame.get("item_id").unwrap_or_else(|| &frame["item"]["id"]);
        assert_eq!(*id, item.first["id"], "R4: {name}: {frame}");
        item
    }

    /// A function that the server runs has its output, behind it and once; one that the client
    /// runs has none, nor has one whose arguments were cut, which is never run (R18).
    fn check_pairs(&self, name: &str, journal: &[Arc<RecordedEvent>]) {
        let is_client = announced(journal).any(ToolKind::is_run_by_client);
        for (place, item) in self.items.iter().enumerate() {
            let has_call_id = |other: &&SeenItem| other.first["call_id"] == item.first["call_id"];
            let outputs: Vec<&SeenItem> = self.items[place..]
                .iter()
                .filter(|other| other.first["type"] == "function_call_output")
                .filter(has_call_id)
                .collect();
            match item.first["type"].as_str().unwrap() {
                "function_call" => {
                    let is_cut = item.last.as_ref().is_some_and(|l| l["status"] == "incomplete");
                    let n_outputs = usize::from(!is_client && !is_cut);
                    assert_eq!(outputs.len(), n_outputs, "{name}: {}", item.first);
                }
                "function_call_output" => {
                    assert_eq!(outputs.len(), 1, "{name}: {}", item.first);
                    let calls = self.items[..place].iter().filter(has_call_id);
                    assert_eq!(calls.count(), 1, "{name}: an output without its call");
                }
                _ => {}
            }
        }
    }
}

fn announced(journal: &[Arc<RecordedEvent>]) -> impl Iterator<Item = ToolKind> {
    journal.iter().filter_map(|recorded| match &recorded.event {
        Event::CallAnnounced { tool, .. } => Some(tool.kind),
        _ => None,
    })
}

fn is_question(item: &Value) -> bool {
    item["type"] == "mcp_approval_request"
}

impl SeenItem {
    fn done(&mut self, name: &str, last: &Value) {
        assert!(self.last.is_none(), "{name}: done twice: {last}");
        for fact in ["id", "type", "call_id", "name", "namespace", "server_label"] {
            assert_eq!(self.first.get(fact), last.get(fact), "{name}: {fact} has changed: {last}");
        }
        assert_ne!(last["status"], "in_progress", "{name}: {last}");
        assert!(self.deltas.is_empty(), "{name}: deltas without their whole: {last}");
        self.last = Some(last.clone());
    }

    fn note(&mut self, name: &str, kind: &str, frame: &Value) {
        if kind.starts_with("turnwire:") {
            return;
        }
        assert!(self.last.is_none(), "{name}: it is done already: {frame}");
        let part = |end: &str| {
            let (content, summary) = (&frame["content_index"], &frame["summary_index"]);
            format!("{}{content}{summary}", kind.trim_end_matches(end))
        };
        if let Some(delta) = frame["delta"].as_str() {
            self.deltas.entry(part(".delta")).or_default().push_str(delta);
            return;
        }
        let whole =
            ["text", "refusal", "arguments", "input"].iter().find_map(|key| frame[*key].as_str());
        if let Some(whole) = whole {
            let so_far = self.deltas.remove(&part(".done")).unwrap_or_default();
            assert_eq!(so_far, whole, "{name}: deltas make up the whole: {frame}");
        }
        if let Some(news) = frame.get("turnwire") {
            assert!(news["at"].is_string(), "R2: {name}: {frame}");
            let is_list = self.first["type"] == "mcp_list_tools";
            assert_eq!(frame.get("name").is_none(), is_list, "S1-FR-005: {name}: {frame}");
            assert_eq!(frame.get("call_id").is_none(), is_list, "R2: {name}: {frame}");
            let label = frame.get("server_label");
            assert_eq!(label, self.first.get("server_label"), "R2: {name}: {frame}");
        }
        self.life.push(kind.rsplit('.').next().unwrap().to_owned());
    }

    /// S1-SC-004, S1-FR-007: one beginning before anything else, one end after everything.
    fn check_life(&self, name: &str) {
        let last = self.last.as_ref().unwrap();
        let is_end = |step: &&String| ["completed", "failed"].contains(&step.as_str());
        let n_ends = self.life.iter().filter(is_end).count();
        let begins = self.life.first().is_some_and(|step| step == "in_progress");
        let end = self.life.last().map(String::as_str);
        match self.first["type"].as_str().unwrap() {
            "mcp_call" | "mcp_list_tools" => {
                let right = if last["error"].is_null() { "completed" } else { "failed" };
                assert!(begins && n_ends == 1 && end == Some(right), "R7: {name}: {last}");
            }
            "web_search_call" | "file_search_call" => {
                let has_worked = last["status"] == "completed";
                assert!(begins && n_ends <= 1, "{name}: {last}");
                let says_so = self.life.iter().any(|step| step == "completed");
                assert_eq!(says_so, has_worked, "R6: {name}: {last}");
            }
            _ => assert_eq!(n_ends, 0, "S1-E4: {name}: {last}"),
        }
    }
}
