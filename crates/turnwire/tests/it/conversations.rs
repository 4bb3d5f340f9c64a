//! Questions that know the ones before.

use serde_json::json;
use turnwire::{
    Agent, CallId, Content, ConversationId, Error, Item, MessageCallbacks, Role, RunOutcome,
    StartError, StoreError,
};
use turnwire_models::{Scripted, Turn};
use turnwire_testkit::{Behaviour, FakeTool};

use crate::helpers::{Gate, returns, scripted, wait_for};

/// What the model was shown in its n-th question.
fn shown(model: &Scripted, n: usize) -> Vec<Item> {
    model.prompts()[n].items.iter().map(|item| item.as_ref().clone()).collect()
}

fn call(id: &str, name: &str, arguments: &str) -> Item {
    Item::call(id, name, arguments)
}

fn result(id: &str, output: &str, failed: bool) -> Item {
    let (call_id, output) = (CallId::new(id), output.to_owned());
    Item::CallResult { call_id, output, images: Vec::new(), failed, custom: false }
}

#[tokio::test]
async fn a_second_question_knows_the_first() {
    let model = Scripted::new([Turn::new().text("Blue."), Turn::new().text("Because of the air.")]);
    let agent = Agent::builder().model(model.clone()).instructions("Be brief.").build();
    let conversation = agent.expect("it can be made").conversation();
    let first = conversation.stream_chat("What colour is the sky?").await.expect("it answers");
    let second = conversation.stream_chat("Why?").await.expect("it answers");
    assert_eq!(second.text, "Because of the air.");
    assert_eq!(first.conversation_id.as_ref(), Some(conversation.id()));

    let mut history =
        vec![Item::user("What colour is the sky?"), Item::assistant("Blue."), Item::user("Why?")];
    assert_eq!(shown(&model, 1), history);
    assert_eq!(model.prompts()[1].instructions.as_deref(), Some("Be brief."));
    history.push(Item::assistant("Because of the air."));
    assert_eq!(conversation.history().await.expect("it has a history"), history);
}

#[tokio::test]
async fn questions_outside_a_conversation_know_nothing_of_each_other() {
    let model = Scripted::new([Turn::new().text("Blue.")]).looping();
    let agent = Agent::builder().model(model.clone()).build().expect("it can be made");
    agent.stream_chat("What colour is the sky?").await.expect("it answers");
    let reply = agent.stream_chat("Why?").await.expect("it answers");
    assert_eq!(shown(&model, 1), [Item::user("Why?")]);
    assert_eq!(reply.conversation_id, None);
}

