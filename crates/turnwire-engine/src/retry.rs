//! When to try again: how long to wait, and for which failures of a model.

use std::time::Duration;

use turnwire_contract::ModelError;

const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// How long a provider may ask us to wait. Whoever asks for more is not asked again: the client is
/// told when to come back.
const MAX_ASKED_WAIT: Duration = Duration::from_mins(1);

/// How long to wait before try number `attempt` (2 for the second one).
pub(crate) fn wait_before(attempt: u32, asked_for: Option<Duration>) -> Duration {
    let doublings = attempt.saturating_sub(2).min(16);
    let usual = FIRST_WAIT.saturating_mul(1 << doublings);
    asked_for.unwrap_or(usual.min(LONGEST_WAIT)).min(MAX_ASKED_WAIT)
}

/// Whether asking the model again may bring another answer.
pub(crate) fn may_work_next_time(error: &ModelError) -> bool {
    match error {
        ModelError::Unavailable { retry_after, .. }
        | ModelError::RateLimited { retry_after, .. } => {
            retry_after.is_none_or(|wait| wait <= MAX_ASKED_WAIT)
        }
        ModelError::Broken { .. } => true,
        ModelError::Misconfigured { .. }
        | ModelError::UnknownModel { .. }
        | ModelError::ContextTooLong { .. }
        | ModelError::ContentFiltered { .. }
        | ModelError::Rejected { .. } => false,
    }
}

/// How long the model asked us to wait.
pub(crate) fn asked_wait(error: &ModelError) -> Option<Duration> {
    match error {
        ModelError::Unavailable { retry_after, .. }
        | ModelError::RateLimited { retry_after, .. } => *retry_after,
        ModelError::Misconfigured { .. }
        | ModelError::UnknownModel { .. }
        | ModelError::ContextTooLong { .. }
        | ModelError::ContentFiltered { .. }
        | ModelError::Rejected { .. }
        | ModelError::Broken { .. } => None,
    }
}
