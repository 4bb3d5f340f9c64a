//! The soft limit of budgets: a person is asked before a run goes on, and decides whether it does.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use turnwire_contract::{
    Actor, ApprovalAnswer, Approvals, BudgetScope, BudgetUse, CallId, Decision, Event, FirstCall,
    IncompleteReason, RecordedEvent, RunOutcome, TenantId, ToolKind, ToolOutcome, ToolRef,
    ToolSpec, Usage,
};
use turnwire_engine::{AnswerOutcome, Quota, QuotaOptions};
use turnwire_models::{Scripted, Turn};
use turnwire_testkit::{Act, FakeTool, Played, TestBench, invariants};

use crate::{calls, kinds, outcome_of, returns, takeover::engine_with};

const TENTH: u64 = 100_000_000;

/// Every turn costs a tenth.
fn costs(turn: Turn) -> Turn {
    turn.usage(Usage { cost_nanos: Some(TENTH), ..Usage::default() })
}

fn denied() -> Decision {
    Decision::Denied { reason: "too expensive".to_owned() }
}

/// Three rounds of the tool `t`, then an answer.
fn rounds() -> [Turn; 4] {
    [
        costs(calls(&["t"])),
        costs(Turn::new().call_with_id("call_2", "t", serde_json::json!({ "n": 2 }))),
        costs(Turn::new().call_with_id("call_3", "t", serde_json::json!({ "n": 3 }))),
        costs(Turn::new().text("Done.")),
    ]
}

/// A run that asks from two tenths on.
fn bench(turns: impl IntoIterator<Item = Turn>) -> TestBench {
    TestBench::new(turns).limits(|limits| {
        limits.ask_cost_nanos = Some(2 * TENTH);
        limits.max_cost_nanos = Some(10 * TENTH);
    })
}

/// What was asked about budgets, on which calls.
fn questions(journal: &[Arc<RecordedEvent>]) -> Vec<(String, BudgetUse)> {
    let question = |recorded: &Arc<RecordedEvent>| match &recorded.event {
        Event::ApprovalRequested { call_id, budget: Some(budget), .. } => {
            Some((call_id.to_string(), **budget))
        }
        _ => None,
    };
    journal.iter().filter_map(question).collect()
}

fn on_question(event: &Event) -> Option<CallId> {
    match event {
        Event::ApprovalRequested { call_id, budget: Some(_), .. } => Some(call_id.clone()),
        _ => None,
    }
}

fn n_of(played: &Played, kind: &str) -> usize {
    kinds(&played.journal).iter().filter(|one| *one == kind).count()
}

