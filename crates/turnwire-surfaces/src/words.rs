//! Texts about running and ended tools, the same on every surface.
//!
//! The state names are: preparing, needs approval, needs input, running, done, failed, denied,
//! stopped, timed out, unknown.

use turnwire_contract::{
    BudgetScope, BudgetUse, Decision, Event, Failure, Reply, RunOutcome, Timestamp, ToolOutcome,
};

use crate::{
    calls::Call,
    preview::{result_summary, shortened},
};

/// The note on a call whose arguments are being generated.
pub const PREPARING: &str = "preparing";
/// The note on a call that waits for an approval.
pub const NEEDS_APPROVAL: &str = "needs approval";
/// The note on a call whose tool waits for the user.
pub const NEEDS_INPUT: &str = "needs input";
/// Maximum length of a note or an outcome, in characters.
const NOTE_CHARS: usize = 100;

/// What `call` is doing after `event`, in short form; `None` for events that do not change it.
#[expect(clippy::wildcard_enum_match_arm, reason = "callers have matched every event")]
pub fn tool_note(call: &Call, event: &Event, at: Timestamp) -> Option<String> {
    let note = match event {
        Event::CallAnnounced { .. } => PREPARING.to_owned(),
        Event::ApprovalRequested { budget: Some(budget), .. } => {
            format!("{NEEDS_APPROVAL}: {}", budget_question(budget))
        }
        Event::ApprovalRequested { .. } => NEEDS_APPROVAL.to_owned(),
        Event::ApprovalResolved { decision: Decision::Approved, arguments: Some(_), .. } => {
            "approved with other arguments".to_owned()
        }
        Event::ApprovalResolved { decision: Decision::Approved, .. } => "approved".to_owned(),
        Event::ApprovalResolved { decision: Decision::Denied { .. }, .. } => "denied".to_owned(),
        Event::ToolStarted { attempt: 1, .. } => "running".to_owned(),
        Event::ToolStarted { attempt, .. } => format!("started again (attempt {attempt})"),
        Event::ToolPhase { phase, .. } => phase.clone(),
        Event::ToolProgressed { progress, total, message, .. } => {
            progress_words(*progress, *total, message.as_deref())
        }
        Event::ToolOutputAdded { text, .. } => last_line(text)?.to_owned(),
        Event::InputRequested { message, .. } => format!("{NEEDS_INPUT}: {message}"),
        Event::InputResolved { reply: Reply::Accepted { .. }, .. } => "input given".to_owned(),
        Event::InputResolved { reply: Reply::Declined, .. } => "input declined".to_owned(),
        Event::InputResolved { reply: Reply::Cancelled, .. } => "no input given".to_owned(),
        Event::ToolStayedSilent { elapsed_ms, .. } => {
            format!("no update for {}", seconds(call.silent_ms(*elapsed_ms, at)))
        }
        Event::ToolRetried { attempt, reason, .. } => {
            format!("trying again (attempt {attempt}): {}", reason.message)
        }
        _ => return None,
    };
    Some(shortened(&note, NOTE_CHARS))
}

/// The question whether a run may use more of a budget.
pub fn budget_question(budget: &BudgetUse) -> String {
    let (who, time) = match budget.scope {
        BudgetScope::Run => ("run", ""),
        BudgetScope::Key => ("key", " for this month"),
        BudgetScope::Tenant => ("tenant", " for this month"),
    };
    let used = amount(budget.used_nanos);
    let Some(max) = budget.max_nanos else {
        let ask = amount(budget.ask_nanos);
        return format!("The {who} has used {used}{time} and asks from {ask} on. Continue?");
    };
    format!("The {who} has used {used} of its budget of {}{time}. Continue?", amount(max))
}

