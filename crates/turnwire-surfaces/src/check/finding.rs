//! What was found, and where.

use serde::Serialize;
use serde_json::Value;

use super::code::{Code, Level};

/// More findings than anybody reads; the rest is counted.
const MAX_FINDINGS: usize = 1000;

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What is wrong.
    pub code: Code,
    /// How bad it is.
    pub level: Level,
    /// Where it was noticed; nothing if at the end of the stream.
    #[serde(flatten)]
    pub place: Place,
    /// One sentence about this very case.
    pub message: String,
}

/// A place in a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Place {
    /// Which event, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<u64>,
    /// Its type.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Its number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence_number: Option<u64>,
    /// The item it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item_id: Option<String>,
    /// The place of that item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_index: Option<u64>,
}

impl Place {
    /// The place of an event.
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

/// All that was found in a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// How many events there were.
    pub events: u64,
    /// How many faults.
    pub faults: u64,
    /// How many notes.
    pub notes: u64,
    /// How many findings are counted and not listed.
    pub left_off: u64,
    /// What was found, in the order of the stream.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Whether the stream has no fault.
    pub fn is_fine(&self) -> bool {
        self.faults == 0
    }

    pub(super) fn add(&mut self, code: Code, place: Place, message: String) {
        let level = code.level();
        match level {
            Level::Fault => self.faults += 1,
            Level::Note => self.notes += 1,
        }
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(Finding { code, level, place, message });
        } else {
            self.left_off += 1;
        }
    }
}

/// Takes down what is found while one event is looked at.
#[derive(Debug, Default)]
pub(super) struct Notebook {
    pub(super) report: Report,
    pub(super) place: Place,
}

impl Notebook {
    /// Something is wrong here.
    pub(super) fn tell(&mut self, code: Code, message: impl Into<String>) {
        self.report.add(code, self.place.clone(), message.into());
    }

    /// Something is wrong here, with this item.
    pub(super) fn tell_of(
        &mut self,
        code: Code,
        item: (Option<&str>, u64),
        message: impl Into<String>,
    ) {
        let (item_id, output_index) = (item.0.map(str::to_owned), Some(item.1));
        let place = Place { item_id, output_index, ..self.place.clone() };
        self.report.add(code, place, message.into());
    }
}
