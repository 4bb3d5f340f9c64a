use turnwire_contract::{BudgetScope, CallId, Decision, FirstCall, Item, ToolKind, ToolRef};

use super::*;

const NOTHING: [Item; 0] = [];

fn call(id: &str, kind: ToolKind) -> Item {
    let (call_id, name, arguments) = (id.into(), "f".into(), "{}".into());
    let server = (kind == ToolKind::Mcp).then(|| "notes".to_owned());
    Item::Call { call_id, name, arguments, kind, server }
}

fn client(id: &str) -> Item {
    call(id, ToolKind::Client)
}

fn output(id: &str) -> Item {
    Item::CallResult {
        call_id: id.into(),
        output: "x".into(),
        images: Vec::new(),
        failed: false,
        custom: false,
    }
}

fn refused(history: &[Item], new: &[Item]) -> (String, &'static str) {
    let error = check_calls(history, new).unwrap_err();
    assert_eq!((error.param.as_deref(), error.status), (Some("input"), 400));
    (error.message, error.code)
}

#[test]
fn pairs_are_fine_wherever_they_stand() {
    assert_eq!(check_calls(&NOTHING, &[]), Ok(()));
    assert_eq!(check_calls(&NOTHING, &[client("a"), output("a"), Item::user("hi")]), Ok(()));
    assert_eq!(check_calls(&[client("a"), client("b")], &[output("b"), output("a")]), Ok(()));
    assert_eq!(check_calls(&[client("a"), output("a")], &[Item::user("hi")]), Ok(()));
    // An ID may be used again after its call has an output.
    let again = [client("a"), output("a")];
    assert_eq!(check_calls(&again, &again), Ok(()));
}

#[test]
fn an_output_needs_its_call() {
    let message = "No tool call found for function call output with call_id a.".to_owned();
    assert_eq!(refused(&NOTHING, &[output("a")]), (message.clone(), "no_tool_call_found"));
    assert_eq!(refused(&[client("b"), output("b")], &[output("a")]).0, message);
    assert_eq!(refused(&NOTHING, &[output("a"), client("a")]).0, message, "it comes first");
}

#[test]
fn a_call_needs_its_output() {
    let message = "No tool output found for function call a.".to_owned();
    assert_eq!(refused(&[client("a")], &[Item::user("hi")]), (message, "no_tool_output_found"));
    let two = [client("a"), client("b")];
    assert_eq!(refused(&two, &[output("a")]).0, "No tool output found for function call b.");
    assert_eq!(refused(&NOTHING, &[client("a")]).1, "no_tool_output_found");
}

#[test]
fn one_output_is_enough() {
    let message = "The tool call with call_id a already has an output.".to_owned();
    let told = (message, "duplicate_tool_output");
    assert_eq!(refused(&[client("a"), output("a")], &[output("a")]), told);
    assert_eq!(refused(&[client("a")], &[output("a"), output("a")]), told);
}

#[test]
fn a_call_that_waits_for_a_person_may_stay_open() {
    for kind in [ToolKind::Mcp, ToolKind::WebSearch, ToolKind::FileSearch, ToolKind::Function] {
        assert_eq!(check_calls(&[call("a", kind)], &[]), Ok(()));
    }
    assert_eq!(refused(&[client("a")], &[]).1, "no_tool_output_found");
}

fn answer(id: &str, decision: Decision) -> ApprovalAnswer {
    ApprovalAnswer { approval_request_id: id.into(), decision, param: "input[0]".into() }
}

fn first(id: &str, decision: Decision) -> FirstCall {
    FirstCall {
        call_id: id.into(),
        tool: ToolRef { name: "f".into(), kind: ToolKind::Mcp, server: Some("notes".into()) },
        arguments: "{}".into(),
        decision: Some(decision),
        budget: None,
    }
}

fn denied(reason: &str) -> Decision {
    Decision::Denied { reason: reason.into() }
}

fn unknown(_: &str) -> Option<CallId> {
    None
}

