//! Contract of the lists of a [`RunStore`]: what the events in the journal of the same runs say.

use std::{sync::Arc, time::Duration};

use turnwire_contract::{
    CallId, ConversationId, Created, Event, Failure, InputId, Item, ItemId, Journal, ListedStatus,
    NewRun, RecordedEvent, Reply, RunEnd, RunFilter, RunId, RunOutcome, RunQuery, RunRequest,
    RunStore, RunSummary, Seq, TenantId, Timestamp, ToolKind, ToolOutcome, ToolOutput, ToolRef,
    Usage,
};

/// Runs the whole suite on `store` and the `journal` of its runs. They may contain other runs.
pub async fn check(store: &dyn RunStore, journal: &dyn Journal) {
    a_line_says_what_the_events_say(store, journal).await;
    a_run_that_asks_a_person_needs_input(store, journal).await;
    filters_choose_and_counts_ignore_the_status(store, journal).await;
    pages_have_no_gaps(store, journal).await;
    what_changes_is_found(store, journal).await;
}

/// A run of a tenant of its own, with the means to write its journal.
struct Writer<'a> {
    store: &'a dyn RunStore,
    journal: &'a dyn Journal,
    tenant: TenantId,
    run_id: RunId,
    seq: Seq,
}

impl<'a> Writer<'a> {
    async fn start(
        (store, journal): (&'a dyn RunStore, &'a dyn Journal),
        tenant: &str,
        id: &str,
        change: impl FnOnce(&mut RunRequest),
    ) -> Self {
        let mut request = RunRequest::new("any", vec![Item::user("What is\n  six by Seven?")]);
        request.tenant = TenantId::from(tenant);
        change(&mut request);
        let (run_id, tenant) = (RunId::from(id), request.tenant.clone());
        let request = Arc::new(request);
        let queued = Event::RunQueued { request: Arc::clone(&request) };
        let first_events = vec![recorded(&run_id, Seq(1), queued)];
        let new = NewRun {
            first_events: first_events.clone(),
            ..NewRun::new(run_id.clone(), Timestamp::from_micros(1_000), request)
        };
        if store.create(new).await.expect("there is room") == Created::RowOnly {
            journal.append(&tenant, first_events).await.expect("it is the first");
        }
        Self { store, journal, tenant, run_id, seq: Seq(1) }
    }

    async fn record(&mut self, event: Event) {
        self.seq = self.seq.next();
        let event = recorded(&self.run_id, self.seq, event);
        self.journal.append(&self.tenant, vec![event]).await.expect("it is in order");
    }

    async fn call(&mut self, call: &str, tool: &str) {
        let tool = ToolRef { name: tool.to_owned(), kind: ToolKind::Mcp, server: None };
        let (call_id, item_id) = (CallId::from(call), ItemId::from(call));
        self.record(Event::CallAnnounced { call_id, item_id, tool }).await;
    }

    async fn end_call(&mut self, call: &str, outcome: ToolOutcome) {
        let call_id = CallId::from(call);
        self.record(Event::ToolFinished { call_id, outcome, duration_ms: 1 }).await;
    }

    async fn finish(&mut self, outcome: RunOutcome) {
        self.seq = self.seq.next();
        let event = Event::RunFinished { outcome: outcome.clone(), usage: Usage::default() };
        let end = RunEnd { outcome: outcome.clone(), entries: Vec::new() };
        let batch = vec![recorded(&self.run_id, self.seq, event)];
        let is_stored = self.journal.append_end(&self.tenant, batch, end).await;
        if !is_stored.expect("it is in order") {
            self.store.finish(&self.run_id, outcome, Vec::new()).await.expect("it is active");
        }
    }

    async fn line(&self) -> RunSummary {
        let runs = self.store.summaries(&self.tenant, 100).await.expect("it can be listed");
        runs.into_iter().find(|run| run.run_id == self.run_id).expect("it is listed")
    }

    async fn status(&self) -> ListedStatus {
        self.line().await.status
    }
}

fn recorded(run_id: &RunId, seq: Seq, event: Event) -> Arc<RecordedEvent> {
    Arc::new(RecordedEvent {
        run_id: run_id.clone(),
        seq,
        at: Timestamp::from_micros(2_000),
        event,
    })
}

fn failed() -> ToolOutcome {
    ToolOutcome::Failed { failure: Failure::new("tool_failed", "no") }
}

