use turnwire_contract::{Finish, IncompleteReason};

use super::*;
use crate::story::{Story, succeeded};

#[track_caller]
fn check(story: Story, text: &str, refusal: &str) {
    let answer = Answer::of(&story.events());
    assert_eq!((answer.text(), answer.refusal()), (text, refusal));
}

#[test]
fn the_answer_is_what_was_said_last() {
    let story = Story::new().turn().says(&["Let me ", "see."]).turn_done(Finish::CalledTools);
    let story = story.turn().says(&["It is ", "20."]).turn_done(Finish::Answered);
    check(story.ended(RunOutcome::Completed), "It is 20.", "");
}

#[test]
fn all_messages_of_the_turn_belong_to_it() {
    let story = Story::new().turn().says(&["One. "]).says(&["Two."]).turn_done(Finish::Answered);
    check(story, "One. Two.", "");
}

#[test]
fn a_turn_that_says_nothing_leaves_the_answer_alone() {
    let story = Story::new().turn().says(&["Half an answer."]).turn_done(Finish::CalledTools);
    let story = story.turn().calls("call_1", "x", "{}").turn_done(Finish::CalledTools);
    let story = story.finished("call_1", succeeded("")).turn().says(&[]);
    let reason = IncompleteReason::MaxTurns;
    check(story.ended(RunOutcome::Incomplete { reason }), "Half an answer.", "");
}

#[test]
fn cut_text_counts_and_superseded_text_does_not() {
    let cut = Story::new().turn().message().text("Half").message_done(Completeness::Cut);
    check(cut.ended(RunOutcome::Cancelled), "Half", "");
    let story = Story::new().turn().message().text("Half").message_done(Completeness::Superseded);
    check(story, "", "");
}

/// R20.
#[test]
fn an_abandoned_turn_leaves_nothing() {
    let story = Story::new().turn().says(&["Before."]).turn_done(Finish::CalledTools);
    let story = story.turn().says(&["Lost."]).then(Event::TurnAbandoned { turn: 2 });
    check(story, "Before.", "");
    let story = Story::new().turn().says(&["Lost."]).then(Event::TurnAbandoned { turn: 1 });
    check(story.turn().says(&["Found."]).ended(RunOutcome::Completed), "Found.", "");
}

#[test]
fn a_refusal_is_shown_when_there_is_nothing_else() {
    let story = Story::new().turn().says(&["Before."]).turn_done(Finish::CalledTools).turn();
    let story = story.message().refusal("I will not.").message_done(Completeness::Complete);
    let answer = Answer::of(&story.events());
    assert_eq!((answer.text(), answer.refusal()), ("", "I will not."));
    assert_eq!(answer.content(), "I will not.");
    let answer = Answer::of(&Story::new().turn().says(&["Yes."]).events());
    assert_eq!(answer.content(), "Yes.");
}

/// S4-5.
#[test]
fn the_answer_is_clean() {
    check(Story::new().turn().says(&["\u{1b}[31mred\0"]), "red", "");
    let story = Story::new().turn().message().refusal("n\0o").message_done(Completeness::Complete);
    check(story, "", "no");
}

#[test]
fn the_end_has_an_outcome_and_a_cost() {
    let answer = Answer::of(&Story::new().turn().says(&["20"]).events());
    assert_eq!((answer.outcome(), answer.usage()), (None, Usage::default()));
    let answer = Answer::of(&Story::new().ended(RunOutcome::Cancelled).events());
    assert_eq!(answer.outcome(), Some(&RunOutcome::Cancelled));
    assert_eq!((answer.usage().input_tokens, answer.usage().output_tokens), (2000, 120));
}
