//! Forms made from schemas.

use serde_json::json;

use super::*;

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "title": "Your name" },
            "age": { "type": "integer", "description": "in years" },
            "size": { "enum": ["S", "M", "L"], "default": "M" },
            "gift": { "type": "boolean" },
        },
        "required": ["name", "gift"],
    })
}

fn asked(step: FormStep) -> String {
    match step {
        FormStep::Ask(text) => text,
        FormStep::Done(reply) => panic!("it is done: {reply:?}"),
    }
}

fn done(step: FormStep) -> Reply {
    match step {
        FormStep::Done(reply) => reply,
        FormStep::Ask(text) => panic!("it asks: {text}"),
    }
}

#[test]
fn every_field_is_asked_for_in_its_own_way() {
    let mut form = Form::new("Who are you?", &schema());
    assert_eq!(form.begin(), "  /decline declines, /cancel dismisses\n  Your name: ");
    assert_eq!(asked(form.read(Some("Ada"))), "  age (in years) (may be left empty): ");
    assert!(asked(form.read(Some("old"))).starts_with("  that is not a number\n"));
    let size = asked(form.read(Some("36")));
    assert_eq!(
        size,
        "  size\n    1. S\n    2. M\n    3. L\n  number or value (may be left empty) [M]: "
            .replace(" (may be left empty)", "")
    );
    assert!(asked(form.read(Some("4"))).starts_with("  that is not one of them\n"));
    assert_eq!(asked(form.read(Some("3"))), "  gift [y/n]: ");
    assert!(asked(form.read(Some(""))).starts_with("  this is needed\n"));
    let content = json!({ "name": "Ada", "age": 36, "size": "L", "gift": true });
    let Value::Object(content) = content else { panic!() };
    assert_eq!(done(form.read(Some("y"))), Reply::Accepted { content });
}

#[test]
fn a_question_can_be_declined_or_dismissed() {
    let reply = |line| done(Form::new("", &schema()).read(line));
    assert_eq!(reply(Some("/decline")), Reply::Declined);
    assert_eq!(reply(Some("/cancel")), Reply::Cancelled);
    assert_eq!(reply(None), Reply::Cancelled);
}

#[test]
fn a_question_without_fields_is_yes_or_no() {
    let mut form = Form::new("Sure?", &json!({ "type": "object" }));
    assert_eq!(asked(form.read(Some("perhaps"))), "  [y]es, [n]o: ");
    assert_eq!(done(form.read(Some("y"))), Reply::Accepted { content: Map::new() });
    assert_eq!(done(form.read(Some("n"))), Reply::Declined);
}

/// The schema comes from a server that may be hostile.
#[test]
fn titles_and_choices_have_no_escape_sequences() {
    let schema =
        json!({ "properties": { "a": { "title": "\u{1b}]0;x\u{7}t", "enum": ["\u{1b}[2J"] } } });
    let prompt = Form::new("", &schema).begin();
    assert!(!prompt.contains('\u{1b}') && !prompt.contains('\u{7}'), "{prompt:?}");
}
