//! Formats the result.

use std::{collections::BTreeMap, fmt::Write, time::Duration};

use serde_json::{Value, json};

use crate::{
    checker::{Kind, Violation},
    evidence::Verdict,
};

/// Maximum number of violations shown in full.
const MAX_LISTED: usize = 25;

/// The parameters of a test.
#[derive(Debug, Clone, Default)]
pub struct ReportHeader {
    /// Title of the test.
    pub title: String,
    pub seed: u64,
    /// Duration of the test.
    pub took: Duration,
    pub remarks: Vec<(String, String)>,
    /// Goals that were not reached.
    pub missed: Vec<String>,
}

/// Returns whether there are no violations and all goals were reached.
pub fn is_good(header: &ReportHeader, verdict: &Verdict) -> bool {
    verdict.violations.is_empty() && header.missed.is_empty()
}

/// Formats a table for a terminal.
pub fn text(header: &ReportHeader, verdict: &Verdict) -> String {
    let mut text = format!("{}, seed {}\n", header.title, header.seed);
    for (name, value) in rows(header, verdict) {
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "  {name:<40} {value}");
    }
    for missed in &header.missed {
        let _ = writeln!(text, "missed: {missed}");
    }
    for violation in verdict.violations.iter().take(MAX_LISTED) {
        let _ = writeln!(text, "violation: {violation}");
    }
    let n_violations = verdict.violations.len();
    if n_violations > MAX_LISTED {
        let _ = writeln!(text, "… and {} more", n_violations - MAX_LISTED);
        for (kind, n) in by_kind(&verdict.violations) {
            let _ = writeln!(text, "  {kind:?}: {n}");
        }
    }
    let _ = writeln!(text, "{n_violations} violations");
    text
}

/// Formats the result as Markdown.
pub fn markdown(header: &ReportHeader, verdict: &Verdict) -> String {
    let mut text = format!("# {}\n\nSeed {}.\n\n| | |\n|---|--:|\n", header.title, header.seed);
    for (name, value) in rows(header, verdict) {
        let _ = writeln!(text, "| {name} | {value} |");
    }
    let by_kind = by_kind(&verdict.violations);
    let _ = write!(text, "\n## Violations: {}\n\n", verdict.violations.len());
    for (kind, n) in by_kind {
        let _ = writeln!(text, "- {kind:?}: {n}");
    }
    for violation in verdict.violations.iter().take(MAX_LISTED) {
        let _ = writeln!(text, "- `{violation}`");
    }
    for missed in &header.missed {
        let _ = writeln!(text, "\nMissed: {missed}");
    }
    text
}

/// Formats the result as JSON.
pub fn json(header: &ReportHeader, verdict: &Verdict) -> Value {
    let remarks: BTreeMap<&str, &str> =
        header.remarks.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    json!({
        "title": header.title,
        "seed": header.seed,
        "seconds": header.took.as_secs_f64(),
        "good": is_good(header, verdict),
        "missed": header.missed,
        "notes": remarks,
        "figures": verdict.figures.json(),
        "violations": verdict.violations,
    })
}

fn rows(header: &ReportHeader, verdict: &Verdict) -> Vec<(String, String)> {
    let took = format!("{:.1} s", header.took.as_secs_f64());
    let mut rows = vec![("time".to_owned(), took)];
    rows.extend(header.remarks.clone());
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
