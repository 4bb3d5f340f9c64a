//! The report, as text and as JSON.

use serde::Serialize;
use turnwire_surfaces::{clean, wire_json};

use crate::{
    exit::Problem,
    terminal::{Colour, Paint},
};

/// Status of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Health {
    Ok,
    /// Works, but may not be intended.
    Warning,
    Broken,
}

/// A finding about one part of the settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) subject: String,
    pub(super) status: Health,
    pub(super) message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) hints: Vec<String>,
}

impl Finding {
    pub(super) fn ok(subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(subject, Health::Ok, message)
    }

    pub(super) fn warning(subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(subject, Health::Warning, message)
    }

    pub(super) fn broken(subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(subject, Health::Broken, message)
    }

    fn new(subject: impl Into<String>, status: Health, message: impl Into<String>) -> Self {
        Self { subject: subject.into(), status, message: message.into(), hints: Vec::new() }
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Creates a finding with all errors in the settings.
    pub(super) fn of_settings(problem: &Problem) -> Self {
        let details = problem.details.iter().map(|detail| format!("\n{detail}"));
        let message = [problem.message.clone()].into_iter().chain(details).collect::<String>();
        Self { hints: problem.hints.clone(), ..Self::broken("settings", message) }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Report(pub(super) Vec<Finding>);

impl Report {
    pub(super) fn is_well(&self) -> bool {
        self.0.iter().all(|finding| finding.status != Health::Broken)
    }

    pub(super) fn as_json(&self) -> String {
        wire_json(&serde_json::json!({ "ok": self.is_well(), "checks": self.0 }))
    }

    pub(super) fn as_text(&self, paint: Paint) -> String {
        let widest = self.0.iter().map(|finding| finding.subject.chars().count()).max();
        let widest = widest.unwrap_or_default();
        let mut lines = Vec::new();
        for Finding { subject, status, message, hints } in &self.0 {
            let status = match status {
                Health::Ok => paint.colour(Colour::Green, "ok      "),
                Health::Warning => paint.colour(Colour::Yellow, "warning "),
                Health::Broken => paint.bold(Colour::Red, "broken  "),
            };
            // A message may quote a provider or a file, which may contain escape sequences.
            let mut message = message.lines().map(|line| clean(line).into_owned());
            let first = message.next().unwrap_or_default();
            lines.push(format!("{status} {:widest$}  {first}", clean(subject)));
            let more = message.map(|line| format!("{:indent$}{line}", "", indent = widest + 11));
            lines.extend(more);
            for hint in hints {
                let hint = format!("{} {}", paint.bold(Colour::Cyan, "hint:"), clean(hint));
                lines.push(format!("{:indent$}{hint}", "", indent = widest + 11));
            }
        }
        let n_broken = self.0.iter().filter(|finding| finding.status == Health::Broken).count();
        lines.push(match n_broken {
            0 => "nothing is broken".to_owned(),
            1 => "1 thing is broken".to_owned(),
            more => format!("{more} things are broken"),
        });
        lines.join("\n")
    }
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
