//! `[approvals]`: which calls need approval, and for how long requests stay open.

use std::time::Duration;

use serde::Deserialize;
use toml::Table;
use turnwire_contract::{Effect, UnknownOutcomes};

use super::{
    file::{RawTable, read_table},
    tool_servers::{always_or_never, seconds},
    words::did_you_mean,
};

/// The section as written in the file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawApprovals {
    pure: Option<String>,
    idempotent: Option<String>,
    once: Option<String>,
    expire_after_sec: Option<f64>,
    pin_definitions: Option<bool>,
    unknown_outcomes: Option<String>,
}

impl RawTable for RawApprovals {
    const KEYS: &'static [&'static str] =
        &["pure", "idempotent", "once", "expire_after_sec", "pin_definitions", "unknown_outcomes"];
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApprovalSettings {
    /// Effect classes whose tools need approval for each call.
    pub(crate) ask_before: Vec<Effect>,
    /// Time after which an unanswered request is denied; never if not set.
    pub(crate) expire_after: Option<Duration>,
    /// Whether a tool with a changed definition needs approval.
    pub(crate) pin_definitions: bool,
    /// How to handle calls whose outcome is unknown.
    pub(crate) unknown_outcomes: UnknownOutcomes,
}

impl Default for ApprovalSettings {
    fn default() -> Self {
        Self {
            ask_before: Vec::new(),
            expire_after: None,
            pin_definitions: true,
            unknown_outcomes: UnknownOutcomes::Tell,
        }
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
        unknown_outcomes: unknown_outcomes(raw.unknown_outcomes.as_deref(), mistakes),
    }
}

/// Reads `unknown_outcomes`. Asking is the careful reading of an unknown word.
fn unknown_outcomes(word: Option<&str>, mistakes: &mut Vec<String>) -> UnknownOutcomes {
    match word {
        None | Some("tell") => UnknownOutcomes::Tell,
        Some("ask") => UnknownOutcomes::Ask,
        Some(other) => {
            let hint = did_you_mean(other, &["tell", "ask"]);
            mistakes.push(format!("approvals.unknown_outcomes: there is no `{other}`; {hint}"));
            UnknownOutcomes::Ask
        }
    }
}

#[cfg(test)]
#[path = "approvals_tests.rs"]
mod tests;
