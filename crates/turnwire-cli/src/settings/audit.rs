//! `[audit]`: what is recorded of who did what, and for how long.

use std::time::Duration;

use serde::Deserialize;
use toml::Table;
use turnwire_gateway::AuditLevel;

use super::{
    file::{RawTable, read_table},
    words::did_you_mean,
};

const DAY: Duration = Duration::from_hours(24);
const LEVELS: [(&str, AuditLevel); 3] =
    [("none", AuditLevel::None), ("changes", AuditLevel::Changes), ("reads", AuditLevel::Reads)];

/// The section as written in the file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawAudit {
    record: Option<String>,
    retention_days: Option<u32>,
}

impl RawTable for RawAudit {
    const KEYS: &'static [&'static str] = &["record", "retention_days"];
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct AuditSection {
    pub(super) level: AuditLevel,
    /// How long entries are stored. `None` means forever.
    pub(super) retention: Option<Duration>,
}

impl AuditSection {
    pub(super) fn read(table: Table, mistakes: &mut Vec<String>) -> Self {
        let raw: RawAudit = read_table("audit.", table, mistakes);
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
