//! `[audit]`: what is recorded of who did what, and for how long.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Table;
use turnwire_gateway::AuditLevel;

use super::{file::read_table, schema::words_of, words::did_you_mean};

const DAY: Duration = Duration::from_hours(24);
const LEVELS: [(&str, AuditLevel); 3] =
    [("none", AuditLevel::None), ("changes", AuditLevel::Changes), ("reads", AuditLevel::Reads)];

/// The name of the default.
fn usual_level() -> Option<&'static str> {
    let usual = AuditLevel::default();
    LEVELS.iter().find(|(_, level)| *level == usual).map(|(name, _)| *name)
}

/// What is recorded of who did what (audit.md).
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawAudit {
    /// `"none"`, `"changes"`, or `"reads"`: what is read, too
    #[schemars(extend("enum" = words_of(&LEVELS), "default" = usual_level()))]
    record: Option<String>,
    /// How long entries are stored; 0: for ever
    #[schemars(extend("default" = 0))]
    retention_days: Option<u32>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct AuditSection {
    pub(super) level: AuditLevel,
    /// How long entries are stored. `None` means forever.
    pub(super) retention: Option<Duration>,
}

impl AuditSection {
    pub(super) fn read(table: Table, mistakes: &mut Vec<String>) -> Self {
        let raw: RawAudit = read_table("audit", table, mistakes);
        let level = raw.record.map(|word| {
            if let Some((_, level)) = LEVELS.iter().find(|(name, _)| *name == word) {
                return *level;
            }
            let names = LEVELS.map(|(name, _)| name);
            mistakes.push(format!("audit.record: `{word}`: {}", did_you_mean(&word, &names)));
            AuditLevel::default()
        });
        // 0 is for ever, as for runs.
        let retention = raw.retention_days.filter(|days| *days > 0).map(|days| DAY * days);
        Self { level: level.unwrap_or_default(), retention }
    }
}

#[cfg(test)]
#[path = "audit_tests.rs"]
mod tests;
