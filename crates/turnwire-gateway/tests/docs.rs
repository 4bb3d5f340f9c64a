//! Generates `docs/events.md` from the event types.
//!
//! `UPDATE_GOLDENS=1 cargo test -p turnwire-gateway --test docs` writes the page; without the
//! variable the test compares it. The tables come from the `OpenAPI` document, which is generated
//! from the types. Only the introductions are written by hand.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on should fall over"
)]

use std::{
    collections::BTreeSet,
    fmt::Write,
    path::{Path, PathBuf},
};

use serde_json::Value;
use turnwire_surfaces::ResponseEvent;
use turnwire_testkit::golden;

/// S1-FR-012: the page matches the types.
#[test]
fn the_page_of_events_is_up_to_date() {
    golden::check(&path_of_page(), &Page::new().write());
}

/// S1-FR-012, R1: page, constants and `OpenAPI` document list the same events, in both profiles.
#[test]
fn page_types_and_document_name_the_same_events() {
    let page = Page::new().write();
    let strict = listed(&page, STRICT);
    let extended = listed(&page, EXTENDED);
    assert_eq!(strict, ResponseEvent::TYPES_STRICT);
    assert_eq!(extended, ResponseEvent::TYPES_EXTENDED);
    let document = document();
    let described = document["components"]["schemas"]["StreamEventType"]["enum"].as_array();
    let described: Vec<&str> =
        described.unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert_eq!(described, [strict, extended].concat());
}

/// Every event and every field has a description.
#[test]
fn every_event_and_every_field_is_explained() {
    let mut page = Page::new();
    page.write();
    assert!(page.silent.is_empty(), "without a doc comment: {:#?}", page.silent);
}

const STRICT: &str = "/v1/responses, strict";
const EXTENDED: &str = "/v1/responses, extended";

fn path_of_page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/events.md")
}

fn document() -> Value {
    serde_json::to_value(turnwire_gateway::openapi::document()).unwrap()
}

/// Returns the event types in the first column of the section's overview.
fn listed<'a>(page: &'a str, section: &str) -> Vec<&'a str> {
    let section = page.split("\n## ").find(|part| part.starts_with(section)).unwrap();
    let overview = section.split("\n### ").next().unwrap();
    let rows = overview.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| row.split('`').next().unwrap()).collect()
}

const HEAD: &str = "\
# Events

All events and messages on the wire, with their fields. This page is generated from the types by \
`crates/turnwire-gateway/tests/docs.rs`. `/openapi.json` contains the same in machine-readable \
form. Error codes are in [errors.md](errors.md).

All surfaces show the same run, because each is computed from the journal of the run alone. \
Choose the surface that fits your client:

