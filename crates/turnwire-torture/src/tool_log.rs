//! What the tool server wrote down: every execution and every effect, by key.

use std::{collections::BTreeMap, path::Path};

use anyhow::Context;
use serde_json::Value;
use turnwire_contract::RunId;

/// What a tool did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Did {
    /// It was called.
    Began,
    /// It acted.
    Effect,
    /// Something else.
    Other,
}

/// One line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolLine {
    /// What happened.
    pub what: Did,
    /// The tool.
    pub tool: String,
    /// The key of the call: the run and the call, with a colon between.
    pub key: String,
    /// When, in microseconds since 1970.
    pub at: i64,
}

/// All lines by run. Those without a run are under the empty one.
pub fn read(path: &Path) -> anyhow::Result<BTreeMap<RunId, Vec<ToolLine>>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).context("the log of the tool server"),
    };
    let mut by_run: BTreeMap<RunId, Vec<ToolLine>> = BTreeMap::new();
    for line in text.lines().filter_map(line_of) {
        let run = line.key.split_once(':').map_or("", |(run, _)| run);
        by_run.entry(RunId::new(run)).or_default().push(line);
    }
    Ok(by_run)
}

fn line_of(text: &str) -> Option<ToolLine> {
    let line: Value = serde_json::from_str(text).ok()?;
    let word = |name: &str| line.get(name).and_then(Value::as_str).unwrap_or_default();
    let what = match word("what") {
        "began" => Did::Began,
        "effect" => Did::Effect,
        "ended" | "cancelled" => Did::Other,
        _ => return None,
    };
    let at = line.get("at_us").and_then(Value::as_i64).unwrap_or_default();
    Some(ToolLine { what, tool: word("tool").to_owned(), key: word("key").to_owned(), at })
}
