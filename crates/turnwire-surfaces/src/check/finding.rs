//! Findings of the checker, and their location.

use serde::Serialize;
use serde_json::Value;

use super::code::{Code, Level};

/// Maximum number of listed findings; the rest is only counted.
const MAX_FINDINGS: usize = 1000;

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What is wrong.
    pub code: Code,
    /// Severity.
    pub level: Level,
    /// Location; empty for findings at the end of the stream.
    #[serde(flatten)]
    pub location: Location,
    /// One sentence about this case.
    pub message: String,
}

/// A location in a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Location {
    /// Number of the event, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<u64>,
    /// Type of the event.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Sequence number of the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence_number: Option<u64>,
    /// ID of the item it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item_id: Option<String>,
    /// Index of that item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_index: Option<u64>,
}

impl Location {
    /// The location of an event.
    pub(super) fn of(n: u64, event: &Value) -> Self {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let number = |key: &str| event.get(key).and_then(Value::as_u64);
        let item = event.get("item").and_then(|item| item.get("id"));
        Self {
            event: Some(n),
            kind: text(event.get("type")),
            sequence_number: number("sequence_number"),
            item_id: text(event.get("item_id").or(item)),
            output_index: number("output_index"),
        }
    }
}

/// The result of checking a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Number of events.
    pub events: u64,
    /// Number of faults.
    pub faults: u64,
    /// Number of notes.
    pub notes: u64,
    /// Number of findings that are counted and not listed.
    pub left_off: u64,
    /// The findings, in the order of the stream.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Whether the stream has no fault.
    pub fn is_fine(&self) -> bool {
        self.faults == 0
    }

    pub(super) fn add(&mut self, code: Code, location: Location, message: String) {
        let level = code.level();
        match level {
            Level::Fault => self.faults += 1,
            Level::Note => self.notes += 1,
        }
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(Finding { code, level, location, message });
        } else {
            self.left_off += 1;
        }
    }
}

/// Collects the findings about one event.
#[derive(Debug, Default)]
pub(super) struct Notebook {
    pub(super) report: Report,
    pub(super) location: Location,
}

impl Notebook {
    /// Adds a finding about this event.
    pub(super) fn tell(&mut self, code: Code, message: impl Into<String>) {
        self.report.add(code, self.location.clone(), message.into());
    }

    /// Adds a finding about this event and item.
    pub(super) fn tell_of(
        &mut self,
        code: Code,
        item: (Option<&str>, u64),
        message: impl Into<String>,
    ) {
        let (item_id, output_index) = (item.0.map(str::to_owned), Some(item.1));
        let location = Location { item_id, output_index, ..self.location.clone() };
        self.report.add(code, location, message.into());
    }
}
