use serde_json::json;
use turnwire_contract::Failure;

use super::*;

#[test]
fn the_word_is_what_goes_over_the_wire() {
    for state in CallState::ALL {
        assert_eq!(serde_json::to_value(state).unwrap(), json!(state.to_string()));
    }
    let words: Vec<&str> = CallState::ALL.map(CallState::as_str).into();
    assert_eq!(
        words.join(", "),
        "preparing, needs approval, needs input, running, done, failed, denied, stopped, timed out, unknown"
    );
}

#[test]
fn four_kinds_of_endings_have_different_words() {
    let text = String::new;
    let endings = [
        (crate::story::succeeded(""), CallState::Done),
        (ToolOutcome::Failed { failure: Failure::new("tool_failed", "") }, CallState::Failed),
        (ToolOutcome::InvalidArguments { message: text() }, CallState::Failed),
        (ToolOutcome::NotFound { message: text() }, CallState::Failed),
        (ToolOutcome::TimedOut { after_ms: 1 }, CallState::TimedOut),
        (ToolOutcome::Cancelled, CallState::Stopped),
        (ToolOutcome::Skipped { reason: text() }, CallState::Stopped),
        (ToolOutcome::Denied { reason: text() }, CallState::Denied),
        (ToolOutcome::OutcomeUnknown { message: text() }, CallState::Unknown),
    ];
    for (outcome, state) in endings {
        assert_eq!(CallState::at_end(&outcome), state, "{outcome:?}");
    }
}