#[test]
fn answers_become_calls_in_the_order_of_the_calls() {
    let history = [call("a", ToolKind::Mcp), call("b", ToolKind::Mcp)];
    let answers = vec![answer("mcpr_b", denied("no")), answer("a", Decision::Approved)];
    let mut input = Input { items: vec![Item::user("hi")], answers, ..Input::default() };
    let call_of = |id: &str| id.strip_prefix("mcpr_").map(CallId::new);
    let calls = take_first_calls(&history, &mut input, call_of).unwrap();
    assert_eq!(calls, [first("a", Decision::Approved), first("b", denied("no"))]);
    assert_eq!(
        input,
        Input { items: vec![Item::user("hi")], answers: Vec::new(), ..Input::default() }
    );
}

/// The ID of an approval request says whether it is about a budget, so the answer does.
#[test]
fn an_answer_about_a_budget_says_so() {
    let history = [call("a", ToolKind::Mcp), call("b", ToolKind::Function)];
    let answers =
        vec![answer("mcpr_run_a", Decision::Approved), answer("mcpr_tenant_fc_b", denied("no"))];
    let mut input = Input { answers, ..Input::default() };
    let call_of = |id: &str| id.rsplit_once('_').map(|(_, call)| CallId::new(call));
    let calls = take_first_calls(&history, &mut input, call_of).unwrap();
    let seen: Vec<_> = calls.iter().map(|call| (call.tool.kind, call.budget)).collect();
    let expected =
        [(ToolKind::Mcp, Some(BudgetScope::Run)), (ToolKind::Function, Some(BudgetScope::Tenant))];
    assert_eq!(seen, expected);
}

/// The engine adds the call itself, so it must not be in the input as well.
#[test]
fn a_waiting_call_leaves_the_input() {
    let items = vec![Item::user("hi"), call("a", ToolKind::Mcp), client("c"), output("c")];
    let mut input =
        Input { items, answers: vec![answer("a", Decision::Approved)], ..Input::default() };
    let calls = take_first_calls(&NOTHING, &mut input, unknown).unwrap();
    assert_eq!(calls, [first("a", Decision::Approved)]);
    assert_eq!(input.items, [Item::user("hi"), client("c"), output("c")]);
    assert_eq!(input.n_before_calls, 1);
}

#[test]
fn no_answer_is_a_no() {
    let mut input =
        Input { items: vec![Item::user("never mind")], answers: Vec::new(), ..Input::default() };
    let calls = take_first_calls(&[call("a", ToolKind::Mcp)], &mut input, unknown).unwrap();
    assert_eq!(calls, [first("a", denied("no answer was given"))]);
}

#[test]
fn calls_that_are_done_do_not_wait() {
    let history = [call("a", ToolKind::Mcp), output("a"), client("c")];
    let mut input = Input { items: vec![output("c")], answers: Vec::new(), ..Input::default() };
    assert_eq!(take_first_calls(&history, &mut input, unknown).unwrap(), []);
    assert_eq!(input.items, [output("c")]);
}

/// C15: an answer is accepted once, and only for an open approval request.
#[test]
fn an_answer_needs_its_question() {
    let cases = [
        (vec![], vec![answer("a", Decision::Approved)]),
        (vec![call("a", ToolKind::Mcp), output("a")], vec![answer("a", Decision::Approved)]),
        (
            vec![call("a", ToolKind::Mcp)],
            vec![answer("a", Decision::Approved), answer("a", denied("no"))],
        ),
        (vec![client("a")], vec![answer("a", Decision::Approved)]),
    ];
    for (history, answers) in cases {
        let mut input = Input { items: Vec::new(), answers, ..Input::default() };
        let error = take_first_calls(&history, &mut input, unknown).unwrap_err();
        assert_eq!(error.message, "No approval request found with id a that waits for an answer.");
        assert_eq!(error.code, "approval_request_not_found");
        assert_eq!(error.param.as_deref(), Some("input[0].approval_request_id"));
    }
}
