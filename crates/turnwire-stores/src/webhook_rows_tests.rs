use std::collections::BTreeSet;

use turnwire_contract::{Decision, RunOutcome, Usage};

use super::*;

fn route(tenant: &str, url: &str, events: &[WebhookEvent]) -> WebhookRoute {
    let events: BTreeSet<WebhookEvent> = events.iter().copied().collect();
    WebhookRoute { tenant: tenant.into(), url: url.to_owned(), events }
}

fn recorded(event: Event) -> RecordedEvent {
    let (run_id, at) = (RunId::from("run_1"), Timestamp::from_micros(7));
    RecordedEvent { run_id, seq: Seq(1), at, event }
}

fn end(outcome: RunOutcome) -> RecordedEvent {
    recorded(Event::RunFinished { outcome, usage: Usage::default() })
}

/// An event goes to the receivers of its tenant that want it, and to no others.
#[test]
fn events_are_routed_by_tenant_and_type() {
    let routes = [
        route("a", "https://all.example", &WebhookEvent::ALL),
        route("a", "https://ends.example", &[WebhookEvent::ResponseCompleted]),
        route("b", "https://other.example", &WebhookEvent::ALL),
    ];
    let urls = |tenant: &str, event: &RecordedEvent| -> Vec<String> {
        let caused = caused_by(&routes, &tenant.into(), [event]);
        caused.into_iter().map(|delivery| delivery.url).collect()
    };
    let completed = end(RunOutcome::Completed);
    assert_eq!(urls("a", &completed), ["https://all.example", "https://ends.example"]);
    assert_eq!(urls("b", &completed), ["https://other.example"]);
    assert_eq!(urls("c", &completed), [""; 0]);
    assert_eq!(urls("a", &end(RunOutcome::Cancelled)), ["https://all.example"]);
    let asked = recorded(Event::approval_requested("call_1".into()));
    assert_eq!(urls("a", &asked), ["https://all.example"]);
    assert_eq!(urls("a", &recorded(Event::RunStarted)), [""; 0]);
}

/// A call that is decided in the batch that asks about it waits for nobody.
#[test]
fn a_call_that_is_decided_at_once_causes_nothing() {
    let routes = [route("a", "https://all.example", &WebhookEvent::ALL)];
    let denied = Decision::Denied { reason: "nobody can be asked".to_owned() };
    let events = [
        recorded(Event::approval_requested("call_1".into())),
        recorded(Event::approval_resolved("call_1".into(), Decision::Approved)),
        recorded(Event::approval_requested("call_2".into())),
        recorded(Event::approval_requested("call_3".into())),
        recorded(Event::approval_resolved("call_3".into(), denied)),
    ];
    let caused = caused_by(&routes, &"a".into(), &events);
    let calls: Vec<Option<CallId>> = caused.into_iter().map(|delivery| delivery.call_id).collect();
    assert_eq!(calls, [Some(CallId::from("call_2"))]);
}

/// The same event has the same ID at a receiver, whoever records it, and another ID at another
/// receiver and for another event.
#[test]
fn an_id_is_of_one_event_at_one_receiver() {
    let id = |seq: Option<u64>, url: &str| id_of(&"run_1".into(), seq.map(Seq), url);
    assert_eq!(id(None, "https://a.example"), id(None, "https://a.example"));
    let different = [
        id(None, "https://a.example"),
        id(None, "https://b.example"),
        id(Some(3), "https://a.example"),
        id(Some(7), "https://a.example"),
    ];
    let distinct: BTreeSet<&String> = different.iter().collect();
    assert_eq!(distinct.len(), different.len());
    assert!(different.iter().all(|id| id.len() == 36 && id.starts_with("evt_")), "{different:?}");
}
