//! Formats the result.

use std::{collections::BTreeMap, fmt::Write, time::Duration};

use serde_json::{Value, json};

use crate::{
    checker::{Kind, Violation},
    evidence::Verdict,
};

/// Maximum number of violations shown in full.
const MAX_TOLD: usize = 25;

/// The parameters of a test.
#[derive(Debug, Clone, Default)]
pub struct Setting {
    /// Title of the test.
    pub title: String,
    /// Random seed.
    pub seed: u64,
    /// Duration of the test.
    pub took: Duration,
    /// Additional named values.
    pub notes: Vec<(String, String)>,
    /// Goals that were not reached.
    pub missed: Vec<String>,
}

/// Returns whether there are no violations and all goals were reached.
pub fn is_good(setting: &Setting, verdict: &Verdict) -> bool {
    verdict.violations.is_empty() && setting.missed.is_empty()
}

/// Formats a table for a terminal.
pub fn text(setting: &Setting, verdict: &Verdict) -> String {
    let mut text = format!("{}, seed {}\n", setting.title, setting.seed);
    for (name, value) in rows(setting, verdict) {
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "  {name:<40} {value}");
    }
    for missed in &setting.missed {
        let _ = writeln!(text, "missed: {missed}");
    }
    for violation in verdict.violations.iter().take(MAX_TOLD) {
        let _ = writeln!(text, "violation: {violation}");
    }
    let n_violations = verdict.violations.len();
    if n_violations > MAX_TOLD {
        let _ = writeln!(text, "… and {} more", n_violations - MAX_TOLD);
        for (kind, n) in by_kind(&verdict.violations) {
            let _ = writeln!(text, "  {kind:?}: {n}");
        }
    }
    let _ = writeln!(text, "{n_violations} violations");
    text
}

/// Formats the result as Markdown.
pub fn markdown(setting: &Setting, verdict: &Verdict) -> String {
    let mut text = format!("# {}\n\nSeed {}.\n\n| | |\n|---|--:|\n", setting.title, setting.seed);
    for (name, value) in rows(setting, verdict) {
        let _ = writeln!(text, "| {name} | {value} |");
    }
    let by_kind = by_kind(&verdict.violations);
    let _ = write!(text, "\n## Violations: {}\n\n", verdict.violations.len());
    for (kind, n) in by_kind {
        let _ = writeln!(text, "- {kind:?}: {n}");
    }
    for violation in verdict.violations.iter().take(MAX_TOLD) {
        let _ = writeln!(text, "- `{violation}`");
    }
    for missed in &setting.missed {
        let _ = writeln!(text, "\nMissed: {missed}");
    }
    text
}

/// Formats the result as JSON.
pub fn json(setting: &Setting, verdict: &Verdict) -> Value {
    let notes: BTreeMap<&str, &str> =
        setting.notes.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    json!({
        "title": setting.title,
        "seed": setting.seed,
        "seconds": setting.took.as_secs_f64(),
        "good": is_good(setting, verdict),
        "missed": setting.missed,
        "notes": notes,
        "figures": verdict.figures.json(),
        "violations": verdict.violations,
    })
}

fn rows(setting: &Setting, verdict: &Verdict) -> Vec<(String, String)> {
    let took = format!("{:.1} s", setting.took.as_secs_f64());
    let mut rows = vec![("time".to_owned(), took)];
    rows.extend(setting.notes.clone());
    rows.extend(verdict.figures.rows());
    rows
}

/// Counts violations by kind.
pub fn by_kind(violations: &[Violation]) -> BTreeMap<Kind, usize> {
    let mut by_kind = BTreeMap::new();
    for violation in violations {
        *by_kind.entry(violation.kind).or_default() += 1;
    }
    by_kind
}
