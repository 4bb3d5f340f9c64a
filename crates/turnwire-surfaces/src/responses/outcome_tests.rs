use serde_json::{Value, json};

use super::{WebSearchAction, web_action};

fn action(arguments: Value, structured: Option<Value>) -> WebSearchAction {
    web_action(&arguments.to_string(), structured.as_ref(), true)
}

fn search(query: &str) -> WebSearchAction {
    let queries = Some(query.to_owned()).filter(|query| !query.is_empty()).into_iter().collect();
    WebSearchAction::Search { query: query.to_owned(), queries, sources: Some(Vec::new()) }
}

/// R3: the action is the one that was carried out, or the requested one if there was none.
#[test]
fn an_action_is_told_as_the_tool_says_it() {
    let url = "https://a.example/".to_owned();
    let opened = WebSearchAction::OpenPage { url: url.clone() };
    let found = WebSearchAction::FindInPage { url: url.clone(), pattern: "x".to_owned() };
    let account = |action: &str| Some(json!({ "action": action, "sources": [{ "url": url }] }));
    assert_eq!(action(json!({ "url": url }), account("open_page")), opened);
    assert_eq!(action(json!({ "action": "open_page", "url": url }), None), opened);
    assert_eq!(action(json!({ "url": url }), None), opened);
    assert_eq!(action(json!({ "url": url, "pattern": "x" }), account("find_in_page")), found);
    assert_eq!(action(json!({ "url": url, "pattern": "x" }), None), found);
    assert_eq!(action(json!({ "query": "q", "url": url }), None), search("q"));
    assert_eq!(action(json!({ "query": "q" }), Some(json!({ "sources": [] }))), search("q"));
    // An action without its required fields is not a page action, and the item still has an action.
    assert_eq!(action(json!({ "action": "open_page" }), None), search(""));
    assert_eq!(web_action("{", None, true), search(""));
}