/// An amount of money with two decimals, or as many more as a small one needs.
fn amount(nanos: u64) -> String {
    let (whole, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    let n_decimals = match nanos {
        1_000_000_000.. => 2,
        1_000_000.. => 4,
        _ => 9,
    };
    let decimals = format!("{rest:09}");
    let decimals = decimals.get(..n_decimals).unwrap_or(&decimals);
    let needed = decimals.trim_end_matches('0').len().max(2);
    format!("{whole}.{}", decimals.get(..needed).unwrap_or(decimals))
}

/// How a call ended, on one line: the tool's own short text or the beginning of its result, or the
/// error.
pub fn call_outcome(outcome: &ToolOutcome) -> String {
    let words = match outcome {
        ToolOutcome::Succeeded { output } => match &output.short {
            Some(short) if !short.is_empty() => short.clone(),
            _ => return result_summary(outcome),
        },
        ToolOutcome::Failed { failure: Failure { message, .. } }
        | ToolOutcome::NotFound { message } => format!("failed: {message}"),
        ToolOutcome::InvalidArguments { message } => {
            format!("failed: invalid arguments: {message}")
        }
        ToolOutcome::TimedOut { .. } => outcome.problem().unwrap_or_default(),
        ToolOutcome::Cancelled => "stopped".to_owned(),
        ToolOutcome::Denied { reason } => with_reason("denied", reason),
        ToolOutcome::Skipped { reason } => with_reason("stopped", reason),
        ToolOutcome::OutcomeUnknown { message } => with_reason("outcome unknown", message),
    };
    shortened(&words, NOTE_CHARS)
}

/// How a run ended, in short form.
pub fn run_outcome(outcome: &RunOutcome) -> String {
    match outcome {
        RunOutcome::Completed => "done".to_owned(),
        RunOutcome::Incomplete { reason } => {
            use turnwire_contract::IncompleteReason as Reason;
            let limit = match reason {
                Reason::MaxOutputTokens => "the answer was cut at its greatest length",
                Reason::MaxOutputBytes => "the model said as much as allowed",
                Reason::MaxTurns => "the model was asked as often as allowed",
                Reason::MaxCost => "its budget allows no more",
                Reason::InsufficientQuota => "the budget of the month allows no more",
                Reason::MaxToolCalls => "as many tools were called as allowed",
                Reason::TimeLimit => "the time was up",
                Reason::RepeatedCall => "the same call came again and again",
                Reason::ContentFilter => "the provider withheld the answer",
            };
            format!("incomplete: {limit}")
        }
        RunOutcome::Failed { failure } => shortened(&format!("failed: {}", failure.message), 200),
        RunOutcome::Cancelled => "stopped".to_owned(),
    }
}

/// `15s`, `1.5s`: whole seconds without a fraction, others with one digit.
pub fn seconds(ms: u64) -> String {
    match (ms / 1000, ms % 1000 / 100) {
        (whole, 0) => format!("{whole}s"),
        (whole, tenths) => format!("{whole}.{tenths}s"),
    }
}

/// `0.0s`, `5.8s`: always with one digit, so that columns are aligned.
pub fn seconds_with_tenths(ms: u64) -> String {
    format!("{}.{}s", ms / 1000, ms % 1000 / 100)
}

/// `512 tokens`, `2.1k tokens`, `1.3M tokens`.
pub fn tokens(n_tokens: u64) -> String {
    let scaled = |unit: u64, letter: char| {
        let (whole, tenths) = (n_tokens / unit, n_tokens % unit * 10 / unit);
        format!("{whole}.{tenths}{letter} tokens")
    };
    match n_tokens {
        1 => "1 token".to_owned(),
        0..1_000 => format!("{n_tokens} tokens"),
        1_000..1_000_000 => scaled(1_000, 'k'),
        1_000_000.. => scaled(1_000_000, 'M'),
    }
}

fn progress_words(progress: f64, total: Option<f64>, message: Option<&str>) -> String {
    let how_far = match total {
        Some(total) if is_countable(progress) && is_countable(total) => {
            format!("{progress:.0}/{total:.0}")
        }
        Some(total) if total > 0.0 => format!("{:.0}%", progress / total * 100.0),
        Some(_) | None => format!("{progress}"),
    };
    match message {
        Some(message) if !message.is_empty() => format!("{how_far} {message}"),
        Some(_) | None => how_far,
    }
}

/// Whether an amount is shown as a count: `3/5` says more than `60%`, `131072/4000000` less.
fn is_countable(amount: f64) -> bool {
    amount.fract() == 0.0 && (0.0..1_000.0).contains(&amount)
}

fn last_line(text: &str) -> Option<&str> {
    text.lines().rev().find(|line| !line.trim().is_empty())
}

fn with_reason(word: &str, reason: &str) -> String {
    if reason.is_empty() { word.to_owned() } else { format!("{word}: {reason}") }
}

#[cfg(test)]
#[path = "words_tests.rs"]
mod tests;
