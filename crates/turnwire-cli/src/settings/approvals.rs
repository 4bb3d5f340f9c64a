//! `[approvals]`: which calls need approval, and for how long requests stay open.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Table;
use turnwire_contract::{Effect, UnknownOutcomes};

use super::{
    file::read_table,
    schema::words_of,
    tool_servers::{NEVER, WHEN, always_or_never, seconds},
    words::meaning_of,
};

/// The model is told that an outcome is unknown.
const TELL: &str = "tell";
const OUTCOMES: [(&str, UnknownOutcomes); 2] =
    [(TELL, UnknownOutcomes::Tell), ("ask", UnknownOutcomes::Ask)];

/// Which calls need approval, by the effect class of the tool: `"always"` or `"never"`. See
/// approvals.md.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawApprovals {
    /// Calls without side effects
    #[schemars(extend("enum" = WHEN, "default" = NEVER))]
    pure: Option<String>,
    /// Calls that may be repeated
    #[schemars(extend("enum" = WHEN, "default" = NEVER))]
    idempotent: Option<String>,
    /// Calls that must not happen twice
    #[schemars(extend("enum" = WHEN, "default" = NEVER))]
    once: Option<String>,
    /// After how long an unanswered approval request is denied
    #[schemars(extend("exclusiveMinimum" = 0))]
    expire_after_sec: Option<f64>,
    /// Whether a tool whose definition changes needs approval
    #[schemars(extend("default" = ApprovalSettings::default().pin_definitions))]
    pin_definitions: Option<bool>,
    /// `"ask"`: a person settles a call whose outcome is unknown; `"tell"`: the model is told that
    /// it is unknown
    #[schemars(extend("enum" = words_of(&OUTCOMES), "default" = TELL))]
    unknown_outcomes: Option<String>,
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
    let raw: RawApprovals = read_table("approvals", table, mistakes);
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
    let Some(word) = word else { return UnknownOutcomes::Tell };
    let meaning =
        meaning_of("approvals.unknown_outcomes", "there is no", word, &OUTCOMES, mistakes);
    meaning.unwrap_or(UnknownOutcomes::Ask)
}

#[cfg(test)]
#[path = "approvals_tests.rs"]
mod tests;
