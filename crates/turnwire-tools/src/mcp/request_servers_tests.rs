use super::*;
use crate::EgressOptions;

fn rules(rule: UrlRule) -> UrlRules {
    UrlRules::new(vec![rule], egress()).unwrap()
}

fn egress() -> Egress {
    Egress::new(&EgressOptions::default()).unwrap()
}

/// A4: a server is accepted only at URLs that the operator allows, not at similar ones.
#[test]
fn servers_come_from_where_they_are_welcome() {
    let rules = rules(UrlRule::at("https://mcp.example.com/team").unwrap());
    let tenant = TenantId::default();
    for address in [
        "https://mcp.example.com/team",
        "https://mcp.example.com/team/",
        "https://mcp.example.com/team/wiki",
        "https://MCP.example.com:443/team/./wiki",
        "https://mcp.example.com/other/../team",
    ] {
        let url = rules.allowed(&tenant, address).expect(address);
        assert!(url.as_str().starts_with("https://mcp.example.com/team"), "{url}");
    }
    for address in [
        "",
        "team",
        "http://mcp.example.com/team",
        "https://mcp.example.com",
        "https://mcp.example.com/teams",
        "https://mcp.example.com/team/..",
        "https://mcp.example.com/team/%2e%2e/admin",
        "https://mcp.example.com/team\\..\\admin",
        "https://mcp.example.com:8443/team",
        "https://mcp.example.com.evil.example/team",
        "https://evil.example/mcp.example.com/team",
        "https://mcp.example.com@evil.example/team",
        "https://user@mcp.example.com/team",
        "https://user:pass@mcp.example.com/team",
        "https://mcp.example.com/team?key=secret",
        "https://mcp.example.com/team#there",
        "ftp://mcp.example.com/team",
        "https:///team",
    ] {
        assert_eq!(rules.allowed(&tenant, address), None, "{address}");
    }
}

/// A4: without rules no server is accepted, and rules apply per tenant.
#[test]
fn each_tenant_has_a_list_of_its_own() {
    let (one, other) = (TenantId::from("one"), TenantId::from("other"));
    assert!(UrlRules::new(Vec::new(), egress()).is_none());
    let only = UrlRule::at("https://mcp.example.com").unwrap().only_for(vec![one.clone()]);
    let (rules, request_servers) = (rules(only), RequestServers::default());
    assert!(rules.allowed(&one, "https://mcp.example.com/x").is_some());
    assert_eq!(rules.allowed(&other, "https://mcp.example.com/x"), None);
    let (tasks, closing) = (TaskTracker::new(), CancellationToken::new());
    let (url, background) = ("https://mcp.example.com/x", (&tasks, &closing));
    let refused = request_servers.server(&rules, &other, "x", url, None, background);
    assert!(refused.is_err_and(|error| error.to_string().contains("may not be supplied")));
}

/// A5: a connection belongs to one tenant, label and URL, and their number is limited.
#[test]
fn servers_of_requests_are_not_shared() {
    let rules = rules(UrlRule::at("https://mcp.example.com").unwrap());
    let request_servers = RequestServers::default();
    let (tasks, closing) = (TaskTracker::new(), CancellationToken::new());
    let server = |tenant: &str, label: &str, path: &str| {
        let (tenant, url) = (TenantId::from(tenant), format!("https://mcp.example.com/{path}"));
        request_servers.server(&rules, &tenant, label, &url, None, (&tasks, &closing)).unwrap()
    };
    let first = server("one", "wiki", "a");
    assert!(Arc::ptr_eq(&first, &server("one", "wiki", "a")));
    for other in
        [server("two", "wiki", "a"), server("one", "docs", "a"), server("one", "wiki", "b")]
    {
        assert!(!Arc::ptr_eq(&first, &other));
    }
    for n in 0..MAX_SERVERS {
        server("one", "wiki", &n.to_string());
    }
    assert_eq!(lock(&request_servers.connected).len(), MAX_SERVERS);
    assert!(!Arc::ptr_eq(&first, &server("one", "wiki", "a")), "it had to go");
    assert!(!closing.is_cancelled());
}

/// A6: a connection with secrets belongs to one run, is not closed for others, and goes with the
/// run.
#[test]
fn servers_with_secrets_belong_to_their_run() {
    let rules = rules(UrlRule::at("https://mcp.example.com").unwrap());
    let request_servers = RequestServers::default();
    let (tasks, closing) = (TaskTracker::new(), CancellationToken::new());
    let (tenant, url) = (TenantId::from("one"), "https://mcp.example.com/a");
    let mut secrets = ServerSecrets::default();
    secrets.add("x-key", turnwire_contract::SecretText::new("k"));
    let server = |run_id: Option<&str>| {
        let run_id = run_id.map(RunId::from);
        let access = run_id.as_ref().map(|run_id| RunAccess { run_id, secrets: &secrets });
        request_servers.server(&rules, &tenant, "wiki", url, access, (&tasks, &closing)).unwrap()
    };
    let first = server(Some("run_1"));
    assert!(Arc::ptr_eq(&first, &server(Some("run_1"))));
    assert!(!Arc::ptr_eq(&first, &server(Some("run_2"))));
    assert!(!Arc::ptr_eq(&first, &server(None)));
    for n in 0..2 * MAX_SERVERS {
        server(Some(&format!("run_x{n}")));
    }
    assert!(Arc::ptr_eq(&first, &server(Some("run_1"))), "a busy server took it away");
    let token_of =
        |run_id: &str| lock(&request_servers.of_runs)[&RunId::from(run_id)][0].close.clone();
    let (gone, kept) = (token_of("run_1"), token_of("run_2"));
    request_servers.forget_run(&RunId::from("run_1"));
    assert!(gone.is_cancelled() && !kept.is_cancelled());
    assert!(!lock(&request_servers.of_runs).contains_key(&RunId::from("run_1")));
}

/// After a reload of the rules, nobody gets a connection that was opened by the old ones. That of a
/// run at work is its own.
#[test]
fn new_rules_close_the_connections_of_the_old_ones() {
    let rules = rules(UrlRule::at("https://mcp.example.com").unwrap());
    let request_servers = RequestServers::default();
    let (tasks, closing) = (TaskTracker::new(), CancellationToken::new());
    let (tenant, url, run_id) =
        (TenantId::default(), "https://mcp.example.com/a", RunId::from("run_1"));
    let secrets = ServerSecrets::default();
    let server = |access| {
        let background = (&tasks, &closing);
        request_servers.server(&rules, &tenant, "wiki", url, access, background).unwrap()
    };
    let access = Some(RunAccess { run_id: &run_id, secrets: &secrets });
    let (shared, own) = (server(None), server(access));
    request_servers.close_all();
    assert!(!Arc::ptr_eq(&shared, &server(None)));
    assert!(Arc::ptr_eq(&own, &server(access)));
}

/// A URL that is not allowed in a rule gives an error.
#[test]
fn an_address_that_says_too_much_opens_nothing() {
    for address in ["mcp.example.com", "stdio:x", "https://u@h/", "https://h/?k=1", "https://h/#x"]
    {
        assert!(UrlRule::at(address).is_err(), "{address}");
    }
}
