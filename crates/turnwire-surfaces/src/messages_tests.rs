use expect_test::{Expect, expect};
use turnwire_contract::{
    Content, Failure, Image, IncompleteReason, ToolKind, ToolOutput, ToolRef, ToolSpec,
};

use super::*;
use crate::story::{Story, check_that_size_does_not_matter, failed, request, succeeded};

/// One line per frame, tool frames with all that changed.
fn lines(story: Story) -> (Messages, Vec<String>) {
    let mut messages = Messages::new();
    let mut lines = Vec::new();
    for recorded in story.events() {
        for frame in messages.project(&recorded) {
            lines.push(line(&messages, &frame));
        }
    }
    (messages, lines)
}

fn line(messages: &Messages, frame: &MessageFrame) -> String {
    match frame {
        MessageFrame::AssistantMessageAdded { message } => format!("added {message}"),
        MessageFrame::ContentUpdated { message, chunk } => {
            format!("content {message} {chunk:?} {:?}", messages.accumulated(*message))
        }
        MessageFrame::MessagesChanged { structural: true } => "changed!".to_owned(),
        MessageFrame::MessagesChanged { structural: false } => "changed".to_owned(),
        MessageFrame::ToolBlockUpdated { .. } => {
            let update = messages.update(frame).expect("a tool frame");
            let chunk = update.parameters_chunk.map(|chunk| format!(" +{chunk}"));
            let label = update.compact_params.map(|label| format!(" ({label})"));
            let result = update.short_result.map(|short| format!(" = {short}"));
            format!(
                "{} {} {} {}{}{}{}",
                update.message,
                update.id,
                update.stage.as_str(),
                update.parameters,
                chunk.unwrap_or_default(),
                label.unwrap_or_default(),
                result.unwrap_or_default(),
            )
        }
    }
}

#[track_caller]
fn check(story: Story, expected: Expect) -> Messages {
    let (messages, mut lines) = lines(story);
    assert_eq!(lines.remove(0), "changed!", "the input is in the list");
    expected.assert_eq(&lines.join("\n"));
    messages
}

fn call_id() -> CallId {
    CallId::from("call_1")
}

fn block(messages: &Messages) -> &ToolBlock {
    &messages.messages().last().expect("a message").tool_blocks[0]
}

