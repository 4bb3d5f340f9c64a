//! The tool server's log: every execution and every effect, by key.

use std::{collections::BTreeMap, path::Path};

use anyhow::Context;
use serde_json::Value;
use turnwire_contract::RunId;

/// A logged action of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolAction {
    Started,
    /// It had its effect.
    Effect,
    Other,
}

/// One line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolLogEntry {
    pub what: ToolAction,
    /// Name of the tool.
    pub tool: String,
    /// Key of the call: `run:call`.
    pub key: String,
    /// Microseconds since 1970.
    pub at: i64,
}

/// Returns all lines by run. Lines without a run have an empty id.
pub fn read(path: &Path) -> anyhow::Result<BTreeMap<RunId, Vec<ToolLogEntry>>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).context("the log of the tool server"),
    };
    let mut by_run: BTreeMap<RunId, Vec<ToolLogEntry>> = BTreeMap::new();
    for line in text.lines().filter_map(line_of) {
        let run = line.key.split_once(':').map_or("", |(run, _)| run);
        by_run.entry(RunId::new(run)).or_default().push(line);
    }
    Ok(by_run)
}

fn line_of(text: &str) -> Option<ToolLogEntry> {
    let line: Value = serde_json::from_str(text).ok()?;
    let word = |name: &str| line.get(name).and_then(Value::as_str).unwrap_or_default();
    let what = match word("what") {
        "began" => ToolAction::Started,
        "effect" => ToolAction::Effect,
        "ended" | "cancelled" => ToolAction::Other,
        _ => return None,
    };
    let at = line.get("at_us").and_then(Value::as_i64).unwrap_or_default();
    Some(ToolLogEntry { what, tool: word("tool").to_owned(), key: word("key").to_owned(), at })
}
