//! `[approvals]`: what people are asked about, for all tools alike, and how long they may take.

use std::time::Duration;

use serde::Deserialize;
use toml::Table;
use turnwire_contract::Effect;

use super::{
    file::{RawTable, read_table},
    tool_servers::{always_or_never, seconds},
};

/// The section as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawApprovals {
    pure: Option<String>,
    idempotent: Option<String>,
    once: Option<String>,
    expire_after_sec: Option<f64>,
    pin_definitions: Option<bool>,
}

impl RawTable for RawApprovals {
    const KEYS: &'static [&'static str] =
        &["pure", "idempotent", "once", "expire_after_sec", "pin_definitions"];
}

/// What people are asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApprovalSettings {
    /// The effects whose tools need a person's permission for each call.
    pub(crate) ask_before: Vec<Effect>,
    /// How long a person may take; for ever if not set.
    pub(crate) expire_after: Option<Duration>,
    /// Whether a tool of a server that changes is not called before a person has allowed it.
    pub(crate) pin_definitions: bool,
}

impl Default for ApprovalSettings {
    fn default() -> Self {
        Self { ask_before: Vec::new(), expire_after: None, pin_definitions: true }
    }
}

pub(super) fn approvals(table: Table, mistakes: &mut Vec<String>) -> ApprovalSettings {
    let raw: RawApprovals = read_table("approvals.", table, mistakes);
    let by_effect = [
        ("pure", raw.pure, Effect::Pure),
        ("idempotent", raw.idempotent, Effect::Idempotent),
        ("once", raw.once, Effect::Once),
    ];
    let mut ask_before = Vec::new();
    for (name, word, effect) in by_effect {
        let Some(word) = word else { continue };
        if always_or_never(&format!("approvals.{name}"), &word, mistakes) {
            ask_before.push(effect);
        }
    }
    let expire_after = seconds("approvals", "expire_after_sec", raw.expire_after_sec, mistakes);
    ApprovalSettings {
        ask_before,
        expire_after,
        pin_definitions: raw.pin_definitions != Some(false),
    }
}

#[cfg(test)]
#[path = "approvals_tests.rs"]
mod tests;