/// The first call ends last; the model still reads the results in the order of its calls.
#[tokio::test]
async fn calls_and_results_are_in_the_history_in_call_order() {
    let gate = Gate::shut();
    let opener = gate.clone();
    let model = Scripted::new([
        Turn::new()
            .text("Let me see.")
            .call_with_id("call_1", "slow", json!({}))
            .call_with_id("call_2", "quick", json!({ "query": "rust" }))
            .call_with_id("call_3", "missing", json!({})),
        Turn::new().text("Done."),
        Turn::new().text("Yes."),
    ]);
    let agent = Agent::builder()
        .model(model.clone())
        .tool(gate.tool("slow"))
        .tool(returns("quick", "3 notes"))
        .build()
        .expect("it can be made");
    let conversation = agent.conversation();
    let first = conversation.stream_chat("Go.").on_tool_end(move |name, _| {
        if name == "quick" {
            opener.open();
        }
    });
    first.await.expect("it answers");
    conversation.stream_chat("Sure?").await.expect("it answers");
    let missing = "Error: Tool not found: missing. There are: quick, slow.";
    let expected = [
        Item::user("Go."),
        Item::assistant("Let me see."),
        call("call_1", "slow", "{}"),
        call("call_2", "quick", r#"{"query":"rust"}"#),
        call("call_3", "missing", "{}"),
        result("call_1", "done", false),
        result("call_2", "3 notes", false),
        result("call_3", missing, true),
        Item::assistant("Done."),
        Item::user("Sure?"),
    ];
    assert_eq!(shown(&model, 2), expected);
}

/// I13: one run at a time.
#[tokio::test]
async fn a_busy_conversation_refuses_another_question_and_says_why() {
    let turns = [Turn::new().text("Well, ").wait_forever(), Turn::new().text("Yes.")];
    let agent = scripted(turns).build().expect("it can be made");
    let conversation = agent.conversation();
    let run = conversation.start("Are you there?").await.expect("it starts");
    wait_for(&run, |event| matches!(event, turnwire::Event::TextAdded { .. }).then_some(())).await;
    let Err(error) = conversation.stream_chat("Hello?").await else {
        panic!("two runs in one conversation");
    };
    assert_eq!(
        error.to_string(),
        format!(
            "conversation `{}` is busy with run `{}`; wait for it or cancel it",
            conversation.id(),
            run.id()
        )
    );
    let busy_with = match error {
        Error::Start(StartError::Store(StoreError::Busy { run_id, .. })) => run_id,
        other => panic!("{other:?}"),
    };
    assert_eq!(&busy_with, run.id());

    // Another conversation is free, and this one is as soon as its run is over.
    assert!(agent.cancel(&busy_with));
    run.reply().await.expect("a cancelled run has a reply");
    let reply = conversation.stream_chat("Hello?").await.expect("it is free again");
    assert_eq!(reply.text, "Yes.");
}

#[tokio::test]
async fn another_conversation_is_not_busy() {
    let turns = [Turn::new().text("Well, ").wait_forever(), Turn::new().text("Yes.")];
    let agent = scripted(turns).build().expect("it can be made");
    let busy = agent.conversation().start("Are you there?").await.expect("it starts");
    wait_for(&busy, |event| matches!(event, turnwire::Event::TextAdded { .. }).then_some(())).await;
    let reply = agent.conversation().stream_chat("Hello?").await.expect("it is free");
    assert_eq!(reply.text, "Yes.");
    busy.cancel();
}

#[tokio::test]
async fn what_was_said_before_a_cancel_is_in_the_history() {
    let model = Scripted::new([
        Turn::new().text_in(["Once ", "upon "]).wait_forever(),
        Turn::new().text("A time."),
    ]);
    let agent = Agent::builder().model(model.clone()).build().expect("it can be made");
    let conversation = agent.conversation();
    let run = conversation.start("Tell me a story.").await.expect("it starts");
    wait_for(&run, |event| {
        matches!(event, turnwire::Event::TextAdded { text, .. } if text == "upon ").then_some(())
    })
    .await;
    run.cancel();
    let reply = run.reply().await.expect("a cancelled run has a reply");
    assert_eq!((reply.outcome, reply.text.as_str()), (RunOutcome::Cancelled, "Once upon "));
    conversation.stream_chat("Go on.").await.expect("it answers");
    let expected =
        [Item::user("Tell me a story."), Item::assistant("Once upon "), Item::user("Go on.")];
    assert_eq!(shown(&model, 1), expected);
}

/// Providers refuse a history with a call and no result.
#[tokio::test]
async fn a_call_that_was_cancelled_has_a_result_in_the_history() {
    let model = Scripted::new([
        Turn::new().call_with_id("call_1", "slow", json!({})),
        Turn::new().text("As you like."),
    ]);
    let agent = Agent::builder()
        .model(model.clone())
        .tool(FakeTool::new("slow", Behaviour::WaitsToBeStopped))
        .build()
        .expect("it can be made");
    let conversation = agent.conversation();
    let run = conversation.start("Go.").await.expect("it starts");
    wait_for(&run, |event| matches!(event, turnwire::Event::ToolStarted { .. }).then_some(()))
        .await;
    run.cancel();
    run.reply().await.expect("a cancelled run has a reply");
    conversation.stream_chat("Never mind.").await.expect("it answers");
    let expected = [
        Item::user("Go."),
        call("call_1", "slow", "{}"),
        result("call_1", "Error: cancelled", true),
        Item::user("Never mind."),
    ];
    assert_eq!(shown(&model, 1), expected);
}

#[tokio::test]
async fn a_conversation_goes_on_by_its_id() {
    let model = Scripted::new([Turn::new().text("Blue."), Turn::new().text("Because of the air.")]);
    let agent = Agent::builder().model(model.clone()).build().expect("it can be made");
    let id: ConversationId = {
        let conversation = agent.conversation();
        conversation.stream_chat("What colour is the sky?").await.expect("it answers");
        conversation.id().clone()
    };
    let later = agent.continue_conversation(id.clone());
    assert_eq!(later.id(), &id);
    later.stream_chat("Why?").await.expect("it answers");
    let expected =
        [Item::user("What colour is the sky?"), Item::assistant("Blue."), Item::user("Why?")];
    assert_eq!(shown(&model, 1), expected);
}

#[tokio::test]
async fn a_new_conversation_has_no_history() {
    let agent = scripted([]).build().expect("it can be made");
    let history = agent.conversation().history().await.expect("it has one");
    assert_eq!(history, []);
}

/// Input may be text, an item, or several.
#[tokio::test]
async fn a_question_may_have_pictures() {
    let model = Scripted::new([Turn::new().text("A cat.")]);
    let agent = Agent::builder().model(model.clone()).build().expect("it can be made");
    let picture = Content::image("data:image/png;base64,iVBO");
    let question =
        Item::Message { role: Role::User, content: vec![Content::text("What is this?"), picture] };
    let asked = vec![Item::user("Look:"), question];
    let messages = MessageCallbacks::new();
    agent.stream_chat(asked.clone()).messages(messages).await.expect("it answers");
    assert_eq!(shown(&model, 0), asked);
}
