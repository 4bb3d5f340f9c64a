//! Stable error codes and their public messages.
//!
//! `docs/errors.md` explains each code; a test compares the two. Causes go only to the operator's
//! log, because a provider's message may quote a key, a prompt or an address (A12).

use std::time::Duration;

use turnwire_contract::{Failure, FileId, ModelError, OUTCOME_UNKNOWN, RunOutcome};

/// All error codes of the engine.
pub const CODES: [&str; 27] = [
    "model_unavailable",
    "model_rate_limited",
    "model_overloaded",
    "model_misconfigured",
    "model_not_found",
    "context_length_exceeded",
    "content_filtered",
    "model_rejected",
    "model_unreadable",
    "model_broke_off",
    "model_silent",
    "journal_lost",
    "journal_rejected",
    "journal_unreadable",
    "tool_failed",
    "tool_panicked",
    OUTCOME_UNKNOWN,
    "output_lost",
    "server_unreachable",
    "run_stopped",
    "engine_stopped",
    "engine_failed",
    "max_recoveries",
    "takeover_failed",
    "file_gone",
    "files_too_large",
    "files_unavailable",
];

/// Longest wait that a client is told, whatever a provider asks for.
const MAX_TOLD_WAIT: Duration = Duration::from_hours(1);

/// Maps a model error to its public failure.
pub(crate) fn of_model(error: &ModelError) -> Failure {
    match error {
        ModelError::Unavailable { retry_after, .. } => {
            Failure::new("model_unavailable", "the model is not available right now")
                .retry_after(told(*retry_after))
        }
        ModelError::RateLimited { retry_after, .. } => {
            Failure::new("model_rate_limited", "the model's rate limit is reached")
                .retry_after(told(*retry_after))
        }
        ModelError::Overloaded { retry_after, .. } => {
            Failure::new("model_overloaded", "the model has too many requests at once")
                .retry_after(told(*retry_after))
        }
        ModelError::Misconfigured { .. } => Failure::new(
            "model_misconfigured",
            "the model is not configured correctly; see the log",
        ),
        ModelError::UnknownModel { .. } => {
            Failure::new("model_not_found", "the provider has no model with this name")
        }
        ModelError::ContextTooLong { .. } => Failure::new(
            "context_length_exceeded",
            "the conversation does not fit the context window of the model",
        ),
        ModelError::ContentFiltered { .. } => {
            Failure::new("content_filtered", "the provider's content filter blocked the request")
        }
        ModelError::Rejected { .. } => {
            Failure::new("model_rejected", "the model's provider rejected the request; see the log")
        }
        ModelError::Broken { .. } => {
            Failure::new("model_broke_off", "the model's answer ended unexpectedly")
        }
    }
}

fn told(wait: Option<Duration>) -> Option<Duration> {
    wait.map(|wait| wait.min(MAX_TOLD_WAIT))
}

/// A part of the answer could not be parsed.
pub(crate) fn model_unreadable() -> Failure {
    let message = "a part of the model's answer could not be read and was skipped";
    Failure::new("model_unreadable", message)
}

/// An input file was deleted before the model was called.
pub(crate) fn file_gone(file_id: &FileId) -> Failure {
    Failure::new("file_gone", format!("the file `{file_id}` has been deleted meanwhile"))
}

/// The files of the conversation exceed the limit of one prompt.
pub(crate) fn files_too_large(max_bytes: usize) -> Failure {
    let limit = max_bytes / 1024 / 1024;
    let message = format!("the files of this conversation exceed {limit} MiB in total");
    Failure::new("files_too_large", message)
}

/// The files of the conversation could not be read.
pub(crate) fn files_unavailable() -> Failure {
    Failure::new("files_unavailable", "the files of this conversation cannot be read right now")
}

pub(crate) fn model_silent() -> Failure {
    Failure::new("model_silent", "the model stopped answering")
}

pub(crate) fn journal_lost() -> Failure {
    Failure::new("journal_lost", "the events of the run can no longer be stored")
}

/// Returns whether the run was dropped because the journal failed. Such a journal has no end event.
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
    let message = format!("the tools of the server could not be listed: {why}");
    Failure::new("server_unreachable", message)
}

/// The run ended before a server listed its tools.
pub(crate) fn run_stopped() -> Failure {
    Failure::new("run_stopped", "the run ended before the server answered")
}

pub(crate) fn output_lost() -> Failure {
    Failure::new("output_lost", "the tool worked, but its result was too large to store")
}

pub(crate) fn engine_stopped() -> Failure {
    Failure::new("engine_stopped", "the server was stopped before the run ended")
}

/// A person had a call run again whose outcome is unknown.
pub(crate) fn run_again() -> Failure {
    Failure::new(OUTCOME_UNKNOWN, "the outcome was unknown, and a person had it run again")
}

/// Too many workers died while executing the run.
pub(crate) fn max_recoveries() -> Failure {
    Failure::new("max_recoveries", "the run was taken over too often without progress")
}

pub(crate) fn takeover_failed() -> Failure {
    Failure::new("takeover_failed", "no worker could continue the run after its worker died")
}

/// The journal rejected an event of the run.
pub(crate) fn journal_rejected() -> Failure {
    Failure::new("journal_rejected", "the next event could not be stored")
}

pub(crate) fn engine_failed() -> Failure {
    Failure::new("engine_failed", "the run ended because of an internal error")
}