fn lawful(journal: &[Arc<RecordedEvent>]) {
    let wrong = invariants::violations(journal.iter().map(AsRef::as_ref));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn incomplete(reason: IncompleteReason) -> RunOutcome {
    RunOutcome::Incomplete { reason }
}

/// A run asks once its cost reaches the soft limit, before the tool is executed. After a yes it
/// goes on, and does not ask about that budget again.
#[tokio::test(start_paused = true)]
async fn a_run_asks_at_its_soft_limit_and_goes_on() {
    let tool = returns("t", "r");
    let played = bench(rounds())
        .tool(tool.clone())
        .play_with(|recorded| Some(Act::Resolve(on_question(&recorded.event)?, Decision::Approved)))
        .await;
    let budget = BudgetUse {
        scope: BudgetScope::Run,
        used_nanos: 2 * TENTH,
        ask_nanos: 2 * TENTH,
        max_nanos: Some(10 * TENTH),
    };
    assert_eq!(questions(&played.journal), [("call_2".to_owned(), budget)]);
    assert_eq!((&played.outcome, tool.n_calls()), (&RunOutcome::Completed, 3));
    lawful(&played.journal);
}

/// After a no, the tool is never executed, the model is not asked again, and the run says why it
/// ended.
#[tokio::test(start_paused = true)]
async fn a_no_ends_the_run() {
    let tool = returns("t", "r");
    let played = bench(rounds())
        .tool(tool.clone())
        .play_with(|recorded| Some(Act::Resolve(on_question(&recorded.event)?, denied())))
        .await;
    assert_eq!(played.outcome, incomplete(IncompleteReason::MaxCost));
    assert_eq!((tool.n_calls(), n_of(&played, "turn_started")), (1, 2));
    let reason = "too expensive".to_owned();
    assert_eq!(*outcome_of(&played, "call_2"), ToolOutcome::Denied { reason });
    lawful(&played.journal);
}

/// Nobody who answers in time, somebody who cancels the call, and nobody who could be asked at all
/// are a no, too.
#[tokio::test(start_paused = true)]
async fn no_answer_is_a_no() {
    for way in ["expiry", "cancel", "nobody"] {
        let tool = returns("t", "r");
        let (runs, request) = bench(rounds())
            .tool(tool.clone())
            .limits(|limits| limits.approval_expiry = Some(Duration::from_mins(5)))
            .request(|request| {
                if way == "nobody" {
                    request.approvals = Approvals::Decline;
                }
            })
            .set_up();
        let run = runs.start(request).await.unwrap();
        let mut events = run.events().await.unwrap();
        while let Some(recorded) = futures::StreamExt::next(&mut events).await {
            let asked = on_question(&recorded.unwrap().event);
            if let Some(call_id) = asked.filter(|_| way == "cancel") {
                let tenant = TenantId::default();
                assert!(runs.cancel_call(&tenant, run.id(), &call_id).await.unwrap());
            }
        }
        assert_eq!(run.outcome().await, incomplete(IncompleteReason::MaxCost), "{way}");
        let journal = run.journal().await.unwrap();
        let by = journal.iter().find_map(|recorded| recorded.event.answer()?.by);
        assert_eq!(by.as_deref(), Some(way));
        let n_turns = kinds(&journal).iter().filter(|kind| *kind == "turn_started").count();
        assert_eq!((tool.n_calls(), n_turns), (1, 2), "{way}");
        lawful(&journal);
    }
}

/// The calls of a turn wait together: the question is on the first one, and none begins before it
/// is answered. After a no, none begins at all.
#[tokio::test(start_paused = true)]
async fn all_calls_of_a_turn_wait() {
    for (decision, n_begun) in [(Decision::Approved, 3), (denied(), 0)] {
        let tools: Vec<FakeTool> = ["a", "b", "c"].map(|name| returns(name, "r")).into();
        let mut stage = bench([costs(calls(&["a", "b", "c"])), Turn::new().text("Done.")])
            .limits(|limits| limits.ask_cost_nanos = Some(TENTH));
        for tool in &tools {
            stage = stage.tool(tool.clone());
        }
        let (runs, request) = stage.set_up();
        let run = runs.start(request).await.unwrap();
        let mut events = run.events().await.unwrap();
        while let Some(recorded) = futures::StreamExt::next(&mut events).await {
            let Some(call_id) = on_question(&recorded.unwrap().event) else { continue };
            // Time enough for everything that would begin on its own.
            tokio::time::sleep(Duration::from_mins(1)).await;
            assert_eq!(tools.iter().map(FakeTool::n_calls).sum::<u32>(), 0);
            let tenant = TenantId::default();
            assert!(runs.resolve(&tenant, run.id(), &call_id, decision.clone()).await.unwrap());
        }
        let journal = run.journal().await.unwrap();
        assert_eq!(questions(&journal).len(), 1);
        assert_eq!(tools.iter().map(FakeTool::n_calls).sum::<u32>(), n_begun);
        lawful(&journal);
    }
}

/// A call that needs an approval anyway is asked about once; another one is asked about beside it,
/// and waits for the budget even if it is allowed first.
#[tokio::test(start_paused = true)]
async fn nothing_is_asked_twice() {
    for (decision, n_begun) in [(Decision::Approved, 1), (denied(), 0)] {
        let guarded = |name| returns(name, "r").with(|spec| spec.needs_approval = true);
        let (first, second) = (guarded("a"), guarded("b"));
        let played = bench([costs(calls(&["a", "b"])), Turn::new().text("Done.")])
            .limits(|limits| limits.ask_cost_nanos = Some(TENTH))
            .tool(first.clone())
            .tool(second.clone())
            .play_with(|recorded| match &recorded.event {
                Event::ApprovalRequested { call_id, budget: None, .. } => {
                    Some(Act::Resolve(call_id.clone(), Decision::Approved))
                }
                Event::ApprovalResolved { call_id, .. } if call_id.as_str() == "call_2" => {
                    Some(Act::Resolve("call_1".into(), decision.clone()))
                }
                _ => None,
            })
            .await;
        assert_eq!(n_of(&played, "approval_requested"), 2);
        assert_eq!(questions(&played.journal)[0].0, "call_1");
        assert_eq!((first.n_calls(), second.n_calls()), (n_begun, n_begun));
        lawful(&played.journal);
    }
}

/// A permission for all calls of a tool does not answer the question about the budget, and an
/// answer to that question is no permission for the tool, whoever repeats it.
#[tokio::test(start_paused = true)]
async fn a_budget_is_not_a_permission_for_a_tool() {
    let tool = returns("t", "r").with(|spec| spec.needs_approval = true);
    let always = ApprovalAnswer { remember: true, ..Decision::Approved.into() };
    let (runs, request) = bench(rounds()).tool(tool.clone()).set_up();
    let run = runs.start(request).await.unwrap();
    let mut events = run.events().await.unwrap();
    let (tenant, mut asked) = (TenantId::default(), Vec::new());
    while let Some(recorded) = futures::StreamExt::next(&mut events).await {
        let recorded = recorded.unwrap();
        let Event::ApprovalRequested { call_id, budget, .. } = &recorded.event else { continue };
        asked.push((call_id.to_string(), budget.is_some()));
        // The first question is about the tool, and would be answered for good.
        let answer =
            if call_id.as_str() == "call_1" { Decision::Approved.into() } else { always.clone() };
        for _ in 0..2 {
            let given = runs.answer(&tenant, run.id(), call_id, answer.clone()).await.unwrap();
            assert_eq!(given, AnswerOutcome::Accepted, "and again");
        }
    }
    // `always` on the second, about the budget, does not cover the third.
    let expected = [("call_1", false), ("call_2", true), ("call_3", false)];
    assert_eq!(asked, expected.map(|(call, about)| (call.to_owned(), about)));

    let played = bench(rounds())
        .tool(tool)
        .play_with(|recorded| match &recorded.event {
            Event::ApprovalRequested { call_id, .. } => {
                Some(Act::Answer(call_id.clone(), always.clone()))
            }
            _ => None,
        })
        .await;
    // `always` on the first, about the tool, does not answer the budget.
    assert_eq!(questions(&played.journal)[0].0, "call_2");
    let by_conversation = played.events().filter_map(|event| event.answer()?.by).count();
    assert_eq!(by_conversation, 1, "the third is covered by the first");
    lawful(&played.journal);
}

/// At the hard limit, in the last turn, and before calls that the client executes, no further turn
/// follows, so nobody is asked.
#[tokio::test(start_paused = true)]
async fn nobody_is_asked_where_nothing_follows() {
    let spent = bench(rounds()).limits(|limits| limits.max_cost_nanos = Some(2 * TENTH));
    let last_turn = bench(rounds()).limits(|limits| limits.max_turns = 2);
    for (stage, reason) in
        [(spent, IncompleteReason::MaxCost), (last_turn, IncompleteReason::MaxTurns)]
    {
        let played = stage.tool(returns("t", "r")).play().await;
        assert_eq!((played.outcome, questions(&played.journal)), (incomplete(reason), vec![]));
    }
    let of_client = ToolSpec { kind: ToolKind::Client, ..ToolSpec::new("mine", "The client's.") };
    let played = bench([costs(calls(&["mine", "t"]))])
        .limits(|limits| limits.ask_cost_nanos = Some(TENTH))
        .request(|request| request.tools = vec![Arc::new(of_client)])
        .tool(returns("t", "r"))
        .play()
        .await;
    assert_eq!((played.outcome, questions(&played.journal)), (RunOutcome::Completed, vec![]));
}

/// A worker that takes the run over after any event neither loses the question nor asks it again,
/// and respects an answer that was given to another.
#[tokio::test(start_paused = true)]
async fn a_takeover_keeps_question_and_answer() {
    for (decision, outcome, n_calls) in [
        (Decision::Approved, RunOutcome::Completed, 3),
        (denied(), incomplete(IncompleteReason::MaxCost), 1),
    ] {
        let answer = decision.clone();
        let pure = || returns("t", "r").with(|spec| spec.effect = turnwire_contract::Effect::Pure);
        let played = bench(rounds())
            .tool(pure())
            .play_with(|recorded| Some(Act::Resolve(on_question(&recorded.event)?, answer.clone())))
            .await;
        for n_kept in 2..played.journal.len() {
            let kept = &played.journal[..n_kept];
            let n_over = kinds(kept).iter().filter(|kind| *kind == "turn_finished").count();
            let n_done = kinds(kept).iter().filter(|kind| *kind == "tool_finished").count();
            let prop = pure();
            let model = Scripted::new(rounds().into_iter().skip(n_over));
            let runs = engine_with(kept, model, std::slice::from_ref(&prop)).await;
            let tenant = TenantId::default();
            let run = runs.take_over(&tenant, &kept[0].run_id).await.unwrap();
            let mut events = run.events().await.unwrap();
            while let Some(recorded) = futures::StreamExt::next(&mut events).await {
                if let Some(call_id) = on_question(&recorded.unwrap().event) {
                    // Accepted or answered before.
                    runs.resolve(&tenant, run.id(), &call_id, decision.clone()).await.unwrap();
                }
            }
            assert_eq!(run.outcome().await, outcome, "after {n_kept} events");
            let journal = run.journal().await.unwrap();
            assert_eq!(questions(&journal).len(), 1, "after {n_kept} events");
            let n_left = n_calls - n_done.min(n_calls);
            assert_eq!(prop.n_calls() as usize, n_left, "after {n_kept} events");
            lawful(&journal);
        }
    }
}

/// A run that hands its approvals back asks about every call, because none can wait in it. The next
/// run brings the answer: it goes on without asking again, or ends without asking the model.
#[tokio::test(start_paused = true)]
async fn a_question_is_handed_back() {
    for (decision, outcome, n_turns) in [
        (Decision::Approved, RunOutcome::Completed, 2),
        (denied(), incomplete(IncompleteReason::InsufficientQuota), 0),
    ] {
        let tool = returns("t", "r");
        let again = Turn::new().call_with_id("call_3", "t", serde_json::json!({ "n": 3 }));
        let turns = [costs(calls(&["t", "t"])), costs(again), costs(Turn::new().text("Done."))];
        let (runs, mut request) = TestBench::new(turns)
            .tool(tool.clone())
            .quotas(per_tenant(10 * TENTH, 10))
            .request(|request| request.approvals = Approvals::HandBack)
            .set_up();
        let first = runs.start(request.clone()).await.unwrap();
        assert_eq!(first.outcome().await, RunOutcome::Completed);
        let journal = first.journal().await.unwrap();
        let on: Vec<String> = questions(&journal).into_iter().map(|(call, _)| call).collect();
        assert_eq!((on, tool.n_calls()), (vec!["call_1".to_owned(), "call_2".to_owned()], 0));
        lawful(&journal);

        request.continues = Some(first.id().clone());
        request.input = Vec::new();
        let first_call = |call: &str, n: u32| FirstCall {
            call_id: CallId::new(call),
            tool: ToolRef { name: "t".to_owned(), kind: ToolKind::Function, server: None },
            arguments: format!(r#"{{"n":{n}}}"#),
            decision: Some(decision.clone()),
            budget: Some(BudgetScope::Tenant),
        };
        request.first_calls = vec![first_call("call_1", 1), first_call("call_2", 2)];
        let second = runs.start(request).await.unwrap();
        assert_eq!(second.outcome().await, outcome);
        let journal = second.journal().await.unwrap();
        assert_eq!(questions(&journal), []);
        // The calls of the request are a turn, too.
        let turns = kinds(&journal).iter().filter(|kind| *kind == "turn_started").count();
        assert_eq!(turns, 1 + n_turns);
        assert_eq!(tool.n_calls(), if n_turns == 0 { 0 } else { 3 });
        lawful(&journal);
    }
}

fn per_tenant(max: u64, ask_at_percent: u8) -> QuotaOptions {
    QuotaOptions {
        per_tenant: Quota { cost_nanos_per_month: Some(max), ..Quota::default() },
        ask_at_percent: Some(ask_at_percent),
        ..QuotaOptions::default()
    }
}

/// The budgets of the month of tenant and key ask at their share, each once in a run, the narrower
/// one first. A no ends the run with the reason of the quota.
#[tokio::test(start_paused = true)]
async fn a_month_asks_at_its_share() {
    let key = Actor { key_id: Some("ci".to_owned()), ..Actor::default() };
    let per_key = Quota { cost_nanos_per_month: Some(5 * TENTH), ..Quota::default() };
    let of_tenant = per_tenant(10 * TENTH, 20);
    let of_both = QuotaOptions { per_key, ..of_tenant.clone() };
    let used = |scope, used, ask, max| BudgetUse {
        scope,
        used_nanos: used * TENTH,
        ask_nanos: ask * TENTH,
        max_nanos: Some(max * TENTH),
    };
    let tenant_alone = BTreeMap::from([("call_2", used(BudgetScope::Tenant, 2, 2, 10))]);
    let both = BTreeMap::from([
        ("call_1", used(BudgetScope::Key, 1, 1, 5)),
        ("call_2", used(BudgetScope::Tenant, 2, 2, 10)),
    ]);
    for (quotas, expected) in [(of_tenant, tenant_alone), (of_both, both)] {
        for decision in [Decision::Approved, denied()] {
            let tool = returns("t", "r");
            let played = TestBench::new(rounds())
                .tool(tool.clone())
                .quotas(quotas.clone())
                .request(|request| request.asked_by = Some(Arc::new(key.clone())))
                .play_with(|recorded| {
                    Some(Act::Resolve(on_question(&recorded.event)?, decision.clone()))
                })
                .await;
            let asked = questions(&played.journal);
            let n_expected = if decision == Decision::Approved { expected.len() } else { 1 };
            assert_eq!(asked.len(), n_expected);
            for (call, budget) in &asked {
                assert_eq!(Some(budget), expected.get(call.as_str()));
            }
            if decision == Decision::Approved {
                assert_eq!((played.outcome, tool.n_calls()), (RunOutcome::Completed, 3));
            } else {
                assert_eq!(played.outcome, incomplete(IncompleteReason::InsufficientQuota));
                assert_eq!(tool.n_calls(), 2 - u32::try_from(expected.len()).unwrap());
            }
            lawful(&played.journal);
        }
    }
}

/// Without the setting nobody is asked, and neither the request nor an approval has new fields: a
/// journal of before is read and written as it was.
#[tokio::test(start_paused = true)]
async fn without_a_soft_limit_nothing_changes() {
    let quotas = QuotaOptions { ask_at_percent: None, ..per_tenant(10 * TENTH, 1) };
    let played = TestBench::new(rounds())
        .tool(returns("t", "r").with(|spec| spec.needs_approval = true))
        .quotas(quotas)
        .play_with(|recorded| match &recorded.event {
            Event::ApprovalRequested { call_id, .. } => {
                Some(Act::Resolve(call_id.clone(), Decision::Approved))
            }
            _ => None,
        })
        .await;
    assert_eq!(played.outcome, RunOutcome::Completed);
    let text = serde_json::to_string(&played.journal).unwrap();
    assert!(!text.contains("budget") && !text.contains("ask_"), "{text}");
    let old = r#"{"type":"approval_requested","call_id":"call_1"}"#;
    let read: Event = serde_json::from_str(old).unwrap();
    assert_eq!(read, Event::approval_requested("call_1".into()));
    assert_eq!(serde_json::to_string(&read).unwrap(), old);
}
