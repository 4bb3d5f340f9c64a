use super::*;

#[test]
fn a_run_is_a_response_and_back() {
    let run = RunId::new("run_0a1b");
    assert_eq!(response_id(&run), "resp_0a1b");
    assert_eq!(run_id("resp_0a1b"), Some(run));
    assert_eq!(run_id("resp_"), None);
    assert_eq!(run_id("run_0a1b"), None);
    assert_eq!(response_id(&RunId::new("odd")), "resp_odd");
}

#[test]
fn a_question_names_its_call_and_back() {
    for (call, question) in [("mcp_1", "mcpr_1"), ("fc_1", "mcpr_fc_1"), ("ws_1", "mcpr_ws_1")] {
        let call = ItemId::from(call);
        assert_eq!(approval_request_id(&call, None).as_str(), question);
        assert_eq!(asked_about(question), Some(call));
    }
    for (call, scope, question) in [
        ("mcp_1", BudgetScope::Run, "mcpr_run_1"),
        ("fc_1", BudgetScope::Key, "mcpr_key_fc_1"),
        ("ws_1", BudgetScope::Tenant, "mcpr_tenant_ws_1"),
    ] {
        let call = ItemId::from(call);
        assert_eq!(approval_request_id(&call, Some(scope)).as_str(), question);
        assert_eq!((asked_about(question), asked_budget(question)), (Some(call), Some(scope)));
    }
    for (question, kind) in [
        ("mcpr_1", ToolKind::Mcp),
        ("mcpr_run_1", ToolKind::Mcp),
        ("of_another_server", ToolKind::Mcp),
        ("mcpr_fc_1", ToolKind::Function),
        ("mcpr_run_ws_1", ToolKind::WebSearch),
        ("mcpr_tenant_fs_1", ToolKind::FileSearch),
    ] {
        assert_eq!(asked_kind(question), kind, "{question}");
    }
    assert_eq!(asked_budget("mcpr_1"), None);
    assert_eq!(asked_about("mcpr_run_"), None);
    assert_eq!(asked_about("mcp_1"), None);
    assert_eq!(asked_about("mcpr_"), None);
}

#[test]
fn a_result_is_named_as_in_the_conversation() {
    assert_eq!(result_id(&ItemId::from("fc_a_b")).as_str(), "fco_a_b");
}
