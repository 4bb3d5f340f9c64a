//! Arguments and results in full.

use std::sync::Arc;

use turnwire_contract::{
    CallId, Completeness, ItemId, RunId, Seq, Timestamp, ToolKind, ToolOutput, ToolRef,
};

use super::*;

fn recorded(seq: u64, event: Event) -> Arc<RecordedEvent> {
    let at = Timestamp::from_micros(0);
    Arc::new(RecordedEvent { run_id: RunId::new("run_1"), seq: Seq(seq), at, event })
}

/// The details after a call with these arguments ended like this.
fn details_of(arguments: &str, outcome: ToolOutcome) -> Option<String> {
    let call_id = CallId::new("call_1");
    let tool =
        ToolRef { name: "look".to_owned(), kind: ToolKind::Mcp, server: Some("files".to_owned()) };
    let item_id = ItemId::new("mcp_1");
    let finished = Event::ArgumentsFinished {
        call_id: call_id.clone(),
        arguments: arguments.to_owned(),
        completeness: Completeness::Complete,
    };
    let events = [
        Event::CallAnnounced { call_id: call_id.clone(), item_id, tool },
        finished,
        Event::ToolFinished { call_id, outcome, duration_ms: 5 },
    ];
    let mut details = CallDetails::default();
    let ended: Vec<bool> =
        (1..).zip(events).map(|(seq, event)| details.note(&recorded(seq, event))).collect();
    assert_eq!(ended, [false, false, true]);
    details.last().map(str::to_owned)
}

#[test]
fn json_is_on_lines_of_its_own() {
    let output = ToolOutput::text(r#"{"n":[1]}"#);
    let details = details_of(r#"{"path":"a"}"#, ToolOutcome::Succeeded { output });
    let expected = "  arguments of files.look\n    {\n      \"path\": \"a\"\n    }\n  \
                    result\n    {\n      \"n\": [\n        1\n      ]\n    }";
    assert_eq!(details.as_deref(), Some(expected));
}

/// S0-13: what a tool returns cannot move the cursor.
#[test]
fn texts_are_whole_and_without_control_characters() {
    let long = "word ".repeat(500);
    let output = ToolOutput::text(format!("\u{1b}[2Jone\n{long}"));
    let details = details_of("", ToolOutcome::Succeeded { output }).unwrap();
    assert_eq!(
        details,
        format!("  arguments of files.look\n    {{}}\n  result\n    one\n    {}", long.trim_end())
    );
}

#[test]
fn a_call_that_failed_says_how_it_ended() {
    let denied = ToolOutcome::Denied { reason: "not today".to_owned() };
    let details = details_of("{}", denied).unwrap();
    assert!(details.ends_with("no result\n    denied by the user: not today"), "{details}");
}