fn succeeded() -> ToolOutcome {
    ToolOutcome::Succeeded { output: ToolOutput::text("42") }
}

async fn a_line_says_what_the_events_say(store: &dyn RunStore, journal: &dyn Journal) {
    let mut run = Writer::start((store, journal), "line", "run_line", |request| {
        request.conversation_id = Some(ConversationId::from("conv_line"));
    })
    .await;
    let line = run.line().await;
    assert_eq!((line.status, line.n_calls, line.ended_at), (ListedStatus::Active, 0, None));
    assert_eq!((line.title().as_str(), line.model.as_str()), ("What is six by Seven?", "any"));
    assert_eq!(line.conversation_id, Some(ConversationId::from("conv_line")));
    run.record(Event::TurnStarted { turn: 1 }).await;
    for (call, tool) in [("a", "search"), ("b", "multiply"), ("c", "search")] {
        run.call(call, tool).await;
    }
    run.end_call("a", failed()).await;
    run.end_call("b", succeeded()).await;
    run.end_call("c", ToolOutcome::Denied { reason: String::new() }).await;
    let line = run.line().await;
    assert_eq!(line.tools, ["search", "multiply"]);
    assert_eq!((line.n_calls, line.n_failed_calls), (3, 1));
    run.record(Event::TurnStarted { turn: 2 }).await;
    run.call("d", "other").await;
    run.end_call("d", ToolOutcome::Skipped { reason: String::new() }).await;
    run.record(Event::TurnAbandoned { turn: 2 }).await;
    run.finish(RunOutcome::Cancelled).await;
    let line = run.line().await;
    assert_eq!((line.status, line.n_calls, line.n_failed_calls), (ListedStatus::Cancelled, 3, 1));
    assert!(line.ended_at.is_some());
    let others = store.summaries(&TenantId::from("line 2"), 10).await.expect("it can be listed");
    assert_eq!(others, [], "a tenant cannot see data of another tenant");
}

async fn a_run_that_asks_a_person_needs_input(store: &dyn RunStore, journal: &dyn Journal) {
    let mut run = Writer::start((store, journal), "ask", "run_ask", |_| {}).await;
    let call_id = || CallId::from("a");
    run.call("a", "risky").await;
    run.record(Event::approval_requested(call_id())).await;
    assert_eq!(run.status().await, ListedStatus::NeedsInput);
    let approved = turnwire_contract::Decision::Approved;
    run.record(Event::approval_resolved(call_id(), approved)).await;
    assert_eq!(run.status().await, ListedStatus::Active);
    let input_id = || InputId::from("in_1");
    run.record(Event::InputRequested {
        call_id: call_id(),
        input_id: input_id(),
        message: "How many?".to_owned(),
        schema: serde_json::json!({}),
        expires_at: None,
        unknown_outcome: false,
    })
    .await;
    assert_eq!(run.status().await, ListedStatus::NeedsInput);
    let reply = Reply::Declined;
    let resolved =
        Event::InputResolved { call_id: call_id(), input_id: input_id(), reply, by: None };
    run.record(resolved).await;
    assert_eq!(run.status().await, ListedStatus::Active);
    run.call("b", "risky").await;
    run.record(Event::approval_requested(CallId::from("b"))).await;
    run.finish(RunOutcome::Completed).await;
    assert_eq!(run.status().await, ListedStatus::Completed);
}

