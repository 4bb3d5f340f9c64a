//! Lists of runs on both databases, beside workers of an earlier version, and across workers.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should fall over")]

use std::{sync::Arc, time::Duration};

use turnwire_contract::{
    CallId, Event, ItemId, Journal, ListedStatus, NewRun, RecordedEvent, RunEnd, RunFilter, RunId,
    RunOutcome, RunQuery, RunRecords, RunSummary, Seq, Shares, TenantId, Timestamp, ToolKind,
    ToolRef, Usage,
};
use turnwire_stores::Store;
use turnwire_testkit::conformance;

use crate::support::{Backend, run, tenant};

/// What lists say of runs is what their events say.
#[tokio::test(flavor = "multi_thread")]
async fn both_databases_keep_the_promises_of_lists() {
    for backend in Backend::all() {
        let store = backend.store().await;
        conformance::run_listing::check(&store, &store).await;
    }
}

fn recorded(id: &str, seq: u64, event: Event) -> Vec<Arc<RecordedEvent>> {
    let (run_id, at) = (RunId::from(id), Timestamp::from_micros(5));
    vec![Arc::new(RecordedEvent { run_id, seq: Seq(seq), at, event })]
}

fn begun(id: &str) -> NewRun {
    let new = run(id, |_| {});
    let first_events = recorded(id, 1, Event::RunQueued { request: Arc::clone(&new.request) });
    NewRun { first_events, ..new }
}

fn call(id: &str, seq: u64, tool: &str) -> Vec<Arc<RecordedEvent>> {
    let tool = ToolRef { name: tool.to_owned(), kind: ToolKind::Mcp, server: None };
    let (call_id, item_id) = (CallId::from(tool.name.as_str()), ItemId::from("item"));
    recorded(id, seq, Event::CallAnnounced { call_id, item_id, tool })
}

async fn line(store: &Store, id: &str) -> RunSummary {
    let runs = store.summaries(&tenant(), 100).await.unwrap();
    runs.into_iter().find(|run| run.run_id.as_str() == id).unwrap()
}

/// C24: a run that an earlier version stored has no summary. It is listed, counted and found.
#[tokio::test(flavor = "multi_thread")]
async fn runs_of_an_earlier_version_are_listed() {
    for backend in Backend::all() {
        let store = backend.store().await;
        store.create(begun("run_old")).await.unwrap();
        let now = if backend.is_postgres() { "now()" } else { "1" };
        for (sql, status) in [
            ("model = null", ListedStatus::Active),
            (
                &*format!(
                    "state = 'finished', finished_at = {now},
                     outcome = '{{\"status\":\"failed\",\"failure\":{{}}}}'"
                ),
                ListedStatus::Failed,
            ),
        ] {
            let forget = format!(
                "update runs set {sql}, model = null, input_text = null, tools = null,
                 changed_at = null where id = 'run_old' returning id"
            )
            .replace("set model = null, model", "set model");
            backend.ask(&forget).await;
            let line = line(&store, "run_old").await;
            assert_eq!((line.model.as_str(), line.title().as_str()), ("any", "hi"));
            assert_eq!((line.status, line.tools.len()), (status, 0), "{}", backend.url);
            let filter = RunFilter {
                model: Some("any".to_owned()),
                text: Some("HI".to_owned()),
                ..RunFilter::default()
            };
            assert_eq!(store.count(&tenant(), &filter).await.unwrap(), [(status, 1)].into());
            let query = RunQuery { filter, most: 2, ..RunQuery::default() };
            assert_eq!(store.select(&tenant(), &query).await.unwrap().runs.len(), 1);
        }
    }
}

/// C24: a worker of an earlier version takes over a run that waits, and does not say so. Only what
/// the worker that has the run says counts, or the last one if nobody has it.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_of_an_earlier_version_takes_over_a_run_that_waits() {
    for backend in Backend::all() {
        let store = backend.store().await;
        store.create(begun("run_w")).await.unwrap();
        store.append(&tenant(), call("run_w", 2, "risky")).await.unwrap();
        let asked = Event::approval_requested(CallId::from("risky"));
        store.append(&tenant(), recorded("run_w", 3, asked)).await.unwrap();
        for (worker, status) in [
            (store.worker(), ListedStatus::NeedsInput),
            ("", ListedStatus::NeedsInput),
            ("worker_old", ListedStatus::Active),
        ] {
            let sql =
                format!("update runs set worker = '{worker}' where id = 'run_w' returning id");
            backend.ask(&sql).await;
            assert_eq!(line(&store, "run_w").await.status, status, "{worker}");
        }
    }
}