| surface | for |
|---|---|
| [`/v1/responses`](#v1responses-strict) | unmodified clients of the OpenAI Responses API |
| [`/chat/stream`](#chatstream) | a chat that shows running tools, with very little code |
| [`/ws/chat`](#wschat-what-the-server-sends) | a chat over a WebSocket, in both directions |
| [`/ag-ui`](#ag-ui) | clients of AG-UI, such as CopilotKit |
| [`/v1/runs`](#v1runs-events) | the complete recorded journal |

Two rules hold for all surfaces. Fields and types may be added at any time, so clients must \
ignore unknown ones. A lost connection loses no events: the client reconnects with its last \
position and continues from there.

An event stream that ends without its final event is not over: the server is shutting down, or \
the journal cannot be read at the moment. The last line of such a stream is `retry:` with the \
number of milliseconds to wait before reconnecting. A `POST` with an `Idempotency-Key` can be \
repeated unchanged: the stream starts from the beginning with the same bytes, and no second run \
is created.

A field that is not required may be missing or null.
";

struct Section {
    title: &'static str,
    introduction: &'static str,
    schema: &'static str,
    has: fn(&str) -> bool,
}

const SECTIONS: [Section; 7] = [
    Section {
        title: STRICT,
        introduction: "\
`POST /v1/responses` with `\"stream\": true` returns server-sent events: an `event:` line with \
the type, a `data:` line with the JSON, and `data: [DONE]` after the last event. All event names \
are official, because some official clients fail on any other name.

* Every event has a `sequence_number`, starting at 0 without gaps. `GET \
/v1/responses/{id}?stream=true&starting_after=7` continues after number 7.
* `response.output_item.added` is the first event about an item. `output_index` is the index of \
the item in the output.
* The events of MCP calls and searches also contain `name`, `call_id` and `server_label`, and \
`turnwire` with what changed. While a tool is running, its `in_progress` or `searching` event is \
repeated with updates.
* An MCP call ends with exactly one `completed` or `failed`. A failed search has no `completed`; \
its item is done with the status `failed`.
* A cancelled run ends with `response.incomplete`, and its response has the status `cancelled`. A \
failed run ends with `error` followed by `response.failed`.
* After 15 seconds without an event, a comment line (`: ping`) is sent.

The same events are available over a WebSocket at the same path: one JSON text message per event, \
with `stream_id` if the request had one.",
        schema: "ResponseEvent",
        has: |kind| ResponseEvent::TYPES_STRICT.contains(&kind),
    },
    Section {
        title: EXTENDED,
        introduction: "\
With the header `Turnwire-Profile: extended`, or `?profile=extended` in the URL, these events are \
sent in addition to all events above. The sequence numbers count both.",
        schema: "ResponseEvent",
        has: |kind| ResponseEvent::TYPES_EXTENDED.contains(&kind),
    },
    Section {
        title: "/chat/stream",
        introduction: "\
`POST /chat/stream` with `{\"message\": \"…\", \"session_id\": \"…\"}` returns server-sent events \
with an `id:` and a `data:` line. One `response` or `error` is sent, then `done` as the last \
event. `token`, `approval_request` and `input_request` are sent only if the request contains \
`\"tokens\": true`, `\"approvals\": true` or `\"inputs\": true`. [approvals.md](approvals.md) \
describes how to answer them.

`model`, `tools` and `attachments` are those of `/v1/responses`: the name of a model, tools and MCP \
servers of the settings (`{\"type\": \"mcp\", \"server_label\": \"…\"}`), and parts of the type \
`input_image` or `input_file`. Without `tools`, all tools of the settings are offered. Functions of \
the client are refused, because their calls could not be answered here.

The `id` is a cursor: `GET /chat/stream` with the id as `Last-Event-ID` header, or as `?after=`, \
continues after that event. A run continues when its client disconnects.",
        schema: "ChatStreamFrame",
        has: |_| true,
    },
    Section {
        title: "/ws/chat, what the server sends",
        introduction: "\
One JSON text message per event. `token`, `complete`, `error`, `pong`, `tool_start` and \
`tool_complete` are sent to all clients and are stable. The other messages are sent only to \
clients that requested them with `hello`. The end of a tool call always follows a `tool_start` \
with the same `tool_call_id`. A turn ends with `complete`, or with an `error` that has an \
`outcome`. The socket stays open unless `fatal` is true. With `resume`, every message of a turn \
also has a `cursor`.",
        schema: "WsMessage",
        has: |_| true,
    },
    Section {
        title: "/ws/chat, what the client sends",
        introduction: "\
One JSON text message per request. An invalid message is answered with the code `INVALID_FORMAT`, \
and the socket stays open. Messages of one socket are processed in order.",
        schema: "WsRequest",
        has: |_| true,
    },
    Section {
        title: "/ag-ui",
        introduction: "\
`POST /ag-ui` with the `RunAgentInput` of AG-UI 1.0 returns server-sent events with an `id:` and a \
`data:` line. Every event also has a `timestamp` in Unix milliseconds. The thread is a \
conversation; messages that it has already are left out.

* `metadata.turnwire` has what the protocol has no field for; an unknown event or field is dropped \
by the official client.
* When only people are awaited, `RUN_FINISHED` has the outcome `interrupt`. The next request \
answers with `resume` under a new `runId`, and the run continues. [approvals.md](approvals.md) \
describes the answers.
* Calls of functions of the client are in `pendingToolCallIds`. Clients that name no \
`protocolVersion` refuse that field and the outcome `cancelled`; they get both in `result`.
* The `id` is the number of the event: `GET /ag-ui/runs/{run_id}?after=7`, or `Last-Event-ID: 7`, \
continues after event 7. The run is named by `metadata.turnwire.run_id` of `RUN_STARTED`, or by \
the `runId` of the request that started it.
* `POST /ag-ui/runs/{run_id}/cancel` cancels the run. A client that only disconnects leaves it \
going, unless the request had `forwardedProps.turnwire.on_disconnect` with the value `cancel`.
* The stream ends cleanly only after `RUN_FINISHED` or `RUN_ERROR`. Otherwise the connection \
breaks, because clients take a clean end for the end of the run.",
        schema: "AgUiEvent",
        has: |_| true,
    },
    Section {
        title: "/v1/runs, events",
        introduction: "\
`GET /v1/runs/{run_id}/events` returns the journal unchanged: as server-sent events with the \
sequence number as `id:`, or as one JSON text per line with `Accept: application/x-ndjson`. Each \
event is in an envelope ([`RecordedEvent`](#shape-recordedevent)) with `run_id`, `seq`, `at` and \
the `event`. `Last-Event-ID` or `?after=12` continues after sequence number 12. `?snapshot=true` \
starts with the current state of the run ([`RunSnapshot`](#shape-runsnapshot), an event named \
`snapshot`), to which the following events apply. `?follow=false` ends the stream after the \
events that are stored now.",
        schema: "Event",
        has: |_| true,
    },
];

struct Page {
    schemas: Value,
    out: String,
    /// Shapes to describe, in the order in which they are first referenced.
    shapes: Vec<String>,
    /// Fields and types without a description.
    silent: BTreeSet<String>,
}

/// An event type.
struct Variant {
    name: String,
    says: String,
    /// Name of the payload, if several event types share it.
    payload: Option<String>,
    fields: Vec<Field>,
}

struct Field {
    name: String,
    schema: Value,
    is_required: bool,
    says: String,
}

impl Page {
    fn new() -> Self {
        let schemas = document()["components"]["schemas"].clone();
        Self { schemas, out: String::new(), shapes: Vec::new(), silent: BTreeSet::new() }
    }

    fn write(&mut self) -> String {
        HEAD.clone_into(&mut self.out);
        for section in &SECTIONS {
            self.write_section(section);
        }
        self.shape("RecordedEvent");
        self.shape("RunSnapshot");
        self.write_shapes();
        std::mem::take(&mut self.out)
    }

    fn write_section(&mut self, section: &Section) {
        let _ = write!(self.out, "\n## {}\n\n{}\n\n", section.title, section.introduction);
        let schema = self.schemas[section.schema].clone();
        let mut variants = self.variants(section.schema, &schema);
        variants.retain(|variant| (section.has)(&variant.name));
        self.out.push_str("| type | meaning |\n|---|---|\n");
        for Variant { name, says, .. } in &variants {
            let _ = writeln!(self.out, "| `{name}` | {} |", cell(says));
        }
        // Event types with the same payload are described together, at the first of them.
        while !variants.is_empty() {
            let first = variants.remove(0);
            let mut names = vec![format!("`{}`", first.name)];
            let is_same =
                |other: &Variant| first.payload.is_some() && other.payload == first.payload;
            names.extend(variants.iter().filter(|v| is_same(v)).map(|v| format!("`{}`", v.name)));
            variants.retain(|other| !is_same(other));
            let _ = write!(self.out, "\n### {}\n\n", names.join(", "));
            self.write_fields(&first.fields);
        }
    }

    /// Returns the variants of an enum that is tagged by `type`.
    fn variants(&mut self, owner: &str, schema: &Value) -> Vec<Variant> {
        let variants = schema["oneOf"].as_array().unwrap_or_else(|| panic!("{owner}: no variants"));
        variants
            .iter()
            .map(|variant| {
                let mut fields = self.fields(owner, variant);
                let tag = fields.iter().position(|field| field.name == "type").unwrap();
                let tag = fields.remove(tag).schema;
                let name = tag["enum"][0].as_str().unwrap().to_owned();
                let says = self.description(&format!("{owner}: {name}"), variant);
                let mut parts = variant["allOf"].as_array().into_iter().flatten();
                let payload = parts.find_map(target).map(str::to_owned);
                Variant { name, says, payload, fields }
            })
            .collect()
    }

    /// Returns all fields of an object, including those from `allOf`.
    fn fields(&mut self, owner: &str, schema: &Value) -> Vec<Field> {
        if let Some(name) = target(schema) {
            let (name, schema) = (name.to_owned(), self.schemas[name].clone());
            return self.fields(&name, &schema);
        }
        let parts: Vec<Value> = schema["allOf"].as_array().cloned().unwrap_or_default();
        let mut fields: Vec<Field> = Vec::new();
        for part in parts {
            fields.extend(self.fields(owner, &part));
        }
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let is_tag = property["enum"].as_array().is_some_and(|values| values.len() == 1);
            let place = format!("{owner}.{name}");
            let says = if is_tag { String::new() } else { self.description(&place, property) };
            let (name, is_required) = (name.clone(), required.contains(&name.as_str()));
            fields.push(Field { name, schema: property.clone(), is_required, says });
        }
        fields
    }

    fn description(&mut self, place: &str, schema: &Value) -> String {
        let own = schema["description"].as_str();
        let mut parts =
            ["oneOf", "allOf"].iter().filter_map(|key| schema[*key].as_array()).flatten();
        let inner = parts.find_map(|part| part["description"].as_str());
        let found = own.or(inner).unwrap_or_default();
        if found.is_empty() {
            self.silent.insert(place.to_owned());
        }
        // Links between types do not work on the page.
        found.replace("[`", "`").replace("`]", "`")
    }

    fn write_fields(&mut self, fields: &[Field]) {
        if fields.is_empty() {
            self.out.push_str("Nothing but its type.\n");
            return;
        }
        self.out.push_str("| field | type | required | meaning |\n|---|---|---|---|\n");
        for field in fields {
            let kind = self.type_of(&field.schema);
            let required = if field.is_required { "yes" } else { "no" };
            let says = cell(&field.says);
            let _ = writeln!(self.out, "| `{}` | {kind} | {required} | {says} |", field.name);
        }
    }

    /// Returns the name of a type.
    fn type_of(&mut self, schema: &Value) -> String {
        if let Some(name) = target(schema) {
            return self.named(name);
        }
        if let Some(values) = schema["enum"].as_array() {
            return words(values);
        }
        for key in ["oneOf", "anyOf", "allOf"] {
            if let Some(parts) = schema[key].as_array() {
                let parts: Vec<String> = parts.iter().map(|part| self.type_of(part)).collect();
                return parts.join(" or ");
            }
        }
        let kinds = match &schema["type"] {
            Value::String(kind) => vec![kind.clone()],
            Value::Array(kinds) => {
                kinds.iter().filter_map(|kind| Some(kind.as_str()?.to_owned())).collect()
            }
            _ => Vec::new(),
        };
        let kinds: Vec<String> = kinds.iter().map(|kind| self.plain(kind, schema)).collect();
        if kinds.is_empty() { "any JSON".to_owned() } else { kinds.join(" or ") }
    }

    fn plain(&mut self, kind: &str, schema: &Value) -> String {
        match kind {
            "string" if schema["format"] == "date-time" => "time (RFC 3339)".to_owned(),
            "integer" => "whole number".to_owned(),
            "array" => format!("list of {}", self.type_of(&schema["items"])),
            other => other.to_owned(),
        }
    }

    /// Returns a link to a shape, or the values of an enum of strings.
    fn named(&mut self, name: &str) -> String {
        if let Some(section) = SECTIONS.iter().find(|section| section.schema == name) {
            return format!("[one of the events](#{})", anchor(section.title));
        }
        let schema = self.schemas[name].clone();
        if let Some(values) = schema["enum"].as_array() {
            return words(values);
        }
        let choices: Vec<Value> = schema["oneOf"].as_array().cloned().unwrap_or_default();
        if !choices.is_empty() && choices.iter().all(|choice| choice["enum"].is_array()) {
            let values = choices.iter().filter_map(|choice| choice["enum"].as_array()).flatten();
            return words(&values.cloned().collect::<Vec<_>>());
        }
        self.shape(name);
        format!("[{name}](#shape-{})", name.to_lowercase())
    }

    fn shape(&mut self, name: &str) {
        if !self.shapes.iter().any(|known| known == name) {
            self.shapes.push(name.to_owned());
        }
    }

    /// Describes the shapes. Describing one may add others.
    fn write_shapes(&mut self) {
        self.out.push_str("\n## Shapes\n\nWhat the fields above are made of.\n");
        let mut at = 0;
        while let Some(name) = self.shapes.get(at).cloned() {
            at += 1;
            let schema = self.schemas[&name].clone();
            let says = self.description(&name, &schema);
            let _ = write!(self.out, "\n### Shape: {name}\n\n{}\n\n", says.replace('\n', " "));
            if schema["oneOf"].is_array() {
                self.write_choices(&name, &schema);
            } else {
                let fields = self.fields(&name, &schema);
                self.write_fields(&fields);
            }
        }
    }

    /// Describes a shape that is an enum.
    fn write_choices(&mut self, name: &str, schema: &Value) {
        let choices: Vec<Value> = schema["oneOf"].as_array().cloned().unwrap_or_default();
        let mut tables = Vec::new();
        self.out.push_str("One of:\n\n");
        for choice in &choices {
            let mut fields = self.fields(name, choice);
            let tag = fields.iter().position(|field| {
                field.schema["enum"].as_array().is_some_and(|values| values.len() == 1)
            });
            let Some(tag) = tag else {
                let line = self.type_of(choice);
                let _ = writeln!(self.out, "* {line}");
                continue;
            };
            let tag = fields.remove(tag);
            let title =
                format!("`{}`: {}", tag.name, words(tag.schema["enum"].as_array().unwrap()));
            let says = self.description(&format!("{name}: {title}"), choice);
            let _ = writeln!(self.out, "* {title}. {}", cell(&says));
            if !fields.is_empty() {
                tables.push((title, fields));
            }
        }
        for (title, fields) in tables {
            let _ = write!(self.out, "\n{title}\n\n");
            self.write_fields(&fields);
        }
    }
}

/// Returns the name of the referenced schema.
fn target(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.rsplit('/').next()
}

fn words(values: &[Value]) -> String {
    let words: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
    words.join(" or ")
}

/// Returns the anchor of a heading.
fn anchor(title: &str) -> String {
    let kept = title.chars().filter(|c| c.is_alphanumeric() || *c == ' ');
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// Escapes a text for a table cell.
fn cell(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|")
}
