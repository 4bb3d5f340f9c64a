use std::{future::pending, sync::Arc, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, GetMeta, NumberOrString, ProgressToken,
    ServerNotification,
};
use serde_json::json;

use turnwire_contract::{CallId, CallLink, Question, Reply, RunId, ToolContext, ToolNote};

use super::{Handling, MAX_MESSAGE_BYTES, MessageRouter, PendingCall, Progress, QuestionCount};

fn request(token: i64, pending: &Arc<PendingCall>) -> ClientRequest {
    let mut call = CallToolRequest::new(CallToolRequestParams::new("walrus"));
    call.extensions.insert(pending.as_extension());
    let mut request = ClientRequest::CallToolRequest(call);
    request.get_meta_mut().set_progress_token(ProgressToken(NumberOrString::Number(token)));
    request
}

/// The engine's end of a call, which may have been left to another worker.
struct Link {
    is_left: bool,
}

impl CallLink for Link {
    fn tell(&self, _note: ToolNote) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    fn is_cancelled(&self) -> bool {
        false
    }

    fn cancelled(&self) -> BoxFuture<'_, ()> {
        Box::pin(pending())
    }

    fn is_left(&self) -> bool {
        self.is_left
    }
}

fn pending_in(run: &str) -> Arc<PendingCall> {
    pending_with(run, Link { is_left: false })
}

fn pending_with(run: &str, link: Link) -> Arc<PendingCall> {
    let (run_id, call_id) = (RunId::from(run), CallId::from("call_1"));
    let context = ToolContext::new(run_id, call_id, 1, Duration::ZERO, Arc::new(link));
    PendingCall::new(&context, &QuestionCount::new())
}

fn notification(method: &str, params: serde_json::Value) -> ServerNotification {
    serde_json::from_value(json!({ "method": method, "params": params })).unwrap()
}

fn progress(token: serde_json::Value, progress: f64) -> ServerNotification {
    let params = json!({ "progressToken": token, "progress": progress });
    notification("notifications/progress", params)
}

fn drained(pending: &PendingCall) -> Vec<f64> {
    std::iter::from_fn(|| pending.take_progress()).map(|progress: Progress| progress.done).collect()
}

#[test]
fn progress_finds_its_call() {
    let router = MessageRouter::new("sea");
    let (one, other) = (pending_in("run_1"), pending_in("run_1"));
    assert!(!one.was_sent());
    router.register(&request(1, &one));
    router.register(&request(2, &other));
    assert!(one.was_sent());
    assert_eq!(router.handle(&progress(json!(1), 0.5)), Handling::Consume);
    // Some servers return the number as a string.
    router.handle(&progress(json!("2"), 0.25));
    router.handle(&progress(json!(1), 1.0));
    router.handle(&progress(json!(3), 1.0));
    assert_eq!(drained(&one), [1.0], "the latest says it all");
    assert_eq!(drained(&other), [0.25]);
}

/// L46: progress of a finished call is dropped.
#[test]
fn progress_after_the_end_finds_nobody() {
    let router = MessageRouter::new("sea");
    let pending = pending_in("run_1");
    router.register(&request(1, &pending));
    drop(pending);
    assert_eq!(router.handle(&progress(json!(1), 1.0)), Handling::Consume);
    router.register(&request(2, &pending_in("run_1")));
    assert!(router.calls.lock().unwrap().len() <= 1, "dead calls are forgotten");
}

/// A13: a message is truncated to the limit, at a character boundary.
#[test]
fn a_long_message_is_cut() {
    let router = MessageRouter::new("sea");
    let pending = pending_in("run_1");
    router.register(&request(1, &pending));
    let passed_on = |message: &str| {
        let params = json!({ "progressToken": 1, "progress": 1.0, "message": message });
        router.handle(&notification("notifications/progress", params));
        pending.take_progress().unwrap().message.unwrap()
    };
    let longest = "x".repeat(MAX_MESSAGE_BYTES);
    assert_eq!(passed_on(&longest), longest);
    let one_more = passed_on(&format!("{longest}x"));
    assert_eq!(one_more, format!("{}…", "x".repeat(MAX_MESSAGE_BYTES - 3)));
    let whole = passed_on(&"🦀".repeat(10_000));
    assert_eq!(whole, format!("{}…", "🦀".repeat((MAX_MESSAGE_BYTES - 3) / 4)));
}

#[tokio::test]
async fn a_change_of_the_tools_is_counted_and_told() {
    let router = MessageRouter::new("sea");
    let changed = notification("notifications/tools/list_changed", json!({}));
    assert_eq!(router.changes(), 0);
    assert_eq!(router.handle(&changed), Handling::Forward);
    assert_eq!(router.changes(), 1);
    router.changed().await;
    let other = notification("notifications/resources/list_changed", json!({}));
    assert_eq!(router.handle(&other), Handling::Forward);
    assert_eq!(router.changes(), 1);
}

#[test]
fn what_a_server_logs_goes_no_further() {
    let router = MessageRouter::new("sea");
    let params = json!({ "level": "info", "data": "x".repeat(10_000) });
    assert_eq!(router.handle(&notification("notifications/message", params)), Handling::Consume);
}

fn a_question() -> Question {
    Question { message: "Sure?".to_owned(), schema: json!({}) }
}

/// A question reaches the pending call, and the reply reaches the server.
#[tokio::test]
async fn a_question_finds_its_call() {
    let router = MessageRouter::new("sea");
    let pending = pending_in("run_1");
    router.register(&request(1, &pending));
    let (reply, ()) = tokio::join!(router.ask(a_question()), async {
        let (question, reply) = pending.next_question().await;
        assert_eq!(question, a_question());
        reply.send(Reply::Cancelled).unwrap();
    });
    assert_eq!(reply, Reply::Cancelled);
}

/// A1: a question that may belong to another run is declined.
#[tokio::test]
async fn a_question_that_may_be_anothers_is_declined() {
    let router = MessageRouter::new("sea");
    assert_eq!(router.ask(a_question()).await, Reply::Declined, "no call is out");
    let (one, other) = (pending_in("run_1"), pending_in("run_2"));
    router.register(&request(1, &one));
    router.register(&request(2, &other));
    assert_eq!(router.ask(a_question()).await, Reply::Declined);
    drop(other);
    let asking = router.ask(a_question());
    let (reply, ()) = tokio::join!(asking, async {
        let (_, reply) = one.next_question().await;
        reply.send(Reply::Declined).unwrap();
    });
    assert_eq!(reply, Reply::Declined);
}

/// A worker that leaves a call does not answer its question in the name of a person: whoever
/// continues the call may ask. Without a call there is nobody to wait for.
#[tokio::test]
async fn a_question_of_a_call_that_was_left_stays_open() {
    for is_left in [false, true] {
        let router = MessageRouter::new("sea");
        let pending = pending_with("run_1", Link { is_left });
        router.register(&request(1, &pending));
        let mut asking = Box::pin(router.ask(a_question()));
        assert_eq!((&mut asking).now_or_never(), None);
        drop(pending.next_question().await);
        let answer = (&mut asking).now_or_never();
        assert_eq!(answer, (!is_left).then_some(Reply::Cancelled));
        if is_left {
            router.ended.cancel();
            assert_eq!(asking.await, Reply::Cancelled, "nobody waits for it");
        }
    }
}
