//! The stable codes of everything that can go wrong, with what people are told.
//!
//! `docs/errors.md` explains each; a test compares the two. Causes go to the operator's log. The
//! one exception is a request that the provider refuses: its words say what to repair.

use turnwire_contract::{Failure, ModelError, RunOutcome};

/// Every code the engine gives.
pub const CODES: [&str; 16] = [
    "model_unavailable",
    "model_rejected",
    "model_broke_off",
    "model_silent",
    "journal_lost",
    "journal_rejected",
    "journal_unreadable",
    "tool_failed",
    "tool_panicked",
    "output_lost",
    "server_unreachable",
    "run_stopped",
    "engine_stopped",
    "engine_failed",
    "max_recoveries",
    "takeover_failed",
];

/// What a model's error is called in public.
pub(crate) fn of_model(error: &ModelError) -> Failure {
    match error {
        ModelError::Unavailable { .. } => {
            Failure::new("model_unavailable", "the model is not available right now")
        }
        ModelError::Rejected { message } => {
            Failure::new("model_rejected", format!("the model refused the request: {message}"))
        }
        ModelError::Broken { .. } => {
            Failure::new("model_broke_off", "the model's answer broke off")
        }
    }
}

pub(crate) fn model_silent() -> Failure {
    Failure::new("model_silent", "the model stopped answering")
}

pub(crate) fn journal_lost() -> Failure {
    Failure::new("journal_lost", "the run could not be recorded any further")
}

/// Whether a run was given up because it could not be recorded: its journal then has no end to
/// wait for.
pub fn is_journal_lost(outcome: &RunOutcome) -> bool {
    matches!(outcome, RunOutcome::Failed { failure } if *failure == journal_lost())
}

pub(crate) fn tool_failed(message: String) -> Failure {
    Failure::new("tool_failed", message)
}

pub(crate) fn tool_panicked(name: &str) -> Failure {
    Failure::new("tool_panicked", format!("the tool `{name}` crashed"))
}

pub(crate) fn server_unreachable(why: &str) -> Failure {
    Failure::new("server_unreachable", format!("the server did not tell its tools: {why}"))
}

/// The run ended before a server had told its tools.
pub(crate) fn run_stopped() -> Failure {
    Failure::new("run_stopped", "the run ended before the server answered")
}

pub(crate) fn output_lost() -> Failure {
    Failure::new("output_lost", "the tool worked, but its result was too big to be kept")
}

pub(crate) fn engine_stopped() -> Failure {
    Failure::new("engine_stopped", "the server was stopped before the run was over")
}

/// Too many workers have died over the run.
pub(crate) fn max_recoveries() -> Failure {
    Failure::new("max_recoveries", "the run was taken up too often without getting on")
}

/// Nobody could read the run back, again and again.
pub(crate) fn takeover_failed() -> Failure {
    Failure::new("takeover_failed", "no worker could continue the run after its worker died")
}

/// The journal does not take what happened next.
pub(crate) fn journal_rejected() -> Failure {
    Failure::new("journal_rejected", "what happened next could not be recorded")
}

pub(crate) fn engine_failed() -> Failure {
    Failure::new("engine_failed", "the run ended because of an internal error")
}