/// A worker that takes a run over reads its journal once and goes on counting; what the one before
/// said is replaced.
#[tokio::test(flavor = "multi_thread")]
async fn a_summary_goes_on_after_a_takeover() {
    let backend = Backend::postgres();
    let (one, two) = (backend.store().await, backend.store().await);
    one.create(begun("run_t")).await.unwrap();
    one.append(&tenant(), call("run_t", 2, "risky")).await.unwrap();
    let asked = Event::approval_requested(CallId::from("risky"));
    one.append(&tenant(), recorded("run_t", 3, asked)).await.unwrap();
    let worker = two.worker();
    let sql = format!("update runs set worker = '{worker}' where id = 'run_t' returning id");
    backend.ask(&sql).await;
    two.append(&tenant(), recorded("run_t", 4, Event::taken_over(2))).await.unwrap();
    assert_eq!(line(&one, "run_t").await.status, ListedStatus::NeedsInput);
    two.append(&tenant(), call("run_t", 5, "other")).await.unwrap();
    assert_eq!(line(&one, "run_t").await.tools, ["risky", "other"]);
    // The first worker is fenced off: its summary is not stored either.
    one.append(&tenant(), call("run_t", 4, "late")).await.unwrap_err();
    assert_eq!(line(&one, "run_t").await.tools, ["risky", "other"]);
}

/// A change by one worker is found by another, and wakes its own worker at once.
#[tokio::test(flavor = "multi_thread")]
async fn changes_are_found_by_other_workers() {
    let backend = Backend::postgres();
    let (one, two) = (backend.store().await, backend.store().await);
    let woken = one.change_noted();
    let within = Duration::from_secs(10);
    assert_eq!(two.changed(&tenant(), within, 10).await.unwrap().len(), 0);
    let (noted, created) = tokio::join!(
        tokio::time::timeout(Duration::from_secs(5), woken),
        one.create(begun("run_c"))
    );
    noted.unwrap();
    created.unwrap();
    assert_eq!(two.changed(&tenant(), within, 10).await.unwrap().len(), 1);
    backend.ask("update runs set changed_at = now() - interval '1 hour' returning id").await;
    assert_eq!(two.changed(&tenant(), within, 10).await.unwrap().len(), 0);
    let (outcome, usage) = (RunOutcome::Completed, Usage::default());
    let end = recorded("run_c", 2, Event::RunFinished { outcome: outcome.clone(), usage });
    let run_end = RunEnd { outcome, entries: Vec::new() };
    one.append_end(&tenant(), end, run_end).await.unwrap();
    let changed = two.changed(&tenant(), within, 10).await.unwrap();
    assert_eq!(changed[0].status, ListedStatus::Completed);
    // A worker of an earlier version sets only the time of the end.
    backend.ask("update runs set changed_at = null returning id").await;
    assert_eq!(two.changed(&tenant(), within, 10).await.unwrap().len(), 1);
}

/// A1: share links are stored on both databases, and go with their run.
#[tokio::test(flavor = "multi_thread")]
async fn both_databases_keep_the_promises_of_shares() {
    for backend in Backend::all() {
        let store = backend.store().await;
        for id in ["run_s1", "run_s2"] {
            let of_tenant = run(id, |request| request.tenant = TenantId::from("shares"));
            store.create(of_tenant).await.unwrap();
        }
        conformance::shares::check(&store).await;
        let (id, tenant) = (RunId::from("run_s2"), TenantId::from("shares"));
        store.finish(&id, RunOutcome::Completed, Vec::new()).await.unwrap();
        assert!(store.find_share("share_later").await.unwrap().is_some());
        RunRecords::delete(&store, &tenant, &id).await.unwrap();
        assert_eq!(store.find_share("share_later").await.unwrap(), None);
        let left = "select id from shares where run_id = 'run_s2'";
        assert_eq!(backend.ask(left).await, [""; 0]);
    }
}

/// A16: API keys are stored on both databases.
#[tokio::test(flavor = "multi_thread")]
async fn both_databases_keep_the_promises_of_api_keys() {
    for backend in Backend::all() {
        conformance::api_keys::check(&backend.store().await).await;
    }
}
