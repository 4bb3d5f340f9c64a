use serde_json::json;
use turnwire_contract::{ToolKind, ToolSpec};

use super::*;
use crate::story::{Story, succeeded};

fn read(story: Story) -> (CallBook, Vec<CallEvent>) {
    let mut book = CallBook::new();
    let event = story.events().iter().map(|recorded| book.note(recorded)).collect();
    (book, event)
}

/// The starts and ends of the events, in order.
#[track_caller]
fn check_news(story: Story, expected: &[CallEvent]) {
    let (_, mut event) = read(story);
    event.retain(|event| *event != CallEvent::Neither);
    assert_eq!(event, expected);
}

fn call(book: &CallBook) -> &Call {
    book.get(&CallId::from("call_1")).expect("announced")
}

#[test]
fn a_call_begins_once_and_ends_once() {
    let story = Story::new().turn().calls("call_1", "x", "{}").started("call_1");
    let story = story.started_with("call_1", 2, "").finished("call_1", succeeded("1"));
    let story = story.finished("call_1", succeeded("2")).started_with("call_1", 3, "late");
    check_news(story, &[CallEvent::Began, CallEvent::Ended]);
}

/// S0-12.
#[test]
fn an_end_without_a_start_brings_its_own() {
    let story = Story::new().turn().calls("call_1", "x", "{}");
    check_news(story.finished("call_1", succeeded("1")), &[CallEvent::BeganAndEnded]);
}

#[test]
fn a_call_nobody_announced_is_no_news() {
    let story = Story::new().turn().started("call_1").finished("call_1", succeeded("1"));
    check_news(story.writes("call_1", "{}").written("call_1", "{}"), &[]);
}

#[test]
fn i10_the_facts_are_kept() {
    let server = Some("ci".to_owned());
    let tool = ToolRef { name: "deploy".to_owned(), kind: ToolKind::Mcp, server };
    let story = Story::new().turn().turn().announced_as("call_1", tool.clone());
    let (book, _) = read(story.writes("call_1", r#"{"ref": "v0"#).started("call_1"));
    let call = call(&book);
    assert_eq!((call.call_id.as_str(), call.item_id.as_str()), ("call_1", "fc_call_1"));
    assert_eq!((&call.tool, call.turn, book.turn()), (&tool, 2, 2));
    assert_eq!(call.title(), "ci.deploy");
    assert_eq!(call.label(), "ref=v0");
    assert_eq!(call.raw_arguments(), None);
    assert_eq!(Value::Object(call.arguments()), json!({"ref": "v0"}));
    let started = Started { seq: Seq(7), at: Timestamp::from_micros(700_000) };
    assert_eq!((call.started, call.is_over), (Some(started), false));
    assert_eq!(book.request().map(|request| request.model.as_str()), Some("test"));
}

#[test]
fn a_tool_without_a_server_goes_by_its_name() {
    let (book, _) = read(Story::new().turn().announced("call_1", "multiply"));
    assert_eq!(call(&book).title(), "multiply");
    assert_eq!(call(&book).label(), "");
}

/// S4-11.
#[test]
fn the_spec_says_which_arguments_are_telling() {
    let telling = |name: &str, argument: &str| ToolSpec {
        telling_arguments: vec![argument.to_owned()],
        ..ToolSpec::new(name, "")
    };
    let tools = vec![telling("other", "query"), telling("grep", "pattern")];
    let arguments = r#"{"query":"q","pattern":"p"}"#;
    let (book, _) = read(Story::with_tools(tools).turn().calls("call_1", "grep", arguments));
    assert_eq!(call(&book).label(), "p");
    assert_eq!(call(&book).raw_arguments(), Some(arguments));
}

/// S4-11.
#[test]
fn what_the_tool_calls_them_wins() {
    let story = Story::new().turn().calls("call_1", "grep", r#"{"query":"q"}"#);
    let (book, _) = read(story.started_with("call_1", 1, "my own\nwords"));
    assert_eq!(call(&book).label(), "my own words");
    let story = Story::new().turn().announced("call_1", "grep").writes("call_1", r#"{"query":"q"#);
    let (book, _) = read(story.started_with("call_1", 1, "early"));
    assert_eq!(call(&book).label(), "early");
}

#[track_caller]
fn check_arguments(raw: &str, expected: Value) {
    let (book, _) = read(Story::new().turn().announced("call_1", "x").written("call_1", raw));
    assert_eq!(Value::Object(call(&book).arguments()), expected);
}

/// S3-3.
#[test]
fn arguments_are_always_an_object() {
    check_arguments(r#" {"a": 5} "#, json!({"a": 5}));
    check_arguments("", json!({}));
    check_arguments(" \n", json!({}));
    check_arguments("[1]", json!({"invalid_arguments": "[1]"}));
    check_arguments(r#"{"a": "#, json!({"invalid_arguments": r#"{"a":"#}));
}

#[test]
fn arguments_that_come_in_one_piece_have_a_label() {
    let (book, _) =
        read(Story::new().turn().announced("call_1", "x").written("call_1", r#"{"a":5}"#));
    assert_eq!(call(&book).label(), "a=5");
}

#[test]
fn closed_arguments_do_not_change() {
    let story = Story::new().turn().calls("call_1", "x", r#"{"a":5}"#);
    let (book, _) = read(story.writes("call_1", "junk").written("call_1", r#"{"a":6}"#));
    assert_eq!(call(&book).raw_arguments(), Some(r#"{"a":5}"#));
    assert_eq!(call(&book).label(), "a=5");
}

#[test]
fn open_calls_of_the_turn_are_counted() {
    let client = ToolRef { name: "ask".to_owned(), kind: ToolKind::Client, server: None };
    let mut story = Story::new().turn().announced("call_1", "x").announced("call_2", "y");
    story = story.announced("call_2", "y").announced_as("call_3", client);
    let mut book = CallBook::new();
    for recorded in story.events() {
        book.note(&recorded);
    }
    assert_eq!(book.n_open(), 2);
    let note = |book: &mut CallBook, story: Story| {
        let last = story.events().pop().expect("an event");
        book.note(&last);
        book.n_open()
    };
    assert_eq!(note(&mut book, Story::new().finished("call_3", succeeded(""))), 2);
    assert_eq!(note(&mut book, Story::new().finished("call_2", succeeded(""))), 1);
    assert_eq!(note(&mut book, Story::new().finished("call_2", succeeded(""))), 1);
    assert_eq!(note(&mut book, Story::new().turn()), 0);
    assert_eq!(note(&mut book, Story::new().finished("call_1", succeeded(""))), 0);
}
