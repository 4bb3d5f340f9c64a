use rmcp::model::ElicitRequestParams;
use serde_json::{Value, json};
use turnwire_contract::Reply;

use super::{elicit_result, question, to_json};

fn params(params: Value) -> ElicitRequestParams {
    serde_json::from_value(params).unwrap()
}

fn schema() -> Value {
    json!({ "type": "object", "properties": {
        "name": { "type": "string", "default": "Ann" },
        "age": { "type": "integer" },
    } })
}

#[test]
fn a_form_is_a_question() {
    let params = params(json!({ "message": "Who?", "requestedSchema": schema() }));
    let question = question(&params).unwrap();
    assert_eq!(question.message, "Who?");
    assert_eq!(question.schema["properties"]["name"]["default"], "Ann");
    assert_eq!(question.schema["properties"]["age"]["type"], "integer");
}

/// URL elicitation is declined, because the URL cannot be trusted.
#[test]
fn a_page_is_no_question() {
    let params = params(json!({
        "mode": "url", "message": "Pay.", "url": "https://evil.example", "elicitationId": "1",
    }));
    assert_eq!(question(&params), None);
}

#[test]
fn what_was_left_out_has_its_usual_value() {
    let content = json!({ "age": 7 }).as_object().unwrap().clone();
    let result = to_json(elicit_result(Reply::Accepted { content }, &schema()));
    assert_eq!(result, json!({ "action": "accept", "content": { "age": 7, "name": "Ann" } }));
    let content = json!({ "name": "Bea" }).as_object().unwrap().clone();
    let result = to_json(elicit_result(Reply::Accepted { content }, &schema()));
    assert_eq!(result, json!({ "action": "accept", "content": { "name": "Bea" } }));
    assert_eq!(to_json(elicit_result(Reply::Declined, &schema())), json!({ "action": "decline" }));
    assert_eq!(to_json(elicit_result(Reply::Cancelled, &schema())), json!({ "action": "cancel" }));
}
