//! Checks a stream of AG-UI as its official client does, and a little more.
//!
//! The client stops with an error at an event out of order. These are its rules, read from what it
//! accepts and refuses; beyond them every call has at most one result, and no field is `null`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Fields whose values are not ours: a schema of a tool, and arguments of a model.
const FOREIGN: [&str; 2] = ["responseSchema", "arguments"];

/// Returns all violations in a complete stream.
pub fn violations(events: &[Value]) -> Vec<String> {
    let mut reader = StreamReader::default();
    for event in events {
        reader.read(event);
    }
    if reader.is_running || events.is_empty() {
        reader.wrong.push("the stream has no end".to_owned());
    }
    reader.wrong
}

#[derive(Default)]
struct StreamReader {
    wrong: Vec<String>,
    has_begun: bool,
    is_running: bool,
    /// The stream begins with a run that resumes another, whose calls and activities the client
    /// has.
    is_resumed: bool,
    /// What is open, by the kind of block.
    open: BTreeMap<&'static str, BTreeSet<String>>,
    started_calls: BTreeSet<String>,
    answered_calls: BTreeSet<String>,
    activities: BTreeSet<String>,
}

impl StreamReader {
    fn read(&mut self, event: &Value) {
        let kind = event["type"].as_str().unwrap_or_default();
        if has_null(event) {
            self.complain(event, "has a null");
        }
        if !event["timestamp"].is_i64() {
            self.complain(event, "has no time");
        }
        match kind {
            "RUN_STARTED" => self.start_run(event),
            "RUN_ERROR" if !self.has_begun => self.has_begun = true,
            _ if !self.is_running => self.complain(event, "is outside of any run"),
            "RUN_FINISHED" => self.finish_run(event),
            // An error may come at any time.
            "RUN_ERROR" => self.is_running = false,
            _ => self.read_inside(kind, event),
        }
    }

    fn read_inside(&mut self, kind: &str, event: &Value) {
        match kind {
            "STEP_STARTED" => self.open("step", &event["stepName"], event),
            "STEP_FINISHED" => self.close("step", &event["stepName"], event),
            "TEXT_MESSAGE_START" => self.open("text", &event["messageId"], event),
            "TEXT_MESSAGE_CONTENT" => self.content("text", &event["messageId"], event),
            "TEXT_MESSAGE_END" => self.close("text", &event["messageId"], event),
            "REASONING_START" => self.open("span", &event["messageId"], event),
            "REASONING_MESSAGE_START" => {
                self.expect_open("span", &event["messageId"], event);
                self.open("reasoning", &event["messageId"], event);
            }
            "REASONING_MESSAGE_CONTENT" => self.content("reasoning", &event["messageId"], event),
            "REASONING_MESSAGE_END" => self.close("reasoning", &event["messageId"], event),
            "REASONING_END" => self.close("span", &event["messageId"], event),
            "TOOL_CALL_START" => {
                if !self.started_calls.insert(text(&event["toolCallId"])) {
                    self.complain(event, "starts a call twice");
                }
                self.open("call", &event["toolCallId"], event);
            }
            "TOOL_CALL_ARGS" => self.content("call", &event["toolCallId"], event),
            "TOOL_CALL_END" => self.close("call", &event["toolCallId"], event),
            "TOOL_CALL_RESULT" => self.answer(event),
            "ACTIVITY_SNAPSHOT" => {
                if !self.activities.insert(text(&event["messageId"])) {
                    self.complain(event, "repeats an activity as a whole");
                }
            }
            "ACTIVITY_DELTA" => {
                let is_known = self.activities.contains(&text(&event["messageId"]));
                if !is_known && !self.is_resumed {
                    self.complain(event, "changes an activity that is not there");
                }
            }
            "MESSAGES_SNAPSHOT" | "CUSTOM" => {}
            _ => self.complain(event, "is not an event of the protocol"),
        }
    }

    fn start_run(&mut self, event: &Value) {
        if self.is_running {
            self.complain(event, "starts a run inside a run");
        }
        if !self.has_begun {
            self.is_resumed = event.get("parentRunId").is_some();
        }
        (self.has_begun, self.is_running) = (true, true);
    }

    fn finish_run(&mut self, event: &Value) {
        let open: Vec<String> = self
            .open
            .iter()
            .flat_map(|(kind, ids)| ids.iter().map(move |id| format!("{kind} {id}")))
            .collect();
        if !open.is_empty() {
            self.complain(event, &format!("ends a run while {open:?} are open"));
        }
        let outcome = &event["outcome"];
        let interrupts = outcome["interrupts"].as_array().map_or(0, Vec::len);
        if outcome["type"] == "interrupt" && interrupts == 0 {
            self.complain(event, "asks nothing");
        }
        self.is_running = false;
    }

    fn answer(&mut self, event: &Value) {
        let call = text(&event["toolCallId"]);
        let is_open = self.open.get("call").is_some_and(|open| open.contains(&call));
        let is_known = self.is_resumed || self.started_calls.contains(&call);
        if is_open || !is_known {
            self.complain(event, "is the result of a call that is not complete");
        }
        if !self.answered_calls.insert(call) {
            self.complain(event, "is a second result");
        }
        if !event.pointer("/metadata/turnwire/state").is_some_and(Value::is_string) {
            self.complain(event, "does not say how the call ended");
        }
    }

    fn open(&mut self, kind: &'static str, id: &Value, event: &Value) {
        if !self.open.entry(kind).or_default().insert(text(id)) {
            self.complain(event, "opens what is open");
        }
    }

    fn content(&mut self, kind: &'static str, id: &Value, event: &Value) {
        self.expect_open(kind, id, event);
        if event["delta"].as_str().is_none_or(str::is_empty) {
            self.complain(event, "says nothing");
        }
    }

    fn close(&mut self, kind: &'static str, id: &Value, event: &Value) {
        self.expect_open(kind, id, event);
        self.open.entry(kind).or_default().remove(&text(id));
    }

    fn expect_open(&mut self, kind: &'static str, id: &Value, event: &Value) {
        if !self.open.get(kind).is_some_and(|open| open.contains(&text(id))) {
            self.complain(event, "continues what is not open");
        }
    }

    fn complain(&mut self, event: &Value, complaint: &str) {
        let event: String = event.to_string().chars().take(300).collect();
        self.wrong.push(format!("{event} {complaint}"));
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(values) => values.iter().any(has_null),
        Value::Object(fields) => {
            let mut ours = fields.iter().filter(|(name, _)| !FOREIGN.contains(&name.as_str()));
            ours.any(|(_, value)| has_null(value))
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
