use std::sync::Arc;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, GetMeta, NumberOrString, ProgressToken,
    ServerNotification,
};
use serde_json::json;

use turnwire_contract::{Question, Reply, RunId};

use super::{MAX_NOTE_BYTES, Mailbox, Passed, Progress, Wire};

fn request(token: i64, mailbox: &Arc<Mailbox>) -> ClientRequest {
    let mut call = CallToolRequest::new(CallToolRequestParams::new("walrus"));
    call.extensions.insert(mailbox.address());
    let mut request = ClientRequest::CallToolRequest(call);
    request.get_meta_mut().set_progress_token(ProgressToken(NumberOrString::Number(token)));
    request
}

fn mailbox_of(run: &str) -> Arc<Mailbox> {
    Mailbox::new(RunId::from(run))
}

fn notification(method: &str, params: serde_json::Value) -> ServerNotification {
    serde_json::from_value(json!({ "method": method, "params": params })).unwrap()
}

fn progress(token: serde_json::Value, progress: f64) -> ServerNotification {
    let params = json!({ "progressToken": token, "progress": progress });
    notification("notifications/progress", params)
}

fn drained(mailbox: &Mailbox) -> Vec<f64> {
    std::iter::from_fn(|| mailbox.take()).map(|note: Progress| note.done).collect()
}

#[test]
fn progress_finds_its_call() {
    let wire = Wire::new("sea");
    let (one, other) = (mailbox_of("run_1"), mailbox_of("run_1"));
    assert!(!one.was_handed_over());
    wire.sending(&request(1, &one));
    wire.sending(&request(2, &other));
    assert!(one.was_handed_over());
    assert_eq!(wire.heard(&progress(json!(1), 0.5)), Passed::No);
    // Some servers return the number as a string.
    wire.heard(&progress(json!("2"), 0.25));
    wire.heard(&progress(json!(1), 1.0));
    wire.heard(&progress(json!(3), 1.0));
    assert_eq!(drained(&one), [1.0], "the latest says it all");
    assert_eq!(drained(&other), [0.25]);
}

/// L46: a note about a finished call is dropped.
#[test]
fn progress_after_the_end_finds_nobody() {
    let wire = Wire::new("sea");
    let mailbox = mailbox_of("run_1");
    wire.sending(&request(1, &mailbox));
    drop(mailbox);
    assert_eq!(wire.heard(&progress(json!(1), 1.0)), Passed::No);
    wire.sending(&request(2, &mailbox_of("run_1")));
    assert!(wire.calls.lock().unwrap().len() <= 1, "dead calls are forgotten");
}

/// A13: a message is truncated to the limit, at a character boundary.
#[test]
fn a_long_message_is_cut() {
    let wire = Wire::new("sea");
    let mailbox = mailbox_of("run_1");
    wire.sending(&request(1, &mailbox));
    let passed_on = |message: &str| {
        let params = json!({ "progressToken": 1, "progress": 1.0, "message": message });
        wire.heard(&notification("notifications/progress", params));
        mailbox.take().unwrap().message.unwrap()
    };
    let longest = "x".repeat(MAX_NOTE_BYTES);
    assert_eq!(passed_on(&longest), longest);
    let one_more = passed_on(&format!("{longest}x"));
    assert_eq!(one_more, format!("{}…", "x".repeat(MAX_NOTE_BYTES - 3)));
    let whole = passed_on(&"🦀".repeat(10_000));
    assert_eq!(whole, format!("{}…", "🦀".repeat((MAX_NOTE_BYTES - 3) / 4)));
}

#[tokio::test]
async fn a_change_of_the_tools_is_counted_and_told() {
    let wire = Wire::new("sea");
    let changed = notification("notifications/tools/list_changed", json!({}));
    assert_eq!(wire.changes(), 0);
    assert_eq!(wire.heard(&changed), Passed::On);
    assert_eq!(wire.changes(), 1);
    wire.changed().await;
    let other = notification("notifications/resources/list_changed", json!({}));
    assert_eq!(wire.heard(&other), Passed::On);
    assert_eq!(wire.changes(), 1);
}

#[test]
fn what_a_server_logs_goes_no_further() {
    let wire = Wire::new("sea");
    let params = json!({ "level": "info", "data": "x".repeat(10_000) });
    assert_eq!(wire.heard(&notification("notifications/message", params)), Passed::No);
}

fn a_question() -> Question {
    Question { message: "Sure?".to_owned(), schema: json!({}) }
}

/// A question reaches the pending call, and the reply reaches the server.
#[tokio::test]
async fn a_question_finds_its_call() {
    let wire = Wire::new("sea");
    let mailbox = mailbox_of("run_1");
    wire.sending(&request(1, &mailbox));
    let (reply, ()) = tokio::join!(wire.ask(a_question()), async {
        let (question, tell) = mailbox.next_question().await;
        assert_eq!(question, a_question());
        tell.send(Reply::Cancelled).unwrap();
    });
    assert_eq!(reply, Reply::Cancelled);
}

/// A1: a question that may belong to another run is declined.
#[tokio::test]
async fn a_question_that_may_be_anothers_is_declined() {
    let wire = Wire::new("sea");
    assert_eq!(wire.ask(a_question()).await, Reply::Declined, "no call is out");
    let (one, other) = (mailbox_of("run_1"), mailbox_of("run_2"));
    wire.sending(&request(1, &one));
    wire.sending(&request(2, &other));
    assert_eq!(wire.ask(a_question()).await, Reply::Declined);
    drop(other);
    let asking = wire.ask(a_question());
    let (reply, ()) = tokio::join!(asking, async {
        let (_, tell) = one.next_question().await;
        tell.send(Reply::Declined).unwrap();
    });
    assert_eq!(reply, Reply::Declined);
}