async fn filters_choose_and_counts_ignore_the_status(store: &dyn RunStore, journal: &dyn Journal) {
    let ports = (store, journal);
    let mut one = Writer::start(ports, "filter", "run_f1", |request| {
        request.model = "large".into();
        request.input = vec![Item::user("Über 100% of \"it\"")];
    })
    .await;
    one.call("a", "se\"arch").await;
    one.finish(RunOutcome::Completed).await;
    let mut two = Writer::start(ports, "filter", "run_f2", |request| {
        request.conversation_id = Some(ConversationId::from("conv_f2"));
    })
    .await;
    two.call("a", "se").await;
    let tenant = TenantId::from("filter");
    let found = async |filter: RunFilter| {
        let query = RunQuery { filter: filter.clone(), most: 10, ..RunQuery::default() };
        let page = store.select(&tenant, &query).await.expect("it can be listed");
        let ids: Vec<String> = page.runs.iter().map(|run| run.run_id.to_string()).collect();
        let counts = store.count(&tenant, &filter).await.expect("it can be counted");
        (ids.join(" "), counts.values().sum::<u64>())
    };
    let any = RunFilter::default;
    let text = |text: &str| RunFilter { text: Some(text.to_owned()), ..any() };
    let tool = |tool: &str| RunFilter { tool: Some(tool.to_owned()), ..any() };
    let model = |model: &str| RunFilter { model: Some(model.to_owned()), ..any() };
    let at = |micros| Some(Timestamp::from_micros(micros));
    let in_two = Some(ConversationId::from("conv_f2"));
    let cases = [
        (any(), "run_f2 run_f1", 2),
        (model("large"), "run_f1", 1),
        (model("larg"), "", 0),
        (RunFilter { conversation_id: in_two, ..any() }, "run_f2", 1),
        (tool("se\"arch"), "run_f1", 1),
        (tool("se"), "run_f2", 1),
        (tool("s"), "", 0),
        (text("100% OF"), "run_f1", 1),
        (text("100_"), "", 0),
        (text("six by s"), "run_f2", 1),
        (RunFilter { created_after: at(1_000), ..any() }, "run_f2 run_f1", 2),
        (RunFilter { created_after: at(1_001), ..any() }, "", 0),
        (RunFilter { created_before: at(1_000), ..any() }, "", 0),
        (RunFilter { statuses: vec![ListedStatus::Completed], ..any() }, "run_f1", 2),
        (
            RunFilter { statuses: vec![ListedStatus::Active, ListedStatus::Failed], ..any() },
            "run_f2",
            2,
        ),
    ];
    for (filter, ids, n_counted) in cases {
        assert_eq!(found(filter.clone()).await, (ids.to_owned(), n_counted), "{filter:?}");
    }
    let counts = store.count(&tenant, &any()).await.expect("it can be counted");
    let expected = [(ListedStatus::Active, 1), (ListedStatus::Completed, 1)];
    assert_eq!(counts, expected.into_iter().collect());
}

async fn pages_have_no_gaps(store: &dyn RunStore, journal: &dyn Journal) {
    for n in 0..5 {
        let id = format!("run_page{n}");
        let mut run = Writer::start((store, journal), "pages", &id, |_| {}).await;
        if n == 2 {
            run.finish(RunOutcome::Completed).await;
        }
    }
    let tenant = TenantId::from("pages");
    let page = async |query: RunQuery| {
        let page = store.select(&tenant, &query).await.expect("it can be listed");
        let ids: Vec<String> =
            page.runs.iter().map(|run| run.run_id.as_str().replace("run_page", "")).collect();
        (ids.concat(), page.has_more)
    };
    let id = |n: u32| Some(RunId::from(format!("run_page{n}").as_str()));
    let two = || RunQuery { most: 2, ..RunQuery::default() };
    assert_eq!(page(two()).await, ("43".to_owned(), true));
    assert_eq!(page(RunQuery { after: id(3), ..two() }).await, ("21".to_owned(), true));
    assert_eq!(page(RunQuery { after: id(1), ..two() }).await, ("0".to_owned(), false));
    assert_eq!(page(RunQuery { before: id(3), ..two() }).await, ("4".to_owned(), false));
    let oldest = RunQuery { oldest_first: true, after: id(0), ..two() };
    assert_eq!(page(oldest).await, ("12".to_owned(), true));
    let filter = RunFilter { statuses: vec![ListedStatus::Active], ..RunFilter::default() };
    assert_eq!(page(RunQuery { filter, after: id(3), ..two() }).await, ("10".to_owned(), false));
    let unknown = store.select(&tenant, &RunQuery { after: id(9), ..two() }).await;
    assert!(unknown.is_err(), "{unknown:?}");
}

async fn what_changes_is_found(store: &dyn RunStore, journal: &dyn Journal) {
    let mut run = Writer::start((store, journal), "change", "run_change", |_| {}).await;
    let (tenant, within) = (TenantId::from("change"), Duration::from_secs(10));
    let now = async || {
        let changed = store.changed(&tenant, within, 10).await.expect("it can be asked");
        changed.iter().map(|run| (run.status, run.n_calls)).collect::<Vec<_>>()
    };
    assert_eq!(now().await, [(ListedStatus::Active, 0)]);
    run.call("a", "search").await;
    assert_eq!(now().await, [(ListedStatus::Active, 1)]);
    run.finish(RunOutcome::Completed).await;
    assert_eq!(now().await, [(ListedStatus::Completed, 1)]);
}