/// S4-1, S4-3, S4-13.
#[test]
fn content_grows_in_a_slot_that_is_there_already() {
    let story = Story::new().turn().says(&["Hel", "lo"]).turn_done(Finish::Answered);
    let messages = check(
        story.ended(RunOutcome::Completed),
        expect![[r#"
        added 1
        changed!
        content 1 "Hel" "Hel"
        changed
        content 1 "lo" "Hello"
        changed
        changed!
        changed!"#]],
    );
    let [asked, answered] = messages.messages() else { panic!("two messages") };
    assert_eq!((asked.id.as_str(), asked.role), ("input_1", Role::User));
    assert_eq!(
        (asked.content.as_str(), asked.state),
        ("What is 5 times 4?", MessageState::Complete)
    );
    assert_eq!((answered.id.as_str(), answered.role), ("msg_1", Role::Assistant));
    assert_eq!((answered.content.as_str(), answered.state), ("Hello", MessageState::Complete));
    assert_eq!(messages.accumulated(7), "");
}

/// S4-3.
#[test]
fn what_was_asked_is_in_the_list() {
    let mut asked = request();
    let image = Content::image("data:");
    let refusal = Content::Refusal { text: "no".to_owned() };
    asked.input = vec![
        Item::Message { role: Role::System, content: vec![Content::text("Be brief."), image] },
        Item::Reasoning { text: "hm".to_owned(), encrypted_content: None },
        Item::Message { role: Role::Assistant, content: vec![Content::text("yes "), refusal] },
    ];
    let (messages, _) = lines(Story::of(asked));
    let seen: Vec<_> =
        messages.messages().iter().map(|m| (m.id.as_str(), m.role, m.content.as_str())).collect();
    let expected = [("input_1", Role::System, "Be brief."), ("input_2", Role::Assistant, "yes no")];
    assert_eq!(seen, expected);
    let mut nothing = request();
    nothing.input.clear();
    assert_eq!(lines(Story::of(nothing)).1, Vec::<String>::new());
}

/// S4-13: once per model call, before its first content or tool event.
#[test]
fn each_turn_is_one_message() {
    let reason = Failure::new("away", "away");
    let story = Story::new()
        .turn()
        .then(Event::TurnRetried { turn: 1, attempt: 2, reason, delay_ms: 1 })
        .announced("call_1", "x")
        .turn_done(Finish::CalledTools)
        .turn()
        .says(&["a"])
        .says(&["b"]);
    let messages = check(
        story,
        expect![[r#"
        added 1
        changed!
        1 call_1 start 
        changed!
        changed!
        added 2
        changed!
        content 2 "a" "a"
        changed
        content 2 "b" "ab"
        changed"#]],
    );
    let ids: Vec<&str> = messages.messages().iter().map(|message| message.id.as_str()).collect();
    assert_eq!(ids, ["input_1", "fc_call_1", "msg_1"]);
}

/// S4-7, S4-8, S4-9, S4-10: S4-6 to S4-11: the life of a call.
#[test]
fn a_call_has_four_stages() {
    let story = Story::new()
        .turn()
        .announced("call_1", "search")
        .writes("call_1", r#"{"query": "ru"#)
        .writes("call_1", r#"st"}"#)
        .written("call_1", r#"{"query": "rust"}"#)
        .started_with("call_1", 1, "for rust")
        .then(Event::ToolStayedSilent { call_id: call_id(), elapsed_ms: 15_000 })
        .finished_after("call_1", succeeded("6\nresults"), 1_500)
        .finished("call_1", failed("late"))
        .writes("call_1", "late")
        .written("call_1", "late")
        .then(Event::ToolPhase { call_id: call_id(), phase: "late".to_owned() });
    let messages = check(
        story,
        expect![[r#"
        added 1
        changed!
        1 call_1 start 
        changed!
        1 call_1 streaming {"query": "ru +{"query": "ru (ru)
        changed
        1 call_1 streaming {"query": "rust"} +st"} (rust)
        changed
        1 call_1 running {"query": "rust"} (for rust)
        changed
        1 call_1 running {"query": "rust"} (for rust)
        changed
        1 call_1 end {"query": "rust"} (for rust) = 6 results
        changed!"#]],
    );
    let block = block(&messages);
    assert_eq!((block.id.as_str(), block.tool.name.as_str()), ("call_1", "search"));
    assert_eq!((block.result.as_deref(), block.success), (Some("6\nresults"), Some(true)));
    assert_eq!((block.error.as_deref(), block.duration_ms), (None, 1_500));
    assert_eq!(block.note, "no update for 15s");
}

/// S4-9.
#[test]
fn everything_a_tool_says_is_running() {
    let id = call_id;
    let reason = Failure::new("away", "away");
    let (progress, total, message) = (1.0, Some(2.0), None);
    for (event, note) in [
        (Event::approval_requested(id()), "needs approval"),
        (Event::ToolPhase { call_id: id(), phase: "searching".to_owned() }, "searching"),
        (Event::ToolProgressed { call_id: id(), progress, total, message }, "1/2"),
        (Event::ToolOutputAdded { call_id: id(), text: "ou\0t".to_owned() }, "out"),
        (Event::ToolOutputAdded { call_id: id(), text: "\n".to_owned() }, ""),
        (Event::ToolStayedSilent { call_id: id(), elapsed_ms: 1_000 }, "no update for 1s"),
        (
            Event::ToolRetried { call_id: id(), attempt: 2, reason },
            "trying again (attempt 2): away",
        ),
    ] {
        let mut messages = Messages::new();
        let story = Story::new().turn().calls("call_1", "x", r#"{"a":1}"#).then(event);
        let frames = story.last_seen_by(&mut messages);
        assert_eq!(frames, [updated((1, 0), Stage::Running, None), changed(false)]);
        assert_eq!(block(&messages).note, note);
        assert_eq!(block(&messages).compact_params, "a=1");
    }
}

#[test]
fn what_a_tool_lets_out_is_gathered_clean() {
    let out = |text: &str| Event::ToolOutputAdded { call_id: call_id(), text: text.to_owned() };
    let story = Story::new().turn().calls("call_1", "x", "{}").started("call_1");
    let (messages, _) = lines(story.then(out("one\n")).then(out("\u{1b}[31mtwo")));
    assert_eq!(block(&messages).output, "one\ntwo");
}

/// S4-8: The arguments are closed once a tool has started.
#[test]
fn a_stage_never_goes_back() {
    let story = Story::new().turn().announced("call_1", "x").started("call_1");
    let (messages, seen) = lines(story.writes("call_1", "{}"));
    assert_eq!(seen.last().map(String::as_str), Some("changed"));
    assert_eq!(
        (block(&messages).stage, block(&messages).parameters.as_str()),
        (Stage::Running, "")
    );
    assert!(Stage::Start < Stage::Streaming && Stage::Streaming < Stage::Running);
    assert!(Stage::Running < Stage::End);
}

/// S4-8.
#[test]
fn arguments_that_come_whole_are_one_piece() {
    let story = Story::new().turn().announced("call_1", "x").written("call_1", r#"{"a":1}"#);
    check(
        story,
        expect![[r#"
        added 1
        changed!
        1 call_1 start 
        changed!
        1 call_1 streaming {"a":1} +{"a":1} (a=1)
        changed"#]],
    );
    let story = Story::new().turn().announced("call_1", "x").written("call_1", "");
    let (messages, lines) = lines(story);
    assert_eq!((lines.len(), block(&messages).stage), (5, Stage::Start));
}

#[test]
fn the_closing_event_has_the_last_word_on_the_arguments() {
    let story = Story::new().turn().announced("call_1", "x").writes("call_1", "{\"a\":1");
    let story = story.written("call_1", r#"{"a":1}"#);
    let mut messages = Messages::new();
    assert_eq!(story.last_seen_by(&mut messages), [changed(false)]);
    assert_eq!(block(&messages).parameters, r#"{"a":1}"#);
}

/// S4-11.
#[test]
fn the_tools_telling_arguments_make_the_label() {
    let telling_arguments = vec!["pattern".to_owned()];
    let spec = ToolSpec { telling_arguments, ..ToolSpec::new("grep", "") };
    let story = Story::with_tools(vec![spec]).turn().announced("call_1", "grep");
    let (messages, _) = lines(story.writes("call_1", r#"{"path":"/","pattern":"fo"#));
    assert_eq!(block(&messages).compact_params, "fo");
}

#[track_caller]
fn check_failed(outcome: ToolOutcome, error: &str) {
    let story = Story::new().turn().calls("call_1", "x", "{}").finished("call_1", outcome);
    let mut messages = Messages::new();
    let frames = story.last_seen_by(&mut messages);
    assert_eq!(frames, [updated((1, 0), Stage::End, None), changed(true)]);
    let update = messages.update(&frames[0]).expect("a tool frame");
    assert_eq!((update.success, update.error, update.result), (Some(false), Some(error), None));
    assert_eq!(update.short_result, Some(format!("Error: {error}").as_str()));
    assert_eq!(update.name, "x");
    assert_eq!(messages.update(&frames[1]), None);
}

/// S4-10.
#[test]
fn whatever_ended_a_call_is_its_one_end() {
    let text = |text: &str| text.to_owned();
    check_failed(failed("exit 1"), "exit 1");
    check_failed(ToolOutcome::TimedOut { after_ms: 1_000 }, "timed out after 1 s");
    check_failed(ToolOutcome::Cancelled, "cancelled");
    check_failed(ToolOutcome::Denied { reason: text("no") }, "denied by the user: no");
    check_failed(ToolOutcome::InvalidArguments { message: text("a") }, "invalid arguments: a");
    check_failed(ToolOutcome::NotFound { message: text("no tool") }, "no tool");
    check_failed(ToolOutcome::Skipped { reason: text("limit") }, "not carried out: limit");
    check_failed(ToolOutcome::OutcomeUnknown { message: text("gone") }, "gone");
}

/// S4-6.
#[test]
fn images_and_short_results_are_handed_on() {
    let image = Image { media_type: "image/png".to_owned(), base64: "AA==".to_owned() };
    let short = Some("a chart".to_owned());
    let output = ToolOutput { images: vec![image], short, ..ToolOutput::text("text") };
    let story = Story::new().turn().calls("call_1", "x", "{}");
    let mut messages = Messages::new();
    let story = story.finished("call_1", ToolOutcome::Succeeded { output });
    let frames = story.last_seen_by(&mut messages);
    let update = messages.update(&frames[0]).expect("a tool frame");
    assert_eq!(update.images, ["data:image/png;base64,AA=="]);
    assert_eq!((update.result, update.short_result), (Some("text"), Some("a chart")));
    assert_eq!((update.success, update.error), (Some(true), None));
}

/// S4-10: L46: a call that was not announced gets no block.
#[test]
fn a_call_nobody_announced_makes_no_block() {
    let story = Story::new().turn().says(&["a"]).started("call_9").writes("call_9", "{}");
    let story = story.written("call_9", "{}").finished("call_9", succeeded("1"));
    let (messages, lines) = lines(story);
    assert_eq!(lines.len(), 5);
    assert_eq!(messages.messages()[1].tool_blocks, []);
}

/// S4-10 and I12: a cancel closes what is open, and the text so far stays.
#[test]
fn a_cancel_ends_open_calls_and_keeps_the_text() {
    let client = ToolRef { name: "ask".to_owned(), kind: ToolKind::Client, server: None };
    let story = Story::new().turn().message().text("Half").announced("call_1", "x");
    let story = story.announced_as("call_2", client).ended(RunOutcome::Cancelled);
    let messages = check(
        story,
        expect![[r#"
        added 1
        changed!
        content 1 "Half" "Half"
        changed
        1 call_1 start 
        changed!
        1 call_2 start 
        changed!
        1 call_1 end  = Error: not carried out: the run was cancelled
        changed!"#]],
    );
    let message = &messages.messages()[1];
    assert_eq!((message.content.as_str(), message.state), ("Half", MessageState::Cut));
    assert_eq!(message.tool_blocks[1].stage, Stage::Start);
}

/// S4-10.
#[test]
fn the_reason_of_an_open_end_is_the_runs() {
    let failure = Failure::new("x", "x");
    let reason = IncompleteReason::MaxTurns;
    for (outcome, state, error) in [
        (RunOutcome::Completed, MessageState::Complete, "not carried out: the run was over"),
        (
            RunOutcome::Incomplete { reason },
            MessageState::Cut,
            "not carried out: the run reached a limit",
        ),
        (RunOutcome::Failed { failure }, MessageState::Cut, "not carried out: the run failed"),
    ] {
        let (messages, _) = lines(Story::new().turn().announced("call_1", "x").ended(outcome));
        assert_eq!(messages.messages()[1].state, state);
        assert_eq!(block(&messages).error.as_deref(), Some(error));
    }
}

/// R20 and S4-10: a crash in the middle of a turn.
#[test]
fn a_superseded_message_stays_and_is_marked() {
    let story = Story::new().turn().says(&["Half"]).announced("call_1", "x");
    let story = story.then(Event::TurnAbandoned { turn: 1 }).turn().says(&["Whole"]);
    let messages = check(
        story.then(Event::TurnAbandoned { turn: 1 }),
        expect![[r#"
        added 1
        changed!
        content 1 "Half" "Half"
        changed
        1 call_1 start 
        changed!
        1 call_1 end  = Error: not carried out: the answer was withdrawn
        changed!
        added 2
        changed!
        content 2 "Whole" "Whole"
        changed
        changed!"#]],
    );
    let states: Vec<MessageState> = messages.messages().iter().map(|m| m.state).collect();
    let superseded = MessageState::Superseded;
    assert_eq!(states, [MessageState::Complete, superseded, superseded]);
    assert_eq!(lines(Story::new().turn().then(Event::TurnAbandoned { turn: 1 })).1.len(), 1);
}

#[track_caller]
fn check_state(story: Story, expected: MessageState, is_news: bool) {
    let mut messages = Messages::new();
    let frames = story.last_seen_by(&mut messages);
    assert_eq!(messages.messages().last().map(|message| message.state), Some(expected));
    assert_eq!(frames, if is_news { vec![changed(true)] } else { Vec::new() });
}

#[test]
fn every_message_has_a_last_state() {
    let said = || Story::new().turn().message().text("a");
    check_state(said().turn_done(Finish::Answered), MessageState::Complete, true);
    check_state(said().turn_done(Finish::CalledTools), MessageState::Complete, true);
    check_state(said().turn_done(Finish::Length), MessageState::Cut, true);
    check_state(said().turn_done(Finish::ContentFilter), MessageState::Cut, true);
    check_state(said().turn_done(Finish::Interrupted), MessageState::Cut, true);
    check_state(said().message_done(Completeness::Complete), MessageState::Streaming, false);
    check_state(said().message_done(Completeness::Cut), MessageState::Cut, true);
    check_state(said().message_done(Completeness::Superseded), MessageState::Superseded, true);
    let cut = said().message_done(Completeness::Cut).turn_done(Finish::Answered);
    check_state(cut, MessageState::Cut, false);
    let arguments_cut = said().calls("call_1", "x", "{}").then(Event::ArgumentsFinished {
        call_id: call_id(),
        arguments: "{}".to_owned(),
        completeness: Completeness::Cut,
    });
    check_state(arguments_cut, MessageState::Cut, true);
}

#[test]
fn thoughts_are_kept_apart() {
    let item_id = || ItemId::new("rs_1");
    let thought = |text: &str| Event::ReasoningAdded { item_id: item_id(), text: text.to_owned() };
    let story =
        Story::new().turn().then(thought("hm\u{1b}[3")).then(thought("1m, yes")).says(&["Yes."]);
    let story = story.then(Event::ReasoningFinished {
        item_id: item_id(),
        text: "hm, yes".to_owned(),
        encrypted_content: None,
        completeness: Completeness::Complete,
    });
    let messages = check(
        story,
        expect![[r#"
        added 1
        changed!
        changed
        changed
        content 1 "Yes." "Yes."
        changed"#]],
    );
    let message = &messages.messages()[1];
    assert_eq!((message.id.as_str(), message.reasoning.as_str()), ("rs_1", "hm, yes"));
}

#[test]
fn the_thoughts_of_a_turn_begin_outside_of_any_sequence() {
    let thought = |item: &str, text: &str| Event::ReasoningAdded {
        item_id: ItemId::from(item),
        text: text.to_owned(),
    };
    let story = Story::new().turn().then(thought("rs_1", "\u{1b}]0;open"));
    let (messages, _) = lines(story.turn().then(thought("rs_2", "shown")));
    assert_eq!(messages.messages()[2].reasoning, "shown");
}

#[test]
fn a_refusal_is_content() {
    let (messages, _) = lines(Story::new().turn().message().refusal("I will ").refusal("not."));
    assert_eq!(messages.accumulated(1), "I will not.");
}

/// S4-5.
#[test]
fn content_is_clean_before_anyone_sees_it() {
    let story = Story::new().turn().message().text("a\u{1b}[3").text("1m").text("b\0c");
    check(
        story,
        expect![[r#"
        added 1
        changed!
        content 1 "a" "a"
        changed
        content 1 "bc" "abc"
        changed"#]],
    );
    let story = Story::new().turn().message().text("\u{1b}]0;").message().text("shown");
    assert_eq!(lines(story).0.accumulated(1), "shown");
    let story = Story::new().turn().message().text("\u{1b}]0;").turn().text("shown");
    assert_eq!(lines(story).0.accumulated(2), "shown");
}

/// S4-15: the low-level callbacks can be fed from the same frames.
#[test]
fn content_and_parameters_are_there_whole() {
    let mut messages = Messages::new();
    let story = Story::new().turn().says(&["a", "b"]).announced("call_1", "x");
    let frames = story.writes("call_1", "{").writes("call_1", "}").last_seen_by(&mut messages);
    let update = messages.update(&frames[0]).expect("a tool frame");
    assert_eq!((update.id, update.name, update.parameters), ("call_1", "x", "{}"));
    assert_eq!(update.parameters_chunk, Some("}"));
    assert_eq!(messages.accumulated(update.message), "ab");
}

/// R14: neither the content nor the arguments are copied whole per piece.
#[test]
fn a_piece_costs_what_it_is_long() {
    let grown_to = |n_bytes: usize| {
        let mut messages = Messages::new();
        let long = "x".repeat(n_bytes);
        let story = Story::new().turn().message().text(&long).announced("call_1", "x");
        story.writes("call_1", &format!(r#"{{"query":"{long}"#)).seen_by(&mut messages);
        let pieces = Story::new().text("x").writes("call_1", "x").events().split_off(2);
        (messages, pieces)
    };
    check_that_size_does_not_matter(grown_to, |(messages, pieces)| {
        for piece in pieces {
            assert_eq!(messages.project(piece).len(), 2);
        }
    });
}

/// S4-2: a list that starts with a history sends frames only about what is new, with the right
/// indexes.
#[test]
fn a_history_is_in_the_list_and_not_reported() {
    let history = [Item::user("before"), Item::assistant("said")];
    let mut messages = Messages::after(&history);
    assert_eq!(messages.messages().len(), 2);
    let asked = RunRequest { input: vec![Item::user("now")], ..request() };
    let story = Story::of(asked).turn().message().text("new");
    let frames = story.seen_by(&mut messages);
    let added: Vec<usize> = frames
        .iter()
        .filter_map(|frame| match frame {
            MessageFrame::AssistantMessageAdded { message } => Some(*message),
            MessageFrame::ContentUpdated { .. }
            | MessageFrame::ToolBlockUpdated { .. }
            | MessageFrame::MessagesChanged { .. } => None,
        })
        .collect();
    assert_eq!(added, [3]);
    assert_eq!(messages.accumulated(3), "new");
    assert_eq!(messages.accumulated(1), "said");
}

/// S4-9: each update has the note about what the tool is doing.
#[test]
fn an_update_says_what_the_tool_is_doing() {
    let progressed = Event::ToolProgressed {
        call_id: "call_1".into(),
        progress: 1.0,
        total: Some(3.0),
        message: Some("lint".to_owned()),
    };
    let story = Story::new().turn().calls("call_1", "check", "{}").started("call_1");
    let mut messages = Messages::new();
    let mut notes = Vec::new();
    for recorded in story.then(progressed).events() {
        for frame in messages.project(&recorded) {
            notes.extend(messages.update(&frame).map(|update| update.note.map(str::to_owned)));
        }
    }
    let said = |note: &str| Some(note.to_owned());
    assert_eq!(notes, [None, None, said("running"), said("1/3 lint")]);
}

/// S4-2: a call of the client is ended by its result, and the end of the run sends no frames about
/// earlier messages.
#[test]
fn an_earlier_call_is_ended_by_its_result_alone() {
    let call = Item::call("call_1", "locate", "{}");
    let result = Item::CallResult {
        call_id: "call_1".into(),
        output: "Berlin".into(),
        images: Vec::new(),
        failed: false,
        custom: false,
    };
    for (input, stage) in [(vec![Item::user("hm")], Stage::Start), (vec![result], Stage::End)] {
        let mut messages = Messages::after(&[Item::user("where?"), call.clone()]);
        let asked = RunRequest { input, ..request() };
        let frames = Story::of(asked).turn().ended(RunOutcome::Completed).seen_by(&mut messages);
        assert_eq!(messages.messages()[1].tool_blocks[0].stage, stage);
        assert!(!frames.iter().any(|frame| matches!(frame, MessageFrame::ToolBlockUpdated { .. })));
    }
}

/// S4-5: a control sequence that is split over two pieces of output is removed.
#[test]
fn early_output_is_cleaned_across_its_pieces() {
    let output =
        |text: &str| Event::ToolOutputAdded { call_id: "call_1".into(), text: text.into() };
    let mut messages = Messages::new();
    Story::new()
        .turn()
        .calls("call_1", "make", "{}")
        .started("call_1")
        .then(output("ok \u{1b}[3"))
        .then(output("1mred"))
        .seen_by(&mut messages);
    let message = messages.messages().last().expect("the model's");
    assert_eq!(message.tool_blocks[0].output, "ok red");
}
