//! Retry delays, and which model errors are retried.

use std::time::Duration;

use turnwire_contract::ModelError;

const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Maximum `Retry-After` of a provider. A longer one ends the run, and the client receives it.
const MAX_ASKED_WAIT: Duration = Duration::from_mins(1);

/// Returns the delay before attempt `attempt` (2 is the first retry).
pub(crate) fn wait_before(attempt: u32, asked_for: Option<Duration>) -> Duration {
    let doublings = attempt.saturating_sub(2).min(16);
    let usual = FIRST_WAIT.saturating_mul(1 << doublings);
    asked_for.unwrap_or(usual.min(LONGEST_WAIT)).min(MAX_ASKED_WAIT)
}

/// Returns whether a retry may succeed.
pub(crate) fn is_retryable(error: &ModelError) -> bool {
    match error {
        ModelError::Unavailable { retry_after, .. }
        | ModelError::RateLimited { retry_after, .. } => {
            retry_after.is_none_or(|wait| wait <= MAX_ASKED_WAIT)
        }
        ModelError::Broken { .. } => true,
        ModelError::Overloaded { .. }
        | ModelError::Misconfigured { .. }
        | ModelError::UnknownModel { .. }
        | ModelError::ContextTooLong { .. }
        | ModelError::ContentFiltered { .. }
        | ModelError::Rejected { .. } => false,
    }
}

/// Returns the delay requested by the provider.
pub(crate) fn retry_after(error: &ModelError) -> Option<Duration> {
    match error {
        ModelError::Unavailable { retry_after, .. }
        | ModelError::RateLimited { retry_after, .. }
        | ModelError::Overloaded { retry_after, .. } => *retry_after,
        ModelError::Misconfigured { .. }
        | ModelError::UnknownModel { .. }
        | ModelError::ContextTooLong { .. }
        | ModelError::ContentFiltered { .. }
        | ModelError::Rejected { .. }
        | ModelError::Broken { .. } => None,
    }
}
