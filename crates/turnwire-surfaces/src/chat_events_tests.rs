use expect_test::{Expect, expect};
use turnwire_contract::{Completeness, Failure, Finish, IncompleteReason, RunRequest};

use super::*;
use crate::story::{Story, failed, request, succeeded};

#[track_caller]
fn check(story: Story, expected: Expect) {
    let frames = story.seen_by(&mut ChatEvents::new());
    let lines: Vec<String> =
        frames.iter().map(|frame| format!("{} {}", frame.event_type(), frame.data())).collect();
    expected.assert_eq(&lines.join("\n"));
}

/// S3-3, S3-4, S3-5.
#[test]
fn a_tool_shows_before_and_after_and_the_answer_comes_once() {
    let conversation_id = Some(ConversationId::new("conv_1"));
    let story = Story::of(RunRequest { conversation_id, ..request() });
    let story = story
        .turn()
        .says(&["Let me see."])
        .calls("call_1", "multiply", r#"{"a":5,"b":4}"#)
        .turn_done(Finish::CalledTools)
        .started("call_1")
        .started_with("call_1", 2, "")
        .finished("call_1", succeeded("20"))
        .finished("call_1", failed("late"))
        .turn()
        .says(&["It is ", "20."])
        .turn_done(Finish::Answered)
        .ended(RunOutcome::Completed);
    check(
        story,
        expect![[r#"
        tool_call {"tool":"multiply","args":{"a":5,"b":4}}
        tool_result {"tool":"multiply","success":true}
        response {"content":"It is 20."}
        done {"conversation_id":"conv_1"}"#]],
    );
}

/// S3-4.
#[test]
fn a_failed_tool_says_so() {
    let story = Story::new().turn().calls("call_1", "x", "").started("call_1");
    check(
        story.finished("call_1", failed("no")),
        expect![[r#"
        tool_call {"tool":"x","args":{}}
        tool_result {"tool":"x","success":false}"#]],
    );
}

/// S3-3.
#[test]
fn a_call_that_never_started_is_shown_all_the_same() {
    let outcome = turnwire_contract::ToolOutcome::NotFound { message: String::new() };
    let story = Story::new().turn().calls("call_1", "x", "{a").finished("call_1", outcome);
    check(
        story,
        expect![[r#"
        tool_call {"tool":"x","args":{"invalid_arguments":"{a"}}
        tool_result {"tool":"x","success":false}"#]],
    );
}

#[test]
fn a_call_nobody_announced_is_not_shown() {
    let story = Story::new().turn().started("call_1").finished("call_1", succeeded("1"));
    check(story, expect![""]);
}

/// S3-5.
#[test]
fn a_run_that_stopped_at_a_limit_has_a_response() {
    let story = Story::new().turn().message().text("Half").message_done(Completeness::Cut);
    let reason = IncompleteReason::MaxOutputTokens;
    check(
        story.ended(RunOutcome::Incomplete { reason }),
        expect![[r#"
        response {"content":"Half"}
        done {"conversation_id":null}"#]],
    );
}

/// S3-5.
#[test]
fn a_refusal_is_a_response() {
    let story = Story::new().turn().message().refusal("No.").message_done(Completeness::Complete);
    check(
        story.ended(RunOutcome::Completed),
        expect![[r#"
        response {"content":"No."}
        done {"conversation_id":null}"#]],
    );
}

/// S3-6, S3-13.
#[test]
fn a_failed_run_has_an_error_and_then_the_end() {
    let failure = Failure::new("model_unavailable", "the model is not available");
    let story = Story::new().turn().says(&["Half"]).ended(RunOutcome::Failed { failure });
    check(
        story,
        expect![[r#"
        error {"error":"the model is not available"}
        done {"conversation_id":null}"#]],
    );
}

/// S3-6, S3-7.
#[test]
fn a_cancelled_run_has_an_error_and_then_the_end() {
    check(
        Story::new().turn().ended(RunOutcome::Cancelled),
        expect![[r#"
        error {"error":"cancelled"}
        done {"conversation_id":null}"#]],
    );
}
